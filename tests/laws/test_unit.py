"""The contract of every unit of text, found by listing the folder."""

import dataclasses

import numpy as np
import pytest

from research.contract.errors import UserError
from research.data.rows import UNITS, TextSpec
from research.data.store.example_index import build_index
from research.data.store.ranges import spans_in_shards
from tests.testing import toy_objectives

LENGTH = 8
STREAMS = {
    "short and long documents": ((7, 5, 9), (1, 39)),
    "empty documents": ((0, 3, 0), (12, 0), (5, 2)),
    "documents of a token": ((1, 1, 1), (1, 1)),
    "a long text": ((90,) * 10, (40,) * 10),
    "one document": ((30,),),
}
"""Name -> lengths of the documents of each shard."""

each_unit = pytest.mark.parametrize("name", UNITS.names())
each_stream = pytest.mark.parametrize("stream", STREAMS)


def spans_of(stream, spec):
    """What a unit reads, and (start, length, least length) of its spans."""
    found = spec.spans(stream, 0)
    if spec.has_pieces:
        return found, [(found.pieces.start, found.pieces.length, 1)]
    spans = [(found.start, found.length, 1)]
    if spec.has_pairs:
        spans.append((found.second, found.second_length, 0))
    return found, spans


def read(stream, spec):
    """As `spans_of`; where the text has too little for the unit, it is skipped."""
    try:
        return spans_of(stream, spec)
    except UserError as error:
        assert "\n" not in str(error)
        pytest.skip(f"the unit needs more text: {error}")


@each_unit
def test_it_says_what_it_is(name):
    spec = TextSpec(name, LENGTH)
    assert dataclasses.is_dataclass(spec) and type(spec).__doc__
    assert spec.has_pairs >= spec.pair_labels
    found, _ = spans_of(toy_objectives.Stream(STREAMS["a long text"]), spec)
    assert len(found.start) > 1
    assert (found.second is not None) == (found.second_length is not None)
    assert (found.second is not None) == spec.has_pairs
    assert (found.pieces is not None) == spec.has_pieces


@each_stream
@each_unit
def test_rows_lie_in_the_text_and_have_room(name, stream, tmp_path):
    """No span goes on in another shard; no row has more than `width` tokens."""
    spec, stream = TextSpec(name, LENGTH), toy_objectives.Stream(STREAMS[stream])
    found, spans = read(stream, spec)
    for start, length, least in spans:
        assert spans_in_shards(start, length, stream.shard_offsets, least=least)
    tokens = found.length + (found.second_length if spec.has_pairs else 0)
    assert spec.width >= LENGTH and tokens.max() <= spec.width
    counts = build_index(stream, spec, 0, tmp_path).counts
    assert all(0 <= count <= stream.num_tokens for count in counts.values())


@each_stream
@each_unit
def test_what_has_a_label_has_no_separator(name, stream):
    """A document's label is that of all of a row, and a pair's spans are sentences."""
    spec, stream = TextSpec(name, LENGTH), toy_objectives.Stream(STREAMS[stream])
    found, spans = read(stream, spec)
    if not spec.pair_labels and np.ndim(found.label) == 0:
        assert found.label == -1
        return
    separators = np.zeros(stream.num_tokens + 1, int)
    np.add.at(separators, stream.document_offsets[1:], 1)  # those before each token
    for start, length, _ in spans:
        before = np.cumsum(separators)
        assert (before[start + length] == before[start]).all()
    if not spec.pair_labels:
        offsets = stream.document_offsets
        document = np.searchsorted(offsets, found.start, side="right") - 1
        np.testing.assert_array_equal(found.label, stream.labels[document])


@each_unit
def test_an_equal_spec_has_equal_rows_and_another_copy_others(name):
    """Where there are copies; else rows depend on nothing but the text."""
    stream = toy_objectives.Stream(STREAMS["a long text"])
    spec = TextSpec(name, LENGTH)
    if "other_document_rate" in spec.__dataclass_fields__:
        spec = spec.replace(other_document_rate=0.5)
    one, same, other = (
        [np.stack([start, length]).tolist() for start, length, _ in spans]
        for copy in (0, 0, 1)
        for _, spans in [spans_of(stream, spec.replace(copy=copy))]
    )
    assert one == same
    assert (one != other) == spec.has_copies
