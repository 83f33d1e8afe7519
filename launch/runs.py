"""Runs from Python: train one, read its metrics, draw curves, open its model.

    import palimpsest

    run = palimpsest.train("experiments/mlm.py", "runs/mine", {"train.steps": 200})
    print(run.result["metrics"], run.metrics()[-1])
    palimpsest.curves([run, palimpsest.Run("runs/other")])
    run.open().fill(["The old [MASK] is a stone."])

`palimpsest` has these names; a command and a function of the same name do the same.
"""

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etils import epath

from research.contract.errors import UserError, short_traceback
from research.files.existence import exists

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from research.use.inference.language_model import LanguageModel


@dataclasses.dataclass(frozen=True)
class Run:
    """The folder of a run, which may still be in progress.

    Raises:
      UserError: there is no run in the folder.
    """

    workdir: str

    def __post_init__(self):
        from research.config.identity import CONFIG_FILE, no_run
        from research.files.paths import user_path

        user_path(self.workdir)  # raises if it is not a path
        if not exists(epath.Path(self.workdir) / CONFIG_FILE):
            raise no_run(self.workdir)

    @property
    def config(self) -> dict[str, Any]:
        """Section -> key -> value: the content of config.json."""
        from research.config.identity import read_run_config

        return read_run_config(epath.Path(self.workdir))

    @property
    def result(self) -> dict[str, Any]:
        """The content of result.json, e.g. `metrics`; {} while the run is training."""
        from research.record.workdir import read_result

        workdir = epath.Path(self.workdir)
        return read_result(workdir) if exists(workdir / "result.json") else {}

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl so far: `step`, and values by name."""
        from research.record.metric_writer import read_metrics

        return read_metrics(self.workdir)

    def open(self, **options: Any) -> "LanguageModel":
        """The model of its newest or best checkpoint; `options` as of `open_run`."""
        from research.use.inference.open_run import open_run

        return open_run(self.workdir, **options)


@dataclasses.dataclass(frozen=True)
class Shown:
    """Rows before and after corruption; a notebook shows them in colour."""

    name: str
    rows: Sequence[Any]  # of `launch.reports.row_views.Row`

    def __repr__(self) -> str:
        from launch.reports import row_views

        rows = [row_views.as_text(row, colours=False) for row in self.rows]
        meanings = row_views.meanings(self.rows).items()
        summary = [
            *row_views.hidden_lines(self.rows),
            *(f"{state}: {meaning}" for state, meaning in meanings),
            *row_views.signs(self.rows),
        ]
        return "\n\n".join([*rows, "\n".join(summary)]).rstrip()

    def _repr_html_(self) -> str:
        from launch.reports.row_views import as_html

        page = html.escape(as_html(self.name, "", self.rows))
        style = "width: 100%; height: 30em; border: 0"
        return f'<iframe srcdoc="{page}" style="{style}"></iframe>'


@short_traceback
def show(
    config: str,
    overrides: Mapping[str, Any] | None = None,
    *,
    rows: int = 2,
    **keys: Any,
) -> Shown:
    """Rows of the evaluation text as `palimpsest show` has them.

    Args:
      config, overrides, keys: as in `train`.

    Raises:
      UserError: a key or a value is wrong, or the text is too short for a row.
    """
    from launch.commands.show import shown_rows
    from launch.config import load_config

    resolved = load_config(config, dict(overrides or {}) | keys)
    return Shown(resolved.objective_name, shown_rows(resolved, rows))


@short_traceback
def train(
    config: str,
    workdir: epath.PathLike,
    overrides: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Run:
    """Trains an experiment to its last step, as `palimpsest train` does.

    The same call resumes a run that was stopped; it does not change a finished run.

    Args:
      config: "experiments/bert.py" or "experiments/bert.py:base".
      workdir: the folder of the run.
      overrides, keys: config key -> value, e.g. {"train.steps": 200} or
        **{"train.steps": 200}.

    Raises:
      UserError: a key, a value or the workdir is wrong.
      NonFiniteError: the loss is infinite or not a number.
    """
    from launch.config import load_config

    if not isinstance(config, str):
        raise UserError(f"config must be the path of an experiment; got {config!r:.60}")
    if overrides is not None and not isinstance(overrides, Mapping):
        raise UserError(f"overrides must be key -> value; got {overrides!r:.60}")
    changes = dict(overrides or {}) | keys
    resolved = load_config(config, changes, workdir=workdir)
    # After the config: a wrong key is reported without waiting for imports.
    from launch.run_summary import print_summary
    from research.program.setup import use_compilation_cache
    from research.train import train as train_config

    use_compilation_cache(resolved.data.cache_dir)
    result = train_config(resolved, workdir)
    print_summary(str(workdir), result, resolved)
    return Run(str(workdir))


@short_traceback
def curves(
    runs: Sequence[Run | epath.PathLike],
    metric: str = "valid/loss",
    over: str = "tokens",
    panels: str = "objectives",
) -> "Figure":
    """A figure of a metric of runs over their cost, as `palimpsest curves` draws it.

    Args:
      metric: a name in metrics.jsonl, or several separated by commas: for each run the
        first that it has is drawn.
      over: "steps", "tokens", "flops" or "time".
      panels: "objectives": one for each objective, task and metric; "one": for all.

    Raises:
      UserError: a run is missing or has no such metric, or its cost is not known.
    """
    from launch.commands.curves import AXES, PANELS, in_axis_unit, read_curves
    from launch.reports.figures import overlaid_figure
    from research.contract.errors import unknown

    if isinstance(runs, (str, Run)):
        raise UserError(f"runs must be a list; for one run write [{runs!r}]")
    if over not in AXES:
        raise unknown("over", over, AXES)
    if panels not in PANELS:
        raise unknown("panels", panels, PANELS)
    paths = [run.workdir if isinstance(run, Run) else str(run) for run in runs]
    if not paths:
        raise UserError("runs is empty; give one or more")
    return overlaid_figure(
        *in_axis_unit(read_curves(paths, metric, over, panels), over)
    )
