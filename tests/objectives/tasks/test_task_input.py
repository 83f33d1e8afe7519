"""The rows of a task's examples, token by token, as each architecture was tuned."""

import numpy as np
import pytest

from research.contract.batch import attention_mask, input_group
from research.objectives import make_objective
from research.objectives.tasks import task_input
from tests.testing.example_batches import texts, vocab

VOCAB = vocab()
BOS, EOS, MASK, PAD = VOCAB.bos_id, VOCAB.eos_id, VOCAB.mask_id, VOCAB.pad_id
TEXTS = texts(5, [5, 3, 0], VOCAB)
A, B = [0, 1], [2, 3, 4]
"""The raw tokens of row 0's parts; row 1 has one part, row 2 none."""

LAYOUTS = {
    "bert": ([BOS, *A, EOS, *B, EOS], [0, 0, 0, 0, 1, 1, 1, 1], (1, 4), 0),
    "roberta": ([BOS, *A, EOS, EOS, *B, EOS], [0] * 9, (1, 5), 0),
    "xlnet": ([*A, EOS, *B, EOS, BOS], [0, 0, 0, 1, 1, 1, 1, 2], (0, 3), 7),
    "gpt": ([BOS, *A, MASK, *B, EOS], [0] * 8, (1, 4), 7),
    "plain": ([BOS, *A, EOS, *B, EOS], [0] * 8, (1, 4), 0),
    "causal": ([BOS, *A, *B], [0] * 6, (1, 3), 5),
    "bart": ([BOS, *A, EOS, EOS, *B, EOS], [0] * 9, (1, 5), 8),
}


def laid_out(name):
    begin = np.array([[0, 2], [0, 0], [0, 0]])
    size = np.array([[2, 3], [3, 0], [0, 0]])
    return task_input.lay_out(TEXTS, begin, size, VOCAB, 10, name)


@pytest.mark.parametrize("name", task_input.FORMATS)
def test_a_pair_is_laid_out_as_in_the_official_code(name):
    layout, types, begin, pooled = LAYOUTS[name]
    laid = laid_out(name)
    raw = iter(TEXTS.token[0])
    first, second = ((at, at + size) for at, size in zip(begin, (2, 3), strict=True))
    expected = [
        next(raw) if n in (*range(*first), *range(*second)) else token
        for n, token in enumerate(layout)
    ]
    size = len(layout)
    assert laid.text.token[0].tolist() == [*expected, *[PAD] * (10 - size)]
    assert laid.text.token_type[0].tolist() == [*types, *[0] * (10 - size)]
    assert laid.begin[0].tolist() == list(begin) and laid.pooled[0] == pooled
    assert laid.text.length[0] == size == 5 + task_input.num_specials(name, 2)
    assert max(types) < task_input.num_token_types(name)


@pytest.mark.parametrize("name", task_input.FORMATS)
def test_specials_of_a_pair_are_those_of_its_row(name):
    """An exported tokenizer has these."""
    layout, types, begin, _ = LAYOUTS[name]
    expected = [*zip(layout, types, strict=True)]
    for at, text, size in ((begin[1], "B", len(B)), (begin[0], "A", len(A))):
        expected[at : at + size] = [(text, types[at])]
    task = make_objective("sequence_classification", format=name)
    assert task.specials(VOCAB).row("A", "B") == expected


@pytest.mark.parametrize("name", task_input.FORMATS)
def test_one_part_and_none(name):
    laid = laid_out(name)
    raw = TEXTS.token[1, :3].tolist()
    row = {"xlnet": [*raw, EOS, BOS], "causal": [BOS, *raw]}
    row = row.get(name, [BOS, *raw, EOS])
    assert laid.text.token[1].tolist() == [*row, *[PAD] * (10 - len(row))]
    assert laid.text.length.tolist()[1:] == [len(row), 0]
    is_first = name in ("bert", "roberta", "plain")
    assert laid.pooled[1] == (0 if is_first else len(row) - 1)
    assert (laid.text.token[2] == PAD).all() and laid.pooled[2] == 0


def test_barts_decoder_reads_the_encoders_text_one_token_later():
    text = laid_out("bart").text
    batch = task_input.network_input(text, "bart")
    encoder, decoder = batch["encoder_token"], batch["decoder_token"]
    for row, size in enumerate(text.length):
        if size:  # torch.roll(tokens, 1), fairseq's RollDataset
            rolled = np.roll(encoder[row, :size], 1)
            assert decoder[row, :size].tolist() == rolled.tolist()
            assert decoder[row, 0] == EOS
        assert (decoder[row, size:] == PAD).all()
    mask = attention_mask(input_group(batch, "decoder_"))
    assert not np.triu(mask[0], 1).any()


def test_gpt_is_causal_and_others_are_not():
    for name in ("bert", "roberta", "xlnet", "gpt"):
        batch = task_input.network_input(laid_out(name).text, name)
        ahead = np.triu(attention_mask(batch)[0], 1).any()
        assert ahead == (name != "gpt")
