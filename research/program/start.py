"""The run or the model whose parameters a run starts from, checked before it begins."""

from etils import epath

from research.checkpoints.checkpoint import FOLDER, finished_steps
from research.config.config import Config
from research.config.identity import CONFIG_FILE, flatten, read_run_config
from research.contract.errors import UserError
from research.files.existence import exists
from research.files.paths import user_path
from research.interop.huggingface import SOURCE
from research.interop.partial_restore import check_source
from research.program.position_buckets import check_buckets
from research.program.restored import check_unchanged
from research.program.setup import Program


def check_start(program: Program, config: Config, workdir: epath.Path) -> None:
    """Checks that a run that has not begun can start and learn.

    It starts from train.init_from, and learns from a teacher.

    Raises:
      UserError: the run or model does not exist, its vocabulary or the shape of a
        parameter differs, or its config.json was changed; the line names the `model`
        keys that differ. Also what `check_buckets` raises.
    """
    if any(finished_steps(workdir / FOLDER)):
        return
    if config.train.init_from:
        _check_source(program, config)
    check_buckets(program, config)


def _check_source(program: Program, config: Config) -> None:
    """`check_start` for the parameters and the config of train.init_from."""
    source, scope = config.train.init_from, config.train.init_scope
    params, facts = program.abstract_state.params, program.data.vocabulary_facts
    try:
        layers = config.train.init_layers
        folder = check_source(
            source,
            scope,
            params,
            layers=layers,
            of_vocabulary=program.of_vocabulary,
            **facts,
        )
    except UserError as error:
        raise UserError(f"{error}{_different_keys(source, config)}") from error
    if folder and exists(folder.parent.parent / CONFIG_FILE):
        check_unchanged(folder.parent.parent, folder)


def _different_keys(source: str, config: Config) -> str:
    """The network's keys that differ from another run's, for the end of an error."""
    path = epath.Path(user_path(source))
    runs = [p for p in (path, path.parent.parent) if exists(p / CONFIG_FILE)]
    if source.startswith(SOURCE) or not runs:
        return ""
    there = flatten({"model": read_run_config(runs[0])["model"]})
    here = flatten({"model": config.values["model"]})
    found = [
        f"; {key} is {there[key]} there and {value} here"
        for key, value in here.items()
        if key in there and there[key] != value and "dropout" not in key
    ]
    return "".join(found)
