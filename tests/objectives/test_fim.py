"""fim: prefix, suffix and middle can be put together again, and a document ends."""

import numpy as np
import pytest

from research import objectives
from research.objectives.combined.packed_rows import PackedRows
from tests.testing.example_batches import keys, texts
from tests.testing.objective_cases import VOCAB, make_batch

FIRST, SECOND, THIRD = VOCAB.sentinel_ids[:3]
LENGTH, ROWS = 24, 64


def corrupt(example, rate):
    objective = objectives.make_objective("fim", rate=rate)
    return objective.corrupt(example, keys(len(example.length)), VOCAB, LENGTH)


@pytest.mark.parametrize("ends", [False, True])
def test_a_text_is_its_prefix_middle_and_suffix(ends):
    """A separator after it stays last, and is scored."""
    num_raw = np.arange(ROWS) % (LENGTH - 1)
    example = texts(LENGTH - 2, num_raw, VOCAB)
    if ends:
        row = np.flatnonzero(num_raw)
        example.token[row, num_raw[row] - 1] = VOCAB.eos_id
    batch = corrupt(example, 1.0)
    for row, size in enumerate(num_raw):
        text = example.token[row, :size].tolist()
        here = batch["segment"][row] > 0
        target = batch["target"][row, here].tolist()
        if size == 0 or text == [VOCAB.eos_id]:
            assert target == text
            continue
        read = batch["token"][row, here].tolist()
        assert read == [FIRST, *target[:-1]]
        end = [target.pop()] if ends else []
        second, third = target.index(SECOND), target.index(THIRD)
        prefix, suffix = target[:second], target[second + 1 : third]
        assert prefix + target[third + 1 :] + suffix + end == text
        weight = batch["weight"][row, here].astype(bool)
        assert np.flatnonzero(~weight).tolist() == [second, third]
        assert not batch["weight"][row, ~here].any()


def test_half_of_the_texts_stay_as_they_are():
    example = texts(LENGTH, [LENGTH - 2] * 400, VOCAB)
    batch, plain = (corrupt(example, rate) for rate in (0.5, 0.0))
    stays = batch["token"][:, 0] == VOCAB.bos_id
    assert 0.4 < stays.mean() < 0.6
    for name, array in plain.items():
        np.testing.assert_array_equal(batch[name][stays], array[stays])
    lm = objectives.make_objective("lm")
    for name, array in lm.corrupt(example, keys(400), VOCAB, LENGTH).items():
        np.testing.assert_array_equal(plain[name], array)


def test_packed_documents_end():
    """As often as those of `lm`."""
    ended = []
    for name in ("fim", "lm"):
        objective = PackedRows(objectives.make_objective(name))
        _, batch = make_batch(objective, 64, [40] * 50)
        ended.append(batch["weight"][batch["target"] == VOCAB.eos_id].sum())
    assert ended[0] == ended[1] > 0
