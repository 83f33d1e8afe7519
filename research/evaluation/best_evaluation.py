"""The best evaluation of a run, by train.best_metric, and whether training stops."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from research import metrics
from research.config.config import Config
from research.contract.errors import UserError, unknown
from research.distributed import processes
from research.program.setup import Program
from research.record.metric_writer import BEST_STEP


class BestEvaluation(NamedTuple):
    """The first of the evaluations with the best value."""

    step: int = 0  # 0: there is none
    num_later: int = 0  # evaluations since then
    is_nonmonotonic: bool = False  # the newest is worse than the best of those before
    # the last train.early_stopping_patience that came before it


def find_best(lines: Sequence[Mapping[str, float]], config: Config) -> BestEvaluation:
    """The best evaluation in the lines of metrics.jsonl; the same in all processes.

    Process 0, which has all lines, decides only from these. They end at the step that a
    run resumes from, so a stopped run decides like an uninterrupted one. A value must
    be strictly better, as in Hugging Face (trainer_callback.py, EarlyStoppingCallback).
    One that is missing or not a number (a correlation with a constant) is the worst.
    """
    split, name = config.data.eval_split, config.train.best_metric
    sign = metrics.signs()[name]
    best, top, values = BestEvaluation(), -math.inf, []
    for line in lines:
        if f"{split}/loss" not in line or BEST_STEP in line:
            continue
        value = sign * line.get(f"{split}/{name}", math.nan)
        values.append(-math.inf if math.isnan(value) else value)
        if value > top or not best.step:
            best, top = BestEvaluation(line["step"]), max(top, value)
        else:
            best = best._replace(num_later=best.num_later + 1)
    patience = config.train.early_stopping_patience
    if patience and values:
        earlier = max(values[: -1 - patience], default=-math.inf)
        best = best._replace(is_nonmonotonic=values[-1] < earlier)
    return BestEvaluation(*map(processes.broadcast_from_process_0, best))


def check_best_metric(
    program: Program, config: Config, of_pairs: Collection[str] = ()
) -> None:
    """Checks that the objective's evaluations have train.best_metric.

    Args:
      of_pairs: the metrics of pairs that they also predict.

    Raises:
      UserError: they do not; the line names the metrics that they have.
    """
    name = config.train.best_metric
    measured = {"loss", *program.abstract_state.sums, *of_pairs}
    predicted = metrics.values_of(program.objective.predicts)
    known = metrics.signs().keys() & {*measured, *predicted}
    if name not in known:
        raise unknown(f"train.best_metric of {config.objective_name}", name, known)
    if name not in measured and not program.data.has_gold:
        raise UserError(
            f"train.best_metric={name} needs scored predictions, but data.task "
            f"{config.data.task} has no texts; choose one of "
            f"{', '.join(sorted(known & measured))}"
        )
