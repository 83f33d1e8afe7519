"""Saved batches equal those made from the text."""

import json

import numpy as np
import pytest
from etils import epath

from research.contract.errors import UserError
from research.data.read.corpus import SPLITS
from research.data.source import saved_batches
from tests.testing import small_data, toy_objectives
from tests.testing.toy_objectives import assert_same_batch, concatenate


@pytest.fixture(params=["mlm", "dae"])
def saved(request, tmp_path):
    """The `Data` of a config; the config that reads the saved batches; their folder."""
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)
    config = small_data.config(corpus, tmp_path / "cache", request.param)
    config.train.steps = 40
    config.data.lexicon = small_data.write_lexicon(tmp_path)
    data, objective = small_data.open_small(config)
    folder = epath.Path(tmp_path / "batches")
    small_data.save_with(config, objective, data, folder, 40)
    config.data.task = str(folder)
    config.data.corpus = str(tmp_path / "no text here")
    config.data.cache_dir = str(tmp_path / "no cache here")
    return data, config, folder


def test_saved_batches_equal_those_of_the_text(saved):
    data, config, _ = saved
    read, _ = small_data.open_small(config)
    assert read.fingerprint == data.fingerprint
    assert read.train.num_examples == data.train.num_examples
    assert read.counts == data.counts
    for step in (0, 39, 7):
        assert_same_batch(data.train.batch(step), read.train.batch(step))
    rows = slice(2, 6)
    pairs = zip(
        data.train.batches(3, rows, 40), read.train.batches(3, rows, 40), strict=True
    )
    for one, two in pairs:
        assert_same_batch(one, two)
    for one, two in zip(data.eval.evaluation(), read.eval.evaluation(), strict=True):
        assert_same_batch(one, two)


def test_vocab_info_is_restored(saved):
    data, config, _ = saved
    vocab = small_data.open_small(config)[0].vocab
    original = data.vocab._replace(pieces=None)  # batches are not corrupted again
    pairs = [(vocab, original), (vocab.lexicon, original.lexicon)]
    for restored, original in pairs:
        for name, value in original._asdict().items():
            assert type(getattr(restored, name)) is type(value)
            if name != "lexicon":
                np.testing.assert_array_equal(getattr(restored, name), value)
    assert vocab.lexicon.token.dtype == np.int32


