"""Vocabulary facts of a seqio task: special ids, and which ids start a word."""

# V vocabulary

from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor as SentencePiece

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.data.read import word_boundaries
from research.data.tokenize.tokenizer_types.sentencepiece_model import MARK


def make_vocab_info(vocabulary: Any, num_sentinels: int) -> VocabInfo:
    """The ids of a `seqio.Vocabulary`; special ids that it lacks are added at its end.

    Its extra ids are the first sentinels, the last id first, as in T5.

    Args:
      vocabulary: a `seqio.Vocabulary`.
      num_sentinels: the minimum of sentinels.

    Raises:
      UserError: the vocabulary does not report its size.
    """
    size = int(vocabulary.vocab_size or 0)
    if size < 1:
        raise UserError("data.task: its vocabulary does not say how many ids it has")
    extra = [*range(size - 1, size - 1 - (vocabulary.extra_ids or 0), -1)]
    special_ids = {}
    for role in ("pad", "bos", "eos", "mask", "unk"):
        token = _own_id(vocabulary, role)
        if token is None or token < 0 or token in (*special_ids.values(), *extra):
            token, size = size, size + 1
        special_ids[role] = int(token)
    num_missing = max(0, num_sentinels - len(extra))
    sentinels = (*extra, *range(size, size + num_missing))
    size += num_missing
    is_special = np.zeros(size, bool)
    is_special[[special_ids[role] for role in ("pad", "bos", "eos", "mask")]] = True
    is_special[list(sentinels)] = True
    is_ordinary = ~is_special
    is_ordinary[int(vocabulary.vocab_size) :] = False
    is_ordinary[special_ids["unk"]] = False
    return VocabInfo(
        size=size,
        **{f"{role}_id": token for role, token in special_ids.items()},
        sentinel_ids=sentinels,
        is_special=is_special,
        ordinary_ids=np.flatnonzero(is_ordinary).astype(np.int32),
    )


def word_starts(vocabulary: Any, size: int) -> np.ndarray:
    """[V] bool: the ids of a `seqio.Vocabulary` that start a word.

    They are the pieces that begin with SentencePiece's mark, with punctuation or with a
    CJK ideograph. If the vocabulary is not a SentencePiece model, every id starts one.
    """
    starts = np.ones(size, bool)
    if isinstance(model := getattr(vocabulary, "tokenizer", None), SentencePiece):
        pieces = model.id_to_piece(list(range(model.get_piece_size())))
        first = word_boundaries.code_points(
            "".join(piece[:1] or MARK for piece in pieces)
        )
        is_text = [
            not (model.is_byte(i) or model.is_control(i)) for i in range(len(pieces))
        ]
        starts[: len(pieces)] = (first == ord(MARK)) | (
            word_boundaries.is_own_word(first) & is_text
        )
    return starts


def _own_id(vocabulary: Any, role: str) -> int | None:
    """The id of "bos", ... in a `seqio.Vocabulary`; None or -1 if it has none."""
    try:
        return getattr(vocabulary, f"{role}_id", None)
    except NotImplementedError:  # seqio's own vocabularies raise it for bos
        return None
