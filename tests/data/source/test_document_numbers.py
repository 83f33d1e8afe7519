"""Examples know of which document they are, over all corpora."""

import numpy as np
import pytest

from research.data.source.text_source import TextSource
from research.data.store import example_index
from tests.testing import toy_objectives

STREAMS = (
    toy_objectives.Stream(((7, 5, 0, 9), (1, 39))),
    toy_objectives.Stream(((50,), (3, 40)), seed=1),
)


@pytest.mark.parametrize("unit", ["stream", "document", "passage", "pair"])
def test_the_document_is_that_which_the_text_begins_in(unit, tmp_path):
    objective = toy_objectives.Objective(unit)
    spec = objective.text_spec(8)
    parts = [example_index.build_index(s, spec, 0, tmp_path) for s in STREAMS]
    rates = {"one": 1.0, "two": 1.0}
    text = TextSource(
        parts,
        objective,
        toy_objectives.vocab(),
        length=8,
        seed=0,
        rates=rates,
        batch_size=4,
    )
    corpus = np.repeat([0, 1], text.sizes)
    place = np.concatenate([np.arange(size) for size in text.sizes])
    zero = np.zeros_like(place)
    for shuffle in (False, True):
        example, row = text.raw_examples(
            corpus, place, zero, zero, seed=0, shuffle=shuffle
        )
        for number, stream in enumerate(STREAMS):
            own = corpus == number
            start = parts[number].start[row[own]]
            document = example.document[own] - number * STREAMS[0].num_documents
            assert (stream.document_offsets[document] <= start).all()
            assert (start < stream.document_offsets[document + 1]).all()
    assert example.document.dtype == np.int64
    assert text.raw_examples(
        corpus[:0], place[:0], zero[:0], zero[:0], seed=0, shuffle=False
    )[0].document.shape == (0,)
