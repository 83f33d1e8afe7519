"""T5's distance buckets: a run has those of its start and its teacher."""

from collections.abc import Collection
from typing import Any, NamedTuple

import jax
from etils import epath

from research import networks, objectives
from research.checkpoints.checkpoint import path_name
from research.config.config import Config
from research.config.identity import CONFIG_FILE, read_run_config
from research.contract.batch import CONSTANTS
from research.contract.errors import UserError
from research.files.existence import exists
from research.files.paths import user_path
from research.interop.huggingface import SOURCE, restore
from research.interop.partial_restore import IN_ONE_STACK, find_checkpoint, saved_shapes
from research.networks.transformer import transformer
from research.networks.transformer.options import STACK_PATTERNS
from research.program.setup import Program


class Biases(NamedTuple):
    """The T5 position biases of a network."""

    options: Any
    pattern: str  # of a network of one stack
    names: Collection[str]  # of all parameters

    @property
    def tables(self) -> list[str]:
        """The names of the tables, which have one row per bucket."""
        scheme = getattr(self.options, "bias_scheme", None)
        has_buckets = scheme is not None and scheme.buckets(self.pattern)
        return [n for n in self.names if has_buckets and n.endswith("/relative")]

    def buckets(self, table: str) -> str:
        """The value of `model.position_buckets` for a table."""
        pattern = STACK_PATTERNS.get(table.split("/")[-2], self.pattern)
        return self.options.bias_scheme.buckets(pattern)


def check_buckets(program: Program, config: Config) -> None:
    """Checks the T5 bias tables that come from other runs or models.

    Raises:
      UserError: the buckets of a table have other distances there.
    """
    pattern = program.objective.pattern
    names = _names(program.abstract_state.params)
    own = Biases(program.network.options, pattern, names)
    _check(config.train.init_from, config.train.init_scope, own, "train.init_from")
    constants = program.constants.abstract.get(CONSTANTS, {})
    section = config.values["objective"]
    if "teacher_model" in section and "teacher" in constants:
        keys = {"network": "transformer", **dict(section["teacher_model"])}
        names = _names(constants["teacher"])
        teacher = Biases(networks.from_config(keys), pattern, names)
        _check(section["teacher"], "", teacher, "objective.teacher")


def _check(source: str, scope: str, own: Biases, key: str) -> None:
    if not (source and own.tables and (there := _biases_of(source, scope, key))):
        return
    section = "model" if key == "train.init_from" else f"{key}_model"
    for name in own.tables:
        in_one_stack = f"{IN_ONE_STACK.get(name.split('/')[0])}/relative"
        found = [n for n in (name, in_one_stack) if n in there.tables]
        if found and (buckets := there.buckets(found[0])) != own.buckets(name):
            raise UserError(
                f"{key}={source}: the buckets of {name} are {buckets} there and "
                f"{own.buckets(name)} here; {section} needs position_buckets {buckets}"
            )


def _biases_of(source: str, scope: str, key: str) -> Biases | None:
    """The T5 biases of a run or hf: model; None if it has none."""
    if source.startswith(SOURCE):
        folder = restore.find_folder(source)
        if (folder / restore.DISCRIMINATOR).is_dir():  # ELECTRA
            return None
        model = restore.open_model(folder)
        names = [path for row in model.family.rows() for path in row.paths]
        options = transformer.Network(**model.options)
        return Biases(options, "".join(model.family.patterns[:1]), names)
    path = epath.Path(user_path(source))
    runs = [p for p in (path, path.parent.parent) if exists(p / CONFIG_FILE)]
    if not runs:
        return None
    content = read_run_config(runs[0])
    pattern = objectives.make_objective(**content["objective"]).pattern
    shapes = saved_shapes(find_checkpoint(source, key), scope, source)
    return Biases(networks.from_config(content["model"]), pattern, _names(shapes))


def _names(tree: Any) -> list[str]:
    return [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
