"""Work shards: many processes build the same cache of a large corpus as one."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.data import work_shards
from research.data.cache import fingerprint
from research.data.read.corpus import join_corpora
from research.data.source.build import load_corpus
from research.data.store import stream
from research.data.tokenize import vocabulary
from research.distributed.file_lock import file_lock

DATA = {"vocabulary": "bytebpe", "vocabulary_size": 400, "sentinels": 5, "alpha": 0.0}
DATA |= {"vocabulary_sample": 2**23, "whitespace": "auto", "normalizer": "none"}
NUM_FILES = 7

BUILD = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from research.data import work_shards
from research.data.source.build import load_corpus
from research.data.store import stream
from research.data.tokenize import vocabulary

work_shards.MIN_SHARD_BYTES, files, cache, data = 4000, *sys.argv[1:]
corpus = load_corpus(files, 0.2)
cache, data = Path(cache), SimpleNamespace(**json.loads(data))
trained = vocabulary.load_or_train(data, corpus, cache)
for split in ("train", "valid"):
    stream.build_stream(corpus, split, trained, cache, "eos", 1000)
"""


@pytest.fixture
def files(tmp_path):
    """A folder of files with labels, whose order differs from file to file."""
    folder, rng = tmp_path / "text", np.random.default_rng(0)
    folder.mkdir()
    words = ["".join(rng.choice(list("abcdefgh"), 5)) for _ in range(200)]
    for n in range(NUM_FILES):
        lines = []
        for _ in range(40):
            chosen = rng.choice(words, rng.integers(1, 30))
            label = str(rng.choice(["x", "y", "z", "w"]))
            lines.append({"text": " ".join(chosen), "label": label} | {"n": n})
        text = "\n".join(map(json.dumps, lines))
        (folder / f"{n}.jsonl").write_text(text + "\n")
    return str(folder)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(work_shards, "MIN_SHARD_BYTES", 4000)


def _build(files, cache, split="train"):
    corpus = load_corpus(files, 0.2)
    trained = vocabulary.load_or_train(SimpleNamespace(**DATA), corpus, cache)
    return stream.build_stream(corpus, split, trained, cache, "eos", 1000)


def _bytes(cache):
    """The content of every file of a cache except for locks and a machine's checks."""
    found = [path for path in sorted(cache.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(cache)): path.read_bytes()
        for path in found
        if path.suffix not in (".lock", ".checked")
    }


@given(st.lists(st.integers(0, 3 * work_shards.MIN_SHARD_BYTES), max_size=20))
def test_groups_are_consecutive_and_as_small_as_possible(sizes):
    files = [
        SimpleNamespace(stat=lambda s=size: SimpleNamespace(st_size=s))
        for size in sizes
    ]
    groups = work_shards.group_files([(file,) for file in files])
    assert [file for group in groups for (file,) in group] == files
    for group in groups[:-1]:
        total = [file.stat().st_size for (file,) in group]
        assert sum(total) >= work_shards.MIN_SHARD_BYTES > sum(total[:-1])


def test_many_processes_build_the_same_cache_as_one(files, tmp_path, small_shards):
    for split in ("train", "valid"):
        _build(files, tmp_path / "one", split)
    words = [sys.executable, "-c", BUILD, files, tmp_path / "many", json.dumps(DATA)]
    processes = [subprocess.Popen(list(map(str, words))) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    one, many = _bytes(tmp_path / "one"), _bytes(tmp_path / "many")
    assert one.keys() == many.keys()
    assert one == many
    assert not any("-shard" in name for name in one)


def test_a_stream_joined_from_work_shards_is_the_same_stream(
    files, tmp_path, monkeypatch
):
    single = _build(files, tmp_path / "single")
    monkeypatch.setattr(work_shards, "MIN_SHARD_BYTES", 4000)
    assert len(load_corpus(files, 0.2).work_shards) > 2
    joined = _build(files, tmp_path / "joined")
    assert single.meta["cache_key"] != joined.meta["cache_key"]
    for field in ("num_tokens", "num_documents", "num_unknown", "separator_length"):
        assert getattr(single, field) == getattr(joined, field)
    assert single.label_names == joined.label_names and len(single.label_names) == 4
    for field in ("labels", "document_offsets", "sentence_offsets"):
        assert np.array_equal(getattr(single, field), getattr(joined, field))
    every = np.arange(single.num_tokens)
    rows = [s.gather(every, np.ones_like(every), 1, 0) for s in (single, joined)]
    for one, other in zip(*rows, strict=True):
        assert np.array_equal(one, other)


def test_a_work_shard_may_lack_a_split(files, tmp_path, small_shards):
    lines = [json.dumps({"text": text}) for text in ("one", "one", "one")]
    (Path(files) / "5.jsonl").write_text("\n".join(lines * 200))  # of one split
    found = {split: _build(files, tmp_path, split) for split in ("train", "valid")}
    assert sum(s.num_documents for s in found.values()) >= 600


def test_a_work_shard_of_another_process_is_waited_for_last(
    files, tmp_path, small_shards
):
    reference = _build(files, tmp_path / "one")
    corpus, cache = load_corpus(files, 0.2), tmp_path / "many"
    trained = vocabulary.load_or_train(SimpleNamespace(**DATA), corpus, cache)
    key = reference.meta["cache_key"] | {"portion": 1}
    folder = cache / "stream-shard"
    folder.mkdir(parents=True)
    name = fingerprint(key)
    done = []
    with file_lock(folder / f"{name}.lock"):
        worker = threading.Thread(
            target=lambda: done.append(
                stream.build_stream(corpus, "train", trained, cache, "eos", 1000)
            )
        )
        worker.start()
        deadline = time.monotonic() + 30
        while len(list(folder.glob("*/meta.json"))) < len(corpus.work_shards) - 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not done and not (folder / name).exists()
    worker.join()
    assert done[0].meta == reference.meta


def test_joined_corpora_are_sampled_by_work_shard(files, tmp_path, small_shards):
    corpora = [load_corpus(f"{files}/{part}.jsonl", 0.2) for part in ("[0-3]", "[4-6]")]
    both = join_corpora(corpora)
    data = SimpleNamespace(**DATA | {"alpha": 0.5})
    first = vocabulary.load_or_train(data, both, tmp_path / "one")
    again = vocabulary.load_or_train(data, both, tmp_path / "two")
    assert first.sha256 == again.sha256
    assert (tmp_path / "one" / "lines").is_dir()
