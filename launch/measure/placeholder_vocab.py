"""A vocabulary of a config's size, for building a program without text."""

import os
from typing import Any

import numpy as np

from research.contract.batch import Lexicon, Triples, VocabInfo
from research.contract.errors import UserError
from research.data.tokenize import vocabulary
from research.data.tokenize.train_tokenizer import WORD_TYPES

ENTRY_TYPES = ("connective", "entity", "phrase")
"""Types of lexicon entries that the experiments use."""


def placeholder_vocab(config: Any) -> VocabInfo:
    """A VocabInfo of the config's size: of the model file, if it exists, else made up.

    It has two labels for a classifier, two lexicon entries of each type, a triple, and
    one piece that is the capitalised form of another.

    Raises:
      UserError: the config's size is too small for these.
    """
    data = config.data
    if os.path.exists(data.vocabulary):
        vocab = vocabulary.load_vocabulary(data.vocabulary, data.sentinels).vocab
        return vocab._replace(labels=("0", "1"), lexicon=_lexicon(vocab.ordinary_ids))
    size, num_special = data.vocabulary_size, 5 + data.sentinels
    if size < num_special + 2 * len(ENTRY_TYPES):
        raise UserError(
            f"data.vocabulary_size is {size}, but must be at least "
            f"{num_special + 2 * len(ENTRY_TYPES)} with data.sentinels={data.sentinels}"
        )
    special = np.arange(size) < num_special
    special[4] = False  # unk
    ordinary = np.arange(num_special, size, dtype=np.int32)
    names, lower = tuple(range(5, num_special)), np.arange(size, dtype=np.int32)
    lower[num_special] += 1
    rest = ("0", "1"), _lexicon(ordinary), lower
    vocab = VocabInfo(size, 0, 1, 2, 3, 4, names, special, ordinary, *rest)
    if data.vocabulary not in WORD_TYPES:
        return vocab
    words = [_spell(number) for number in range(len(ordinary))]
    return vocab._replace(spelling=(*[""] * num_special, *words))


def _spell(number: int) -> str:
    """A made-up word of three syllables, of one of more from 75^3 on."""
    word = ""
    while number or len(word) < 6:
        number, syllable = divmod(number, 75)
        word += "bcdfghklmnprstv"[syllable // 5] + "aeiou"[syllable % 5]
    return word


def _lexicon(ordinary: np.ndarray) -> Lexicon:
    entry_type = np.repeat(np.arange(len(ENTRY_TYPES), dtype=np.int32), 2)
    token = ordinary[: len(entry_type), None]
    one = np.ones(1, np.int32)
    triples = Triples(0 * one, 0 * one, one, 0 * one, token[:1], one)
    return Lexicon(token, np.ones_like(entry_type), entry_type, ENTRY_TYPES, triples)
