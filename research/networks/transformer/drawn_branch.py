"""A computation that runs with a known probability, which weights its FLOPs."""

import re
from collections.abc import Callable
from typing import Any

import jax
from jax import lax

SCOPE = "runs_with_probability_"
"""Prefix of the name of a scope, which gradients of its contents also have."""


def run_if_drawn(
    drawn: jax.Array, run: Callable, skip: Callable, *, probability: float
) -> Any:
    """`run()` if `drawn` [], which is true with this probability, else `skip()`."""
    with jax.named_scope(f"{SCOPE}{probability}"):
        return lax.cond(drawn, run, skip)


def drawn_probability(equation: Any) -> float | None:
    """The probability of the second branch of a jaxpr's `cond`; None: unknown."""
    names = str(equation.source_info.name_stack)
    found = re.search(rf"{SCOPE}([\d.e-]+)\)*$", names)
    return float(found[1]) if found else None
