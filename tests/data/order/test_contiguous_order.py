"""Rows that continue from step to step: their order, backward rows, own strides."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from research.contract.batch import BACKWARD
from research.contract.errors import UserError
from research.data.order.contiguous_order import contiguous_position
from research.data.pipeline import Pipeline
from research.data.rows import TextSpec
from research.data.source.text_source import TextSource
from research.data.store import example_index
from tests.testing import toy_objectives

STREAM = toy_objectives.Stream(((70, 50, 90), (10, 200)))


@dataclass(frozen=True)
class RecurrentObjective(toy_objectives.Objective):
    """Reads every `stride` tokens of contiguous streams, half of them backwards."""

    stride: int = 4
    reverse: bool = True

    def text_spec(self, length):
        return TextSpec(
            "stream", length, contiguous=True, stride=self.stride, reverse=self.reverse
        )


def make_pipeline(cache, objective, batch=4):
    index = example_index.build_index(STREAM, objective.text_spec(8), 0, cache)
    source = TextSource(
        [index],
        objective,
        toy_objectives.vocab(),
        length=8,
        seed=0,
        rates={"": 1.0},
        batch_size=batch,
    )
    return Pipeline(source, batch_size=batch)


@pytest.mark.parametrize("num_rows, num", [(1, 1), (3, 3), (4, 11), (5, 100)])
def test_each_row_walks_through_an_equal_part(num_rows, num):
    step = np.arange(6 * (num // num_rows))
    for row in range(num_rows):
        epoch, position = contiguous_position(
            step, np.full_like(step, row), num_rows=num_rows, num=num
        )
        np.testing.assert_array_equal(epoch, step // (num // num_rows))
        begin = row * (num // num_rows) + epoch % 2 * (num % num_rows)
        np.testing.assert_array_equal(position, begin + step % (num // num_rows))
        assert position.max() < num


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_half_of_the_rows_read_backwards(tmp_path, batch):
    data = make_pipeline(tmp_path, RecurrentObjective(), batch)
    steps = data.num_examples // batch
    rows = list(data.batches(0, None, 4 * steps))
    position = np.stack([row["example"] for row in rows])
    backward = np.stack([row["label"] for row in rows]) == BACKWARD
    for epoch in range(4):
        own = slice(epoch * steps, (epoch + 1) * steps)
        assert (backward[own] == backward[own][0]).all()  # constant within an epoch
        np.testing.assert_array_equal(backward[own][0], (np.arange(batch) + epoch) % 2)
        direction = np.diff(position[own], axis=0)
        assert (direction == np.where(backward[own][0], -1, 1)).all()
        assert len({*position[own].ravel()}) == steps * batch
    forward = make_pipeline(tmp_path, RecurrentObjective(reverse=False), batch)
    (_, one), (_, other) = (
        np.unique(p.source.rows(np.arange(batch * steps))["example"], return_index=True)
        for p in (data, forward)
    )
    assert len(one) == len(other)
    assert not any((row["label"] == BACKWARD).any() for row in data.evaluation())


def test_tokens_of_backward_rows_stay_in_text_order(tmp_path):
    data = make_pipeline(tmp_path, RecurrentObjective())
    texts = toy_objectives.example_texts(data.source.indices[0])
    for row in data.batches(0, None, 20):
        for token, number in zip(row["token"], row["example"], strict=True):
            np.testing.assert_array_equal(token[: len(texts[number])], texts[number])


def test_an_objectives_own_stride_is_used(tmp_path):
    index = example_index.build_index(
        STREAM, RecurrentObjective(stride=3).text_spec(8), 0, tmp_path
    )
    shards = STREAM.shard_offsets
    begins = [np.arange(a, b, 3) for a, b in pairwise(shards)]
    np.testing.assert_array_equal(index.start, np.concatenate(begins))
    same = example_index.build_index(
        STREAM, RecurrentObjective(stride=3).text_spec(8), 3, tmp_path
    )
    assert index.fingerprint == same.fingerprint
    with pytest.raises(UserError, match=r"data\.stride is 5, .*after 3 tokens"):
        example_index.build_index(
            STREAM, RecurrentObjective(stride=3).text_spec(8), 5, tmp_path
        )
