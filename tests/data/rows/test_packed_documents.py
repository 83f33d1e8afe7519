"""All text is in one packed row each, and rows are those of best-fit decreasing."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research import objectives
from research.contract.batch import DOCUMENT, PIECE, piece_columns
from research.contract.errors import UserError
from research.data.rows import TextSpec
from research.data.rows.packing.documents import best_fit_decreasing
from research.data.store import example_index
from research.objectives.combined.packed_rows import PackedRows
from tests.testing import toy_objectives

shards = st.lists(
    st.lists(st.integers(0, 90), min_size=1, max_size=9), min_size=1, max_size=4
).filter(lambda sizes: any(map(any, sizes)))


def build(stream, length, cache):
    return example_index.build_index(stream, TextSpec("packed", length), 0, cache)


def rows_of(built):
    """The (start, length) of all pieces of each row."""
    start, length, first = map(np.asarray, built.pieces)
    return [
        list(zip(start[a:b].tolist(), length[a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(first)
    ]


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(0, 20))
@settings(max_examples=200, deadline=None)
def test_rows_are_those_of_best_fit_decreasing_piece_by_piece(sizes, more):
    capacity = max(sizes, default=1) + more
    rooms, expected = [], {}
    for item in sorted(range(len(sizes)), key=lambda item: -sizes[item]):
        fitting = [row for row, room in enumerate(rooms) if room >= sizes[item]]
        row = min(fitting, key=lambda row: (rooms[row], row), default=len(rooms))
        if row == len(rooms):
            rooms.append(capacity)
        rooms[row] -= sizes[item]
        expected[item] = row
    found = best_fit_decreasing(np.array(sizes, np.int64), capacity)
    assert found.tolist() == [expected[item] for item in range(len(sizes))]


@given(shards, st.integers(1, 60), st.sampled_from([0, 1]))
@settings(max_examples=80, deadline=None)
def test_each_token_is_in_one_row_and_no_row_is_too_full(
    tmp_path_factory, sizes, length, separator
):
    stream = toy_objectives.Stream(sizes)
    if not separator:
        stream.separator_length = 0  # what was a separator is the document's last token
        stream.fingerprint += "-joined"
    built = build(stream, length, tmp_path_factory.mktemp("cache"))
    times = np.zeros(stream.num_tokens, int)
    documents, capacity = stream.document_offsets, piece_columns(length, length)
    for row in rows_of(built):
        columns = 0
        for start, size in row:
            times[start : start + size] += 1
            document = np.searchsorted(documents, start, side="right") - 1
            begin, text_end = documents[document], documents[document + 1] - separator
            is_last = start + size == text_end + separator
            text = size - separator * is_last
            assert (start - begin) % length == 0  # only full pieces are before it
            assert text == min(length, text_end - start)
            columns += piece_columns(text, length)
        assert columns <= capacity
    separators = documents[1:] - 1 if separator else np.zeros(0, int)
    is_text = np.ones(stream.num_tokens, bool)
    is_text[separators] = False
    assert (times[is_text] == 1).all()
    read = np.diff(documents) > separator  # documents with text
    assert (times[~is_text] == read[: len(separators)]).all()
    text_sizes = np.diff(documents) - separator
    counts = {"skipped": 0, "repeated": 0, "truncated": 0}
    assert built.counts == counts | {"cut": (text_sizes > length).sum()}


@given(shards)
@settings(max_examples=20, deadline=None)
def test_rows_and_their_pieces_are_in_the_order_of_the_text(tmp_path_factory, sizes):
    built = build(toy_objectives.Stream(sizes), 60, tmp_path_factory.mktemp("cache"))
    rows = rows_of(built)
    assert rows == sorted(sorted(row) for row in rows)
    assert built.start.tolist() == [row[0][0] for row in rows]
    assert built.length.tolist() == [sum(size for _, size in row) for row in rows]


def test_a_row_is_read_piece_by_piece_across_shards(tmp_path):
    stream = toy_objectives.Stream(((7, 5, 9), (0, 100, 30)))
    stream.flags &= ~np.uint8(DOCUMENT)
    built = build(stream, 90, tmp_path)
    number, width = np.arange(len(built.start))[::-1], TextSpec("packed", 90).width
    found = built.read(number, width, 0)
    for n, pieces in enumerate(rows_of(built)[::-1]):
        token = np.concatenate([stream.token[s : s + size] for s, size in pieces])
        flags = np.concatenate([stream.flags[s : s + size] for s, size in pieces])
        begin = np.cumsum([0, *(size for _, size in pieces)])
        flags[begin[:-1]] |= PIECE
        assert found["length"][n] == found["first_length"][n] == len(token) <= width
        np.testing.assert_array_equal(found["token"][n, : len(token)], token)
        np.testing.assert_array_equal(found["flags"][n, : len(token)], flags)
        assert not found["token"][n, len(token) :].any()
        assert not found["flags"][n, len(token) :].any()
        first = np.searchsorted(stream.document_offsets, pieces[0][0], side="right")
        assert found["document"][n] == first - 1


def test_packing_is_cached_under_its_own_hash(tmp_path, monkeypatch):
    stream = toy_objectives.Stream(((70, 5, 9), (1, 39)))
    first = build(stream, 20, tmp_path)
    again = build(stream, 20, tmp_path / "other")
    assert first.fingerprint == again.fingerprint
    for one, other in zip(first.pieces, again.pieces, strict=True):
        np.testing.assert_array_equal(one, other)
        assert isinstance(one, np.memmap)
    others = [
        build(stream, 21, tmp_path),
        build(toy_objectives.Stream(((70, 5, 9), (1, 39)), seed=1), 20, tmp_path),
        example_index.build_index(stream, TextSpec("stream", 20), 0, tmp_path),
    ]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 4
    monkeypatch.setattr(type(TextSpec("packed", 9)), "spans", None)
    assert build(stream, 20, tmp_path).fingerprint == first.fingerprint


@pytest.mark.parametrize("length", [32, 128, 512])
def test_all_objectives_have_one_packing(length):
    names = ("lm", "fim", "mlm", "plm", "electra", "dae", "bart", "mass")
    specs = {
        PackedRows(objectives.make_objective(name)).text_spec(length) for name in names
    }
    assert specs == {TextSpec("packed", length - 3)}


def test_packing_has_no_stride(tmp_path):
    with pytest.raises(UserError, match="the unit 'packed'"):
        spec = TextSpec("packed", 20)
        example_index.build_index(toy_objectives.Stream(), spec, 5, tmp_path)
