"""No positions: a text is a set of tokens, but for what its attention pattern tells."""

from dataclasses import dataclass

from research.networks.transformer import positions


@dataclass(frozen=True)
class Scheme(positions.Scheme):
    """Causal attention still tells how many tokens precede one (Haviv et al. 2022)."""
