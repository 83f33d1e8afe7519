"""A finished sweep with made-up results, for the tests of tables and reports."""

import json
from pathlib import Path

from etils import epath

from launch.backends.attempt_log import ProcessRecord
from launch.cli import NON_FINITE
from launch.reports.tables import Column, Curve, Paper, Rows, Table
from launch.sweeps import sweep_plan
from launch.sweeps.trial import Trial
from research.record.workdir import write_result

SWEEP = """
def sweep(scale):
    for seed in range(3):
        for family in ("lm", "mlm"):
            pretraining = f"experiments/{family}.py", {"train.steps": 20, "seed": seed}
            yield pretraining
            yield "experiments/lm.py", {"train.init_from": pretraining, "seed": seed}
        yield "experiments/lm.py", {"seed": seed}
"""
SCORES = {"lm": (71.0, 72.5, 70.5), "mlm": (80.0, 83.0, 81.0), "none": (60.0, 62, 61)}


def rows(trials: list[Trial]) -> Rows:
    groups = {"lm": {"first": [], "second": []}, "mlm": {"first": [], "second": []}}
    groups["none"] = {"second": []}
    for trial in trials:
        pretraining = trial.parents.get("train.init_from")
        if trial.config["train.steps"] == 20:
            groups[trial.config["objective.name"]]["first"].append(trial)
        else:
            row = pretraining.config["objective.name"] if pretraining else "none"
            groups[row]["second"].append(trial)
    return groups


TABLE = Table(
    title="A & B_c",
    row_header="way",
    note="All equal.",
    rows=rows,
    columns=(
        Column("size, M", "first", lambda trial: trial.result["parameters"] / 1e6),
        Column("score", "second", "metrics.test/score", digits=1, tested=True),
    ),
    baseline="none",
    papers={
        ("mlm", "score"): Paper(84.0, "Someone (2019), table 1", "V1"),
        ("none", "score"): Paper(60.0, "Someone (2019), table 1", "V1"),
    },
    curves=(Curve("loss", "first", ("train/loss", "valid/loss")),),
    bars=("score",),
)


def finished(workdir: epath.PathLike, files: Path | None = None) -> list[Trial]:
    """Plans the sweep in a folder and gives each trial a result.

    Args:
      files: the folder of its file; None: the workdir.
    """
    file = (files or workdir) / "sweep.py"
    file.write_text(SWEEP)
    planned = sweep_plan.make_plan(str(file), workdir, scale="smoke", shared={})
    sweep_plan.write_plan(planned, workdir)
    for row, groups in rows(planned).items():
        for trial in groups.get("first", ()):
            write_run(trial, {"valid/loss": 3.0})
        for trial, score in zip(groups["second"], SCORES[row], strict=True):
            write_run(trial, {"test/score": score})
    return planned


def diverge(trial: Trial) -> None:
    """Leaves of a trial an attempt that ended since its loss was not finite."""
    (trial.folder / "result.json").unlink(missing_ok=True)
    record = ProcessRecord(
        attempt="00001",
        rank=0,
        round=1,
        host="here",
        pid=1,
        started=1.0,
        heartbeat=2.0,
        ended=2.0,
        exit_code=NON_FINITE,
    )
    record.write(trial.folder)


def write_run(trial: Trial, metrics: dict[str, float], **facts: float) -> None:
    """Writes the metrics and the result of a trial, which ends with `metrics`.

    Args:
      facts: further values of the result.
    """
    trial.folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"step": step, "train/loss": 9 / step, "valid/loss": 8 / step}
        for step in (5, 10, 20)
    ]
    lines[-1] |= metrics
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (trial.folder / "metrics.jsonl").write_text(text)
    result = {
        "steps": 20,
        "metrics": {"train/loss": 9 / 20, "valid/loss": 8 / 20} | metrics,
        "parameters": 1_250_000,
        "tokens_seen": 4e6,
        **facts,
        "config": trial.config | {k: str(t.folder) for k, t in trial.parents.items()},
        "provenance": {
            "commit": "abc",
            "device": "Zen 5",
            "packages": {"jax": "1"},
            "command": ["x"],
        },
    }
    write_result(trial.folder, result)
