"""The table of a sweep without a table file: its rows and their metrics."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from launch.reports.tables import Column, Curve, Rows, Table
from launch.sweeps.trial import Trial
from research import metrics

SEED = re.compile(r"[ ,]*\bseed=\d+")
MAX_COLUMNS = 8
MAX_NAMES = 4
"""The number of keys that the note names at most."""
SHORT = {"pretraining": ""}
"""Group -> the prefix of its columns' names, where that is not the group."""


def default_table(trials: list[Trial]) -> Table:
    """The table of a sweep that does not have its own.

    The sweep names its rows; otherwise trials that differ only in seeds form a row. The
    columns are the metrics of each group's evaluations. The first row is the baseline.
    If rows differ in the objective or its text, they predict different tokens: then
    losses and other metrics of predicted tokens have no verdict.
    """
    rows = default_rows(trials)
    groups: dict[str, list[Trial]] = {}
    for row in rows.values():
        for group, own in row.items():
            groups.setdefault(group, []).extend(own)
    columns: list[Column] = []
    uncompared: set[str] = set()
    for group, own in groups.items():
        differing = differing_keys([trial.config for trial in own])
        found = _columns(group, own, is_tested=not differing)
        columns += found
        if differing and any(not column.tested for column in found):
            uncompared |= _named(differing, own)
    note = "The mean over the seeds of a row, and of three or more its 95 % interval."
    if uncompared:
        names = sorted(uncompared)
        others = len(names) - MAX_NAMES
        tail = [f"{others} more (palimpsest report)"] if others > 0 else []
        note += (
            f" Rows differ in {', '.join(names[:MAX_NAMES] + tail)}: their losses are "
            "of different predictions and have no verdict. To compare, fine-tune them "
            "on a task (experiments/finetune.py); rates: train each in a phase and "
            "evaluate all at one (train.phases in docs/manual.md, Many runs)."
        )
    note += _phase_note(trials)
    return Table(
        title="Results of the sweep",
        row_header="",
        note=note,
        rows=default_rows,
        columns=tuple(columns[:MAX_COLUMNS]),
        curves=tuple(
            Curve(
                f"Loss of {group} over tokens seen; each panel has its own scale",
                group,
                ("train/loss", "valid/loss"),
            )
            for group in groups
        ),
        baseline=next(iter(rows), ""),
    )


def _phase_note(trials: list[Trial]) -> str:
    """The note on rates of evaluation that differ from training's; "": none does."""
    changed = {
        key
        for trial in trials
        for _, own in trial.config["train.phases"]
        for key in own
        if key.startswith("objective.")
    }
    found = []
    for key in sorted(changed):
        values = {trial.config[key] for trial in trials if key in trial.config}
        if len(values) == 1:
            found.append(f"{key}={values.pop()}")
    if not found:
        return ""
    return (
        " train.phases changes only the training: all rows are evaluated at "
        f"{', '.join(found)}."
    )


def default_rows(trials: list[Trial]) -> Rows:
    """Row -> group -> trials."""
    rows: dict[str, dict[str, list[Trial]]] = {}
    for trial in trials:
        row = trial.row or SEED.sub("", trial.name).strip(" ,")
        group = trial.group or "pretraining"
        rows.setdefault(row, {}).setdefault(group, []).append(trial)
    return rows


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> set[str]:
    """The keys of the objective and its text in which flat configs differ."""
    values: dict[str, set[str]] = {}
    for config in configs:
        for key, value in config.items():
            if key.startswith(("objective.", "data.")):
                values.setdefault(key, set()).add(repr(value))
    missing = {key for key in values if any(key not in config for config in configs)}
    return {key for key, found in values.items() if len(found) > 1} | missing


def _named(keys: set[str], trials: list[Trial]) -> set[str]:
    """The keys that a note names, without those that follow from other keys.

    Keys that only some objectives have and folders of parents follow from others.
    """
    parents = {key for trial in trials for key in trial.parents}
    shared = {key for key in keys if all(key in trial.config for trial in trials)}
    return shared - parents or keys


def _columns(group: str, trials: list[Trial], *, is_tested: bool) -> list[Column]:
    """A column for each metric of the evaluations of all finished trials."""
    done = [trial for trial in trials if trial.done]
    if not done:
        return [_column("valid/loss", group, {}, is_tested=is_tested)]
    kind = done[0].objective.predicts
    declared = metrics.values_of(kind)
    found: Mapping[str, Any] = done[0].result["metrics"]
    names = [n for n in found if all(n in t.result["metrics"] for t in done)]
    split = "test" if any(name.startswith("test/") for name in names) else "valid"
    values = {n: [t.result["metrics"][n] for t in done] for n in names}
    loss = values.get(f"{split}/loss")
    shown = [
        name
        for name in names
        if name.startswith(f"{split}/")
        and (name == f"{split}/loss" or values[name] != loss)  # its only term
    ]
    return [
        _column(
            name,
            group,
            declared,
            is_tested=is_tested or name.partition("/")[2] in declared,
        )
        for name in shown
    ]


def _column(
    name: str, group: str, declared: Mapping[str, metrics.Value], *, is_tested: bool
) -> Column:
    short = name.partition("/")[2]
    prefix = SHORT.get(group, f"{group} ")
    lower = metrics.signs().get(short, -1 if "loss" in short else 1) < 0
    value = declared.get(short)
    return Column(
        f"{prefix}{short}",
        group,
        f"metrics.{name}",
        digits=4 if "loss" in short or value is None else 3,
        tested=is_tested,
        better=metrics.LOWER if lower else metrics.HIGHER,
    )
