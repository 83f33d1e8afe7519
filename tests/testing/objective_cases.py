"""Which objectives, with what fields and texts, the contract and laws are tested on."""

from typing import Any

import numpy as np
import pytest

from research import models, objectives
from research.batch import INPUT_ARRAYS, PARAGRAPH, SENTENCE, Example, input_group
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

OF = vocab(size=96, sentinels=40)
"""The vocabulary of these tests; its lexicon has entries that texts are full of."""

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "mlm": [
        {},
        {"unit": "word", "only": "corrupt"},
        {"unit": "ngram", "format": "segment_pair", "sentence": "sop"},
        {"unit": "span", "replace": "span", "rounding": "up", "boundary": 4},
        {
            "format": "sentence_pair",
            "sentence": "structural",
            "shuffle": 0.2,
            "only": "corrupt",
        },
        {"unit": "lexicon", "kinds": "phrase", "draw": "all", "only": "corrupt"},
        {"format": "segment_pair", "rounding": "random", "only": "corrupt"},
    ],
    "tlm": [{}, {"side": "one", "languages": "1:2", "only": "corrupt"}],
    "sentences": [
        {},
        {"relation": "distance", "only": "corrupt"},
        {"relation": "reorder"},
    ],
    "tagging": [{}, {"task": "capital", "only": "corrupt"}],
    "lm": [
        {},
        {"prefix": "random", "documents": "apart"},
        {"direction": "backward"},
        {"direction": "both", "documents": "apart"},
        {"memory": 8, "model": {"position": "relative"}},
    ],
    "plm": [
        {},
        {"parts": 1, "span": 0},
        {"format": "pair", "direction": "both"},
        {
            "memory": 20,
            "model": {"position": "relative", "token_type_encoding": "relative"},
        },
    ],
    "electra": [
        {},
        {"task": "chosen", "format": "segment_pair"},
        {"task": "replace_mlm", "tie": "all", "fraction": 1.0},
    ],
    "unilm": [{"model": {"token_types": 6}}],
    "dae": [
        {},
        {"rate": 0.5},
        {"choose": "iid", "mode": "X"},
        {"choose": "prefix", "fill": "drop"},
        {"choose": "iid", "fill": "bert", "target": "whole", "only": "corrupt"},
        {"choose": "all", "fill": "shuffle", "target": "whole", "only": "corrupt"},
    ],
    "bart": [
        {},
        {"delete": 0.2, "insert": 0.1, "rotate": 0.5, "random": 0.1},
        {"mask": 0.3, "infill": 0.0, "unit": "token", "only": "corrupt"},
    ],
    "mass": [{}, {"start": "edges", "first": "previous", "rate": 0.3}],
    "mix": [{}, {"of": "dae", "parts": {"a": {"rate": 0.5}, "b": {"share": 2.0}}}],
    "joint": [{"parts": {"mlm": {"unit": "word"}, "next": {"objective": "lm"}}}],
    "classify": [
        {},
        {"bos": "last"},
        {"architecture": "decoder"},
        {"architecture": "encdec"},
        {"pool": "mean"},
        {"architecture": "encdec", "pool": "mean"},
    ],
}
"""Fields that change what an objective makes; others are tested as they stand.

The key `model` holds options that a network of these fields needs. A variant whose key
`only` is "corrupt" is tested on the host alone, since its network is another's.
"""

ANSWERS = {
    "label": len(OF.labels),
    "discriminator": 2,
    "nsp": 2,
    "sop": 2,
    "structural": 3,
    "reorder": 1 + 2 + 6,
    "document": 2,
    "capital": 2,
    "entity": 2,
    "infonce": lambda weight: weight,
}
"""How many answers a term chooses from; the others: the vocabulary."""


def _name(name: str, fields: dict[str, Any]) -> str:
    return " ".join([name, *(f"{k}={v}" for k, v in fields.items() if k != "only")])


CASES = [
    pytest.param(name, fields, id=_name(name, fields))
    for name in objectives.names()
    for fields in VARIANTS.get(name, [{}])
]
every = pytest.mark.parametrize(("name", "fields"), CASES)
trained = pytest.mark.parametrize(
    ("name", "fields"), [c for c in CASES if c.values[1].get("only") != "corrupt"]
)


def load(name: str, fields: dict[str, Any]) -> Any:
    """The objective of a case."""
    own = {k: v for k, v in fields.items() if k not in ("model", "only")}
    return objectives.make_objective(name, **own)


def network(name: str, fields: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    """The objective of a case and a small network for it."""
    small = {"layers": 2, "width": 32, "heads": 2, "feedforward": 64}
    small |= {"max_length": 160, "token_types": 8} | options | fields.get("model", {})
    objective = load(name, fields)
    return objective, objective.network(model_options(**small), OF)


def example(objective: Any, length: int, num_raw, *, seed=0, separators=0.0) -> Example:
    """Texts of `num_raw` tokens for an objective: pairs, where it reads pairs."""
    reads = objective.text_spec(length)
    num_raw = np.minimum(num_raw, reads.length)
    made = texts(reads.length, num_raw, OF, seed=seed, separators=separators)
    rng = np.random.default_rng(seed + 1)
    cut = rng.integers(1, np.maximum(made.length, 2))
    flags = made.flags.copy()
    flags[(rng.random(flags.shape) < 0.1) & (flags > 0)] |= SENTENCE
    held = np.flatnonzero(made.length > 1)
    flags[held, cut[held]] |= SENTENCE | PARAGRAPH
    if reads.unit not in ("pair", "sentence_pair"):
        return made._replace(flags=flags)
    first = np.minimum(cut, made.length).astype(np.int32)
    odds = [
        1 - reads.other_document_rate - reads.nonadjacent_rate,
        reads.other_document_rate,
        reads.nonadjacent_rate,
    ]
    label = rng.choice(3, len(first), p=odds).astype(np.int32)
    return made._replace(first=first, label=label, flags=flags)


def various(objective: Any, length: int) -> list[int]:
    """Lengths of eight texts: full, empty, short."""
    raw = objective.text_spec(length).length
    return [raw, 0, raw, 1, raw // 2, 2, raw - 1, raw]


def make(objective: Any, length: int, num_raw=None, *, seed=0, separators=0.05):
    """An example and its batch; `num_raw`: tokens of each row, by default various."""
    if num_raw is None:
        num_raw = various(objective, length)
    text = example(objective, length, num_raw, seed=seed, separators=separators)
    return text, objective.corrupt(text, keys(len(num_raw)), OF, length)


def prefixes(batch: dict) -> list[str]:
    """Of the groups of a batch: "", "encoder_", ..."""
    names = [name.removesuffix("token") for name in batch if name.endswith("token")]
    return [p for p in names if all(p + name in batch for name in INPUT_ARRAYS)]


def groups(objective: Any, batch: dict) -> dict[str, tuple[dict, str]]:
    """Prefix -> the arrays of a network's input, and the pattern they promise."""

    def pattern(prefix: str) -> str:
        sides = {"encoder_": "full", "decoder_": "causal"}
        return next(
            (p for side, p in sides.items() if prefix.endswith(side)), objective.pattern
        )

    return {p: (input_group(batch, p), pattern(p)) for p in prefixes(batch)}


def weights(batch: dict) -> list[str]:
    """Names of the arrays that say what counts."""
    return [name for name in batch if name.endswith("weight")]


def carry(objective: Any, net: Any, params: Any, batch: dict, key: Any) -> Any:
    """The memory before the first step: zeros, or () where there is none."""
    return models.apply(
        net, params, lambda net: objective.loss(net, batch | {"carry": None}, key)
    )[1]
