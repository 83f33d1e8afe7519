"""A vocabulary: encodes text to ids, decodes ids, and finds where words start."""

# T tokens, U units, V pieces

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from etils import epath

from research.contract.batch import WORD, Pieces, VocabInfo
from research.contract.errors import UserError
from research.data.cache import cached_meta, get_or_create
from research.data.read import sentences, word_boundaries
from research.data.read.corpus import Corpus
from research.data.tokenize import (
    model_files,
    span_flags,
    tokenizer_models,
    tokenizer_sample,
    tokenizer_types,
    train_tokenizer,
)
from research.data.tokenize.tokenizer_types.sentencepiece_model import NUM_THREADS
from research.files.paths import user_path

if TYPE_CHECKING:
    from research.data.options import DataOptions

SPELLINGS = {
    "pad": ("<pad>", "[PAD]"),
    "bos": ("<cls>", "<s>", "[CLS]", "<bos>", "<|startoftext|>", "<|begin_of_text|>"),
    "eos": ("<sep>", "</s>", "[SEP]", "<eos>", "<|endoftext|>", "<|end_of_text|>"),
    "mask": ("<mask>", "[MASK]"),
    "unk": ("<unk>", "[UNK]"),
}


class Encoded(NamedTuple):
    """The tokens of several units, concatenated."""

    token: np.ndarray  # [T] int32
    flags: np.ndarray  # [T] uint8: WORD where a word starts; in a span of several units
    # also SENTENCE and PARAGRAPH, except at its first unit
    count: np.ndarray  # [U] int64: tokens of each unit, at least one unless the model
    # `drops_units`


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Pieces and special ids; `decode` undoes `encode`.

    If white space is not kept, each run of it becomes one space, and at the ends of a
    text it is removed; WordPiece also loses white space around punctuation, and unknown
    text. White space is that of `str.split`, without the control characters that the
    model removes (`removed_spaces`): WordPiece removes all control and format
    characters (google-research/bert, tokenization.py, _clean_text) and, like
    transformers, those of private use. Other models treat U+001C and U+0085 as white
    space; their official tokenizers treat these as text. SentencePiece decodes its
    mark, U+2581, as a space. What a normalizer (`data.normalizer`) removes is also
    lost.
    """

    model: tokenizer_models.TokenizerModel
    vocab: VocabInfo
    keep_whitespace: bool = False

    @property
    def tokenizer_type(self) -> str:
        """The name of its type, a module of `tokenizer_types`."""
        return self.model.tokenizer_type

    @property
    def type(self) -> tokenizer_types.TokenizerType:
        """The `TokenizerType` of its type."""
        return tokenizer_types.named(self.tokenizer_type)

    @functools.cached_property
    def sha256(self) -> str:
        """The hash of the model file."""
        return hashlib.sha256(self.model.data).hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """The facts for reading a model to start from (`partial_restore`)."""
        facts = {"vocabulary": self.sha256, "num_pieces": len(self.model.pieces)}
        return facts | {"labels": self.vocab.labels}

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Token ids [T] int32 of a text, and [T] bool: a word starts there."""
        encoded = self.encode_units(self.split(text))
        return encoded.token, encoded.flags & WORD > 0

    @property
    def joins_units(self) -> bool:
        """Whether `split` gives spans, in which the model may join units."""
        return self.keep_whitespace and self.model.cuts != "units"

    def num_added_spaces(self, text: str) -> int:
        """1 if units keep white space and begin with a space that the text lacks."""
        adds = self.keep_whitespace and self.model.prefixes_space
        return int(adds and text[:1] not in ("", " "))

    def split(self, text: str) -> list[str]:
        """The units of a text, which are encoded one by one: see `CUTS`."""
        if not self.keep_whitespace:
            return sentences.split_units(text, self.model.removed_spaces)
        text = " " * self.num_added_spaces(text) + text
        if self.model.cuts == "units":
            return sentences.split_literally(text)
        if self.model.cuts == "spans":
            return sentences.split_spans(text)
        return [sentences.NO_SPACE + text] if text else []

    def encode_units(self, units: Sequence[str]) -> Encoded:
        """The tokens of units of `split`."""
        if self.joins_units:
            return self._encode_spans(units)
        token, count = self._encode_each(units)
        return Encoded(token, self._word_flags(token, count), count)

    def _encode_each(self, units: Sequence[str]) -> tokenizer_models.EncodedUnits:
        """The tokens of units, at least one each unless the model `drops_units`."""
        token, count = self.model.encode(list(map(sentences.spell_unit, units)))
        # A unit may have no token, for example a control character.
        if not (count.all() or self.model.drops_units):
            first = np.cumsum(count) - count
            token = np.insert(token, first[count == 0], self.vocab.unk_id)
            count = np.maximum(count, 1)
        return tokenizer_models.EncodedUnits(token, count)

    def locate_units(self, units: Sequence[str]) -> tokenizer_models.LocatedTokens:
        """The tokens of units, with their offsets in the units.

        Offsets include the space before a unit; each unit has at least one token unless
        the model `drops_units`.
        """
        texts = list(map(sentences.spell_unit, units))
        token, count, begin, end = self.model.locate(texts)
        if self.model.drops_units:
            return tokenizer_models.LocatedTokens(token, count, begin, end)
        empty = np.flatnonzero(count == 0)
        at = (np.cumsum(count) - count)[empty]
        return tokenizer_models.LocatedTokens(
            np.insert(token, at, self.vocab.unk_id),
            np.maximum(count, 1),
            np.insert(begin, at, 0),
            np.insert(end, at, [len(texts[number]) for number in empty]),
        )

    def _encode_spans(self, spans: Sequence[str]) -> Encoded:
        """The tokens of spans; only spans of several units need the tokens' offsets."""
        joined = np.array([len(sentences.split_span(each)) > 1 for each in spans], bool)
        several = [spans[number] for number in np.flatnonzero(joined)]
        located = self.locate_units(several)
        single = self._encode_each([spans[n] for n in np.flatnonzero(~joined)])
        count = np.zeros(len(spans), np.int64)
        count[joined], count[~joined] = located.count, single.count
        of_joined = np.repeat(joined, count)
        token = np.zeros(len(of_joined), np.int32)
        token[of_joined], token[~of_joined] = located.token, single.token
        flags = self._word_flags(token, count)
        flags[of_joined] |= span_flags.span_flags(several, located)
        return Encoded(token, flags, count)

    def decode(self, token: Sequence[int] | np.ndarray) -> str:
        """The text of token ids; special ids have no text."""
        text = b"".join(self._piece_bytes[i] for i in np.asarray(token))
        decoded = text.decode("utf-8", "replace")
        return decoded if self.keep_whitespace else decoded.strip(" ")

    def piece_text(self, token: int) -> str:
        """The text of one token, with its spaces."""
        return self._piece_bytes[token].decode("utf-8", "replace")

    def piece_name(self, token: int) -> str:
        """The readable text of one token; for a special token, its name.

        A byte that is a part of a letter is spelled like <0xC3>.
        """
        piece = self._piece_bytes[token]
        try:
            return piece.decode("utf-8") or str(self.model.pieces[token])
        except UnicodeDecodeError:
            return "".join(chr(b) if b < 0x80 else f"<0x{b:02X}>" for b in piece)

    def save(self, folder: epath.PathLike) -> epath.Path:
        """Writes the model file into a folder, where `load_vocabulary` finds it."""
        json = isinstance(self.model, tokenizer_models.HuggingFaceModel)
        path = epath.Path(folder) / ("tokenizer.json" if json else "tokenizer.model")
        path.write_bytes(self.model.data)
        return path

    def _word_flags(self, token: np.ndarray, count: np.ndarray) -> np.ndarray:
        """WORD at the first token of a unit, at and after punctuation and CJK.

        A piece may end inside a character, so word starts are found in the bytes of all
        pieces together, and then looked up at the first byte of each piece.
        """
        flags = np.zeros(len(token), np.uint8)
        text = b"".join(map(self._piece_bytes.__getitem__, token.tolist()))
        length = self._piece_length[token]
        first_byte = np.cumsum(length) - length
        starts = word_boundaries.word_start_bytes(text)[first_byte]
        flags[starts | self._starts_with_space[token]] = WORD
        flags[1:][self._ends_word[token[:-1]]] = WORD
        flags[(np.cumsum(count) - count)[count > 0]] = WORD
        return flags

    @functools.cached_property
    def _piece_bytes(self) -> list[bytes]:
        """[V]: the UTF-8 of each piece; empty for ids that the model does not have."""
        added = self.vocab.size - len(self.model.piece_bytes)
        return [*self.model.piece_bytes, *[b""] * added]

    @functools.cached_property
    def _piece_length(self) -> np.ndarray:
        """[V] int64: the bytes of each piece."""
        return np.array([len(text) for text in self._piece_bytes], np.int64)

    @functools.cached_property
    def begins_word(self) -> np.ndarray:
        """[V] bool: pieces that begin what `str.split` yields.

        So a text has as many words as such pieces.

        Raises:
          UserError: the pieces do not show where white space is, or a run of it may
            have several.
        """
        if self.keep_whitespace or not self.type.spells_space:
            own = "keep" if self.keep_whitespace else self.tokenizer_type
            trained = train_tokenizer.TRAINED_TYPES
            able = [n for n in trained if tokenizer_types.named(n).spells_space]
            raise UserError(
                f"words are counted by pieces that begin with a space, but data."
                f"{'whitespace' if self.keep_whitespace else 'vocabulary'} is {own}; "
                f"set data.vocabulary to one of {', '.join(able)}, and "
                "data.whitespace=collapse"
            )
        return np.array([text[:1] == b" " for text in self._piece_bytes])

    @functools.cached_property
    def _starts_with_space(self) -> np.ndarray:
        """[V] bool: WordPiece's pieces that start a word, also inside a unit."""
        marks = self.type.marks == "starts"
        return np.array([marks and text[:1] == b" " for text in self._piece_bytes])

    @functools.cached_property
    def _ends_word(self) -> np.ndarray:
        """[V] bool: GPT's pieces that end a word, also inside a unit."""
        marks = self.type.marks == "ends"
        return np.array([marks and text[-1:] == b" " for text in self._piece_bytes])


