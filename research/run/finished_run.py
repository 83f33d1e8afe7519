"""A run that is read again: its config, and its networks with their parameters."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from etils import epath

from research import models, objectives
from research.checkpoints.checkpoint import load_on_host, path_name
from research.checkpoints.huggingface.export import Network
from research.checkpoints.huggingface.restore import DISCRIMINATOR, GENERATOR
from research.data.tokenizers.vocabulary import Vocabulary, load_vocabulary
from research.errors import UserError
from research.run.json_files import read_json

BY_TOKENIZER = {
    "bytebpe": ("roberta",),
    "unigram": ("xlm-roberta",),
    "bpe": ("xlm-roberta",),
}
"""Of families with the same network, the one whose tokenizers are of this type."""
SHARED_WITH_GENERATOR = {
    "none": (),
    "token": ("token/",),
    "embedding": ("token/", "place/"),
    "all": ("token/", "place/", "stack/"),
}
"""The discriminator's parameters that are the generator's too, by `objective.tie`."""


class FinishedRun(NamedTuple):
    """A checkpoint of a run, on the host."""

    networks: dict[str, Network]  # by the part of ELECTRA; "": the only one
    vocabulary: Vocabulary
    facts: dict[str, Any]  # that were saved with the checkpoint


def read_config(workdir: epath.Path) -> dict[str, Any]:
    """The config of a run.

    Raises:
      UserError: the folder is no run.
    """
    if not (workdir / "config.json").exists():
        raise UserError(f"--workdir={workdir} is no run: it has no config.json")
    return read_json(workdir / "config.json", "train the run again")


def load_run(
    workdir: epath.Path, config: Mapping[str, Any], checkpoint: epath.Path
) -> FinishedRun:
    """The networks of a checkpoint.

    Raises:
      UserError: the network is of two directions, or the vocabulary is missing.
    """
    saved = load_on_host(checkpoint, "params", "facts")
    leaves = jax.tree_util.tree_flatten_with_path(saved["params"])[0]
    params = {path_name(path): np.asarray(leaf) for path, leaf in leaves}
    data = config["data"]
    vocabulary = load_vocabulary(workdir, data["sentinels"], data["whitespace"])
    found = networks(config, params, vocabulary)
    return FinishedRun(found, vocabulary, saved["facts"])


def networks(
    config: Mapping[str, Any], params: Mapping[str, np.ndarray], vocabulary: Vocabulary
) -> dict[str, Network]:
    """The networks of a run: ELECTRA's two by their names, or one, named "".

    Raises:
      UserError: the network is of two directions, or of another version's options.
    """
    try:
        options = models.Options(**config["model"])
    except TypeError as error:  # a key too few or too many
        raise UserError(
            f"the run is of another version of this project: {error}"
        ) from error
    objective = objectives.make_objective(**config["objective"])
    by_type = BY_TOKENIZER.get(vocabulary.tokenizer_type, ())

    def part(name: str) -> dict[str, np.ndarray]:
        start = f"{name}/"
        return {
            path.removeprefix(start): array
            for path, array in params.items()
            if path.startswith(start)
        }

    if any(path.startswith("forward/") for path in params):
        raise UserError(
            "a network of two directions (objective.direction both) is neither "
            "exported nor opened: Hugging Face has no such architecture"
        )
    if not any(path.startswith(f"{DISCRIMINATOR}/") for path in params):
        is_pair = any(path.startswith("encoder/") for path in params)
        prefers = ("bert",) if "answer_nsp/out/kernel" in params else by_type
        pattern = "" if is_pair else objective.pattern
        return {"": Network(options, params, pattern, vocabulary.vocab, prefers)}
    discriminator, generator = part(DISCRIMINATOR), part(GENERATOR)
    tied = SHARED_WITH_GENERATOR[objective.tie]
    generator |= {p: x for p, x in discriminator.items() if tied and p.startswith(tied)}
    narrow = options
    if objective.tie != "all":
        narrow = models.generator_options(options, objective.generator_size)
    rest = "full", vocabulary.vocab, ("electra",)
    return {
        DISCRIMINATOR: Network(options, discriminator, *rest),
        GENERATOR: Network(narrow, generator, *rest),
    }
