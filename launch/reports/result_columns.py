"""Columns from a run's result: its cost, and its scores on tasks."""

import math

import numpy as np

from launch.reports.tables import Column, Curve, metric_value
from launch.sweeps.benchmarks import PERPLEXITY
from launch.sweeps.trial import Trial
from research import metrics
from research.contract.errors import UserError, unknown
from research.data.tokenize import train_tokenizer
from research.data.tokenize.tokenizer_models import TokenizerModel
from research.data.tokenize.vocabulary import load_vocabulary
from research.metrics import HIGHER, LOWER, Value

PRETRAINING = "pretraining"


def masked_perplexity(trial: Trial) -> float | None:
    """The perplexity of masked tokens of the evaluation text; None: not evaluated."""
    loss = trial.result["metrics"].get("valid/mlm")
    return None if loss is None else math.exp(loss)


def word_perplexity(trial: Trial) -> float | None:
    """The perplexity of the evaluation text, for a causal model of words; None: it has
    no loss of a causal model.

    Raises:
      UserError: its tokens are no words.
    """
    loss = _loss_of("words", trial)
    return None if loss is None else math.exp(loss)


def bits_per_byte(trial: Trial) -> float | None:
    """Bits for each byte of the evaluation text, for a causal model of bytes; None: it
    has no loss of a causal model.

    Raises:
      UserError: its tokens are no bytes.
    """
    loss = _loss_of("bytes", trial)
    return None if loss is None else loss / math.log(2)


def _loss_of(unit: str, trial: Trial) -> float | None:
    """The loss of a causal model by token, which are words or bytes.

    Raises:
      UserError: they are not.
    """
    loss = trial.result["metrics"].get("valid/lm")
    if loss is not None and (found := _token_unit(trial)) != unit:
        raise UserError(
            f"{trial.name} predicts {found}, so that its loss is of no {unit}; leave "
            f"the column of {unit} out of the table"
        )
    return loss


def _token_unit(trial: Trial) -> str:
    """What the tokens of a trial's vocabulary are: "words", "bytes", or pieces of words
    by the type of the vocabulary.

    Raises:
      UserError: its vocabulary cannot be read.
    """
    if source := trial.parents.get("data.vocabulary"):
        return _token_unit(source)
    kind, size = (trial.config[f"data.vocabulary{end}"] for end in ("", "_size"))
    if kind in train_tokenizer.TRAINED_TYPES:
        special = train_tokenizer.special_pieces(trial.config["data.sentinels"])
        has_bytes_alone = size == len(special) + 256
    else:  # a file, of which the run has a copy
        model = load_vocabulary(trial.folder, sentinels=0).model
        kind = model.tokenizer_type
        has_bytes_alone = _has_bytes_alone(model)
    if kind == "bytebpe" and has_bytes_alone:
        return "bytes"
    return "words" if kind == "words" else f"pieces of {kind}"


def _has_bytes_alone(model: TokenizerModel) -> bool:
    pieces = zip(model.piece_bytes, model.is_control, strict=True)
    return all(is_control or len(piece) == 1 for piece, is_control in pieces)


def stages(trial: Trial) -> list[Trial]:
    """A pretraining, and the runs that its parameters come from."""
    origin = trial.parents.get("train.init_from")
    return [trial, *(stages(origin) if origin else ())]


def megatokens(trial: Trial) -> float:
    return sum(stage.result["tokens_seen"] for stage in stages(trial)) / 1e6


def petaflops(trial: Trial) -> float:
    results = [stage.result for stage in stages(trial)]
    return sum(each["flops_per_step"] * each["steps"] for each in results) / 1e15


MASKED_PERPLEXITY = Column(
    "masked-LM ppl", PRETRAINING, masked_perplexity, tested=True, better=LOWER
)
WORD_PERPLEXITY = Column(
    "word ppl", PRETRAINING, word_perplexity, tested=True, better=LOWER
)
BITS_PER_BYTE = Column(
    "bits per byte", PRETRAINING, bits_per_byte, tested=True, better=LOWER
)
COSTS = (
    Column("parameters, M", PRETRAINING, lambda t: t.result["parameters"] / 1e6),
    Column("tokens, M", PRETRAINING, megatokens),
    Column("PFLOP", PRETRAINING, petaflops, digits=3),
)
"""Columns of the rows' costs, in which a paper's rows may differ."""

LOSS_CURVES = tuple(
    Curve(
        f"Loss of pretraining over {words}; each panel has its own scale",
        PRETRAINING,
        ("train/loss", "valid/loss"),
        over,
    )
    for over, words in (
        ("tokens", "tokens seen"),
        ("flops", "FLOPs"),
        ("time", "the time of its steps"),
    )
)


def task_score(metric: str):
    """A metric of a fine-tuning in per cent, or the scores whose mean it is.

    A perplexity is computed on the target tokens of the validation split, other metrics
    on the test split if the task has one, else on the validation split.
    """

    def score(trial: Trial) -> float | np.ndarray:
        if metric == PERPLEXITY:
            return math.exp(metric_value("metrics.valid/target", trial))
        split, value = _shown_split(trial), _value(metric, trial)
        if value.mean_of_scores:
            return value.percent(np.array(trial.result["item_scores"][split]))
        return value.percent(_measured(value, split, trial))

    return score


def valid_score(metric: str):
    """A metric of the validation split, by which settings are picked; for a perplexity
    the loss.
    """

    def score(trial: Trial) -> float:
        if metric == PERPLEXITY:
            return metric_value("metrics.valid/loss", trial)
        return _measured(_value(metric, trial), "valid", trial)

    return score


def task_margin(metric: str):
    """The margin over items of the value of `task_score`; nan: unknown."""

    def margin(trial: Trial) -> float:
        margins = trial.result.get("margins", {})
        name = f"{_shown_split(trial)}/{metric}"
        return _value(metric, trial).percent(margins.get(name, math.nan))

    return margin


def task_column(name: str, task: str, metric: str, *, margin: bool = False) -> Column:
    """The column of a task's metric.

    Args:
      margin: whether a single run's number has its interval over items.
    """
    score, picked_by = task_score(metric), valid_score(metric)
    more = {"margin": task_margin(metric)} if margin else {}
    better = LOWER if metric == PERPLEXITY or metrics.signs()[metric] < 0 else HIGHER
    if (least := metrics.bounded().get(metric)) is not None:
        more |= {"least": least, "most": 100.0}
    return Column(name, task, score, 1, True, picked_by, better=better, **more)


def _value(metric: str, trial: Trial) -> Value:
    """The declaration of a metric of a trial's predictions.

    Raises:
      UserError: its predictions are of another kind.
    """
    values = metrics.values_of(trial.objective.predicts)
    if metric not in values:
        raise unknown(f"metric of {trial.name}", metric, values)
    return values[metric]


def _measured(value: Value, split: str, trial: Trial) -> float:
    """A metric of a result; if it is undefined, the value that tables use instead."""
    found = trial.result["metrics"].get(f"{split}/{value.name}", value.undefined_counts)
    if found is None:
        raise UserError(
            f"{trial.name} has no {split}/{value.name}: "
            f"{value.undefined or 'it is of an earlier version'}"
        )
    return found


def _shown_split(trial: Trial) -> str:
    return "test" if trial.result["item_scores"].get("test") else "valid"