def load_or_train(data: "DataOptions", corpus: Corpus, cache_dir: Path) -> Vocabulary:
    """The vocabulary of a config's section `data`, trained on the corpus if needed.

    Raises:
      UserError: there is no such type or file, the size does not fit the corpus, or
        white space should be kept but cannot be.
    """
    if data.vocabulary not in train_tokenizer.TRAINED_TYPES:
        return load_vocabulary(data.vocabulary, data.sentinels, data.whitespace)
    corpus = corpus.vocabulary_source or corpus
    options = train_tokenizer.Options(
        data.vocabulary,
        data.vocabulary_size,
        data.sentinels,
        tokenizer_sample.Options(
            data.vocabulary_sample,
            _keeps_whitespace(data.vocabulary, data.whitespace),
            data.alpha,
        ),
        data.normalizer,
    )

    def create(folder: Path) -> dict:
        model = train_tokenizer.train(corpus, options, cache_dir)
        Vocabulary(model, find_special_tokens(model, data.sentinels)).save(folder)
        return {}

    key = cache_key(corpus, options)
    if corpus.work_shards and not cached_meta(cache_dir, "vocabulary", key):
        tokenizer_sample.sample_work_shards(corpus, options.sampling, cache_dir)
    folder = get_or_create(cache_dir, "vocabulary", key, create)
    return load_vocabulary(folder, data.sentinels, data.whitespace)


