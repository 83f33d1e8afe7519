"""Texts that spell masks."""

import re
from collections.abc import Sequence

from research.data.read import sentences
from research.data.tokenize.vocabulary import SPELLINGS, Vocabulary


def encode_with_masks(vocabulary: Vocabulary, text: str) -> list[int]:
    """The ids of a text, with the mask id where it spells a mask.

    A mask is spelled as the vocabulary's mask piece or as one of `SPELLINGS`. It stands
    for a token including the space before it; text directly after it is read as the
    rest of a word.
    """
    mask_id, pieces = vocabulary.vocab.mask_id, vocabulary.model.pieces
    names = [*SPELLINGS["mask"], *pieces[mask_id : mask_id + 1]]
    return encode_around_masks(
        vocabulary, re.split("|".join(map(re.escape, names)), text)
    )


def encode_around_masks(vocabulary: Vocabulary, parts: Sequence[str]) -> list[int]:
    """The ids of a text, with the mask id between successive parts."""
    mask_id = vocabulary.vocab.mask_id
    first, *others = parts
    ids = _encode(vocabulary, first, joined=False, before_mask=bool(others))
    for number, part in enumerate(others, 1):
        is_last = number == len(others)
        ids.append(mask_id)
        ids += _encode(vocabulary, part, joined=True, before_mask=not is_last)
    return ids


def _encode(
    vocabulary: Vocabulary, text: str, *, joined: bool, before_mask: bool
) -> list[int]:
    if vocabulary.keep_whitespace:
        text = text.removesuffix(" ") if before_mask else text
        units = vocabulary.split(text)
    else:
        units = vocabulary.split(text)
        inside = vocabulary.model.removed_spaces
        if joined and units and (text[0] in inside or not text[0].isspace()):
            units[0] = sentences.JOINED + units[0]
    return vocabulary.encode_units(units).token.tolist() if units else []
