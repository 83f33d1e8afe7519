"""What objectives made of parts share: named parts, one network, schedules by step."""

# B batch, S entries of a schedule

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import models, objectives
from research.errors import UserError

Fields = tuple[tuple[str, Any], ...]
"""Of a part: names and plain values, in order of the names."""


def plain(value: Any) -> Any:
    """Mappings as tuples of pairs in order of their keys, lists as tuples: hashable."""
    if hasattr(value, "items"):
        return tuple(sorted((str(key), plain(held)) for key, held in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return value


def parse(parts: Any) -> tuple[tuple[str, Fields], ...]:
    """Parts in order of their names, however they were written.

    Args:
      parts: name -> fields; mappings, or pairs of names and values.

    Raises:
      ValueError: something that is neither.
    """
    try:
        return plain({name: dict(pairs(held)) for name, held in pairs(parts)})
    except (TypeError, ValueError) as error:
        raise ValueError('parts map names to fields, {"name": {"field": 1}}') from error


def pairs(mapping: Any) -> Iterable:
    """Of a mapping, or what is given as pairs already."""
    return mapping.items() if hasattr(mapping, "items") else mapping


def load(part: str, name: str, fields: Mapping[str, Any]) -> Any:
    """The objective of a part.

    Raises:
      UserError: as `objectives.load`, and says which part it is.
    """
    try:
        return objectives.make_objective(name, **fields)
    except UserError as error:
        raise UserError(f"part {part!r}: {error}") from error


def network(parts: Iterable[Any], options: Any, vocab: Any) -> Any:
    """One network that serves all parts.

    Raises:
      UserError: their networks cannot be one.
    """
    each = [part.network(options, vocab) for part in parts]
    return each[0] if all(net == each[0] for net in each) else models.merge_networks(each)


def pattern(parts: Iterable[Any]) -> str:
    """The promise that holds for all parts."""
    each = {part.pattern for part in parts}
    return each.pop() if len(each) == 1 else "general"


Schedule = tuple[tuple[int, float], ...]
"""(step, value) in order of steps."""


def schedule(value: Any, what: str) -> Schedule:
    """A schedule from a number, or from [[step, number], ...].

    Raises:
      ValueError: steps that do not ascend, or numbers below 0; says `what` it is of.
    """
    points = ((0, value),) if isinstance(value, int | float) else value
    try:
        points = tuple((int(step), float(number)) for step, number in points)
        steps = [step for step, _ in points]
        right = bool(points) and steps == sorted(set(steps)) and steps[0] >= 0
        right &= all(0 <= number < np.inf for _, number in points)
    except (TypeError, ValueError):
        right = False
    if not right:
        raise ValueError(
            f"{what} is a number of at least 0, or [[step, number], ...] with steps "
            f"that ascend, not {value!r}"
        )
    return points


def held(points: Schedule, step: np.ndarray) -> np.ndarray:
    """[B] float64: the value of the last point at or before each step [B]."""
    steps, values = np.array(points).T
    return values[np.maximum(np.searchsorted(steps, step, side="right") - 1, 0)]


def between(points: Schedule, step: jax.Array) -> jax.Array | float:
    """The value at a step [], linear between the points, constant outside: float32."""
    if len(points) == 1:
        return points[0][1]
    steps, values = np.array(points, np.float32).T
    return jnp.interp(step.astype(jnp.float32), steps, values)
