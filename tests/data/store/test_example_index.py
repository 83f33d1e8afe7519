"""An index covers every token, and objectives with one stride start at the same."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.contract.batch import LONE
from research.contract.errors import UserError
from research.data.rows import UNITS, TextSpec
from research.data.store import example_index
from tests.testing import toy_objectives

shards = st.lists(
    st.lists(st.integers(0, 40), min_size=1, max_size=5), min_size=1, max_size=4
)


def times_read(stream, built):
    """How often each token of the stream is in an example."""
    times = np.zeros(stream.num_tokens, int)
    for start, length in zip(built.start, built.length, strict=True):
        times[start : start + length] += 1
    return times


@given(shards, st.integers(1, 50), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_windows_count_skipped_and_repeated_tokens(
    tmp_path_factory, sizes, length, stride
):
    stream = toy_objectives.Stream(sizes)
    cache = tmp_path_factory.mktemp("cache")
    built = example_index.build_index(stream, TextSpec("stream", length), stride, cache)
    times = times_read(stream, built)
    assert built.counts["skipped"] == (times == 0).sum()
    assert built.counts["repeated"] == np.maximum(times - 1, 0).sum()
    if stride <= length:
        assert (times > 0).all()
    if stride == 0:
        assert (times == 1).all()
    ends = built.start + built.length
    shard = np.searchsorted(stream.shard_offsets, built.start, side="right")
    assert (ends <= stream.shard_offsets[shard]).all()
    assert (built.length > 0).all()
    assert (built.label == -1).all()


@given(shards, st.integers(1, 30), st.integers(1, 50), st.integers(1, 50))
@settings(max_examples=20, deadline=None)
def test_with_one_stride_all_lengths_have_the_same_starts(
    tmp_path_factory, sizes, stride, one, other
):
    stream, cache = toy_objectives.Stream(sizes), tmp_path_factory.mktemp("cache")
    built = [
        example_index.build_index(stream, TextSpec("stream", length), stride, cache)
        for length in (one, other)
    ]
    np.testing.assert_array_equal(built[0].start, built[1].start)


@given(shards, st.integers(1, 50))
@settings(max_examples=20, deadline=None)
def test_documents_are_read_from_their_beginning(tmp_path_factory, sizes, length):
    stream, cache = toy_objectives.Stream(sizes), tmp_path_factory.mktemp("cache")
    built = example_index.build_index(stream, TextSpec("document", length), 0, cache)
    size = np.array([size for shard in sizes for size in shard])
    np.testing.assert_array_equal(built.length, np.minimum(length, size[size > 0]))
    np.testing.assert_array_equal(built.start, stream.document_offsets[:-1][size > 0])
    np.testing.assert_array_equal(built.label, stream.labels[size > 0])
    assert built.counts["skipped"] == np.maximum(size - length, 0).sum()
    assert built.counts["repeated"] == 0


@pytest.mark.parametrize(
    ("unit", "name", "value"),
    [
        ("stream", "start", -3),
        ("stream", "start", 20),  # across the end of a shard
        ("stream", "length", 0),
        ("document", "length", 2**31 - 1),
        ("document", "label", 2),
        ("halves", "second", 10**9),
        ("halves", "second_length", -1),
        ("halves", "label", LONE + 1),
        ("packed", "start", 66),
        ("packed", "length", 9),
        ("packed", "label", 0),
        ("packed", "piece_start", 20),
        ("packed", "piece_length", 9),
        ("packed", "piece_first", 1),
        ("packed", "piece_first", 99),
    ],
)
def test_spans_outside_the_stream_are_found_though_the_file_looks_unchanged(
    tmp_path, capsys, unit, name, value
):
    stream, spec = toy_objectives.Stream(((7, 5, 9), (1, 39))), TextSpec(unit, 8)
    expected = example_index.build_index(stream, spec, 0, tmp_path)
    expected = {key: np.array(getattr(expected, key)) for key in ("start", "length")}
    (file,) = tmp_path.glob(f"index/*/{name}.npy")
    before, array = file.stat(), np.load(file, mmap_mode="r+")
    array[2] = value
    array.flush()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = example_index.build_index(stream, spec, 0, tmp_path)
    assert f"{name}.npy" in capsys.readouterr().err
    for key, array in expected.items():
        np.testing.assert_array_equal(getattr(again, key), array)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"no array"])
def test_a_damaged_array_is_made_again(tmp_path, capsys, content):
    stream, spec = toy_objectives.Stream(), TextSpec("stream", 8)
    first = example_index.build_index(stream, spec, 0, tmp_path)
    start = np.array(first.start)
    (file,) = tmp_path.glob("index/*/start.npy")
    file.write_bytes(content)
    again = example_index.build_index(stream, spec, 0, tmp_path)
    assert "start.npy has" in capsys.readouterr().err
    np.testing.assert_array_equal(again.start, start)


def test_the_cache_is_read_and_its_key_holds_every_argument(tmp_path, monkeypatch):
    stream = toy_objectives.Stream()
    first = example_index.build_index(stream, TextSpec("stream", 8), 0, tmp_path)
    others = [
        example_index.build_index(stream, TextSpec("stream", 9), 0, tmp_path),
        example_index.build_index(stream, TextSpec("stream", 8), 4, tmp_path),
        example_index.build_index(stream, TextSpec("document", 8), 0, tmp_path),
        example_index.build_index(
            toy_objectives.Stream(seed=1), TextSpec("stream", 8), 0, tmp_path
        ),
    ]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 5
    monkeypatch.setattr(type(TextSpec("stream", 8)), "spans", None)
    again = example_index.build_index(stream, TextSpec("stream", 8), 0, tmp_path)
    np.testing.assert_array_equal(first.start, again.start)
    assert isinstance(again.start, np.memmap)


@pytest.mark.parametrize(
    "unit", [unit for unit in UNITS.names() if not TextSpec(unit, 8).takes_stride]
)
def test_only_windows_have_a_stride(tmp_path, unit):
    stream = toy_objectives.Stream()
    with pytest.raises(UserError, match=r"data\.stride is 4.*set data\.stride=0"):
        example_index.build_index(stream, TextSpec(unit, 8), 4, tmp_path)


def test_pieces_are_all_of_a_document_and_no_other(tmp_path):
    stream = toy_objectives.Stream()
    index = example_index.build_index(stream, TextSpec("pieces", 8), 0, tmp_path)
    offsets = stream.document_offsets
    document = np.searchsorted(offsets, index.start, side="right") - 1
    np.testing.assert_array_equal(index.label, stream.labels[document])
    for number, (first, last) in enumerate(itertools.pairwise(offsets)):
        start, length = (a[document == number] for a in (index.start, index.length))
        np.testing.assert_array_equal(start, np.arange(first, last - 1, 8))
        np.testing.assert_array_equal(
            start + length, [*start[1:], last - 1][: len(start)]
        )
    assert index.counts == dict.fromkeys(index.counts, 0)


def test_unknown_unit_is_refused(tmp_path):
    with pytest.raises(UserError, match="document"):
        example_index.build_index(
            toy_objectives.Stream(), TextSpec("documents", 8), 0, tmp_path
        )
