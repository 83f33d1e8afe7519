"""One network that serves several objectives that are trained together."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from flax import linen as nn

from research.errors import UserError


def merge_networks(networks: Sequence[nn.Module]) -> Any:
    """A network that serves in place of each of the networks.

    It has all of their heads. `transform` and `offsets` are those of the networks that
    set them; the pattern is "general" if they differ.

    Raises:
      UserError: the networks are of different classes, or differ in another field.
    """
    cls = type(networks[0])
    for other in networks:
        if type(other) is not cls:
            raise UserError(
                "objectives that are trained together need one network, but one needs "
                f"{cls.__name__} and another {type(other).__name__}"
            )
    fields = {field.name for field in dataclasses.fields(cls)} - {"parent", "name"}
    return cls(
        **{
            name: _merge_field(name, [getattr(network, name) for network in networks])
            for name in fields
        }
    )


def _merge_field(name: str, values: list[Any]) -> Any:
    """The merged network's value of a field."""
    if all(value == values[0] for value in values):
        return values[0]
    if name == "heads":
        return _merge_heads([dict(heads) for heads in values])
    if name == "pattern":
        return "general"
    non_zero = [value for value in values if value]
    if name in ("transform", "offsets") and all(v == non_zero[0] for v in non_zero):
        return non_zero[0]
    raise UserError(
        "objectives that are trained together need one network, but its "
        f"{name} is {' or '.join(map(repr, values))}"
    )


def _merge_heads(heads_of_each: list[dict[str, Any]]) -> dict[str, Any]:
    merged = {}
    for name, spec in (item for heads in heads_of_each for item in heads.items()):
        if merged.setdefault(name, spec) != spec:
            raise UserError(
                "objectives that are trained together share their heads, but "
                f"{name!r} is {merged[name]} and {spec}; rename one"
            )
    return merged