def cache_key(corpus: Corpus, options: train_tokenizer.Options) -> dict:
    """Everything on which a trained vocabulary depends."""
    tokenizer_type = tokenizer_types.named(options.tokenizer_type)
    limits = [tokenizer_sample.MAX_LINE_BYTES, NUM_THREADS]
    sampling = options.sampling
    later = {"alpha": sampling.alpha} if sampling.alpha and corpus.parts else {}
    if options.normalizer != "none":
        later["normalizer"] = options.normalizer
    return {**later, **tokenizer_type.trained_by} | {
        "corpus": corpus.fingerprint(),
        "kind": options.tokenizer_type,
        "size": options.size,
        "sentinels": options.sentinels,
        "max_bytes": sampling.max_bytes,
        "keep_whitespace": sampling.keep_whitespace,
        "library": tokenizer_type.library.__version__,
        "rules": [*limits, train_tokenizer.VERSION],
    }


def _keeps_whitespace(tokenizer_type: str, whitespace: str) -> bool:
    """Whether text keeps its white space, by `data.whitespace` and the vocabulary.

    Raises:
      UserError: the vocabulary cannot spell all white space.
    """
    able = tokenizer_types.named(tokenizer_type).spells_white_space
    if whitespace == "keep" and not able:
        raise UserError(
            f"data.whitespace is keep, but a {tokenizer_type} vocabulary cannot spell "
            "all white space; set data.vocabulary=bytebpe or data.whitespace=collapse"
        )
    return whitespace != "collapse" and able


