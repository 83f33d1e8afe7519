"""Portions: what many processes make of a large corpus is what one makes of it."""

import fcntl
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
from research.data.corpora.files import join, load
from research.data.store import stream
from research.data.tokenizers import vocabulary

DATA = {"vocabulary": "bytebpe", "vocabulary_size": 400, "sentinels": 5, "alpha": 0.0}
FILES = 7

MAKE = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from research.data import work_shards
from research.data.corpora.files import load
from research.data.store import stream
from research.data.tokenizers import vocabulary

work_shards.PORTION, files, cache, data = 4000, *sys.argv[1:]
corpus = load(files, 0.2)
cache, data = Path(cache), SimpleNamespace(**json.loads(data))
known = vocabulary.load_or_train(data, corpus, cache)
for split in ("train", "valid"):
    stream.build(corpus, split, known, cache, "eos", 1000)
"""


@pytest.fixture
def files(tmp_path):
    """A folder of files with labels, which come up in another order in each file."""
    folder, rng = tmp_path / "text", np.random.default_rng(0)
    folder.mkdir()
    known = ["".join(rng.choice(list("abcdefgh"), 5)) for _ in range(200)]
    for n in range(FILES):
        lines = []
        for _ in range(40):
            words = rng.choice(known, rng.integers(1, 30))
            label = str(rng.choice(["x", "y", "z", "w"]))
            lines.append({"text": " ".join(words), "label": label} | {"n": n})
        text = "\n".join(map(json.dumps, lines))
        (folder / f"{n}.jsonl").write_text(text + "\n")
    return str(folder)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(work_shards, "PORTION", 4000)


def _make(files, cache, split="train"):
    corpus = load(files, 0.2)
    known = vocabulary.load_or_train(SimpleNamespace(**DATA), corpus, cache)
    return stream.build(corpus, split, known, cache, "eos", 1000)


def _bytes(cache):
    """Every file of a cache but the locks."""
    found = [path for path in sorted(cache.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(cache)): path.read_bytes()
        for path in found
        if path.suffix != ".lock"
    }


@given(st.lists(st.integers(0, 3 * work_shards.PORTION), max_size=20))
def test_groups_are_consecutive_and_no_larger_than_they_must_be(sizes):
    files = [
        SimpleNamespace(stat=lambda s=size: SimpleNamespace(st_size=s))
        for size in sizes
    ]
    groups = work_shards.group(files)
    assert [file for group in groups for file in group] == files
    for group in groups[:-1]:
        total = [file.stat().st_size for file in group]
        assert sum(total) >= work_shards.PORTION > sum(total[:-1])


def test_many_processes_make_what_one_makes(files, tmp_path, small):
    for split in ("train", "valid"):
        _make(files, tmp_path / "one", split)
    words = [sys.executable, "-c", MAKE, files, tmp_path / "many", json.dumps(DATA)]
    processes = [subprocess.Popen(list(map(str, words))) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    one, many = _bytes(tmp_path / "one"), _bytes(tmp_path / "many")
    assert one.keys() == many.keys()
    assert one == many
    assert not any("portion" in name for name in one)


def test_a_stream_of_portions_is_the_stream(files, tmp_path, monkeypatch):
    whole = _make(files, tmp_path / "whole")
    monkeypatch.setattr(work_shards, "PORTION", 4000)
    assert len(load(files, 0.2).portions) > 2
    parted = _make(files, tmp_path / "parted")
    assert whole.meta["made_of"] != parted.meta["made_of"]
    for field in ("num_tokens", "num_documents", "num_unknown", "separator_length"):
        assert getattr(whole, field) == getattr(parted, field)
    assert whole.label_names == parted.label_names and len(whole.label_names) == 4
    for field in ("labels", "document_offsets", "sentence_offsets"):
        assert np.array_equal(getattr(whole, field), getattr(parted, field))
    every = np.arange(whole.num_tokens)
    rows = [s.gather(every, np.ones_like(every), 1, 0) for s in (whole, parted)]
    for one, other in zip(*rows, strict=True):
        assert np.array_equal(one, other)


def test_a_portion_may_lack_a_split(files, tmp_path, small):
    lines = [json.dumps({"text": text}) for text in ("one", "one", "one")]
    (Path(files) / "5.jsonl").write_text("\n".join(lines * 200))  # of one split
    found = {split: _make(files, tmp_path, split) for split in ("train", "valid")}
    assert sum(s.num_documents for s in found.values()) >= 600


def test_what_another_process_makes_is_waited_for_last(files, tmp_path, small):
    reference = _make(files, tmp_path / "one")
    corpus, cache = load(files, 0.2), tmp_path / "many"
    known = vocabulary.load_or_train(SimpleNamespace(**DATA), corpus, cache)
    made_of = reference.meta["made_of"] | {"portion": 1}
    folder = cache / "stream-portion"
    folder.mkdir(parents=True)
    name = fingerprint(made_of)
    done = []
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker = threading.Thread(
            target=lambda: done.append(
                stream.build(corpus, "train", known, cache, "eos", 1000)
            )
        )
        worker.start()
        limit = time.monotonic() + 30
        while len(list(folder.glob("*/meta.json"))) < len(corpus.portions) - 1:
            assert time.monotonic() < limit
            time.sleep(0.01)
        assert not done and not (folder / name).exists()
    worker.join()
    assert done[0].meta == reference.meta


def test_joined_corpora_share_their_lines(files, tmp_path, small):
    corpora = [load(f"{files}/{part}.jsonl", 0.2) for part in ("[0-3]", "[4-6]")]
    both = join(corpora)
    data = SimpleNamespace(**DATA | {"alpha": 0.5})
    apart = vocabulary.load_or_train(data, both, tmp_path / "one")
    again = vocabulary.load_or_train(data, both, tmp_path / "two")
    assert apart.sha256 == again.sha256
    assert (tmp_path / "one" / "lines").is_dir()
