"""Columns of perplexities: each measures what its name says, or nothing."""

import math
import shutil
from types import SimpleNamespace

import pytest

from launch.reports.columns.perplexities import Columns
from launch.sweeps import sweep_plan
from research.contract.errors import UserError
from research.data.tokenize import vocabulary
from tests.testing import fake_sweep
from tests.testing.fake_corpus import corpus_of

MASKED_PERPLEXITY, WORD_PERPLEXITY, BITS_PER_BYTE = Columns.columns
WORDS = {"data.vocabulary": "words"}
BYTES = {"data.vocabulary": "bytebpe", "data.vocabulary_size": 261, "data.sentinels": 0}
MERGED = BYTES | {"data.vocabulary_size": 300}


@pytest.fixture
def trial(tmp_path):
    """trial(metrics, keys, own): a run; with `own`, one with the vocabulary of keys."""

    def make(metrics, keys, own=None):
        first = "experiments/lm.py", keys
        file = tmp_path / "sweep.py"
        items = [first]
        if own is not None:
            items.append(("experiments/lm.py", {"data.vocabulary": first, **own}))
        file.write_text(f"def sweep(scale):\n    return {items!r}\n")
        *_, last = sweep_plan.make_plan(str(file), tmp_path, scale="smoke", shared={})
        fake_sweep.write_run(last, metrics)
        return last

    return make


@pytest.mark.parametrize("own", [None, {"seed": 1}])
@pytest.mark.parametrize(
    ("column", "keys", "expected"),
    [
        (WORD_PERPLEXITY, WORDS, math.exp(3.0)),
        (BITS_PER_BYTE, BYTES, 3.0 / math.log(2)),
        (WORD_PERPLEXITY, BYTES, "predicts bytes, not words"),
        (BITS_PER_BYTE, WORDS, "predicts words, not bytes"),
        (BITS_PER_BYTE, MERGED, "predicts pieces of bytebpe"),
        (WORD_PERPLEXITY, {"data.vocabulary": "unigram"}, "predicts pieces of unigram"),
    ],
)
def test_words_and_bytes_are_those_of_the_vocabulary(
    trial, column, keys, own, expected
):
    one = trial({"valid/lm": 3.0}, keys, own)
    if isinstance(expected, float):
        assert column.value(one) == pytest.approx(expected)
    else:
        with pytest.raises(UserError, match=expected):
            column.value(one)


@pytest.mark.parametrize("size", [261, 270])
def test_tokens_of_a_vocabulary_file_are_those_of_the_runs_copy(trial, tmp_path, size):
    keys = {"vocabulary": "bytebpe", "vocabulary_size": size, "sentinels": 0}
    keys |= {"vocabulary_sample": 10**6, "whitespace": "auto", "normalizer": "none"}
    trained = vocabulary.load_or_train(
        SimpleNamespace(**keys, alpha=0.0),
        corpus_of(["what is read again"] * 40),
        tmp_path / "cache",
    )
    file = trained.save(tmp_path)
    one = trial({"valid/lm": 3.0}, {"data.vocabulary": str(file)})
    with pytest.raises(UserError, match="no such file"):
        BITS_PER_BYTE.value(one)
    shutil.copy(file, one.folder)
    if size == 261:
        assert BITS_PER_BYTE.value(one) == pytest.approx(3.0 / math.log(2))
    else:
        with pytest.raises(UserError, match="predicts pieces of bytebpe"):
            BITS_PER_BYTE.value(one)


def test_the_perplexity_of_masked_tokens_is_that_of_their_loss(trial):
    one = trial({"valid/mlm": 2.0}, {})
    assert MASKED_PERPLEXITY.value(one) == pytest.approx(math.exp(2.0))
