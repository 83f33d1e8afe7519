"""WordPiece (Wu et al. 2016), with BERT's rules of words (Devlin et al. 2019)."""

import collections
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from research.data.read import word_boundaries
from research.data.tokenize import normalization, tokenizer_types
from research.data.tokenize.tokenizer_types import check_size, special_pieces

SPECIAL = re.compile(r"\[\w+\]|<\S\w*>")
"""How its vocabularies spell special pieces."""


@dataclass(frozen=True)
class TokenizerType(tokenizer_types.TokenizerType):
    """Punctuation is cut off, and pieces inside a word begin with ##."""

    cost = (0.45, 6)
    least = (1, "sentinels, and as many more as the text has letters")
    trained_by = MappingProxyType({"letters": 2})  # of cleaned text
    marks = "starts"
    drops_units = True
    exports_as_is = True
    unknown_bytes = " \ufffd".encode()

    def train(self, lines, options, corpus):
        """A new size admits other letters, which may in turn give another size."""
        _, size, sentinels, _, name = options
        normalizer = normalization.make_normalizer(name, bert=True)
        counts: collections.Counter[str] = collections.Counter()
        for line in lines:
            counts.update(normalizer.normalize_str(line))
        del counts[" "]
        fits, letters = size, None
        while (chosen := _frequent_letters(counts, max_pieces=fits // 2)) != letters:
            letters = chosen
            pieces = _wordpieces(lines, letters, normalizer, fits, sentinels)
            fits = len(pieces)
        check_size(size, fits)
        return wordpiece_json(pieces, "<unk>", normalizer)

    def recognises(self, state):
        return state["model"]["type"] == "WordPiece"

    def piece_bytes(self, piece):
        return (piece[2:] if piece.startswith("##") else f" {piece}").encode()


def wordpiece_json(
    pieces: Sequence[str], unknown: str, normalizer: normalizers.Normalizer
) -> bytes:
    """A `tokenizer.json` with BERT's rules for the pieces of a `vocab.txt`."""
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    model = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    model.normalizer = normalizer
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece()
    model.add_special_tokens([piece for piece in pieces if SPECIAL.fullmatch(piece)])
    return model.to_str().encode("utf-8")


def _wordpieces(
    lines: Iterable[str],
    letters: list[str],
    normalizer: normalizers.Normalizer,
    size: int,
    sentinels: int,
) -> list[str]:
    """Trained pieces; the ids of all letters are fixed before the training.

    The trainer chooses merges by count and breaks ties by id. The library itself
    numbers "##" letters in the order of a hash map, which differs from run to run.
    """
    own_word = zip(letters, _is_own_word(letters), strict=True)
    inside = ["##" + letter for letter, is_own in own_word if not is_own]
    initial = [*special_pieces(sentinels), *letters, *inside]
    model = tokenizers.Tokenizer.from_str(
        wordpiece_json(initial, "<unk>", normalizer).decode()
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=initial,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    model.train_from_iterator(lines, trainer)
    vocabulary = model.get_vocab()
    return sorted(vocabulary, key=vocabulary.get)


def _frequent_letters(counts: collections.Counter[str], max_pieces: int) -> list[str]:
    """The most frequent letters, which cover a fraction 1 - 1e-4 of normalized text.

    There are fewer if their pieces would exceed `max_pieces`. A letter is one piece if
    it is a word by itself (CJK, punctuation), else two: x and ##x.
    """
    letters = sorted(counts, key=lambda letter: (-counts[letter], letter))
    covered = np.cumsum([counts[letter] for letter in letters]) / counts.total()
    pieces = np.cumsum(2 - _is_own_word(letters))
    needed = 1 + int((covered < 1 - 1e-4).sum())
    return letters[: min(needed, int((pieces <= max_pieces).sum()))]


def _is_own_word(letters: list[str]) -> np.ndarray:
    return word_boundaries.is_own_word(word_boundaries.code_points("".join(letters)))