@pytest.mark.parametrize("batch", [4, 12, 20])
def test_any_batch_size_can_be_read(saved, batch):
    data, config, _ = saved
    config.train.batch, config.train.steps = batch, 320 // batch
    read, _ = small_data.open_small(config)
    rows = concatenate(data.train.batch(step) for step in range(40))
    num = 320 // batch * batch
    assert_same_batch(
        {name: array[:num] for name, array in rows.items()},
        concatenate(read.train.batches(0, None, 320 // batch)),
    )
    num = data.eval.num_examples
    whole = [concatenate(p.eval.evaluation()) for p in (data, read)]
    assert_same_batch(
        *({name: rows[:num] for name, rows in batch.items()} for batch in whole)
    )


def test_an_error_names_the_key_that_differs(saved):
    _, config, _ = saved
    for key, value in (
        ("seed", 1),
        ("train.steps", 41),
        ("data.length", 16),
        ("data.dupe_factor", 2),
        ("data.packing", "best_fit"),
        ("data.pairs", "each_copy"),
        ("data.eval_split", "test"),
        ("data.train_split", "valid"),
    ):
        other = config.copy_and_resolve_references()
        section, _, name = key.rpartition(".")
        (other[section] if section else other)[name] = value
        with pytest.raises(UserError, match=key):
            small_data.open_small(other)


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_in_files_beside_the_folder_is_refused(saved, split):
    """The folder has its own, so these would be read by nothing."""
    _, config, _ = saved
    config.data[split] = "texts.tsv"
    with pytest.raises(UserError, match=rf"data\.task and data\.{split} name two"):
        small_data.open_small(config)


def test_batches_of_a_mixture_of_objectives_are_saved(tmp_path):
    """Its parts are a section of the config."""
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)
    config = small_data.config(corpus, tmp_path / "cache")
    parts = {"few": {"rate": 0.1}, "many": {"rate": 0.4, "mixing_rate": 3.0}}
    config.objective = {"name": "mix", "parts": parts}
    data, objective = small_data.open_small(config)
    folder = epath.Path(tmp_path / "batches")
    small_data.save_with(config, objective, data, folder, 20)
    config.data.task = str(folder)
    read, _ = small_data.open_small(config)
    assert_same_batch(data.train.batch(7), read.train.batch(7))
    config.objective.parts.many.mixing_rate = 2.0
    with pytest.raises(UserError, match=r"objective\.parts="):
        small_data.open_small(config)


def test_more_rows_than_were_saved_are_refused(saved):
    read, _ = small_data.open_small(saved[1])
    with pytest.raises(UserError, match="holds 320 rows"):
        read.train.batch(40)


def test_contiguous_streams_keep_their_batch_size(tmp_path, monkeypatch):
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)
    config = small_data.config(corpus, tmp_path / "cache")
    config.data.stride = 0
    objective = toy_objectives.Objective(contiguous=True)
    data = small_data.open_with(config, objective)
    folder = epath.Path(tmp_path / "batches")
    small_data.save_with(config, objective, data, folder, 20)
    config.data.task = str(folder)
    read = small_data.open_with(config, objective)
    assert read.eval.num_examples == data.eval.num_examples
    assert_same_batch(data.train.batch(7), read.train.batch(7))
    for one, two in zip(data.eval.evaluation(), read.eval.evaluation(), strict=True):
        assert_same_batch(one, two)
    config.train.batch, config.train.steps = 4, 20
    with pytest.raises(UserError, match=r"train\.batch=8, not 4"):
        small_data.open_with(config, objective)


@pytest.mark.parametrize(
    ("timed", "mixing", "words"),
    [(True, "rows", "reads the training step"), (False, "batches", "of one corpus")],
)
def test_a_step_keeps_its_rows_where_these_depend_on_it(tmp_path, timed, mixing, words):
    """Schedules would have another speed, and batches rows of two corpora."""
    names = ("one", "two")
    corpora = {small_data.write_corpus(tmp_path, name, seed=1): 1.0 for name in names}
    config = small_data.config(corpora, tmp_path / "cache")
    config.data.mixing = mixing
    objective = toy_objectives.Objective(timed=timed)
    folder = epath.Path(tmp_path / "batches")
    small_data.save_with(
        config, objective, small_data.open_with(config, objective), folder, 20
    )
    config.data.task = str(folder)
    assert small_data.open_with(config, objective).train.batch(19)
    config.train.batch, config.train.steps = 4, 40
    with pytest.raises(UserError, match=rf"{words}.*set train\.batch=8, not 4"):
        small_data.open_with(config, objective)


def test_an_incomplete_folder_is_refused(saved):
    _, config, folder = saved
    (folder / saved_batches.META_FILE).unlink()
    with pytest.raises(UserError, match=r"data\.task"):
        small_data.open_small(config)


@pytest.mark.parametrize("file", ["batches.json", "train-000000.npz", "empty.npz"])
def test_a_damaged_file_is_named(tmp_path, file):
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)
    config = small_data.config(corpus, tmp_path / "cache")
    data, objective = small_data.open_small(config)
    folder = epath.Path(tmp_path / "batches")
    small_data.save_with(config, objective, data, folder, config.train.steps)
    config.data.task, path = str(folder), folder / file
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(b"320") if file.endswith("json") else len(whole) // 2] ^= 1
    others = [whole[:-9], b"", b"[]", b"7", b"{}", b"[" * 99_999, b"\xff\0", flipped]
    for content in others:
        path.write_bytes(bytes(content))
        with pytest.raises(UserError, match=f"{file} is damaged .*prepare --batches"):
            small_data.open_with(config, objective).train.batch(0)


def test_the_meta_file_is_json(saved):
    meta = json.loads((saved[2] / saved_batches.META_FILE).read_text())
    assert meta["rows"]["train"] == 320
