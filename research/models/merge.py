"""One network in place of several: what objectives that are trained together share."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from flax import linen as nn

from research.errors import UserError


def merged(networks: Sequence[nn.Module]) -> Any:
    """A network that serves whatever each of the networks would.

    Heads are united, and so is what a readout has (`transform`) and what only some ask
    for (0 elsewhere); where the patterns differ it is "general".

    Raises:
      UserError: they are of different classes, or differ in what cannot be united.
    """
    kind = type(networks[0])
    for other in networks:
        if type(other) is not kind:
            raise UserError(
                "objectives that are trained together need one network, but one needs "
                f"{kind.__name__} and another {type(other).__name__}"
            )
    fields = {field.name for field in dataclasses.fields(kind)} - {"parent", "name"}
    return kind(
        **{
            name: _united(name, [getattr(network, name) for network in networks])
            for name in fields
        }
    )


def _united(name: str, values: list[Any]) -> Any:
    """One value of a network's attribute for all."""
    if all(value == values[0] for value in values):
        return values[0]
    if name == "heads":
        return _heads([dict(heads) for heads in values])
    if name == "pattern":
        return "general"
    asked = [value for value in values if value]
    if name in ("transform", "offsets") and all(v == asked[0] for v in asked):
        return asked[0]
    raise UserError(
        "objectives that are trained together need one network, but its "
        f"{name} is {' or '.join(map(repr, values))}"
    )


def _heads(each: list[dict[str, Any]]) -> dict[str, Any]:
    heads = {}
    for name, size in (item for some in each for item in some.items()):
        if heads.setdefault(name, size) != size:
            raise UserError(
                "objectives that are trained together share their heads, but "
                f"{name!r} is {heads[name]} and {size}; rename one"
            )
    return heads
