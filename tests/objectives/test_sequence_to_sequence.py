"""sequence_to_sequence: input and target are the parts of a document, cut to fit."""

import numpy as np
import pytest

from research import objectives
from research.contract.errors import UserError
from tests.testing.encoder_decoder import encoder_and_target_lists
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab()
FIRST = np.array([4, 14, 3, 5, 0], np.int32)  # of 16 tokens, 5 or 14 are too many


def example():
    """Two parts; a first one too long; a second too long; one part; no text."""
    found = texts(16, [9, 16, 16, 5, 0], VOCAB)
    return found._replace(first_length=FIRST)


BOS, EOS = [VOCAB.bos_id], [VOCAB.eos_id]


@pytest.mark.parametrize(
    ("format", "prefixes"), [("t5", ([], [])), ("bart", (BOS, BOS)), ("xlm", (EOS, []))]
)
def test_each_part_is_cut_to_its_room_and_ends_with_eos(format, prefixes):
    objective = objectives.make_objective(
        "sequence_to_sequence", format=format, target_length=8
    )
    text = example()
    batch = objective.corrupt(text, keys(5), VOCAB, 12)
    rows = encoder_and_target_lists(batch)
    for row in range(3):
        parts = np.split(text.token[row, : text.length[row]], [FIRST[row]])
        for found, part, size, prefix in zip(
            rows[row], parts, (12, 8), prefixes, strict=True
        ):
            room = size - 1 - len(prefix)
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


def test_input_and_target_have_the_types_of_their_languages():
    """In batches and in prompts, which an evaluation writes from."""
    make = lambda **fields: objectives.make_objective(  # noqa: E731
        "sequence_to_sequence", format="xlm", target_length=8, **fields
    )
    for languages, read, written in (("2:1", 2, 1), ("1", 1, 1), ("", 0, 0)):
        objective = make(languages=languages)
        batch = objective.corrupt(example(), keys(5), VOCAB, 12)
        prompt = objective.prompt([[30, 31], [32]], VOCAB)
        for part, language in (("encoder_", read), ("decoder_", written)):
            segment = batch[part + "segment"]
            assert segment.any()
            assert (batch[part + "token_type"] == language * segment).all()
        assert prompt.encoder["token"][0].tolist() == [*EOS, 30, 31, *EOS]
        assert prompt.encoder["token_type"].tolist() == [[read] * 4, [read] * 3 + [0]]
        assert prompt.group["token"].tolist() == [EOS] * 2
        assert prompt.token_type == written == prompt.group["token_type"][0, 0]
        types = max(read, written) + 1 if languages else 0
        assert objective.needs(VOCAB).token_types == types
    for wrong in ("0:1 1", "0:1:2", "x", "-1"):
        with pytest.raises(UserError, match="languages"):
            make(languages=wrong)
    with pytest.raises(UserError, match="languages needs layout encoder_decoder"):
        make(languages="0", layout="prefix")
