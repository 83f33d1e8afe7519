"""A mask in a text takes the place of a token, whichever way it is spelled."""

import dataclasses

import pytest

from research.data.tokenize.masked_text import encode_with_masks
from research.data.tokenize.train_tokenizer import TOKENIZER_TYPES


@pytest.mark.parametrize("kind", [*TOKENIZER_TYPES, "literal"])
def test_the_text_beside_masks_is_encoded_as_it_would_be(vocabularies, kind):
    vocabulary = vocabularies[kind if kind != "literal" else "bytebpe"]
    if kind == "literal":
        vocabulary = dataclasses.replace(vocabulary, keep_whitespace=True)
    mask = vocabulary.vocab.mask_id

    def ids(text):
        return vocabulary.encode(text)[0].tolist()

    before, after = ids("ba du"), ids("ba du kle")[len(ids("ba du")) :]
    expected = [*before, mask, *after]
    for name in ("[MASK]", "<mask>"):
        assert encode_with_masks(vocabulary, f"ba du {name} kle") == expected
    assert encode_with_masks(vocabulary, "ba du kle") == ids("ba du kle")
    assert encode_with_masks(vocabulary, "<mask>") == [mask]
    joined = encode_with_masks(vocabulary, "ba<mask>le du")
    assert vocabulary.decode(joined[joined.index(mask) + 1 :]).lstrip() == "le du"
    if not vocabulary.type.marks:  # with them a unit starts like a word
        assert not vocabulary.piece_text(joined[joined.index(mask) + 1]).startswith(" ")
