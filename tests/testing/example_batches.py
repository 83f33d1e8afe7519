"""A small vocabulary and random texts, for tests that need no corpus."""

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from research.contract.batch import (
    WORD,
    Example,
    Lexicon,
    Pieces,
    Triples,
    VocabInfo,
)
from research.data import counter_rng

LABELS = ("a", "b", "c")


FIRST_CHARACTER = 0x4E00
"""Token n is the one character n after it."""


def vocab(size: int = 64, sentinels: int = 20, labels=LABELS) -> VocabInfo:
    """Ids in order: pad bos eos mask unk, sentinels, ordinary tokens."""
    special = np.arange(size) < 5 + sentinels
    special[4] = False  # unk may be masked
    ordinary = np.arange(5 + sentinels, size, dtype=np.int32)
    names = tuple(range(5, 5 + sentinels))
    specials = (0, 1, 2, 3, 4, names, special)
    lower = np.arange(size, dtype=np.int32)
    lower[ordinary[1::4]] = ordinary[: 4 * (len(ordinary[1::4])) : 4]
    count = np.where(special, 0, 1 + np.arange(size) % 7)
    spelling = tuple("" if s else f"w{n}" for n, s in enumerate(special))
    rest = labels, lexicon(ordinary), lower, count, spelling
    starts = special | ((np.arange(size) - 5 - sentinels) % 3 != 2)
    pieces = Pieces(
        tuple(
            b"" if s else chr(FIRST_CHARACTER + n).encode()
            for n, s in enumerate(special)
        ),
        lambda text: np.array([ord(c) - FIRST_CHARACTER for c in text], np.int32),
    )
    more = {"starts_word": starts, "pieces": pieces}
    return VocabInfo(size, *specials, ordinary, *rest, **more)


def vocabulary(vocab: VocabInfo) -> Any:
    """What views read of a `Vocabulary`: token n is the word wn."""
    return SimpleNamespace(
        vocab=vocab,
        model=SimpleNamespace(pieces=[f"w{n}" for n in range(vocab.size)]),
        piece_name=lambda token: f" w{token}",
        piece_text=lambda token: f" w{token}",
        decode=lambda tokens: " ".join(f"w{token}" for token in tokens),
    )


def lexicon(ordinary: np.ndarray) -> Lexicon:
    """Every third ordinary token, and the pairs of the two after it; of two types.

    The single tokens are entities of triples with three relations, each a second token.
    """
    third = len(ordinary) // 3
    one, two, three = ordinary[: 3 * third].reshape(third, 3).T
    token = np.stack([np.append(one, two), np.append(0 * one - 1, three)], axis=1)
    size = np.repeat([1, 2], third)
    entry_type = np.arange(2 * third) % 2
    columns = (array.astype(np.int32) for array in (token, size, entry_type))
    rng = np.random.default_rng(0)
    head, tail = rng.integers(0, third, (2, 4 * third))
    relation, file = rng.integers(0, 3, len(head)), np.arange(len(head)) % 3 == 2
    ends = (each.astype(np.int32) for each in (head, relation, tail, file))
    triples = Triples(*ends, two[:3, None], np.ones(3, np.int32))
    return Lexicon(*columns, ("entity", "phrase"), triples)


def texts(
    width: int, lengths, vocabulary: VocabInfo, *, seed=0, separators=0.0
) -> Example:
    """Rows of uniform ordinary tokens, two in three of which start a word with a tag.

    separators: fraction of tokens that is eos, as between two documents of a stream.
    """
    rng = np.random.default_rng(seed)
    lengths = np.asarray(lengths, np.int32)
    shape = (len(lengths), width)
    token = rng.choice(vocabulary.ordinary_ids, shape)
    flags = np.where(rng.random(shape) < 2 / 3, WORD, 0)
    cut = rng.random(shape) < separators
    token, flags = np.where(cut, vocabulary.eos_id, token), np.where(cut, 0, flags)
    here = np.arange(width) < lengths[:, None]
    return Example(
        np.where(here, token, vocabulary.pad_id).astype(np.int32),
        np.where(here, flags, 0).astype(np.uint8),
        lengths,
        rng.integers(-1, max(1, len(vocabulary.labels)), len(lengths)).astype(np.int32),
        first_length=lengths,
        corpus=np.zeros_like(lengths),
        step=np.zeros(len(lengths), np.int64),
        document=np.where(lengths > 0, np.arange(len(lengths)), -1),
        number=np.arange(len(lengths)),
        arrays={
            "tags": np.where(here, token % len(LABELS), -1).astype(np.int32),
            "cooccurrence": np.where(here, 0.5 + np.arange(width) // 2 % 9, 0).astype(
                np.float32
            ),
            "image": np.where(here, rng.integers(0, 40, (len(lengths), 1)), -1),
            "link": np.where(here, _links(token), -1).astype(np.int32),
        },
    )


def _links(token: np.ndarray) -> np.ndarray:
    """A mention at every fourth token, half of which have a second one."""
    begins = token % 4 == 0
    inside = np.roll(begins & (token % 8 == 0), 1, axis=1) & ~begins
    return np.where(begins, 2 + token % 60, np.where(inside, 0, -1))


def keys(num_rows: int, seed: int = 0) -> np.ndarray:
    """Keys of the first rows of an epoch."""
    return counter_rng.row_key(seed, np.zeros(num_rows, np.int64), np.arange(num_rows))


def rows(example: Example, index) -> Example:
    """The rows of an example at an index or slice."""
    return jax.tree.map(lambda array: array[index], example)
