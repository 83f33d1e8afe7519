"""A trial: one run of a sweep, with its command and its result."""

import dataclasses
import functools
import json
from collections.abc import Iterator
from typing import Any

from etils import epath

from launch.backends.attempt_log import read_attempts
from launch.cli import NON_FINITE
from launch.config import load_config
from launch.config_starts import start_keys
from research.config import base
from research.config.identity import default_values, flatten
from research.contract.errors import UserError
from research.evaluation.learning import knows_no_context
from research.files.existence import exists
from research.objectives import Objective
from research.record.metric_writer import latest_metrics, read_metrics
from research.record.workdir import fixed_keys, read_result


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """One run of a sweep."""

    id: str  # hash of `config`
    name: str  # shown to people
    experiment: str
    overrides: dict[str, Any]  # without keys whose value is a parent
    parents: dict[str, "Trial"]  # config key -> the trial whose folder is its value
    config: dict[str, Any]  # resolved and flat, with parents' ids for their folders
    folder: epath.Path
    row: str = ""  # row of the sweep's table; "": the table chooses it
    group: str = ""  # group in that row: "pretraining", or the task

    @property
    def pretraining_seed(self) -> int:
        """The seed of the first run that the parameters come from.

        For initial parameters, and for a checkpoint from outside the sweep, it is the
        seed of the vocabulary's run, or of this trial. For a pretraining it is its own,
        regardless of its vocabulary.
        """
        without_vocabulary = self.group == "pretraining"
        keys = ("train.init_from", "data.vocabulary")
        for key in keys[:1] if without_vocabulary else keys:
            if key in self.parents:
                return self.parents[key].pretraining_seed
        return self.config["seed"]

    @property
    def outside_start(self) -> str:
        """The checkpoint outside the sweep that its parameters come from.

        "": a run of the sweep made it.
        """
        if start := self.parents.get("train.init_from"):
            return start.outside_start
        return self.config["train.init_from"]

    def with_ancestors(self) -> Iterator["Trial"]:
        """The trial's ancestors, then the trial itself."""
        for parent in self.parents.values():
            yield from parent.with_ancestors()
        yield self

    @functools.cached_property
    def objective(self) -> Objective:
        """The objective that its config describes, without a teacher of the sweep."""
        prefixes = ("objective.", "data.length", "data.sentinels", "data.vocabulary")
        own = {k: v for k, v in self.config.items() if k.startswith(prefixes)}
        for key in self.parents:
            own.pop(key, None)
        return load_config(base.__file__, own).objective

    @property
    def gives_scores(self) -> bool:
        """Whether `palimpsest score` can score texts with its objective."""
        return bool(self.objective.score_methods)

    @property
    def done(self) -> bool:
        """Whether it has ended and has its result."""
        return exists(self.folder / "result.json")

    @property
    def diverged(self) -> bool:
        """Whether a loss or a parameter was not finite, in it or in an ancestor.

        Such a trial ends without a result.
        """
        if self.done:
            return False
        last = read_attempts(self.folder)[-1:]
        own = any(attempt.root_cause.exit_code == NON_FINITE for attempt in last)
        return own or any(parent.diverged for parent in self.parents.values())

    @property
    def result(self) -> dict[str, Any]:
        """The content of `result.json`.

        Raises:
          UserError: it is damaged, or was edited.
        """
        return read_result(self.folder)

    @property
    def opened_step(self) -> int:
        """The step of the checkpoint that opens a finished run.

        It is the best one, if the run has train.best_metric; else the last.

        Raises:
          UserError: as `result`.
        """
        result = self.result
        return result.get("best_step") or result["steps"]

    @property
    def pretraining(self) -> "Trial":
        """The trial that the parameters of a fine-tuning come from; else this one."""
        is_first = self.group == "pretraining"
        return self if is_first else self.parents.get("train.init_from", self)

    @functools.cached_property
    def knows_no_context(self) -> bool:
        """Whether a finished run has learnt little more than token frequencies."""
        entropy = self.result.get("token_entropy", 0.0)
        metrics, split = self.result["metrics"], self.config["data.eval_split"]
        return knows_no_context(metrics, self.objective, split, entropy)

    def check_result(self) -> None:
        """Checks that the result agrees with this trial's config and metrics.

        Raises:
          UserError: a value differs; the first is named.
        """
        path, result = self.folder / "result.json", self.result
        defaults = default_values(flatten(result["config"]))
        own, found = (
            defaults | fixed_keys(config) for config in (self.config, result["config"])
        )
        for key in self.parents:
            found[key] = epath.Path(found.get(key, "")).name
        for source, expected, got in (
            ("the trial's config", own, found),
            ("metrics.jsonl", latest_metrics(self.metrics), result["metrics"]),
        ):
            for key in sorted(expected.keys() | got.keys()):
                if not _same(expected.get(key), got.get(key)):
                    raise UserError(
                        f"{path} does not belong to {self.name}: {key} is "
                        f"{got.get(key)!r} there and {expected.get(key)!r} in "
                        f"{source}; delete it and start the sweep again"
                    )

    @property
    def metrics(self) -> list[dict[str, float]]:
        """The lines of `metrics.jsonl`, without a last line that is incomplete."""
        return read_metrics(self.folder)

    @property
    def progress(self) -> tuple[int, int]:
        """The last step that was logged, and the number of steps."""
        step = max((line["step"] for line in self.metrics), default=0)
        return step, self.config["train.steps"]

    @property
    def summary(self) -> str:
        """Evaluation loss and accuracy of the result, for one line of a log."""
        metrics, split = self.result["metrics"], self.config["data.eval_split"]
        names = [f"{split}/loss", f"{split}/accuracy"]
        values = [f"{name} {metrics[name]:.3f}" for name in names if name in metrics]
        return ", ".join(values) or "done"

    @property
    def command(self) -> list[str]:
        """The words of the command that runs it."""
        return ["python", "-m", "launch.train", *self.arguments]

    @property
    def arguments(self) -> list[str]:
        """The flags of `launch.train` for this trial."""
        folders = {key: str(trial.folder) for key, trial in self.parents.items()}
        given = self.overrides | self._own_start_keys()
        values = {key: _text(value) for key, value in given.items()} | folders
        return [
            f"--config={self.experiment}",
            f"--workdir={self.folder}",
            *(f"--config.{key}={value}" for key, value in values.items()),
        ]

    def _own_start_keys(self) -> dict[str, Any]:
        """The keys that are not those of the run it starts from.

        Its command would otherwise take them from there.
        """
        if (start := self.parents.get("train.init_from")) is None:
            return {}
        own = self.config
        return {
            key: own[key]
            for key, value in start_keys(start.config, str(start.folder)).items()
            if key not in self.parents and key in own and own[key] != value
        }


def _same(one: Any, other: Any) -> bool:
    """Whether the two are equal, or both NaN."""
    return one == other or (one != one and other != other)


def _text(value: Any) -> str:
    """A value as text, which `launch.config.load_config` converts back."""
    return value if isinstance(value, str) else json.dumps(value)
