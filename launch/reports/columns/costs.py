"""The cost of a row's pretraining, in which a paper's rows may differ."""

from dataclasses import dataclass

from launch.reports import columns
from launch.reports.columns import PRETRAINING
from launch.reports.tables import Column
from launch.sweeps.trial import Trial


def stages(trial: Trial) -> list[Trial]:
    """A pretraining, and the runs that its parameters come from."""
    origin = trial.parents.get("train.init_from")
    return [trial, *(stages(origin) if origin else ())]


def megatokens(trial: Trial) -> float:
    """Millions of tokens that all stages of a trial have seen."""
    return sum(stage.result["tokens_seen"] for stage in stages(trial)) / 1e6


def petaflops(trial: Trial) -> float:
    """10^15 FLOPs of all steps of all stages of a trial."""
    results = [stage.result for stage in stages(trial)]
    return sum(each["flops_per_step"] * each["steps"] for each in results) / 1e15


@dataclass(frozen=True)
class Columns(columns.Columns):
    """With the runs that the parameters come from."""

    columns = (
        Column("parameters, M", PRETRAINING, lambda t: t.result["parameters"] / 1e6),
        Column("tokens, M", PRETRAINING, megatokens),
        Column("PFLOP", PRETRAINING, petaflops, digits=3),
    )
    always = True
