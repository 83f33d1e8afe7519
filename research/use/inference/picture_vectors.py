"""Vectors of pictures from a run that compares them with vectors of texts."""

# B pictures of a batch, J width of the vectors

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from research import networks, objectives
from research.contract.errors import UserError
from research.data.progress import MANY, progress
from research.data.read.picture_sources import Source
from research.data.read.pictures import Row, decode_picture
from research.data.store.pictures import open_store


def run_store(objective: Any) -> Any:
    """The store of the pictures of a run.

    Raises:
      UserError: the objective reads no pictures, or the store cannot be read.
    """
    if not hasattr(objective, "images"):
        raise UserError(
            f"objective {objective.name} reads no pictures; these do: "
            + ", ".join(_with("images"))
        )
    return open_store(objective.images)


def _with(attribute: str) -> list[str]:
    """The names of the objectives that have an attribute."""
    each = objectives.objective_class
    return [name for name in objectives.names() if hasattr(each(name), attribute)]


def picture_size(objective: Any) -> tuple[int, int]:
    """Width and height of the pictures of a run."""
    height, width = run_store(objective).pixels.shape[1:3]
    return int(width), int(height)


def encode_pictures(
    run: Any, source: Source, names: Sequence[str], batch: int
) -> np.ndarray:
    """Float32 [N, J]: a vector of each picture, one batch in memory at a time.

    Pictures are resized to the size of the run's (objective.images).

    Args:
      names: [N], the paths of pictures in `source`.

    Raises:
      UserError: the run does not encode pictures, or a picture cannot be decoded.
    """
    size = picture_size(run.objective)

    def pixels(name: str) -> np.ndarray:
        row = Row("picture", name, (), "", None, (), ())
        return decode_picture(source.read(name, row.where), row, *size)[0]

    return _encode(run, names, pixels, batch)


def encode_stored(run: Any, numbers: Sequence[int], batch: int) -> np.ndarray:
    """Float32 [N, J]: a vector of each of these pictures of the run's store.

    Raises:
      UserError: the run does not encode pictures, or there is no such picture.
    """
    stored = run_store(run.objective).pixels
    if not 0 <= min(numbers) <= max(numbers) < len(stored):
        raise UserError(
            f"there is no picture {max(numbers)}: objective.images has {len(stored)}"
        )
    return _encode(run, numbers, lambda n: stored[n], batch)


def _encode(
    run: Any, items: Sequence[Any], pixels: Callable[[Any], np.ndarray], batch: int
) -> np.ndarray:
    objective = run.objective
    if not hasattr(objective, "picture_vectors"):
        raise UserError(
            f"objective {objective.name} reads pictures beside texts and gives them no "
            f"vectors; these do: {', '.join(_with('picture_vectors'))}"
        )

    @jax.jit
    def encode(params: Any, arrays: Any) -> Any:
        fn = functools.partial(objective.picture_vectors, batch=arrays)
        return networks.apply(run.network, params, fn)

    found, size = [], min(batch, len(items))
    with progress("vectors", len(items), silent=len(items) < MANY) as report:
        for start in range(0, len(items), batch):
            read = [pixels(each) for each in items[start : start + batch]]
            count = len(read)
            arrays = objective.picture_input(
                np.stack(read + read[-1:] * (size - count))
            )
            found.append(np.asarray(encode(run.params, arrays))[:count])
            report(start + count, f"{start + count} of {len(items)} pictures")
    return np.concatenate(found)
