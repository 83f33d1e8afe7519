"""The objective of a config, checked against its text and its lengths."""

from collections.abc import Mapping
from typing import Any

from research import objectives
from research.contract.errors import UserError
from research.data.options import DataOptions
from research.data.order.mixture_schedule import MIXINGS
from research.data.rows import packings


def make_run_objective(
    section: Mapping[str, Any], data: DataOptions
) -> objectives.Objective:
    """The objective of a run, on packed rows if data.packing is not none.

    Args:
      section: the config's objective section.

    Raises:
      UserError: as in `make_objective`; or data.length is not legal for it, its rows
        cannot be packed or have the lengths of data.length_buckets, or a vocabulary
        that is to be trained will have too few sentinels.
    """
    objective, name = objectives.make_objective(**section), section["name"]
    if data.packing != "none":
        # Imported here since few configs pack their rows.
        from research.objectives.combined.packed_rows import PackedRows

        objective = PackedRows(objective, packings()[data.packing])
    if data.length < objective.min_length:
        raise UserError(
            f"data.length is {data.length}, but objective {name} needs at least "
            f"{objective.min_length} for its special tokens and a token to score"
        )
    field = objective.divides_length
    if field and data.length % (getattr(objective, field) or 1):
        raise UserError(
            f"data.length must be a multiple of objective.{field}, got {data.length} "
            f"and {getattr(objective, field)}"
        )
    if data.packing != "none":
        objective.batch_spec(data.length)  # raises if it cannot be packed
    if data.length_buckets:
        _check_length_buckets(data, objective, name)
    _check_sentinels(data, objective, name)
    return objective


def _check_sentinels(
    data: DataOptions, objective: objectives.Objective, name: str
) -> None:
    """Raises UserError if a vocabulary to be trained will have too few sentinels.

    A vocabulary from a file may have more than data.sentinels.
    """
    needed = objective.num_sentinels(data.length)
    if needed <= data.sentinels or data.task:
        return
    from research.data.tokenize.train_tokenizer import TRAINED_TYPES  # takes long

    if data.vocabulary in TRAINED_TYPES:
        raise UserError(
            f"data.sentinels is {data.sentinels}, but objective {name} needs {needed} "
            f"in rows of data.length={data.length}; set data.sentinels={needed}"
        )


def _check_length_buckets(
    data: DataOptions, objective: objectives.Objective, name: str
) -> None:
    lengths = [*data.length_buckets]
    if MIXINGS[data.mixing].depends_on_batch:
        raise UserError(
            "data.length_buckets mixes the corpora of a batch; set data.mixing=rows or "
            "data.length_buckets=[]"
        )
    if objective.row_length is None:
        raise UserError(
            f"data.length_buckets: rows of objective {name} have one length; set "
            "data.length_buckets=[]"
        )
    whole = all(type(length) is int for length in lengths)
    least, most = objective.min_length, data.length - 1
    inside = whole and all(least <= length <= most for length in lengths)
    if not inside or lengths != sorted({*lengths}):
        raise UserError(
            f"data.length_buckets is {lengths}; it must have ascending whole numbers "
            f"from {least} to data.length - 1, {most}"
        )
    if data.task or data.reader != "native":
        raise UserError(
            "data.length_buckets needs a corpus that data.reader=native reads; set "
            "data.task= and data.reader=native, or data.length_buckets=[]"
        )
