"""Words that training reads: as `str.split` counts them, whatever the vocabulary."""

import json

import jax
import numpy as np
import pytest

from research.checkpoints.checkpoint import finished_steps
from research.contract.errors import PreemptedError, UserError
from research.program import words_seen
from research.program.compiled_phases import build_phases
from tests.testing.tiny_runs import (
    StoppingPeers,
    loop,
    tiny_config,
    train,
    write_corpus,
)

TEXT = "the old river, by a stone. “Naïve” cats don't – 3.5 % of  them\nsleep!\n\n"
TEXT += "日本。語 x\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_corpus(tmp_path_factory.mktemp("words"))
    (folder / "mixed.txt").write_text(TEXT * 40, encoding="utf-8")
    return folder


def files(folder):
    name = str(folder / "mixed.txt")
    return {"data.corpus": name, "data.train": name, "data.valid": name}


@pytest.mark.parametrize(
    "vocabulary, size, whitespace, objective",
    [
        ("unigram", 300, "auto", "lm"),
        ("bpe", 300, "auto", "mlm"),
        ("bytebpe", 300, "collapse", "plm"),
    ],
)
def test_rows_of_one_pass_have_the_words_of_the_text(
    folder, vocabulary, size, whitespace, objective
):
    keys = {"data.vocabulary": vocabulary, "data.vocabulary_size": size}
    keys |= {
        "data.whitespace": whitespace,
        "data.sentinels": 0,
        "train.batch": 1,
        "train.eval_every": 0,
    }
    config = tiny_config(folder, objective, **files(folder), **keys)
    program, phases = build_phases(config, jax.devices()[:1])
    examples = program.data.train.num_examples
    two_passes = [phases[0]._replace(stop=2 * examples)]
    seen = words_seen.words_seen(two_passes)
    words = len((TEXT * 40).split())
    assert (seen[examples - 1], seen[-1]) == (words, 2 * words)


@pytest.mark.parametrize(
    "keys, problem",
    [
        (
            {"data.vocabulary": "wordpiece", "data.vocabulary_size": 160},
            "wordpiece; set",
        ),
        ({"data.vocabulary": "bytebpe"}, "data.whitespace is keep; set"),
        ({"train.max_words": 300}, "12 steps read 591 words; set train.steps=6 (299)"),
    ],
)
def test_what_cannot_be_counted_or_is_too_much(folder, keys, problem):
    keys = {"data.vocabulary_size": 384, "train.checkpoint_words": [100]} | keys
    config = tiny_config(folder, **keys, **{"train.batch": 4})
    with pytest.raises(UserError) as error:
        words_seen.make_plan(build_phases(config, jax.devices()[:1])[1], config.train)
    assert problem in str(error.value)


def test_steps_are_the_nearest_and_the_end_may_be_a_little_short():
    seen = np.array([40, 90, 150, 199])
    wanted = [45, 80, 121, 200, 202]
    assert words_seen.steps_of_words(seen, wanted) == {45: 1, 80: 2, 121: 3, 200: 4}


@pytest.mark.long
def test_a_restart_saves_the_same_checkpoints_and_keeps_them(folder, tmp_path):
    keys = {"train.keep_checkpoints": 1, "train.checkpoint_words": [500, 1500, 2430]}
    config = tiny_config(folder, **keys)
    train(config, tmp_path / "whole")
    with pytest.raises(PreemptedError):
        loop.train(
            config,
            tmp_path / "stopped",
            devices=jax.devices()[:1],
            peers=StoppingPeers(6),
        )
    train(config, tmp_path / "stopped")
    plan = json.loads((tmp_path / "whole" / "words.json").read_text())
    steps = [entry["step"] for entry in plan["checkpoints"]]
    assert len(steps) == 3
    assert all(
        abs(entry["seen"] - entry["words"]) < 300 for entry in plan["checkpoints"]
    )
    for name in ("whole", "stopped"):
        assert json.loads((tmp_path / name / "words.json").read_text()) == plan
        kept = {*finished_steps(tmp_path / name / "checkpoints")}
        assert kept == {*steps, 12}
    lines = map(json.loads, (tmp_path / "whole/metrics.jsonl").read_text().splitlines())
    assert max(line.get("words_seen", 0) for line in lines) == plan["seen"]
