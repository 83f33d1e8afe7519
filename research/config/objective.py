"""The objective of a config, checked against its text and its lengths."""

from typing import Any

from research import objectives
from research.contract.errors import UserError


def config_objective(config: Any) -> objectives.Objective:
    """The objective of a config, on packed rows if data.packing is best_fit.

    Raises:
      UserError: as `make_objective`; or data.length is not legal for it, its rows
        cannot be packed, they cannot have the lengths of data.length_buckets, or a
        vocabulary that is to be trained has too few sentinels.
    """
    objective, length = (
        objectives.make_objective(**config.objective),
        config.data.length,
    )
    if config.data.packing == "best_fit":
        from research.objectives.combined.packed_rows import (
            PackedRows,
        )  # of few configs

        objective = PackedRows(objective)
    if length < objective.min_length:
        raise UserError(
            f"data.length is {length}, but objective {config.objective.name} needs at "
            f"least {objective.min_length} for its specials and something to score"
        )
    if length % objective.length_multiple:
        raise UserError(
            f"data.length must be a multiple of {objective.length_multiple}, which "
            f"objective {config.objective.name} reads at once, got {length}"
        )
    if config.data.packing == "best_fit":
        objective.batch_spec(length)  # raises if it cannot be packed
    if config.data.length_buckets:
        _check_length_buckets(config.data, objective, config.objective.name)
    _check_sentinels(config.data, objective, config.objective.name)
    return objective


def _check_sentinels(data: Any, objective: objectives.Objective, name: str) -> None:
    """Raises UserError: a vocabulary that is to be trained will have too few; one of a
    file may have more than data.sentinels."""
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
    data: Any, objective: objectives.Objective, name: str
) -> None:
    lengths = [*data.length_buckets]
    if data.mixing == "batches":
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
            f"data.length_buckets is {lengths}; it has ascending whole numbers from "
            f"{least} to data.length - 1, {most}"
        )
    if data.task or data.reader != "native":
        raise UserError(
            "data.length_buckets needs a corpus that data.reader=native reads; set "
            "data.task= and data.reader=native, or data.length_buckets=[]"
        )
