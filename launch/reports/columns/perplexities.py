"""Perplexities of the evaluation text, from a pretraining's result."""

import math
from dataclasses import dataclass

from launch.reports import columns
from launch.reports.columns import PRETRAINING
from launch.reports.tables import Column
from launch.sweeps.trial import Trial
from research.contract.errors import UserError
from research.data.tokenize import tokenizer_types, train_tokenizer
from research.data.tokenize.tokenizer_models import TokenizerModel
from research.data.tokenize.vocabulary import load_vocabulary
from research.metrics import LOWER


def masked_perplexity(trial: Trial) -> float | None:
    """The perplexity of masked tokens of the evaluation text; None: not evaluated."""
    loss = trial.result["metrics"].get("valid/mlm")
    return None if loss is None else math.exp(loss)


def word_perplexity(trial: Trial) -> float | None:
    """The perplexity of the evaluation text, for a causal model of words.

    None: the trial has no loss of a causal model.

    Raises:
      UserError: its tokens are not words.
    """
    loss = _loss_of("words", trial)
    return None if loss is None else math.exp(loss)


def bits_per_byte(trial: Trial) -> float | None:
    """Bits per byte of the evaluation text, for a causal model of bytes.

    None: the trial has no loss of a causal model.

    Raises:
      UserError: its tokens are not bytes.
    """
    loss = _loss_of("bytes", trial)
    return None if loss is None else loss / math.log(2)


def _loss_of(unit: str, trial: Trial) -> float | None:
    """The loss per token of a causal model whose tokens are words or bytes.

    Raises:
      UserError: its tokens are something else.
    """
    loss = trial.result["metrics"].get("valid/lm")
    if loss is not None and (found := _token_unit(trial)) != unit:
        raise UserError(
            f"{trial.name} predicts {found}, not {unit}; leave the column of {unit} "
            "out of the table"
        )
    return loss


def _token_unit(trial: Trial) -> str:
    """The unit of a trial's tokens: "words", "bytes", or "pieces of ...".

    Raises:
      UserError: its vocabulary cannot be read.
    """
    if source := trial.parents.get("data.vocabulary"):
        return _token_unit(source)
    kind, size = (trial.config[f"data.vocabulary{end}"] for end in ("", "_size"))
    if kind in train_tokenizer.TRAINED_TYPES:
        special = tokenizer_types.special_pieces(trial.config["data.sentinels"])
        has_bytes_alone = size == len(special) + 256
    else:  # a file, of which the run has a copy
        model = load_vocabulary(trial.folder, sentinels=0).model
        kind = model.tokenizer_type
        has_bytes_alone = _has_bytes_alone(model)
    tokenizer_type = tokenizer_types.named(kind)
    if tokenizer_type.spells_white_space and has_bytes_alone:
        return "bytes"
    return "words" if tokenizer_type.has_words else f"pieces of {kind}"


def _has_bytes_alone(model: TokenizerModel) -> bool:
    pieces = zip(model.piece_bytes, model.is_control, strict=True)
    return all(is_control or len(piece) == 1 for piece, is_control in pieces)


@dataclass(frozen=True)
class Columns(columns.Columns):
    """Exact values; lower is better. A run without the loss has no number."""

    columns = tuple(
        Column(name, PRETRAINING, value, tested=True, better=LOWER)
        for name, value in (
            ("masked-LM ppl", masked_perplexity),
            ("word ppl", word_perplexity),
            ("bits per byte", bits_per_byte),
        )
    )
