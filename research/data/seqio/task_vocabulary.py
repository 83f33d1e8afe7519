"""What a vocabulary of seqio says of itself: special ids, and where words start."""

# V ids

from typing import Any

import numpy as np
from sentencepiece import SentencePieceProcessor as SentencePiece

from research.batch import VocabInfo
from research.data.corpora import word_boundaries
from research.data.tokenizers.tokenizer_models import MARK
from research.errors import UserError


def vocab_info_of(vocabulary: Any, sentinels: int) -> VocabInfo:
    """The ids of a `seqio.Vocabulary`; those it lacks are added after its end.

    Its extra ids are the first sentinels, from the last one down, as in T5.

    Raises:
      UserError: it does not say its size.
    """
    size = int(vocabulary.vocab_size or 0)
    if size < 1:
        raise UserError("data.task: its vocabulary does not say how many ids it has")
    extra = [*range(size - 1, size - 1 - (vocabulary.extra_ids or 0), -1)]
    found = {}
    for role in ("pad", "bos", "eos", "mask", "unk"):
        known = _own_id(vocabulary, role)
        if known is None or known < 0 or known in (*found.values(), *extra):
            known, size = size, size + 1
        found[role] = int(known)
    more = max(0, sentinels - len(extra))
    names = (*extra, *range(size, size + more))
    size += more
    special = np.zeros(size, bool)
    special[[found[role] for role in ("pad", "bos", "eos", "mask")]] = True
    special[list(names)] = True
    drawn = ~special
    drawn[int(vocabulary.vocab_size) :] = False
    drawn[found["unk"]] = False
    return VocabInfo(
        size=size,
        **{f"{role}_id": token for role, token in found.items()},
        sentinel_ids=names,
        is_special=special,
        ordinary_ids=np.flatnonzero(drawn).astype(np.int32),
    )


def word_starts(vocabulary: Any, size: int) -> np.ndarray:
    """[V] bool: at which ids of a `seqio.Vocabulary` a word starts.

    At pieces that begin with SentencePiece's mark, punctuation or a CJK ideograph; a
    vocabulary without marks starts one at all.
    """
    starts = np.ones(size, bool)
    if isinstance(model := getattr(vocabulary, "tokenizer", None), SentencePiece):
        pieces = model.id_to_piece(list(range(model.get_piece_size())))
        heads = word_boundaries.code_points(
            "".join(piece[:1] or MARK for piece in pieces)
        )
        text = [
            not (model.is_byte(i) or model.is_control(i)) for i in range(len(pieces))
        ]
        starts[: len(pieces)] = (heads == ord(MARK)) | (
            word_boundaries.is_own_word(heads) & text
        )
    return starts


def _own_id(vocabulary: Any, role: str) -> int | None:
    """The id of "bos", ... in a `seqio.Vocabulary`; None or -1: it has none."""
    try:
        return getattr(vocabulary, f"{role}_id", None)
    except NotImplementedError:  # what seqio's own vocabularies do about bos
        return None
