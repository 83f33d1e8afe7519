"""A token stream on disk: tokens and flags, offsets of documents, sentences, labels."""

# B batch, R raw tokens an example, T tokens, D documents

import dataclasses
import functools
from pathlib import Path

import numpy as np

from research.data import work_shards
from research.data.cache import once, read_meta
from research.data.corpora.files import Corpus
from research.data.store import tokenize
from research.data.tokenizers.vocabulary import Vocabulary
from research.errors import UserError, unknown

SEPARATORS = ("eos", "none")


@dataclasses.dataclass(frozen=True)
class Stream:
    """A memory-mapped stream; every place is counted over all shards, in order.

    Document d is the tokens document_offsets[d] to document_offsets[d + 1], of which
    the last `separator_length` are the separator; so it is for its last sentence.
    """

    path: Path
    meta: dict

    @staticmethod
    def open(path: Path) -> "Stream":
        """The whole stream in a folder.

        Raises:
          UserError: the folder holds no whole stream.
        """
        meta = read_meta(Path(path))
        if meta is None:
            raise UserError(f"{path}: no whole token stream; make it again")
        return Stream(Path(path), meta)

    @property
    def fingerprint(self) -> str:
        """A hash of everything that made it."""
        return self.path.name

    @property
    def num_tokens(self) -> int:
        """T, separators included."""
        return sum(shard["tokens"] for shard in self.meta["shards"])

    @property
    def num_documents(self) -> int:
        return sum(shard["documents"] for shard in self.meta["shards"])

    @property
    def num_unknown(self) -> int:
        """Tokens that stand for text that the vocabulary does not know."""
        return self.meta["unknown"]

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels of its documents, in the order in which they come up."""
        return tuple(self.meta["label_names"])

    @property
    def separator_length(self) -> int:
        """Tokens after each document that are not of its text: 1 or 0."""
        return self.meta["separator_length"]

    @functools.cached_property
    def shard_offsets(self) -> np.ndarray:
        """[shards + 1] int64: no document, and no example, crosses one."""
        tokens = [shard["tokens"] for shard in self.meta["shards"]]
        return np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)

    @functools.cached_property
    def document_offsets(self) -> np.ndarray:
        """[D + 1] int64: where each document starts, and the end."""
        return self._offsets("documents")

    @functools.cached_property
    def sentence_offsets(self) -> np.ndarray:
        """[sentences + 1] int64: where each sentence starts, and the end."""
        return self._offsets("sentences")

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """[D] int32: places in `label_names`; -1: none."""
        return np.concatenate(self._files("labels", np.int32))

    def gather(
        self, start: np.ndarray, length: np.ndarray, width: int, pad: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of tokens [B, R] int32 and their flags [B, R] uint8; R is `width`.

        Args:
          start, length: [B] int64; a row stays within its shard. Beyond `length` are
            `pad` and flags 0.
        """
        start, length = np.asarray(start, np.int64), np.asarray(length, np.int64)
        shard = np.searchsorted(self.shard_offsets[1:-1], start, side="right")
        place = (start - self.shard_offsets[shard])[:, None] + np.arange(width)
        token = np.empty((len(start), width), np.int32)
        flags = np.empty((len(start), width), np.uint8)
        for n in np.unique(shard):
            rows = shard == n
            token[rows] = self._tokens[n].take(place[rows], mode="clip")
            flags[rows] = self._flags[n].take(place[rows], mode="clip")
        beyond = np.arange(width) >= length[:, None]
        if beyond.any():
            token[beyond], flags[beyond] = pad, 0
        return token, flags

    @functools.cached_property
    def _tokens(self) -> list[np.ndarray]:
        return self._files("token", np.dtype(self.meta["dtype"]))

    @functools.cached_property
    def _flags(self) -> list[np.ndarray]:
        return self._files("flags", np.uint8)

    def _files(self, name: str, dtype: np.dtype | type) -> list[np.ndarray]:
        """The array of that name in each shard, mapped."""
        folders = [self.path / shard["name"] for shard in self.meta["shards"]]
        return [_mapped(folder / f"{name}.bin", dtype) for folder in folders]

    def _offsets(self, name: str) -> np.ndarray:
        starts = zip(self._files(name, np.int64), self.shard_offsets, strict=False)
        shifted = [offsets + first for offsets, first in starts]
        return np.concatenate([*shifted, self.shard_offsets[-1:]])


def build(
    corpus: Corpus,
    split: str,
    vocabulary: Vocabulary,
    cache: Path,
    separator: str,
    shard_tokens: int = 2**28,
) -> Stream:
    """The stream of a corpus' split, made once; it streams, in constant memory.

    Processes that call this at the same time share the portions of a large corpus.

    Args:
      separator: "eos" (a token after each document) or "none".
      shard_tokens: a shard is full once it holds as many.

    Raises:
      UserError: an unknown separator, or a split without documents.
    """
    if separator not in SEPARATORS:
        raise unknown("data.separator", separator, SEPARATORS)
    made_of = {
        "corpus": corpus.fingerprint(),
        "split": split,
        "vocabulary": vocabulary.sha256,
        "unk": vocabulary.vocab.unk_id,
        "separator": vocabulary.vocab.eos_id if separator == "eos" else None,
        "shard_tokens": shard_tokens,
        "rules": tokenize.RULES,
    }
    between = [vocabulary.vocab.eos_id] if separator == "eos" else []

    def write(folder: Path, part: Corpus) -> dict:
        return tokenize.write(folder, part, split, vocabulary, between, shard_tokens)

    def make(folder: Path) -> dict:
        return tokenize.checked(corpus, split, write(folder, corpus))

    def join(folder: Path, made: list[work_shards.Portion]) -> dict:
        return tokenize.checked(corpus, split, tokenize.join(folder, made))

    if not corpus.portions:
        return Stream.open(once(cache, "stream", made_of, make))
    made_of["portion"] = work_shards.PORTION
    parts = cache, "stream", made_of, corpus.portions
    return Stream.open(work_shards.once_joined(*parts, write, join))


def _mapped(path: Path, dtype: np.dtype | type) -> np.ndarray:
    """The array in a file, mapped read-only (a file of no bytes cannot be mapped)."""
    if not path.stat().st_size:
        return np.zeros(0, dtype)
    return np.asarray(np.memmap(path, dtype, "r"))
