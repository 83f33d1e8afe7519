"""Untrained runs of tasks, with their rows and predictions, to be exported."""

import random
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.config.config import Config
from research.program.setup import build_program, eval_batches
from tests.testing.tiny_runs import WORDS, save_untrained, tiny_config

LABELS = ("no", "yes", "perhaps")
LAYOUT = {"norm_placement": "post", "position": "learned", "token_types": 2}
NO_TYPES = LAYOUT | {"token_types": 0}
CLASSIFIER = {"name": "sequence_classification"}
CASES = {  # name -> objective, model, suffix of the file, class of Hugging Face
    "pairs": (CLASSIFIER, LAYOUT, "pairs", "BertForSequenceClassification"),
    "numbers": (
        CLASSIFIER | {"task": "regression", "label_scale": 5.0},
        LAYOUT,
        "numbers",
        "BertForSequenceClassification",
    ),
    "without_types": (
        CLASSIFIER | {"format": "roberta"},
        NO_TYPES,
        "pairs",
        "BertForSequenceClassification",
    ),
    "gelu": (
        CLASSIFIER | {"head": "gelu"},
        LAYOUT,
        "pairs",
        "ElectraForSequenceClassification",
    ),
    "xlnet": (
        CLASSIFIER | {"format": "xlnet"},
        {
            "norm_placement": "post",
            "embedding_norm": "never",
            "position": "relative",
            "token_type_encoding": "relative",
            "token_types": 3,
            "output_head": "bias",
        },
        "pairs",
        "XLNetForSequenceClassification",
    ),
    "bart": (
        CLASSIFIER | {"format": "bart"},
        NO_TYPES | {"norm_epsilon": 1e-5},
        "pairs",
        "BartForSequenceClassification",
    ),
    "tags": (
        {"name": "token_classification"},
        LAYOUT,
        "conll",
        "BertForTokenClassification",
    ),
}


class Exportable(NamedTuple):
    """A run, and what it computes."""

    workdir: Any
    parts: list[tuple[str, ...]]  # the texts of each example; of tags, its words
    rows: list[list[int]]  # token ids without padding
    token_types: list[list[int]]
    values: list[np.ndarray]  # logits or predicted tags of each row


def make(name: str, folder: Any) -> Exportable:
    """The run of a case, in `folder`."""
    objective, model, suffix, _ = CASES[name]
    parts, files = write_examples(folder, suffix)
    settings = {f"objective.{key}": value for key, value in objective.items()}
    settings |= {f"model.{key}": value for key, value in model.items()}
    settings |= files | {
        "data.vocabulary": str(folder / "vocab.txt"),
        "model.max_length": 48,
        "data.sentinels": 0,
    }
    settings["optimizer.warmup_steps"] = 2
    config = tiny_config(folder, "finetune", **settings)
    workdir, state, _ = save_untrained(folder / name, config)
    program = build_program(Config.of(config), jax.devices()[:1])
    params = jax.tree.map(jnp.asarray, state.params)
    rows, token_types, values = [], [], []
    for batch in eval_batches(program):
        predict = partial(program.objective.predictions, batch=batch)
        found = jax.jit(partial(networks.apply, program.network, fn=predict))(params)
        prefix = "encoder_" if f"{objective.get('format')}" == "bart" else ""
        lengths = (np.asarray(batch[f"{prefix}segment"]) > 0).sum(axis=1)
        value = np.asarray(found["tag" if suffix == "conll" else "logits"])
        for row, length in enumerate(lengths):
            if length:
                of_row = (np.asarray(batch[f"{prefix}{k}"])[row] for k in INPUTS)
                token, token_type = (array[:length].tolist() for array in of_row)
                rows.append(token)
                token_types.append(token_type)
                values.append(value[row])
    return Exportable(workdir, parts, rows, token_types, values)


INPUTS = ("token", "token_type")


def write_examples(folder: Any, suffix: str) -> tuple[list[tuple[str, ...]], dict]:
    """Texts in a file, and the keys of `data` that read it."""
    draw, lines, parts = random.Random(0), [], []
    for number in range(24):
        one, two = (draw.choices(WORDS, k=draw.randint(2, 6)) for _ in "ab")
        if suffix == "conll":
            parts.append(tuple(one))
            lines += [f"{word} {draw.choice(LABELS)}" for word in one] + [""]
            continue
        label = LABELS[number % 3] if suffix == "pairs" else str(number % 6)
        parts.append((" ".join(one), " ".join(two)))
        lines.append("\t".join([*parts[-1], label]))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join([*pieces, ""]))
    path = folder / f"{suffix}.{'conll' if suffix == 'conll' else 'tsv'}"
    head = [] if suffix == "conll" else ["one\ttwo\tlabel"]
    path.write_text("\n".join(head + lines) + "\n")
    columns = {} if suffix == "conll" else {"fields": "one,two", "label": "label"}
    keys = {"train": str(path), "valid": str(path)} | columns
    return parts, {f"data.{key}": value for key, value in keys.items()}
