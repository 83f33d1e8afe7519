"""Moves loop invariants out of the body of a loop.

XLA leaves slices of a network's weights, one per layer, in the loop: a pass of one
token then copies all weights before it reads them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.extend.core import ClosedJaxpr, Literal, Var, jaxpr_as_fun

Carry = TypeVar("Carry")

MOVED = (
    "convert_element_type",
    "reshape",
    "slice",
    "split",
    "squeeze",
    "transpose",
)
"""Operations that slice, rearrange or round an array: their output is no larger."""


def hoist(body: Callable[[Carry], Carry], carry: Carry) -> Callable[[Carry], Carry]:
    """`body` with those of `MOVED` that do not read the carry computed here, once."""
    closed, shape = jax.make_jaxpr(body, return_shape=True)(carry)
    jaxpr, stays = closed.jaxpr, []
    known: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    for each in jaxpr.eqns:
        is_known = all(not isinstance(v, Literal) and v in known for v in each.invars)
        if each.primitive.name in MOVED and is_known:
            found = each.primitive.bind(*(known[v] for v in each.invars), **each.params)
            values = found if each.primitive.multiple_results else [found]
            known |= zip(each.outvars, values, strict=True)
        else:
            stays.append(each)
    rest = jaxpr.replace(constvars=[*known], eqns=stays)
    run = jaxpr_as_fun(ClosedJaxpr(rest, [*known.values()]))
    structure = jax.tree.structure(shape)
    return lambda carry: jax.tree.unflatten(structure, run(*jax.tree.leaves(carry)))