def load_vocabulary(
    path: str | os.PathLike, sentinels: int, whitespace: str = "auto"
) -> Vocabulary:
    """The vocabulary in a file, or in a folder: see `model_files.read_model`.

    Args:
      sentinels: the least number of sentinel ids of the vocabulary.
      whitespace: keep, collapse or auto, as `data.whitespace`.

    Raises:
      UserError: there is no such file, it is not a known type of vocabulary, or white
        space should be kept but the vocabulary cannot spell it.
    """
    try:
        model = model_files.read_model(epath.Path(user_path(path)))
    except FileNotFoundError as error:
        raise UserError(
            f"data.vocabulary is {str(path)!r}: no such file; give "
            f"{', '.join(train_tokenizer.TRAINED_TYPES)}, or a .model, "
            "tokenizer.json, vocab.txt, or vocab.json beside its merges.txt"
        ) from error
    if whitespace == "auto" and model.adds_space:
        whitespace = "collapse"
    keep = _keeps_whitespace(model.tokenizer_type, whitespace)
    return Vocabulary(model, find_special_tokens(model, sentinels), keep)


def find_special_tokens(
    model: tokenizer_models.TokenizerModel, sentinels: int
) -> VocabInfo:
    """A model's own special ids; those that it lacks are added after its last id.

    Missing sentinels are added first and count down, as in T5: with 32,000 pieces
    and 100 sentinels the first is 32,099.
    """
    ids = {piece: i for i, piece in enumerate(model.pieces)}
    sentinel_pieces = [f"<extra_id_{n}>" for n in range(sentinels)]
    size = len(model.pieces)
    for piece in reversed(sentinel_pieces):
        if piece not in ids:
            ids[piece], size = size, size + 1
    role_ids = {}
    for role, spellings in SPELLINGS.items():
        known = [ids[piece] for piece in spellings if piece in ids]
        role_ids[role] = known[0] if known else size
        size += not known
    special = np.zeros(size, bool)
    special[[role_ids[role] for role in ("pad", "bos", "eos", "mask")]] = True
    special[[ids[piece] for piece in sentinel_pieces]] = True
    ordinary = ~np.array(model.is_control, bool)
    ordinary &= ~special[: len(ordinary)]
    if role_ids["unk"] < len(ordinary):
        ordinary[role_ids["unk"]] = False
    return VocabInfo(
        size=size,
        **{f"{role}_id": token for role, token in role_ids.items()},
        sentinel_ids=tuple(ids[piece] for piece in sentinel_pieces),
        is_special=special,
        ordinary_ids=np.flatnonzero(ordinary).astype(np.int32),
        lowercase_ids=_lowercase_ids(model.piece_bytes, size),
        spelling=_spelling(model, ordinary, size),
        starts_word=_starts_word(model, size),
        pieces=_pieces(model, size),
    )


def _starts_word(
    model: tokenizer_models.TokenizerModel, size: int
) -> np.ndarray | None:
    """[V] bool: pieces that begin a word, by their spelling.

    They begin with a space or with a word of one character, or are ids that the model
    does not have; None: the model marks the ends of words.
    """
    if tokenizer_types.named(model.tokenizer_type).marks == "ends":
        return None
    starts = np.ones(size, bool)
    for piece, text in enumerate(model.piece_bytes):
        is_own = word_boundaries.word_start_bytes(text)[0] if text else False
        starts[piece] = is_own or text[:1] == b" "
    return starts


def _pieces(model: tokenizer_models.TokenizerModel, size: int) -> Pieces | None:
    """Maps pieces of words to text and back; None: the entries are whole words."""
    if tokenizer_types.named(model.tokenizer_type).has_words:
        return None
    text = (*model.piece_bytes, *[b""] * (size - len(model.piece_bytes)))
    return Pieces(text, functools.partial(_encode_part, model))


def _encode_part(model: tokenizer_models.TokenizerModel, text: str) -> np.ndarray:
    if not text:
        return np.zeros(0, np.int32)
    return model.encode([text]).token


def _spelling(
    model: tokenizer_models.TokenizerModel, ordinary: np.ndarray, size: int
) -> tuple[str, ...] | None:
    """The spellings of words, "" for other entries; None: pieces are not words."""
    if not tokenizer_types.named(model.tokenizer_type).has_words:
        return None
    words = zip(model.piece_bytes, ordinary, strict=True)
    spelled = [text.decode().strip(" ") if is_word else "" for text, is_word in words]
    return (*spelled, *[""] * (size - len(spelled)))


def _lowercase_ids(piece_bytes: Sequence[bytes], size: int) -> np.ndarray:
    """[V] int32: the id of each piece in lower case; its own id if there is none.

    A piece that ends inside a character has no lower-case form.
    """
    ids = {text: i for i, text in enumerate(piece_bytes)}
    lowercase = np.arange(size, dtype=np.int32)
    for i, text in enumerate(piece_bytes):
        with contextlib.suppress(UnicodeDecodeError):
            lower = text.decode().lower().encode()
            lowercase[i] = i if lower == text else ids.get(lower, i)
    return lowercase
