"""A corpus: documents in a fixed order, each of which belongs to one split."""

import dataclasses
import hashlib
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from research.data import cache
from research.errors import unknown
from research.fields import check, choice

# C corpora

SPLITS = ("train", "valid", "test")
TFDS_PREFIX = "tfds:"
"""How the name of a data set of TensorFlow Datasets begins."""

ANSWERABLE, UNANSWERABLE = "answerable", "unanswerable"
"""Labels of questions; one whose answer is not where the file says has no label."""

LABEL_SEPARATOR = "\x1f"
"""Between the labels of a document that has several."""


def single_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels that those of documents consist of, sorted."""
    return tuple(
        sorted({each for label in labels for each in label.split(LABEL_SEPARATOR)})
    )


@dataclasses.dataclass(frozen=True)
class ArrayType:
    """An array that a format gives with the text of each document."""

    per: str = choice("token", ("token", "part", "document"))  # what has a value. A
    # document gives one for each character, of which a token has that of its first
    # one; for each of its parts; or one alone
    dtype: type = np.int32  # of a value; str: a name, which counts as a label

    def __post_init__(self):
        check(self)

    @property
    def stored(self) -> np.dtype:
        """The type of the numbers; those of names are indices of labels."""
        return np.dtype(np.int32 if self.dtype is str else self.dtype)


TAGS = {"tags": ArrayType("part", str)}
"""The array of formats whose parts, which are words, have labels."""


class Document(NamedTuple):
    """One document: its text, and what is known about it where it is a task's example.

    An example has parts, such as two sentences or the words of one. They are joined to
    the text, so every corpus and every store is one of texts.
    """

    text: str
    label: str | None = None  # several are joined by LABEL_SEPARATOR
    amount_read: int = 0  # of the corpus so far, in the unit of Corpus.size
    starts: tuple[int, ...] = ()  # characters at which the parts after the first start
    answer: tuple[int, int] | None = None  # characters of the answer: first, last + 1
    golds: tuple[str, ...] = ()  # texts of all answers that are right
    id: str = ""  # its name among the predictions: FILE:LINE, or the question's own
    arrays: Mapping[str, Any] = MappingProxyType({})  # values of Corpus.arrays


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A source of documents, always in the same order."""

    name: str
    read: Callable[[str], Iterator[Document]]  # the documents of a split
    fingerprint: Callable[[], str]  # a hash of what documents and splits depend on
    size: int = 0  # in the unit of Document.amount_read; 0: unknown
    vocabulary_source: "Corpus | None" = None  # the corpus to train a vocabulary on
    parts: tuple["Corpus", ...] = ()  # the corpora that `join_corpora` joined
    work_shards: tuple["Corpus", ...] = ()  # of a large corpus, in order
    arrays: Mapping[str, ArrayType] = dataclasses.field(default_factory=dict)  # that
    # its documents may have

    def documents(self, split: str) -> Iterator[Document]:
        """The documents of "train", "valid" or "test" that are not blank.

        Raises:
          UserError: the split is unknown, or the source cannot be read.
        """
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        documents = self.read(split)
        return (each for each in documents if each.text and not each.text.isspace())


def join_parts(parts: Sequence[str], separator: str) -> Document:
    """The document of some parts, none of which is blank."""
    starts, end = [], 0
    for part in parts:
        starts.append(end)
        end += len(part) + len(separator)
    return Document(separator.join(parts), starts=tuple(starts[1:]))


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
    """The rate of each corpus, ~ size ** alpha (XLM, Conneau and Lample 2019, eq. 1).

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
