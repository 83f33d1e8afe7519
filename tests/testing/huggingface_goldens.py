"""Models of tests/goldens/huggingface as our networks, their inputs as our batch."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors.numpy import load_file

from research import networks, objectives
from research.checkpoints.checkpoint import path_name
from research.interop.huggingface import restore
from research.interop.huggingface.folder import CONFIG
from research.networks.transformer.encoder_decoder import EncoderDecoder
from research.networks.transformer.one_stack import Transformer
from research.use.inference.open_run import task_fields
from tests.testing.example_batches import vocab
from tests.testing.huggingface_outputs import OUTPUTS
from tests.testing.model_options import model_options

FOLDER = Path(__file__).parents[1] / "goldens" / "huggingface"
NAMES = tuple(sorted(path.name for path in FOLDER.iterdir()))
IGNORED = -100
PADDED = {"token/embedding", "output/embedding", "output/bias"}
"""Parameters that we pad to a multiple of 128 rows."""
UNUSED = {"transformer.mask_emb"}
"""Keys that a network without a query stream has no parameter for."""
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "old", "river", "stone")
PIECES += ("a", "small", "reads", "##s")
HEADS = {
    "BertForPreTraining": {"nsp": networks.HeadSpec(2, "tanh")},
    "AlbertForPreTraining": {"sop": networks.HeadSpec(2, "tanh")},
    "ElectraForPreTraining": {"replaced": 1},
}
"""Heads of pretraining; those of tasks are what their objectives need."""


class Golden(NamedTuple):
    """A model, and a function of our network that gives what Hugging Face gave."""

    model: restore.Model
    network: Any
    outputs: Any  # net -> loss, {name of Hugging Face's output: logits}
    golden: dict[str, np.ndarray]
    here: np.ndarray  # [B, L]: positions of which logits are compared
    boxed: Any  # shapes of the network's parameters, boxed with their logical axes


@cache
def load(name: str, **changes: Any) -> Golden:
    """The golden of a name; `changes` are model options, such as scan_unroll."""
    model = restore.open_model(FOLDER / name)
    golden = load_file(FOLDER / name / "golden.safetensors")
    inputs = {
        key.removeprefix("input/"): array
        for key, array in golden.items()
        if key.startswith("input/")
    }
    options = model_options(**(model.options | {"scan_unroll": 1} | changes))
    (architecture,) = model.config["architectures"]
    heads = HEADS.get(architecture, {})
    if task := restore.task_of(model):
        objective = objectives.make_objective(task, **task_fields(model, task))
        vocabulary = vocab()._replace(labels=restore.label_names(model))
        heads = objective.needs(vocabulary).heads
    size = model.config["vocab_size"]
    if not model.family.patterns:
        network = EncoderDecoder(options, size, heads=heads)
    else:
        pattern, transform = model.family.patterns[0], "MaskedLM" in architecture
        network = Transformer(
            options,
            size,
            pattern=pattern,
            transform=transform or "nsp" in heads or "sop" in heads,
            heads=heads,
        )
    outputs, here = OUTPUTS[_kind(architecture, model)](model, inputs)
    init = lambda: networks.init(network, outputs, jax.random.key(0))  # noqa: E731
    return Golden(model, network, outputs, golden, here, jax.eval_shape(init))


DECODER_START = {"bart": PIECES.index("[SEP]"), "marian": PIECES.index("[PAD]")}
"""In the vocabulary of `copy_with_vocabulary`, whose ids are not the golden's own."""


def copy_with_vocabulary(name: str, folder: Path) -> Path:
    """A copy of a golden in `folder`, with a vocabulary of as many pieces as rows."""
    shutil.copytree(FOLDER / name, folder / name)
    if name in DECODER_START:
        change_config(folder / name, decoder_start_token_id=DECODER_START[name])
    unused = [f"[unused{n}]" for n in range(99 - len(PIECES))]
    (folder / name / "vocab.txt").write_text("\n".join([*PIECES, *unused, ""]))
    of_bert = '{"tokenizer_class": "BertTokenizer"}'  # whatever the model's own is
    (folder / name / "tokenizer_config.json").write_text(of_bert)
    return folder / name


def change_config(folder: Path, **keys: Any) -> None:
    """Sets keys of a folder's config.json."""
    path = folder / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def params_of(golden: Golden, source: Any = None) -> Any:
    """The network's parameters, read from its folder, or tensors like those in it."""
    shapes = networks.unbox(golden.boxed)
    leaves = jax.tree_util.tree_flatten_with_path(shapes)[0]
    by_path = {path_name(path): leaf.shape for path, leaf in leaves}
    model = golden.model if source is None else golden.model._replace(tensors=source)
    found = restore.restore_network(model, by_path, 0)
    assert found.params.keys() == by_path.keys() and not found.num_rows.keys() - PADDED
    assert set(found.unused) <= UNUSED
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: found.params[path_name(path)], shapes
    )


def _kind(architecture, model):
    if "SequenceClassification" in architecture:
        return "labels"
    if architecture == "ElectraForPreTraining":
        return "replaced"
    if architecture.endswith("EncoderModel"):
        return "states"
    of_class = {
        "TokenClassification": "tags",
        "QuestionAnswering": "span",
        "MultipleChoice": "choice",
    }
    for words, kind in of_class.items():
        if architecture.endswith(words):
            return kind
    if not model.family.patterns:
        return "seq2seq"
    return {"full": "masked", "causal": "causal", "general": "permuted"}[
        model.family.patterns[0]
    ]
