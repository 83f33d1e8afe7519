"""Pairs of single sentences."""

from dataclasses import dataclass

from research.data.rows import pair


@dataclass(frozen=True, kw_only=True)
class Unit(pair.Unit):
    """Like "pair", but two sentences are gathered; A and B are one sentence each."""

    structure = 1
    single = True
