"""A run that is finished or under way: its objective, parameters and vocabulary."""

from typing import Any, NamedTuple

import jax
from etils import epath
from jax.sharding import Mesh

from research import models
from research.checkpoints.checkpoint import FOLDER
from research.checkpoints.partial_restore import newest_checkpoint, restore_params
from research.data.tokenizers.vocabulary import Vocabulary, load_vocabulary
from research.distributed import sharding
from research.errors import UserError
from research.run.setup import build_program, initial_state


class RestoredRun(NamedTuple):
    """What scores and predictions of a run's model need; no text is opened."""

    config: Any
    objective: Any
    network: Any  # unbound, see `research.models.apply`
    params: Any  # sharded over the mesh
    vocabulary: Vocabulary
    mesh: Mesh
    step: int  # of the checkpoint


def restore_run(config: Any, workdir: epath.PathLike, step: int = 0) -> RestoredRun:
    """The run of a workdir at a step, by default that of its newest checkpoint.

    Args:
      config: of the run, as its config.json has it.

    Raises:
      UserError: the vocabulary or the checkpoint is missing, or has other parameters.
    """
    workdir = epath.Path(workdir).expanduser()
    data = config.data
    vocabulary = load_vocabulary(workdir, data.sentinels, data.whitespace)
    source = newest_checkpoint(
        workdir / FOLDER / str(step) if step else workdir, "--workdir"
    )
    program = build_program(config, vocab=vocabulary.vocab)
    with sharding.context(program.mesh):
        initial = initial_state(program, config.seed).params
        params, missing = restore_params(
            str(source), "", initial, vocabulary=vocabulary.sha256
        )
    if missing:
        raise UserError(f"{source} has no parameters {', '.join(missing)}")
    network = program.objective.network(
        models.Options(**config.model), vocabulary.vocab
    )
    return RestoredRun(
        config,
        program.objective,
        network,
        jax.block_until_ready(params),
        vocabulary,
        program.mesh,
        int(source.name),
    )
