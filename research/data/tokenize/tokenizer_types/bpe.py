"""Byte-pair encoding of characters (Sennrich et al. 2016), by SentencePiece."""

from dataclasses import dataclass
from typing import Any

from tokenizers import models

from research.data.tokenize.tokenizer_types.sentencepiece_model import (
    MARK,
    SentencePieceType,
)
from research.data.tokenize.tokenizer_types.wordbpe import WORD_END


@dataclass(frozen=True)
class TokenizerType(SentencePieceType):
    """Its pieces are merges of the most frequent pairs."""

    cost = (0.15, 9)
    sentencepiece_type = 2

    def recognises(self, state):
        model, decoder = state["model"], str(state["decoder"])
        is_bpe = model["type"] == "BPE" and "ByteLevel" not in decoder
        has_marks = MARK in decoder or "Metaspace" in decoder
        return is_bpe and has_marks and model["end_of_word_suffix"] != WORD_END

    def library_model(self, proto):
        unknown = next(p.piece for p in proto.pieces if p.type == p.UNKNOWN)
        return models.BPE(
            {p.piece: i for i, p in enumerate(proto.pieces)},
            _merges(proto),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=any(p.type == p.BYTE for p in proto.pieces),
        )


def _merges(proto: Any) -> list[tuple[str, str]]:
    """The merges of a SentencePiece BPE model: its scores order the pieces."""
    ids = {p.piece: i for i, p in enumerate(proto.pieces) if p.type == p.NORMAL}
    merges = []
    for piece, i in ids.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                score = -proto.pieces[i].score
                merges.append((score, ids[left], ids[right], left, right))
    return [(left, right) for *_, left, right in sorted(merges)]
