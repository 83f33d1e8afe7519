"""Sizes of the arrays of packed rows, and the positions that each array belongs to."""

# L columns of a row, N the most raw tokens of a piece

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from research.contract.batch import (
    INPUT_ARRAYS,
    PIECE_SPECIALS,
    SCORED_ARRAYS,
    ArraySpec,
    input_names,
    piece_columns,
)
from research.contract.errors import UserError

INDEX_ARRAYS = ("scored", "left", "right")
"""Arrays for scored positions whose values are positions."""

SLOT_WEIGHTS = ("weight", "text_weight")
"""Weights of scored positions; slots where all are 0 are unused."""

SLOT_ARRAYS = (*SCORED_ARRAYS, "text_weight", "left", "right", "offset")
"""Arrays with one entry for each scored position."""

MIN_LENGTH = 16
"""The smallest length at which a piece is corrupted."""

MAX_UNUSED = 4
"""The most unneeded columns that inputs may be padded by to have the length of the row,
which is more efficient on devices."""


class Role(NamedTuple):
    """The positions that an array belongs to."""

    group: str  # prefix of the network input with these positions
    by_slot: bool  # whether it has an entry per scored position, or per position


class Layout(NamedTuple):
    """Sizes of packed rows, and of their pieces."""

    roles: dict[str, Role]  # of each array
    specs: dict[str, ArraySpec]  # of packed rows
    num_keys: dict[str, int]  # group -> number of positions that are not queries
    own_length: np.ndarray  # [N + 2]: number of raw tokens -> smallest length for them
    max_positions: dict[str, np.ndarray]  # group -> [N + 2]: its positions then

    def corrupted_length(self, num_raw: np.ndarray) -> np.ndarray:
        """The length at which texts of `num_raw` tokens are corrupted.

        It has few different values, so that few calls corrupt all pieces of a batch,
        and is at most a quarter above `own_length`. It affects only random draws.
        """
        own = self.own_length[num_raw]
        step = 2 ** np.maximum(np.log2(own).astype(np.int64) - 2, 0)
        return np.maximum(-(-own // step) * step, MIN_LENGTH)


@functools.lru_cache(maxsize=64)
def make_layout(objective: Any, length: int) -> Layout:
    """The layout of packed rows of `length` columns.

    Each array has room for any pieces that fit in a row, so that no text overflows it.

    Raises:
      UserError: examples of the objective cannot be joined.
    """
    roles = _check_packable(objective, length)
    separator = objective.reads_separators
    max_raw = length - PIECE_SPECIALS
    own_length = _least_lengths(objective, max_raw + 1)
    layout = Layout(roles, {}, {}, own_length, {})
    num_raw = np.arange(1, max_raw + 1)
    columns = piece_columns(num_raw, max_raw)
    specs = functools.cache(objective.batch_spec)
    groups = {role.group for role in roles.values()}
    for group in groups:
        sizes = [_num_keys(objective, group, specs(n)) for n in own_length.tolist()]
        layout.max_positions[group] = np.maximum.accumulate(sizes)
        most = _most(columns, layout.max_positions[group][num_raw + separator], length)
        nearly_all = length - MAX_UNUSED <= most <= length
        layout.num_keys[group] = length if nearly_all else most
    for name, role in roles.items():
        size = layout.num_keys[role.group]
        if role.by_slot or objective.appends_queries:
            corrupted = layout.corrupted_length(num_raw + separator).tolist()
            slots = np.array(
                [specs(n)[_target(role.group)].shape[0] for n in corrupted]
            )
            num_slots = _most(columns, np.maximum.accumulate(slots), length)
            size = num_slots if role.by_slot else size + num_slots
        layout.specs[name] = ArraySpec((size,), specs(length)[name].dtype)
    return layout


def _check_packable(objective: Any, length: int) -> dict[str, Role]:
    """The roles of the arrays.

    Raises:
      UserError: see `make_layout`.
    """
    spec = objective.text_spec(length)
    roles, problem = {}, ""
    if spec.contiguous:
        problem = "reads a stream from row to row"
    elif not spec.takes_stride:
        problem = f"reads text of the unit {spec.unit!r}"
    elif spec.random_start:
        problem = "has parts that read texts of different lengths"
    elif spec.changed_fields().keys() - {"arrays"}:
        problem = "reads text ahead of its row"
    else:
        specs = objective.batch_spec(length)
        roles = _find_roles(specs)
        others = [array for array in specs if array not in roles]
        if others:
            problem = f"has arrays that cannot be joined ({', '.join(others)})"
    if problem:
        raise UserError(
            "data.packing joins examples of single documents, but objective "
            f"{objective.name} {problem}; set data.packing=none, or its fields so that "
            "it reads a plain stream"
        )
    return roles


def _find_roles(specs: Mapping[str, ArraySpec]) -> dict[str, Role]:
    """The roles of arrays for positions or scored positions, without other arrays."""
    tokens = [name.removesuffix("token") for name in specs if name.endswith("token")]
    groups = [p for p in tokens if all(p + name in specs for name in INPUT_ARRAYS)]
    roles = {
        p + name: Role(p, by_slot=False)
        for p in groups
        for name in input_names(specs, p)
    }
    for group in groups:
        prefix = group.removesuffix("decoder_")
        by_slot = prefix + "scored" in specs
        roles |= {
            prefix + name: Role(group, by_slot)
            for name in SLOT_ARRAYS
            if prefix + name in specs and specs[prefix + name].shape  # not of a row
        }
    if "cross_segment" in specs:
        roles["cross_segment"] = Role("encoder_", by_slot=False)
    return roles


def _target(group: str) -> str:
    return group.removesuffix("decoder_") + "target"


def _num_keys(objective: Any, group: str, specs: Mapping[str, ArraySpec]) -> int:
    """The number of positions of a group that are not queries."""
    num_queries = specs[_target(group)].shape[0] if objective.appends_queries else 0
    return specs[group + "token"].shape[0] - num_queries


def _least_lengths(objective: Any, max_raw: int) -> np.ndarray:
    """[max_raw + 1]: the smallest length whose rows have room for 0, 1, ... tokens."""
    first = length = objective.min_length
    room = [objective.text_spec(first).length]
    while room[-1] < max_raw:
        length += 1
        room.append(objective.text_spec(length).length)
    return first + np.searchsorted(room, np.arange(max_raw + 1))


def _most(columns: np.ndarray, size: np.ndarray, length: int) -> int:
    """The largest total size of pieces whose columns fit in `length` (a knapsack).

    Args:
      columns, size: columns and size of each kind of piece, usable any number of times.
    """
    of_columns = np.zeros(length + 1, np.int64)
    np.maximum.at(of_columns, columns, size)
    most = np.zeros(length + 1, np.int64)
    for end in range(1, length + 1):
        most[end] = (most[end - 1 :: -1][:end] + of_columns[1 : end + 1]).max()
    return int(most[-1])
