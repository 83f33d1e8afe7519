"""No positions: a text is a set of tokens, except for its attention pattern."""

from dataclasses import dataclass

from research.networks.transformer import positions


@dataclass(frozen=True)
class Scheme(positions.Scheme):
    """Causal attention still shows how many tokens precede one (Haviv et al. 2022)."""
