"""multiple_choice: each choice is a segment with the first part; labels count them."""

from types import SimpleNamespace

import numpy as np
import pytest

from research import objectives
from research.contract.batch import PART, attention_mask
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab(labels=("0", "1", "2"))


def example():
    """First part of 4 tokens; three, two and one choices, of 3 tokens or more."""
    found = texts(13, [13, 10, 8, 0], VOCAB)
    flags = found.flags.copy()
    for row, starts in enumerate(([4, 7, 10], [4, 7], [4])):
        flags[row, starts] |= PART
    first = np.where(found.length > 0, 4, 0).astype(np.int32)
    label = np.array([2, 1, 0, -1], np.int32)
    return found._replace(flags=flags, first_length=first, label=label)


def test_each_choice_is_a_segment_with_the_first_part():
    objective = objectives.make_objective("multiple_choice", choices=3)
    text = example()
    batch = objective.corrupt(text, keys(4), VOCAB, 31)
    assert batch["num_choices"].tolist() == [3, 2, 1, 0]
    assert batch["label"].tolist() == [2, 1, 0, 0]
    assert batch["label_weight"].tolist() == [1, 1, 0, 0]  # one choice is no choice
    for choice in range(3):
        here = batch["segment"][0] == choice + 1
        begin = 4 + 3 * choice
        expected = [VOCAB.bos_id, *text.token[0, :4], VOCAB.eos_id]
        expected += [*text.token[0, begin : begin + 3], VOCAB.eos_id]
        assert batch["token"][0][here].tolist() == expected
        assert batch["position"][0][here].tolist() == list(range(10))
        assert batch["scored"][0, choice] == np.flatnonzero(here)[0]
    mask = attention_mask(batch)
    segment = batch["segment"]
    assert not mask[segment[:, :, None] != segment[:, None]].any()


def test_a_long_first_part_loses_its_end_and_a_choice_keeps_its_beginning():
    objective = objectives.make_objective("multiple_choice", choices=2)
    text = texts(24, [24], VOCAB)
    flags = text.flags.copy()
    flags[0, [10, 12]] |= PART  # choices of 2 and of 12 tokens
    text = text._replace(
        flags=flags,
        first_length=np.array([10], np.int32),
        label=np.array([1], np.int32),
    )
    batch = objective.corrupt(text, keys(1), VOCAB, 24)
    room = 12 - 3
    one, two = (batch["token"][0][batch["segment"][0] == n] for n in (1, 2))
    assert one[1 : 1 + room - 2].tolist() == text.token[0, : room - 2].tolist()
    assert two[1] == text.token[0, 0] and two[2] == VOCAB.eos_id
    assert two[3:-1].tolist() == text.token[0, 12 : 12 + room - 1].tolist()


@pytest.mark.parametrize(
    ("name", "fields", "sizes"),
    [
        ("multiple_choice", {"choices": 4}, (60, 20, 9, 9, 9)),
        ("multiple_choice", {"choices": 4}, (60, 300, 9, 9, 9)),
        ("sentence_vectors", {"texts": 3}, (60, 300, 9)),
    ],
)
def test_a_long_part_leaves_room_to_all_others(name, fields, sizes):
    """Rows of 40 tokens."""
    objective = objectives.make_objective(name, **fields)
    stream = SimpleNamespace(
        document_offsets=np.array([0, sum(sizes) + 1]),
        separator_length=1,
        labels=np.array([0]),
        part_offsets=np.cumsum(sizes[:-1]),
        num_tokens=sum(sizes) + 1,
    )
    spans = objective.text_spec(40).spans(stream, 0)
    first = 10 if name == "multiple_choice" else 38
    assert (spans.length[0], spans.second_length[0]) == (first, sum(sizes[1:]))


@pytest.mark.parametrize("labels", [("A", "C"), ("a", "c"), ("0", "2.0"), ("2",)])
def test_a_label_is_its_choice_whichever_labels_there_are(labels):
    """Also where no row of the training text has B for its right answer."""
    objective = objectives.make_objective("multiple_choice", choices=3)
    last = len(labels) - 1
    text = example()._replace(label=np.array([last, -1, -1, -1], np.int32))
    batch = objective.corrupt(text, keys(4), vocab(labels=labels), 31)
    assert batch["label"][0] == 2 and batch["label_weight"].tolist() == [1, 0, 0, 0]
