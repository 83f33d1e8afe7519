"""A corpus: documents in a fixed order, each of which belongs to one split."""

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from research.contract.errors import UserError, unknown
from research.data import cache
from research.data.documents import ArrayType, Document

# C corpora

SPLITS = ("train", "valid", "test")
"""Prefix of the names of data sets of TensorFlow Datasets."""


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A source of documents, always in the same order."""

    name: str
    read: Callable[[str], Iterator[Document]]  # the documents of a split
    fingerprint: Callable[[], str]  # a hash of what documents and splits depend on
    size: int = 0  # size in the unit of Document.amount_read; 0: unknown
    vocabulary_source: "Corpus | None" = None  # the corpus to train a vocabulary on
    parts: tuple["Corpus", ...] = ()  # the corpora that `join_corpora` joined
    work_shards: tuple["Corpus", ...] = ()  # of a large corpus, in order
    arrays: Mapping[str, ArrayType] = dataclasses.field(default_factory=dict)  # that
    # its documents may have
    files: tuple[Path, ...] = ()  # that are read, if it consists of files
    classes: tuple[str, ...] = ()  # its labels in its own order; (): it has none
    division: str = ""  # how its files become documents, where that may surprise

    def documents(self, split: str) -> Iterator[Document]:
        """The documents of "train", "valid" or "test" that are not blank.

        Raises:
          UserError: the split is unknown, or the source cannot be read.
        """
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        documents = self.read(split)
        return (each for each in documents if each.text and not each.text.isspace())


def no_text(corpus: Corpus) -> UserError:
    """The error for a corpus whose splits all lack documents."""
    sizes = [file.stat().st_size for file in corpus.files]
    if sizes and not any(sizes):
        return UserError(f"{corpus.name!r} is empty; name a file with text")
    return UserError(
        f"{corpus.name!r} has no text: it has only white space, or rows without text; "
        "name a file with text"
    )


def join_corpora(corpora: Sequence[Corpus]) -> Corpus:
    """One corpus with all documents of several, to train one vocabulary on."""

    def read(split: str) -> Iterator[Document]:
        for corpus in corpora:
            for document in corpus.documents(split):
                yield document._replace(amount_read=0)

    return Corpus(
        name=" + ".join(corpus.name for corpus in corpora),
        read=read,
        fingerprint=lambda: cache.fingerprint([each.fingerprint() for each in corpora]),
        parts=tuple(corpora),
        work_shards=tuple(each for c in corpora for each in c.work_shards or (c,)),
    )


HeldOut = float | tuple[float, float] | None
"""The fraction of documents in valid, and again in test; or both fractions; None: every
split has all documents, since they are those of one split."""


def held_out_fractions(held_out: HeldOut) -> dict[str, float]:
    """The fractions of valid and test, as `split_of` takes them."""
    pair = held_out if isinstance(held_out, tuple) else (held_out or 0.0,) * 2
    return dict(zip(SPLITS[1:], pair, strict=True))


def split_fractions(text: str) -> tuple[float, float, float]:
    """The fractions of train, valid and test that data.split has, as in 0.8,0.1,0.1.

    Raises:
      ValueError: they are not three, that of train is 0, or their sum is not 1.
    """
    try:
        fractions = tuple(map(float, text.split(",")))
    except ValueError:
        fractions = ()
    legal = len(fractions) == 3 and fractions[0] > 0 and min(fractions) >= 0
    if not legal or abs(sum(fractions) - 1) > 1e-9:
        raise ValueError(
            "data.split must be three fractions, of train, valid and test, with sum 1, "
            f"as in 0.8,0.1,0.1, not {text!r}"
        )
    return fractions


def split_of(text: str, *, valid: float, test: float) -> str:
    """The split of a text, by its hash.

    Args:
      valid, test: the fractions of texts in these splits.
    """
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    uniform = int.from_bytes(digest, "big") / 2**64
    return "test" if uniform < test else "valid" if uniform < test + valid else "train"


def sampling_rates(
    sizes: Collection[float], alpha: float, groups: Collection[int] = (0,)
) -> list[float]:
    """Rates of corpora, ~ size ** alpha (XLM, Conneau and Lample 2019, eq. 1).

    Args:
      sizes: [C], each above 0.
      groups: [C] or [1], the group of each corpus. Groups are sampled equally often, as
        XLM alternates between text in one language and parallel text (section 3.5).

    Returns:
      [C] rates, whose sum is 1.
    """
    weight = np.array(sizes, float) ** alpha
    _, group = np.unique(np.broadcast_to(groups, weight.shape), return_inverse=True)
    weight /= np.bincount(group, weight)[group]
    return (weight / weight.sum()).tolist()
