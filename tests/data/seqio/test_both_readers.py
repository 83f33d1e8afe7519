"""Streams that are read both ways, and objectives with a stride of their own."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from research.batch import BACKWARD, TextSpec
from research.data.loading.examples import Part, Text
from research.data.pipeline import Pipeline
from research.data.store import example_index
from research.errors import UserError
from tests.testing import toy_objectives

LONG = toy_objectives.Stream(((70, 50, 90), (10, 200)))


@dataclass(frozen=True)
class Remembers(toy_objectives.Objective):
    """TextSpec on after `stride` tokens, half of the rows backwards."""

    stride: int = 4
    reverse: bool = True

    def text_spec(self, length):
        return TextSpec(
            "stream", length, contiguous=True, stride=self.stride, reverse=self.reverse
        )


def make(cache, objective, batch=4):
    part = Part(LONG, example_index.build_index(LONG, objective.text_spec(8), 0, cache))
    told = {"seed": 0, "rates": {"": 1.0}, "batch": batch}
    text = Text([part], objective, toy_objectives.vocab(), length=8, **told)
    return Pipeline(text, batch=batch)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_half_of_the_rows_read_their_part_from_its_end_on(tmp_path, batch):
    data = make(tmp_path, Remembers(), batch)
    steps = data.num_examples // batch
    rows = list(data.batches(0, None, 4 * steps))
    place = np.stack([row["example"] for row in rows])
    turned = np.stack([row["label"] for row in rows]) == BACKWARD
    for epoch in range(4):
        here = slice(epoch * steps, (epoch + 1) * steps)
        assert (turned[here] == turned[here][0]).all()  # a row keeps its way
        np.testing.assert_array_equal(turned[here][0], (np.arange(batch) + epoch) % 2)
        going = np.diff(place[here], axis=0)
        assert (going == np.where(turned[here][0], -1, 1)).all()
        assert len({*place[here].ravel()}) == steps * batch
    forward = make(tmp_path, Remembers(reverse=False), batch)
    (_, one), (_, other) = (
        np.unique(p.source.rows(np.arange(batch * steps))["example"], return_index=True)
        for p in (data, forward)
    )
    assert len(one) == len(other)
    assert not any((row["label"] == BACKWARD).any() for row in data.evaluation())


def test_the_text_itself_stays_as_it_is(tmp_path):
    data = make(tmp_path, Remembers())
    texts = toy_objectives.texts(data.source.parts[0])
    for row in data.batches(0, None, 20):
        for token, place in zip(row["token"], row["example"], strict=True):
            np.testing.assert_array_equal(token[: len(texts[place])], texts[place])


def test_an_objective_goes_on_after_its_own_stride(tmp_path):
    made = example_index.build_index(
        LONG, Remembers(stride=3).text_spec(8), 0, tmp_path
    )
    shards = LONG.shard_offsets
    begins = [np.arange(a, b, 3) for a, b in pairwise(shards)]
    np.testing.assert_array_equal(made.start, np.concatenate(begins))
    same = example_index.build_index(
        LONG, Remembers(stride=3).text_spec(8), 3, tmp_path
    )
    assert made.fingerprint == same.fingerprint
    with pytest.raises(UserError, match=r"data\.stride is 5, .*after 3 tokens"):
        example_index.build_index(LONG, Remembers(stride=3).text_spec(8), 5, tmp_path)
