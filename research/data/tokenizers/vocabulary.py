"""A vocabulary: text to ids and back, its special ids, and where words start."""

# T tokens, U units, V pieces

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.batch import WORD, VocabInfo
from research.data.cache import find, once
from research.data.corpora import sentences, word_boundaries
from research.data.corpora.files import Corpus
from research.data.tokenizers import tokenizer_models, tokenizer_sample, train_tokenizer
from research.errors import UserError

FILES = ("tokenizer.model", "tokenizer.json", "vocab.txt", "spiece.model", "spm.model")
"""Names under which a folder may hold a vocabulary."""

_SPELLINGS = {
    "pad": ("<pad>", "[PAD]"),
    "bos": ("<s>", "[CLS]", "<cls>", "<bos>", "<|startoftext|>"),
    "eos": ("</s>", "[SEP]", "<eos>", "<sep>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
    "unk": ("<unk>", "[UNK]"),
}


class Encoded(NamedTuple):
    """The tokens of several units, one after the other."""

    token: np.ndarray  # [T] int32
    flags: np.ndarray  # [T] uint8: WORD where a word starts
    count: np.ndarray  # [U] int64: tokens of each unit, at least one


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Pieces and special ids; `decode` undoes `encode` up to white space.

    Runs of white space are one space and none is kept at the ends. WordPiece also
    loses the white space around punctuation, and what it does not know; SentencePiece
    takes its own mark, U+2581, for a space.
    """

    model: tokenizer_models.Model
    vocab: VocabInfo

    @property
    def kind(self) -> str:
        """unigram, bpe, wordpiece or bytebpe."""
        return self.model.kind

    @functools.cached_property
    def sha256(self) -> str:
        """Of the model file."""
        return hashlib.sha256(self.model.data).hexdigest()

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Token ids [T] int32 of a text, and [T] bool: a word starts there."""
        encoded = self.encode_units(sentences.units(text))
        return encoded.token, encoded.flags == WORD

    def encode_units(self, units: Sequence[str]) -> Encoded:
        """The tokens of units as `sentences.units` cuts them."""
        joined = sentences.JOINED
        spelled = [u[1:] if u.startswith(joined) else " " + u for u in units]
        token, count = self.model.encode(spelled)
        if not count.all():  # nothing is left of a control character, say
            first = np.cumsum(count) - count
            token = np.insert(token, first[count == 0], self.vocab.unk_id)
            count = np.maximum(count, 1)
        return Encoded(token, self._word_flags(token, count), count)

    def decode(self, token: Sequence[int] | np.ndarray) -> str:
        """The text of token ids; special ones have none."""
        text = b"".join(self._surface[i] for i in np.asarray(token))
        return text.decode("utf-8", "replace").strip(" ")

    def save(self, folder: Path) -> Path:
        """Writes the model file into a folder; `load` reads it again."""
        json = self.kind in ("wordpiece", "bytebpe")
        path = Path(folder) / ("tokenizer.json" if json else "tokenizer.model")
        path.write_bytes(self.model.data)
        return path

    def _word_flags(self, token: np.ndarray, count: np.ndarray) -> np.ndarray:
        """WORD at the first token of a unit, at and after punctuation, at CJK.

        A piece's bytes may end inside a character, so characters are looked at in the
        text of all the pieces together, and the answer is read where a piece starts.
        """
        flags = np.zeros(len(token), np.uint8)
        text = b"".join(map(self._surface.__getitem__, token.tolist()))
        length = self._length[token]
        started = word_boundaries.starts(text)[np.cumsum(length) - length]
        flags[started | self._marked[token]] = WORD
        flags[np.cumsum(count) - count] = WORD
        return flags

    @functools.cached_property
    def _surface(self) -> list[bytes]:
        """[V]: the UTF-8 of each piece; ids past the model's end have none."""
        added = self.vocab.size - len(self.model.surface)
        return [*self.model.surface, *[b""] * added]

    @functools.cached_property
    def _length(self) -> np.ndarray:
        """[V] int64: bytes of each piece."""
        return np.array([len(text) for text in self._surface], np.int64)

    @functools.cached_property
    def _marked(self) -> np.ndarray:
        """[V] bool: pieces whose own mark says that they start a word."""
        return np.array([text[:1] == b" " for text in self._surface])


def load_or_train(data: Any, corpus: Corpus, cache: Path) -> Vocabulary:
    """The vocabulary of a config's section `data`, trained on the corpus if need be.

    Args:
      data: has `vocabulary` (a kind, or a model file), `vocabulary_size`, `sentinels`
        and `alpha` (for a joined corpus).

    Raises:
      UserError: no such kind or file, or a size that the corpus does not allow.
    """
    if data.vocabulary not in train_tokenizer.KINDS:
        return load(data.vocabulary, data.sentinels)
    corpus = corpus.vocabulary_source or corpus
    asked = (data.vocabulary, data.vocabulary_size, data.sentinels, data.alpha)

    def make(folder: Path) -> dict:
        model = train_tokenizer.train(corpus, *asked, cache)
        Vocabulary(model, find_special_tokens(model, data.sentinels)).save(folder)
        return {}

    made_of = train_tokenizer.made_of(corpus, *asked)
    if not find(cache, "vocabulary", made_of):
        tokenizer_sample.share(corpus, data.alpha, cache)
    return load(once(cache, "vocabulary", made_of, make), data.sentinels)


def load(path: str | os.PathLike, sentinels: int) -> Vocabulary:
    """The vocabulary in a file, or in a folder that holds one of `FILES`.

    Raises:
      UserError: there is none, or it is of no known kind.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        named = [file / name for name in FILES if (file / name).is_file()]
        file = named[0] if named else file
    if not file.is_file():
        raise UserError(
            f"data.vocabulary is {str(path)!r}: no such file; it is one of "
            f"{', '.join(train_tokenizer.KINDS)}, or a .model, tokenizer.json or vocab.txt"
        )
    try:
        model = tokenizer_models.read(file.read_bytes(), file.name)
    except UserError as error:
        raise UserError(f"data.vocabulary is {str(path)!r}: {error}") from error
    return Vocabulary(model, find_special_tokens(model, sentinels))


def find_special_tokens(model: tokenizer_models.Model, sentinels: int) -> VocabInfo:
    """A model's own special ids; those it lacks are added after its end.

    Missing sentinels come first and count down, as T5 adds them: with 32,000 pieces
    and 100 sentinels the first is 32,099.
    """
    ids = {name: i for i, name in enumerate(model.names)}
    names = [f"<extra_id_{n}>" for n in range(sentinels)]
    size = len(model.names)
    for name in reversed(names):
        if name not in ids:
            ids[name], size = size, size + 1
    found = {}
    for role, spellings in _SPELLINGS.items():
        known = [ids[name] for name in spellings if name in ids]
        found[role] = known[0] if known else size
        size += not known
    special = np.zeros(size, bool)
    special[[found[role] for role in ("pad", "bos", "eos", "mask")]] = True
    special[[ids[name] for name in names]] = True
    drawn = ~np.array(model.control, bool)
    drawn &= ~special[: len(drawn)]
    if found["unk"] < len(drawn):
        drawn[found["unk"]] = False
    return VocabInfo(
        size=size,
        **{f"{role}_id": token for role, token in found.items()},
        sentinel_ids=tuple(ids[name] for name in names),
        is_special=special,
        ordinary_ids=np.flatnonzero(drawn).astype(np.int32),
        lowercase_ids=_in_lower_case(model.surface, size),
    )


def _in_lower_case(surface: Sequence[bytes], size: int) -> np.ndarray:
    """[V] int32: the piece that spells each in lower case; itself where there is none.

    A piece that ends inside a character has no case.
    """
    ids = {text: i for i, text in enumerate(surface)}
    lower = np.arange(size, dtype=np.int32)
    for i, text in enumerate(surface):
        with contextlib.suppress(UnicodeDecodeError):
            small = text.decode().lower().encode()
            lower[i] = i if small == text else ids.get(small, i)
    return lower
