"""Opens a finished run, or a model of Hugging Face's layout, to use it from Python."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from research import models, objectives
from research.batch import INPUT_ARRAYS
from research.checkpoints.checkpoint import path_name
from research.checkpoints.huggingface import restore
from research.checkpoints.huggingface.export import Network
from research.checkpoints.partial_restore import newest_checkpoint
from research.data.tokenizers.vocabulary import Vocabulary, load_vocabulary
from research.errors import UserError
from research.run.export import tokenizer_layout
from research.run.finished_run import load_run, read_config
from research.run.language_model import LanguageModel

UNTRAINED = {
    "max_length": 512,
    "cutoffs": (),
    "cutoff_divisor": 1,
    "dtype": "float32",
    "attention": "dense",
    "remat": "none",
    "scan_unroll": 1,
}
"""Options that a folder of Hugging Face's layout says nothing of."""
NUM_SENTINELS = 100
"""T5's, behind its pieces."""
READOUT = ("output/", "query_embedding/")
"""How the paths of parameters begin that a model without a readout lacks."""


def open_run(source: epath.PathLike) -> LanguageModel:
    """A trained model, ready to be used on texts.

    Of ELECTRA it is the discriminator.

    Args:
      source: the workdir of a run, whose newest checkpoint is opened, or hf:DIR, a
        folder in Hugging Face's layout with its tokenizer.

    Raises:
      UserError: there is no run or model, or it is not one that can be opened.
    """
    if str(source).startswith(restore.SOURCE):
        return _open_folder(str(source))
    workdir = epath.Path(source).expanduser()
    config = read_config(workdir)
    objective = objectives.make_objective(**config["objective"])
    if getattr(objective, "direction", "") == "backward":
        raise UserError(f"{workdir}: a network that reads backward is not opened")
    checkpoint = newest_checkpoint(workdir, "--workdir")
    run = load_run(workdir, config, checkpoint)
    network = run.networks.get(restore.DISCRIMINATOR) or run.networks[""]
    return _language_model(network, run.vocabulary, config["data"]["length"])


def _open_folder(source: str) -> LanguageModel:
    """The model of `hf:DIR`."""
    path = restore.find_folder(source)
    if (path / restore.DISCRIMINATOR).is_dir():
        path = path / restore.DISCRIMINATOR
    model = restore.open_model(path)
    if not restore.has_vocabulary(path):
        raise UserError(f"{path} has no tokenizer; put its tokenizer.json there")
    is_t5 = model.family.model_type == "t5"
    vocabulary = load_vocabulary(path, NUM_SENTINELS if is_t5 else 0)
    options = models.Options(**UNTRAINED | model.options)
    pattern = model.family.patterns[0] if model.family.patterns else ""
    size = model.config["vocab_size"]
    has_transform = "transform" in model.family.readout
    shapes = _shapes(make_module(options, size, pattern, transform=has_transform))
    num_pieces = len(vocabulary.model.pieces)
    found = restore.restore_network(model, shapes, num_pieces).params
    missing = [
        name for name in shapes if name not in found and not name.startswith(READOUT)
    ]
    if missing:
        raise UserError(f"{path} has no parameters {', '.join(missing)}")
    network = Network(options, found, pattern, vocabulary.vocab)
    return _language_model(network, vocabulary, options.max_length, size)


def _language_model(
    network: Network, vocabulary: Vocabulary, max_length: int, size: int = 0
) -> LanguageModel:
    """Args: size: of the table's rows that are tokens; 0: the vocabulary's."""
    has_transform = "output/dense/kernel" in network.params
    module = make_module(
        network.options,
        size or vocabulary.vocab.size,
        network.pattern,
        transform=has_transform,
    )
    params = jax.tree.map(jnp.asarray, _as_tree(network.params))
    layout = tokenizer_layout(network)
    return LanguageModel(module, params, vocabulary, layout, max_length)


def make_module(
    options: models.Options, size: int, pattern: str, *, transform: bool
) -> Any:
    """The network without heads; `pattern` is "" for an encoder-decoder."""
    if not pattern:
        return models.EncoderDecoder(options, size)
    return models.Transformer(options, size, pattern=pattern, transform=transform)


def _shapes(module: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters of a network and its readout, by their paths."""
    zero = {name: jnp.zeros((1, 2), jnp.int32) for name in INPUT_ARRAYS}

    def use(net: Any) -> Any:
        if isinstance(module, models.EncoderDecoder):
            return net.readout(net.states(zero, net.encode(zero)))
        has_queries = module.pattern == "general"
        return net.readout(net.states(zero, num_keys=1 if has_queries else None))

    boxed = jax.eval_shape(lambda: models.init(module, use, jax.random.key(0)))
    leaves = jax.tree_util.tree_flatten_with_path(models.unbox(boxed))[0]
    return {path_name(path): leaf.shape for path, leaf in leaves}


def _as_tree(params: dict[str, np.ndarray]) -> dict[str, Any]:
    """Nested dicts of parameters that are named by their paths."""
    tree: dict[str, Any] = {}
    for path, array in params.items():
        *parts, name = path.split("/")
        branch = tree
        for part in parts:
            branch = branch.setdefault(part, {})
        branch[name] = array
    return tree
