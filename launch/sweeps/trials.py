"""A sweep's trials: what each runs, whom it waits for, where its result lies."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etils import epath

from launch import config
from launch.backends import attempt_log
from launch.backends.attempt_log import root
from research.errors import UserError, unknown
from research.run.metric_writer import read_metrics

SCALES = ("smoke", "small", "paper")
ELSEWHERE = ("data.cache_dir",)
"""Keys that say where, not what: a trial's id does not depend on them."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """One run of a sweep."""

    id: str  # a hash of `config`
    name: str  # for people
    experiment: str
    overrides: dict[str, Any]  # without the parents
    parents: dict[str, "Trial"]  # key -> the trial whose folder is its value
    config: dict[str, Any]  # resolved and flat; ids stand for the parents' folders
    folder: epath.Path

    @property
    def done(self) -> bool:
        return (self.folder / "result.json").exists()

    @property
    def result(self) -> dict[str, Any]:
        return json.loads((self.folder / "result.json").read_text())

    @property
    def metrics(self) -> list[dict[str, float]]:
        """What it has logged so far; a line that is still being written is left out."""
        return read_metrics(self.folder)

    @property
    def progress(self) -> tuple[int, int]:
        """Steps that are logged, and in all."""
        step = max((line["step"] for line in self.metrics), default=0)
        return step, self.config["train.steps"]

    @property
    def summary(self) -> str:
        """What its result says, in half a line."""
        metrics, split = self.result["metrics"], self.config["data.eval_split"]
        names = [f"{split}/loss", f"{split}/accuracy"]
        shown = [f"{name} {metrics[name]:.3f}" for name in names if name in metrics]
        return ", ".join(shown) or "done"

    @property
    def command(self) -> list[str]:
        return ["python", "-m", "launch.train", *self.arguments]

    @property
    def arguments(self) -> list[str]:
        """Its flags of `launch.train`."""
        folders = {key: str(trial.folder) for key, trial in self.parents.items()}
        values = {key: _text(value) for key, value in self.overrides.items()} | folders
        return [
            f"--config={self.experiment}",
            f"--workdir={self.folder}",
            *(f"--config.{key}={value}" for key, value in values.items()),
        ]


def plan(
    file: str, workdir: str | Path, *, scale: str, shared: Mapping[str, Any]
) -> list[Trial]:
    """All trials of a sweep file, each once, parents first.

    Args:
      shared: dotted key -> value, for the trials that do not set this key themselves.

    Raises:
      UserError: no such file or scale, or a config that is not right.
    """
    sweep = getattr(config.module_at(file), "sweep", None)
    if sweep is None:
        raise UserError(f"{file} is no sweep: it defines no sweep(scale)")
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    trials: dict[str, Trial] = {}
    pairs = list(sweep(scale))
    for key in shared:
        if pairs and all(key in own for _, own in pairs):
            raise UserError(f"{key}: every trial of {file} sets it itself")
    for experiment, own in pairs:
        _add(trials, root(workdir), experiment, own, shared)
    return _named(list(trials.values()))


def write(trials: list[Trial], workdir: epath.PathLike, **head: Any) -> None:
    """Leaves `sweep.json` in the workdir, whole or not at all."""
    rows = [
        {field.name: getattr(trial, field.name) for field in dataclasses.fields(trial)}
        | {"parents": {key: parent.id for key, parent in trial.parents.items()}}
        | {"folder": trial.id}
        for trial in trials
    ]
    attempt_log.write_json(root(workdir) / "sweep.json", head | {"trials": rows})


def read(workdir: epath.PathLike) -> list[Trial]:
    """The trials of the sweep that was last started in `workdir`.

    Raises:
      UserError: there was none.
    """
    trials: dict[str, Trial] = {}
    for row in header(workdir)["trials"]:
        parents = {key: trials[parent] for key, parent in row["parents"].items()}
        folder = root(workdir) / row["folder"]
        trials[row["id"]] = Trial(**row | {"parents": parents, "folder": folder})
    return list(trials.values())


def header(workdir: epath.PathLike) -> dict[str, Any]:
    """What `sweep.json` says.

    Raises:
      UserError: there is none.
    """
    path = root(workdir) / "sweep.json"
    if not path.exists():
        raise UserError(f"{workdir} holds no sweep: launch.sweep --workdir={workdir}")
    return json.loads(path.read_text())


def _add(
    trials: dict[str, Trial],
    workdir: epath.Path,
    experiment: str,
    own: Mapping[str, Any],
    shared: Mapping[str, Any],
) -> Trial:
    """The trial of a pair (experiment, overrides), after its parents, once."""
    parents = {
        key: _add(trials, workdir, *value, shared)
        for key, value in own.items()
        if _is_pair(value)
    }
    overrides = {k: v for k, v in {**shared, **own}.items() if k not in parents}
    ids = {key: parent.id for key, parent in parents.items()}
    resolved = config.flatten(config.load(experiment, overrides | ids))
    identity = config.digest({k: resolved[k] for k in resolved if k not in ELSEWHERE})
    trial = Trial(
        id=identity,
        name=Path(experiment.partition(":")[0]).stem,
        experiment=experiment,
        overrides=overrides,
        parents=parents,
        config=resolved,
        folder=workdir / identity,
    )
    return trials.setdefault(identity, trial)


def _is_pair(value: Any) -> bool:
    match value:
        case (str(), Mapping()):
            return True
    return False


def _named(trials: list[Trial]) -> list[Trial]:
    """Adds to each name what tells a trial from the others of its experiment."""
    named: dict[str, Trial] = {}
    for trial in trials:
        alike = [other for other in trials if other.experiment == trial.experiment]
        words = [trial.name] + [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in trial.overrides.items()
            if any(other.config.get(key) != value for other in alike)
        ]
        parents = {key: named[parent.id] for key, parent in trial.parents.items()}
        keys = {parent.name: key for key, parent in reversed(parents.items())}
        words += [f"{key.rpartition('.')[2]}={name}" for name, key in keys.items()]
        named[trial.id] = dataclasses.replace(
            trial, name=" ".join(words), parents=parents
        )
    return list(named.values())


def _text(value: Any) -> str:
    """A value as `config.load` reads it back from a command line."""
    return value if isinstance(value, str) else json.dumps(value)
