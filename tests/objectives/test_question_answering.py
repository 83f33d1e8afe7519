"""question_answering: the target of a window is the answer, or the pooled position."""

import numpy as np
import pytest

from research import objectives
from research.batch import ANSWER_END, ANSWER_START
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab()


def example():
    """An answer, both halves of one, one in the question, no label, no text."""
    found = texts(12, [12, 12, 9, 12, 12, 0], VOCAB)
    flags = found.flags.copy()
    flags[0, 6] |= ANSWER_START
    flags[0, 8] |= ANSWER_END
    flags[1, 8] |= ANSWER_START
    flags[2, 6] |= ANSWER_END
    flags[3, 1] |= ANSWER_START | ANSWER_END
    flags[4, 6] |= ANSWER_START | ANSWER_END
    first = np.where(found.length > 0, 4, 0).astype(np.int32)
    label = np.array([0, 0, 1, 0, -1, 0], np.int32)
    return found._replace(flags=flags, first_length=first, label=label)


@pytest.mark.parametrize("name", ["bert", "roberta", "xlnet"])
def test_the_answers_tokens_are_those_of_the_text(name):
    objective = objectives.make_objective("question_answering", format=name)
    text = example()
    batch = objective.corrupt(text, keys(6), VOCAB, 24)
    first, last = batch["answer"][0]
    assert batch["token"][0, first : last + 1].tolist() == text.token[0, 6:9].tolist()
    for row in (1, 2, 3):
        token = batch["token"][row, batch["answer"][row]]
        assert (token == VOCAB.bos_id).all()
    assert batch["answer_weight"].tolist() == [1, 1, 1, 1, 0, 0]
    for row in range(5):
        begin, size = batch["context"][row]
        raw = text.token[row, 4 : text.length[row]]
        assert batch["token"][row, begin : begin + size].tolist() == raw.tolist()
    assert batch["context"][5].tolist() == [0, 0]
