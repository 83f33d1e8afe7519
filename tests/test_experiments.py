"""Every experiment loads at each of its sizes, has its docstring, and trains."""

import ast
import importlib
import itertools
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from launch.config import load_config
from research.config import base
from research.config.config import Config
from research.data.read.formats import by_suffix
from research.data.tokenize.train_tokenizer import WORD_TYPES
from research.distributed import sharding
from research.objectives.knowledge import graph
from research.program.setup import build_program, train_batches
from tests.testing.small_sources import small_sources
from tests.testing.tiny_runs import random_state, save_untrained

FOLDER = Path(__file__).parents[1] / "experiments"
NAMES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
WORDS = ("The", "a", "old", "small", "river", "stone", "reads", "sees", "and", "by")
TRAINED = ("albert", "electra", "t5", "xlnet")
"""Experiments that `make test` trains: layers that are shared, two networks, AdaFactor
and an encoder-decoder, mems. The laws have the others' objectives."""

each_experiment = pytest.mark.parametrize("name", NAMES)


def sizes(name) -> tuple[str, ...]:
    return getattr(importlib.import_module(f"experiments.{name}"), "SIZES", ("",))


def spec(name, size) -> str:
    path = FOLDER / f"{name}.py"
    return f"{path}:{size}" if size else str(path)


@each_experiment
def test_its_docstring_has_a_summary_and_the_command(name):
    module = ast.parse((FOLDER / f"{name}.py").read_text())
    docstring = ast.get_docstring(module)
    first = docstring.splitlines()[0]
    assert first.endswith(".") and len(first) <= 88
    assert f"palimpsest train --config=experiments/{name}.py" in docstring


@each_experiment
def test_it_loads_at_every_size(name):
    """With enough sentinels, unless its vocabulary is a file."""
    known = {"", *base.SIZES, f"{name}_small"}  # a paper's own small model
    assert set(sizes(name)) <= known
    for size in sizes(name):
        config = load_config(spec(name, size))
        needed = config.objective.num_sentinels(config.data.length)
        assert needed <= config.data.sentinels, size


@cache
def corpus(folder: Path) -> dict[str, str]:
    """Writes documents of two paragraphs and lexicons; returns the config keys."""
    draw = random.Random(0)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(3, 8))) + "."

    def document() -> str:
        paragraphs = (" ".join(sentence() for _ in range(4)) for _ in range(2))
        return "\n".join(paragraphs)

    labels = itertools.cycle(("river", "stone", "sea"))
    lines = (
        json.dumps({"text": document(), "label": next(labels)}) for _ in range(300)
    )
    (folder / "text.jsonl").write_text("\n".join(lines))
    entry_types = ("word", "phrase", "entity", "connective")
    entries = [f"{word}\t{entry_types[n % 4]}" for n, word in enumerate(WORDS)]
    entries += [
        f"{a} {b}\t{t}" for a, b, t in zip(WORDS, WORDS[3:], entry_types, strict=False)
    ]
    (folder / "lexicon.tsv").write_text("\n".join(entries))
    pairs = itertools.product(WORDS, WORDS)
    cells = [f"{a}\t{b}\t{1 + n % 7}" for n, (a, b) in enumerate(pairs)]
    (folder / "pairs.cooccurrences").write_text("\n".join(400 * cells))
    texts = [f"{a} {b}\t{b} {a}\n" for a, b in itertools.product(WORDS, WORDS)]
    (folder / "texts.tsv").write_text("".join(texts))
    triples = [f"{a}\tnear\t{b}" for a, b in itertools.product(WORDS[:5], WORDS[5:])]
    (folder / "graph.triples").write_text("\n".join(40 * triples))
    signs = itertools.cycle(("positive", "negative"))
    polar = [f"{word}\t{sign}" for word, sign in zip(WORDS, signs, strict=False)]
    (folder / "polar.tsv").write_text("\n".join(polar))
    links = [{"text": document(), "links": [[0, 3, 2]]} for _ in range(300)]
    (folder / "texts.linked").write_text("\n".join(map(json.dumps, links)))
    captions = [{"text": sentence(), "image": n % 40} for n in range(400)]
    (folder / "pictures.captioned").write_text("\n".join(map(json.dumps, captions)))
    tagged = [sentence().removesuffix(".").split() for _ in range(300)]
    lines = ["\n".join(f"{word} {word[0]}" for word in words) for words in tagged]
    (folder / "words.conll").write_text("\n\n".join(lines))
    return {
        "data.corpus": str(folder / "text.jsonl"),
        "data.cache_dir": str(folder / "cache"),
        "data.held_out": 0.1,
        "data.vocabulary": "unigram",
        "data.vocabulary_size": 384,
        "data.sentinels": 100,
        "data.length": 32,
        "model.layers": 1,
    }


