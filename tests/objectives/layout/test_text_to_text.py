"""text_to_text: the arrays of one stack are the encoder's input and then the target."""

import dataclasses

import numpy as np
import pytest

from research import objectives
from tests.testing.encoder_decoder import encoder_and_target_lists
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab(size=1400, sentinels=800)
VARIANTS = [
    ("spans", "sentinel", "spans"),
    ("iid", "sentinel", "spans"),
    ("iid", "drop", "spans"),
    ("iid", "bert", "whole"),
    ("prefix", "sentinel", "spans"),
    ("prefix", "drop", "spans"),
    ("prefix", "mask", "spans"),
    ("all", "shuffle", "whole"),
]
"""Noise mask, replacement and target."""


@pytest.mark.parametrize(("layout", "mode"), [("decoder", ""), ("prefix", "S")])
@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
def test_a_joined_text_is_the_encoders_input_and_then_the_target(variant, layout, mode):
    names = ("noise_mask", "replacement", "target")
    fields = dict(zip(names, variant, strict=True))
    two = objectives.make_objective("dae", rate=0.3, mode=mode, **fields)
    one = dataclasses.replace(two, layout=layout)
    length, key = 24, keys(40)
    example = texts(two.text_spec(length).length, [0, 1, 2, 3, *[99] * 36], VOCAB)
    batch, joined = (each.corrupt(example, key, VOCAB, length) for each in (two, one))
    spec = one.batch_spec(length)
    assert {name: (a.shape[1:], a.dtype) for name, a in joined.items()} == {
        name: (each.shape, each.dtype) for name, each in spec.items()
    }
    rows = encoder_and_target_lists(batch)
    assert max(len(a) + len(b) for a, b in rows) <= joined["token"].shape[1]
    for row, (read, written) in enumerate(rows):
        text, size = read + written, len(read) + len(written)
        token, position = joined["token"][row], np.arange(joined["token"].shape[1])
        assert token[:size].tolist() == [VOCAB.pad_id, *text][:size]
        assert (joined["segment"][row] == (position < size)).all()
        scored = joined["weight"][row] > 0
        target = joined["target"][row][scored].tolist()
        rank, reach = joined["rank"][row, :size], joined["reach"][row, :size]
        if layout == "decoder":
            assert target == text and (rank == position[:size]).all()
        else:
            assert target == written
            where = joined["scored"][row][scored]
            assert where.tolist() == list(range(len(read), size))
            # The last token read is that at which the first target is predicted.
            expected = np.maximum(0, position[:size] - len(read))
            assert (rank == expected).all()
        assert (rank == reach).all()
