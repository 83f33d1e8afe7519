"""token_classification: tags are at the first tokens of words, in every format."""

import numpy as np
import pytest

from research import networks, objectives
from research.contract.batch import PART, WORD
from research.objectives.tasks import task_input
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab()
TEXTS = texts(20, [20, 7, 0, 1], VOCAB)
TEXTS.flags[TEXTS.flags & WORD > 0] |= PART


@pytest.mark.parametrize("name", task_input.FORMATS)
@pytest.mark.parametrize("length", [12, 30])
def test_a_tag_is_where_its_token_is(name, length):
    objective = objectives.make_objective("token_classification", format=name)
    batch = objective.corrupt(TEXTS, keys(4), VOCAB, length)
    for row, size in enumerate(TEXTS.length):
        size = min(size, length - 2)
        scored = batch["weight"][row] > 0
        starts = (TEXTS.flags[row, :size] & PART > 0) | (np.arange(size) == 0)
        tag = np.where(starts, TEXTS.arrays["tags"][row, :size], -1)
        assert batch["target"][row][scored].tolist() == tag[tag >= 0].tolist()
        raw = TEXTS.token[row, :size][tag >= 0]
        read = batch["encoder_token" if name == "bart" else "token"]
        assert read[row][scored].tolist() == raw.tolist()
        assert not batch["target"][row][~scored].any()


def test_a_word_whose_tag_is_unknown_is_predicted_and_not_scored():
    starts = TEXTS.flags & PART > 0
    starts[:, 0] = True
    tags = np.where(starts & (np.cumsum(starts, axis=1) == 2), -1, 1)
    texts = TEXTS._replace(arrays={"tags": tags})
    for head in ("linear", "crf"):
        objective = objectives.make_objective("token_classification", head=head)
        batch = objective.corrupt(texts, keys(4), VOCAB, 30)
        weight = objective.predictions(FixedHeads(), batch)["weight"]
        in_text = np.arange(starts.shape[1]) < TEXTS.length[:, None]
        num_words = (starts & in_text).sum(axis=1)
        assert weight.sum(axis=1).tolist() == num_words.tolist() and max(num_words) > 3
        scored = np.where(num_words > 1, num_words - 1, num_words)
        assert batch["weight"].sum(axis=1).tolist() == scored.tolist()


class FixedHeads:
    """A network whose tags have equal logits, and in which tag 2 follows tag 2."""

    def features(self, batch):
        return np.zeros((*batch["token"].shape, 4), np.float32)

    def head(self, name, states):
        if name == "tag":
            return np.zeros((*states.shape[:-1], 3), np.float32)
        transition = np.zeros((4, 4), np.float32)
        transition[2, 2] = 5.0
        return states @ transition


def test_a_crf_reads_the_words_alone_and_predicts_the_best_sequence():
    objective = objectives.make_objective("token_classification", head="crf")
    batch = objective.corrupt(TEXTS, keys(4), VOCAB, 30)
    is_word = batch["weight"] > 0
    batch["target"] = np.where(is_word, 2, 0)
    tag = objective.predictions(FixedHeads(), batch)["tag"]
    size = is_word.sum(axis=1)
    assert (np.asarray(tag)[0][is_word[0]] == 2).all() and size[0] > 3
    terms, _ = objective.loss(FixedHeads(), batch, None)
    paths = [sum_of_paths(n) for n in size]
    score = 5.0 * np.maximum(size - 1, 0)
    assert float(terms["tag"].total) == pytest.approx(sum(paths - score), rel=1e-5)
    assert terms["tag"].weight == terms["accuracy"].weight == size.sum()
    right = np.asarray(tag)[is_word] == 2
    assert terms["accuracy"].total == right.sum()


def sum_of_paths(num_words):
    """log of the sum over all tags of exp(score) in the network above."""
    matrix = np.ones((3, 3))
    matrix[2, 2] = np.exp(5.0)
    after_first = np.linalg.matrix_power(matrix, max(num_words - 1, 0))
    return np.log(after_first.sum()) if num_words else 0.0


def test_a_crf_has_transitions_from_a_start_and_to_an_end():
    crf, linear = (
        objectives.make_objective("token_classification", head=head)
        for head in ("crf", "linear")
    )
    tag = {"tag": networks.HeadSpec(3, "none", dropout=True)}
    assert crf.needs(VOCAB).heads == tag | {"transition": networks.HeadSpec(4, "none")}
    assert linear.needs(VOCAB).heads == tag
