"""sequence_to_sequence: input and target are the parts of a document, cut to fit."""

import numpy as np
import pytest

from research import objectives
from research.errors import UserError
from tests.testing.encoder_decoder import encoder_and_target_lists
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab()
FIRST = np.array([4, 14, 3, 5, 0], np.int32)  # of 16 tokens, 5 or 14 are too many


def example():
    """Two parts; a first one too long; a second too long; one part; no text."""
    found = texts(16, [9, 16, 16, 5, 0], VOCAB)
    return found._replace(first_length=FIRST)


@pytest.mark.parametrize(("format", "prefix"), [("t5", []), ("bart", [VOCAB.bos_id])])
def test_each_part_is_cut_to_its_room_and_ends_with_eos(format, prefix):
    objective = objectives.make_objective(
        "sequence_to_sequence", format=format, target_length=8
    )
    text, rooms = example(), [each - 1 - len(prefix) for each in (12, 8)]
    batch = objective.corrupt(text, keys(5), VOCAB, 12)
    rows = encoder_and_target_lists(batch)
    for row in range(3):
        parts = np.split(text.token[row, : text.length[row]], [FIRST[row]])
        for found, part, room in zip(rows[row], parts, rooms, strict=True):
            assert found == [*prefix, *part[:room], VOCAB.eos_id]
    assert rows[3:] == [([], [])] * 2
    start = VOCAB.pad_id if format == "t5" else VOCAB.eos_id
    assert (batch["decoder_token"][:3, 0] == start).all()
    shifted = batch["decoder_token"][:, 1:]
    kept = batch["weight"][:, 1:] > 0
    assert (shifted[kept] == batch["target"][:, :-1][kept]).all()


def test_a_joined_row_is_the_input_and_then_the_target():
    make = lambda **fields: objectives.make_objective(  # noqa: E731
        "sequence_to_sequence", target_length=8, **fields
    )
    rows = encoder_and_target_lists(make().corrupt(example(), keys(5), VOCAB, 12))
    batch = make(layout="prefix").corrupt(example(), keys(5), VOCAB, 12)
    for row, (read, written) in enumerate(rows):
        text = [VOCAB.pad_id, *read, *written]
        size = len(read) + len(written)
        assert batch["token"][row, :size].tolist() == text[:size]
        scored = batch["weight"][row] > 0
        assert batch["target"][row][scored].tolist() == written
        assert batch["scored"][row][scored].tolist() == [*range(len(read), size)]


def test_a_target_without_room_is_refused():
    with pytest.raises(UserError, match="at least 3 with format bart, not 2"):
        objectives.make_objective(
            "sequence_to_sequence", format="bart", target_length=2
        )
