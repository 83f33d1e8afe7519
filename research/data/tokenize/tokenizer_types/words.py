"""The most frequent words, which are text between white space; others are unknown."""

import collections
from collections.abc import Sequence
from dataclasses import dataclass

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from research.data.read import sentences
from research.data.read.formats.cooccurrences import CELLS
from research.data.tokenize import normalization, tokenizer_types
from research.data.tokenize.tokenizer_types import (
    SizeError,
    check_size,
    special_pieces,
)
from research.data.tokenize.tokenizer_types.sentencepiece_model import MARK


@dataclass(frozen=True)
class TokenizerType(tokenizer_types.TokenizerType):
    """The words of Transformer-XL's code (pytorch/utils/vocabulary.py, Vocab)."""

    cost = (0.4, 5)
    has_words = True
    unknown_bytes = " \ufffd".encode()

    def train(self, lines, options, corpus):
        """Ties are in alphabetical order.

        Lines may be pairs that co-occur (`data.formats.cooccurrences`); then the count
        of a word is its number of pairs, not its frequency in the text.
        """
        units = collections.Counter(
            unit for line in lines for unit in sentences.split_units(line)
        )
        normalizer = normalization.make_normalizer(options.normalizer)
        counts: collections.Counter[str] = collections.Counter()
        for unit, count in units.items():
            text = sentences.spell_unit(unit)
            for word in (
                normalizer.normalize_str(text) if normalizer else text
            ).split():
                counts[word] += count
        words = sorted(counts, key=lambda word: (-counts[word], word))
        special = special_pieces(options.sentinels)
        pieces = [*special, *(MARK + word for word in words)]
        check_size(options.size, min(len(pieces), options.size))
        if CELLS in corpus.arrays and len(pieces) > options.size:
            raise SizeError(
                options.size,
                "pairs of words do not say how frequent a word is; give "
                f"{len(pieces)}, for all of them, or count fewer (palimpsest "
                "cooccurrences --max-words)",
            )
        return words_json(pieces[: options.size], special, normalizer)

    def recognises(self, state):
        decoder = str(state["decoder"])
        return state["model"]["type"] == "WordLevel" and "Metaspace" in decoder

    def piece_bytes(self, piece):
        return piece.replace(MARK, " ", 1).encode()


def words_json(
    pieces: Sequence[str],
    special: Sequence[str],
    normalizer: normalizers.Normalizer | None,
) -> bytes:
    """A `tokenizer.json` of words, each with a mark before it, and special pieces."""
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    model = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    if normalizer:
        model.normalizer = normalizer
    model.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    model.decoder = decoders.Metaspace(prepend_scheme="always")
    model.add_special_tokens(list(special))
    return model.to_str().encode("utf-8")
