"""Restores a finished or stopped run for scores and predictions."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
from etils import epath
from jax.sharding import Mesh

from research import networks, objectives
from research.checkpoints.checkpoint import FOLDER, finished_steps
from research.config.config import Config
from research.config.identity import read_run_config
from research.contract.errors import UserError
from research.data.read.lexicon import load_lexicon
from research.data.tokenize.model_files import MODEL_FILES
from research.data.tokenize.vocabulary import Vocabulary, load_vocabulary
from research.distributed import sharding
from research.files.existence import is_file
from research.files.paths import user_path
from research.interop.partial_restore import (
    find_checkpoint,
    load_on_host,
    restore_params,
)
from research.program.constants import Constants
from research.program.setup import Program, build_program, initial_state
from research.record.workdir import config_digest


class RestoredRun(NamedTuple):
    """What scoring and prediction need from a run; its text is not opened."""

    config: Config
    objective: objectives.Objective
    network: networks.Module  # unbound, see `research.networks.apply`
    params: Any  # sharded over the mesh
    vocabulary: Vocabulary
    mesh: Mesh
    step: int  # the checkpoint's step
    facts: Mapping[str, Any] = MappingProxyType({})  # the checkpoint's

    def input_constants(
        self, objective: objectives.Objective, needs: networks.Needs
    ) -> dict[str, Any]:
        """The argument of `Objective.read_constants`.

        That is the constants if positions have vectors in addition to tokens, else {}.

        Args:
          objective: the run's, or one of its parts.
          needs: its `networks.Needs`.
        """
        if not needs.input_features:
            return {}
        specs = objective.constants(self.vocabulary.vocab)
        return Constants(specs, self.mesh, self.vocabulary.facts).arrays


def restore_run(config: Config, workdir: epath.PathLike, step: int = 0) -> RestoredRun:
    """Restores the run of a workdir at a step, by default that of `find_checkpoint`.

    Args:
      config: the run's config, from its config.json.

    Raises:
      UserError: the vocabulary or the checkpoint is missing, or has other parameters.
    """
    workdir = epath.Path(user_path(workdir))
    vocabulary = run_vocabulary(workdir, config.values["data"])
    program = build_program(config, vocab=vocabulary.vocab)
    params, step, facts = run_params(
        program, workdir, step, seed=config.seed, vocabulary=vocabulary.sha256
    )
    return RestoredRun(
        config,
        program.objective,
        program.network,
        jax.block_until_ready(params),
        vocabulary,
        program.mesh,
        step,
        facts,
    )


def run_vocabulary(workdir: epath.Path, data: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary that a run saved; `data` is that section of its config.

    It has the entries of data.lexicon if that file still exists. Objectives whose heads
    or negatives are entries need them (wklm; sentences with task discourse).

    Raises:
      UserError: there is none, as for a user's seqio task or saved batches.
    """
    if data["task"] and not any(is_file(workdir / name) for name in MODEL_FILES):
        raise UserError(
            f"{workdir} has no vocabulary to read and write texts: a run does not save "
            f"that of data.task={data['task']}; palimpsest evaluate works without it"
        )
    vocabulary = load_vocabulary(workdir, data["sentinels"], data["whitespace"])
    texts = data.get("lexicon_texts", "")
    named = [*data["lexicon"].split(","), *filter(None, [texts])]
    if not all(Path(user_path(name)).is_file() for name in named):
        return vocabulary
    entries = load_lexicon(data["lexicon"], vocabulary, texts)
    vocab = vocabulary.vocab._replace(lexicon=entries)
    return dataclasses.replace(vocabulary, vocab=vocab)


def run_checkpoint(
    workdir: epath.PathLike, step: int = 0
) -> tuple[epath.Path, dict[str, Any]]:
    """The folder and the facts of a run's checkpoint.

    Args:
      step: the checkpoint's; 0: that of `find_checkpoint`.

    Raises:
      UserError: none can be read, or config.json has changed since.
    """
    workdir = epath.Path(user_path(workdir))
    read_run_config(workdir)  # before the checkpoints: the folder may not be a run
    source = workdir / FOLDER / str(step) if step else workdir
    if step and step not in (steps := [*finished_steps(workdir / FOLDER)]):
        raise UserError(
            f"--step={step}: {workdir} has checkpoints of the steps "
            f"{', '.join(map(str, sorted(steps))) or 'none'}"
        )
    folder = find_checkpoint(source, "--workdir")
    return folder, check_unchanged(workdir, folder)


def check_unchanged(workdir: epath.Path, folder: epath.Path) -> dict[str, Any]:
    """The facts of a checkpoint, after checking that its config is its run's.

    Raises:
      UserError: config.json has changed since, or is damaged.
    """
    config, facts = read_run_config(workdir), load_on_host(folder, "facts")["facts"]
    if facts["config"] != config_digest(config):
        raise UserError(
            f"{workdir}/config.json was changed after the run wrote it: it is not the "
            f"config of {folder}; bring it back"
        )
    return facts


def run_params(
    program: Program, workdir: epath.Path, step: int, *, seed: int, vocabulary: str
) -> tuple[Any, int, dict[str, Any]]:
    """The parameters of a run, their step, and the checkpoint's facts.

    The parameters are sharded as the program's.

    Args:
      step: the checkpoint's step; 0: that of `find_checkpoint`.
      vocabulary: the vocabulary's hash.

    Raises:
      UserError: the checkpoint is missing, or has other parameters.
    """
    source, facts = run_checkpoint(workdir, step)
    with sharding.context(program.mesh):
        initial = initial_state(program, seed).params
        params, missing = restore_params(
            str(source), "", initial, vocabulary=vocabulary
        )
    if missing:
        raise UserError(f"{source} has no parameters {', '.join(missing)}")
    return params, int(source.name), facts
