"""token_classification: tags are at the first tokens of words, in every format."""

import numpy as np
import pytest

from research import objectives
from research.errors import UserError
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab()
TEXTS = texts(20, [20, 7, 0, 1], VOCAB)


@pytest.mark.parametrize("name", ["bert", "roberta", "xlnet", "gpt"])
@pytest.mark.parametrize("length", [12, 30])
def test_a_tag_is_where_its_token_is(name, length):
    objective = objectives.make_objective("token_classification", format=name)
    batch = objective.corrupt(TEXTS, keys(4), VOCAB, length)
    for row, size in enumerate(TEXTS.length):
        size = min(size, length - 2)
        scored = batch["weight"][row] > 0
        tag = TEXTS.tag[row, :size]
        assert batch["target"][row][scored].tolist() == tag[tag >= 0].tolist()
        raw = TEXTS.token[row, :size][tag >= 0]
        assert batch["token"][row][scored].tolist() == raw.tolist()
        assert not batch["target"][row][~scored].any()


def test_text_without_tags_is_refused():
    objective = objectives.make_objective("token_classification")
    with pytest.raises(UserError, match=r"data\.format=conll"):
        objective.corrupt(
            TEXTS._replace(tag=np.zeros((4, 0), np.int32)), keys(4), VOCAB, 12
        )
