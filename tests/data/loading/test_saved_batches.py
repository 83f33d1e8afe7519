"""Batches that were written ahead are those that text would give."""

import json

import numpy as np
import pytest
from etils import epath

from research.data.loading import saved_batches
from research.data.pipeline import open_data
from research.errors import UserError
from tests.testing import small_data, toy_objectives
from tests.testing.toy_objectives import join, same


@pytest.fixture(params=["mlm", "dae"])
def ahead(request, tmp_path):
    """The data of a config; the config that reads it from batches; their folder."""
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)
    config = small_data.config(corpus, tmp_path / "cache", request.param)
    config.train.steps = 40
    config.data.lexicon = small_data.write_lexicon(tmp_path)
    data, _ = small_data.open_small(config)
    folder = epath.Path(tmp_path / "batches")
    saved_batches.write(config, data, folder, 40)
    config.data.task = str(folder)
    config.data.corpus = str(tmp_path / "no text here")
    config.data.cache_dir = str(tmp_path / "no cache here")
    return data, config, folder


def test_batches_are_those_of_the_text(ahead):
    data, config, _ = ahead
    read, _ = small_data.open_small(config)
    assert read.fingerprint == data.fingerprint
    assert read.train.num_examples == data.train.num_examples
    assert read.counts == data.counts
    for step in (0, 39, 7):
        same(data.train.batch(step), read.train.batch(step))
    rows = slice(2, 6)
    pairs = zip(
        data.train.batches(3, rows, 40), read.train.batches(3, rows, 40), strict=True
    )
    for one, two in pairs:
        same(one, two)
    for one, two in zip(data.eval.evaluation(), read.eval.evaluation(), strict=True):
        same(one, two)


def test_symbols_come_back(ahead):
    data, config, _ = ahead
    vocab = small_data.open_small(config)[0].vocab
    pairs = [(vocab, data.vocab), (vocab.lexicon, data.vocab.lexicon)]
    for ours, theirs in pairs:
        for name, value in theirs._asdict().items():
            assert type(getattr(ours, name)) is type(value)
            if name != "lexicon":
                np.testing.assert_array_equal(getattr(ours, name), value)
    assert vocab.lexicon.token.dtype == np.int32


@pytest.mark.parametrize("batch", [4, 12, 20])
def test_any_batch_size_can_be_read(ahead, batch):
    data, config, _ = ahead
    config.train.batch, config.train.steps = batch, 320 // batch
    read, _ = small_data.open_small(config)
    rows = join(data.train.batch(step) for step in range(40))
    num = 320 // batch * batch
    same(
        {name: array[:num] for name, array in rows.items()},
        join(read.train.batches(0, None, 320 // batch)),
    )
    num = data.eval.num_examples
    whole = [join(p.eval.evaluation()) for p in (data, read)]
    same(*({name: rows[:num] for name, rows in batch.items()} for batch in whole))


def test_another_run_is_refused_by_the_key_that_differs(ahead):
    _, config, _ = ahead
    for key, value in (
        ("seed", 1),
        ("train.steps", 41),
        ("data.length", 16),
        ("data.dupe_factor", 2),
    ):
        other = config.copy_and_resolve_references()
        section, _, name = key.rpartition(".")
        (other[section] if section else other)[name] = value
        with pytest.raises(UserError, match=key):
            small_data.open_small(other)


def test_more_rows_than_were_written_are_refused(ahead):
    read, _ = small_data.open_small(ahead[1])
    with pytest.raises(UserError, match="holds 320 rows"):
        read.train.batch(40)


def test_streams_keep_their_batch_size(tmp_path, monkeypatch):
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)
    config = small_data.config(corpus, tmp_path / "cache")
    config.data.stride = 0
    objective = toy_objectives.Objective(contiguous=True)
    data = open_data(config, objective)
    folder = epath.Path(tmp_path / "batches")
    saved_batches.write(config, data, folder, 20)
    config.data.task = str(folder)
    read = open_data(config, objective)
    assert read.eval.num_examples == data.eval.num_examples
    same(data.train.batch(7), read.train.batch(7))
    for one, two in zip(data.eval.evaluation(), read.eval.evaluation(), strict=True):
        same(one, two)
    config.train.batch, config.train.steps = 4, 20
    with pytest.raises(UserError, match=r"train\.batch=8, not 4"):
        open_data(config, objective)


def test_a_folder_that_is_not_whole_is_no_task(ahead):
    _, config, folder = ahead
    (folder / saved_batches.META).unlink()
    with pytest.raises(UserError, match=r"data\.task"):
        small_data.open_small(config)


def test_its_meta_is_plain_json(ahead):
    meta = json.loads((ahead[2] / saved_batches.META).read_text())
    assert meta["rows"]["train"] == 320
