"""Unigram language models of pieces (Kudo 2018), by SentencePiece."""

from dataclasses import dataclass

from tokenizers import models

from research.data.tokenize.tokenizer_types.sentencepiece_model import SentencePieceType


@dataclass(frozen=True)
class TokenizerType(SentencePieceType):
    """Its pieces maximise the likelihood of the text."""

    cost = (2.7, 23)
    sentencepiece_type = 1
    by_space = True
    exports_as_is = True
    splits_unknown = True
    unknown_bytes = " \ufffd".encode()

    def recognises(self, state):
        return state["model"]["type"] == "Unigram"

    def library_model(self, proto):
        unknown = next(i for i, p in enumerate(proto.pieces) if p.type == p.UNKNOWN)
        has_bytes = any(p.type == p.BYTE for p in proto.pieces)
        pieces = [(p.piece, p.score) for p in proto.pieces]
        return models.Unigram(pieces, unk_id=unknown, byte_fallback=has_bytes)