def lexicon_of(lines: str) -> str:
    """The file that has such lines: triples, polarities, or else words and phrases."""
    if lines == graph.LINES:
        return "graph.triples"
    return "polar.tsv" if "<TAB>positive" in lines else "lexicon.tsv"


def read_by(config, folder: Path) -> dict[str, Any]:
    """Keys of a corpus in the format, or with the arrays, that an experiment reads.

    Vocabularies of words are those of all WORDS.
    """
    named, arrays = config.data.format, config.objective.text_spec(32).arrays
    vocabulary, keys = config.data.vocabulary, {}
    for file in folder.glob("*.*"):
        found = by_suffix()[file.suffix]
        is_named = type(found).__module__.endswith(f".{named}")
        if is_named or (arrays and {*arrays} <= {*found.arrays}):
            keys = {"data.corpus": str(file), "data.vocabulary_size": 380}
            if any(each.per == "part" for each in found.arrays.values()):
                vocabulary = "words"
    if vocabulary in WORD_TYPES:
        keys |= {"data.vocabulary": vocabulary, "data.sentinels": 0}
        num_relations = int(config.objective.lexicon_lines == graph.LINES)
        keys["data.vocabulary_size"] = 5 + len(WORDS) + num_relations
    return keys


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n not in TRAINED)) for n in NAMES],
)
def test_it_trains(name, folder):
    size = "tiny" if "tiny" in sizes(name) else ""
    settings = dict(corpus(folder))
    settings |= {"train.steps": 200, "train.batch": 8}
    plain = load_config(spec(name, size))
    objective = plain.objective
    settings |= small_sources(objective) | read_by(plain, folder)
    settings["data.lexicon"] = str(folder / lexicon_of(objective.lexicon_lines))
    if objective.predicts and objective.prompt:  # texts of two parts
        files = dict.fromkeys(("data.train", "data.valid"), str(folder / "texts.tsv"))
        settings |= {"data.fields": "0,1", **files}
    if plain.optimizer.layer_rates:
        del settings["model.layers"]  # a rate for each
        settings["optimizer.unfreeze_every"] = 0
    if plain.data.mixture:
        settings["data.mixture"] = {settings.pop("data.corpus"): 1.0}
    if hasattr(objective, "teacher"):
        source, keys = spec("bert", "tiny"), settings | {"model.layers": 2}
        if objective.predicts:  # with the head of the task
            source = spec(name, size)
            keys |= {"objective.name": objective.base_objective}
            keys |= {"train.init_layers": []}
        teacher = load_config(source, keys)
        workdir, *_ = save_untrained(folder / f"teacher_of_{name}", teacher)
        settings["objective.teacher"] = str(workdir)
    config = load_config(spec(name, size), settings)
    program = build_program(Config.of(config), jax.devices()[:1])
    sums = []
    with sharding.context(program.mesh):
        state = random_state(program)
        for batch in train_batches(program, 0, 2):
            before = jax.tree.map(np.asarray, state.params)
            state = program.step(state, batch, program.key_data())
            sums.append(jax.device_get(state.sums))
    changed = [
        np.any(np.asarray(old) != np.asarray(new))
        for old, new in zip(
            jax.tree.leaves(before), jax.tree.leaves(state.params), strict=True
        )
    ]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(sums))
    assert np.mean(changed) > 0.5
