"""Tokenizer models of several libraries behind one interface.

A model maps units of text to ids. A unit is a word: " word" after white space, "word"
right after another unit. No piece spans two units, so each distinct unit needs to be
encoded only once. If white space is kept, a model may join units (`CUTS`).
"""

# U units, T tokens, V pieces

import contextlib
import functools
import itertools
import json
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2

from research.contract.errors import UserError
from research.data.tokenize.rust_panics import panics_as_errors
from research.data.tokenize.tokenizer_types import FOLDER, named
from research.data.tokenize.tokenizer_types.sentencepiece_model import MARK, is_byte
from research.data.tokenize.tokenizer_types.wordbpe import WORD_END

MAX_PIECES = 2**20
"""The most ids of a vocabulary, those without a piece included."""


PATTERNS = ("normalizer", "pre_tokenizer")
"""Parts of a `tokenizer.json` that may have regular expressions, which may panic."""


CONTROL_SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
"""White space of `str.split` that is a control character: BERT's tokenizer removes it,
as does SentencePiece's rule nmt_nfkc but for U+000C and U+0085."""


CUTS = ("units", "spans", "texts")
"""Where white space is kept, what a model encodes by itself: units of
`sentences.split_literally`, if it cuts text by GPT-2's pattern; spans of
`sentences.split_spans`, if by another; whole texts, if it joins words, too."""


class EncodedUnits(NamedTuple):
    """The tokens of several units, concatenated."""

    token: np.ndarray  # [T] int32
    count: np.ndarray  # [U] int64: tokens of each unit


class LocatedTokens(NamedTuple):
    """The tokens of several texts, concatenated, and the characters that they encode.

    If a character has several tokens, all have its offsets; a token that encodes no
    character, such as the mark of a word's start, may have an empty range.
    """

    token: np.ndarray  # [T] int32
    count: np.ndarray  # [U] int64: tokens of each text
    begin: np.ndarray  # [T] int64, in its text
    end: np.ndarray  # [T] int64


class TokenizerModel(Protocol):
    """The interface of a tokenizer that `Vocabulary` uses."""

    tokenizer_type: str
    data: bytes  # the model file
    pieces: list[str]  # [V] as the model file spells them
    piece_bytes: list[bytes]  # [V] the UTF-8 of each; the word mark is a space
    is_control: list[bool]  # [V] pieces that no text is encoded to
    adds_space: bool  # its files ask for a space before the first word of a text
    prefixes_space: bool  # a text that begins without a space gets one
    cuts: str  # one of `CUTS`
    drops_units: bool  # a unit that its normalizer removes completely has no token
    removed_spaces: str  # characters of `CONTROL_SPACES` that do not separate words
    version: int  # is raised when a change here gives a text other tokens or flags

    def encode(self, units: Sequence[str]) -> EncodedUnits:
        """The tokens of units; each starts with a space or joins the unit before it."""

    def locate(self, texts: Sequence[str]) -> LocatedTokens:
        """The tokens of units, and the characters of each.

        Characters follow the normalizer's alignment.
        """


class SentencePieceModel:
    """A SentencePiece model, unigram or BPE."""

    adds_space = True
    prefixes_space = False
    cuts = "units"

    def __init__(self, data: bytes):
        proto = sentencepiece_model_pb2.ModelProto.FromString(data)
        self.data = data
        kind = proto.trainer_spec.model_type
        names = (n for n in FOLDER.names() if named(n).sentencepiece_type == kind)
        self.tokenizer_type = next(names, "unigram")
        rules = proto.normalizer_spec
        self.drops_units = bool(rules.precompiled_charsmap)
        self.version = 2 if self.drops_units else 1
        self.removed_spaces = ""
        rules.add_dummy_prefix = False  # units have their own space
        rules.remove_extra_whitespaces = self.drops_units
        processor = _processor(proto)
        self._encode = processor.encode
        if self.drops_units:  # a normalizer may turn other characters into spaces
            rules.add_dummy_prefix = True
            self._encode_words = _processor(proto).encode
            self._normalize = sentencepiece.SentencePieceNormalizer(
                model_proto=data,
                add_dummy_prefix=False,
                escape_whitespaces=False,
                remove_extra_whitespaces=False,
            ).normalize
            self.removed_spaces = "".join(
                space
                for space in CONTROL_SPACES
                if self._normalize(f"a{space}b") == "ab"
            )
            self.version = 4 if self.removed_spaces else 2
        ids = range(len(processor))
        self.pieces = [processor.id_to_piece(i) for i in ids]
        self.is_control = [
            processor.is_control(i) or processor.is_unused(i) for i in ids
        ]
        self.piece_bytes = []
        for i, piece in enumerate(self.pieces):
            if processor.is_byte(i):
                self.piece_bytes.append(bytes([int(piece[3:-1], 16)]))
            elif processor.is_unknown(i):
                self.piece_bytes.append("\ufffd".encode())
            else:
                text = "" if self.is_control[i] else piece.replace(MARK, " ")
                self.piece_bytes.append(text.encode())
        named(self.tokenizer_type).check_bytes(self.piece_bytes)

    def encode(self, units: Sequence[str]) -> EncodedUnits:
        return _concatenate(self._encode_units(units, int))

    def locate(self, texts: Sequence[str]) -> LocatedTokens:
        found = self._encode_units(texts, "offset_mapping")
        return _located(
            [each["ids"] for each in found],
            [each["offsets"] for each in found],
            texts if self.drops_units else (),
        )

    def _encode_units(self, units: Sequence[str], return_type: Any) -> list:
        options = {"return_type": return_type, "num_threads": 1}
        if not self.drops_units:
            return self._encode(list(units), **options)
        encode_words = functools.partial(self._encode_words, **options)
        encode_joined = functools.partial(self._encode, **options)
        return _encode_by_space(units, encode_words, encode_joined, self._normalize)


class HuggingFaceModel:
    """A model of the library `tokenizers`: BPE, WordPiece, Unigram or whole words."""

    def __init__(self, data: bytes):
        self.data = data
        state = json.loads(data)
        self.tokenizer_type = _tokenizer_type(state)
        self._type = named(self.tokenizer_type)
        normal = _steps(state.get("normalizer"), "normalizers")
        self.adds_space = any(step["type"] == "Prepend" for step in normal)
        self._guard = contextlib.nullcontext
        if '"Regex"' in json.dumps([state.get(name) for name in PATTERNS]):
            what = "its tokenizer.json fails on this text"
            self._guard = functools.partial(panics_as_errors, what)
        before = _steps(state.get("pre_tokenizer"), "pretokenizers")
        has_marks = any(step["type"] == "Metaspace" for step in before)
        prefixes = [step.get("add_prefix_space", False) for step in before]
        byte_level = [step["type"] == "ByteLevel" for step in before]
        self.prefixes_space = any(map(operator.and_, prefixes, byte_level))
        if self.prefixes_space and not byte_level[0]:
            raise UserError(
                "its pre_tokenizer cuts a text and then adds a space to each part "
                "(add_prefix_space), which is not known here"
            )
        self._by_space = self._type.by_space and has_marks
        self.drops_units = self._by_space or self._type.drops_units
        self.removed_spaces = _removed_spaces(state) if self.drops_units else ""
        self._load(state)
        vocabulary = self._model.get_vocab(with_added_tokens=True)
        last = max(vocabulary.values())
        if last >= MAX_PIECES:
            raise UserError(f"it has a piece of id {last}; ids are below {MAX_PIECES}")
        own = state["model"]["vocab"]
        if isinstance(own, dict) and len(set(own.values())) < len(own):
            raise UserError("several of its pieces have the same id")
        self.pieces = [""] * (last + 1)
        for piece, i in vocabulary.items():
            self.pieces[i] = piece
        added = state["added_tokens"]
        special = {token["content"] for token in added if token["special"]}
        ordinary = {token["content"] for token in added} - special
        unknown = state["model"].get("unk_token")
        self._type.check(vocabulary, unknown)
        if (unknown_id := state["model"].get("unk_id")) is not None:
            unknown = state["model"]["vocab"][unknown_id][0]
        self.is_control = [
            not piece or (piece in special and piece != unknown)
            for piece in self.pieces
        ]
        self.piece_bytes = []
        for piece, control in zip(self.pieces, self.is_control, strict=True):
            if control:
                self.piece_bytes.append(b"")
                continue
            text = self._type.added_bytes(piece) if piece in ordinary else None
            if text is None and piece == unknown:
                text = self._type.unknown_bytes
            spelled = self._type.piece_bytes(piece) if text is None else text
            self.piece_bytes.append(spelled)
        self._type.check_bytes(self.piece_bytes)
        self.cuts = "units"
        if self._type.spells_white_space and not _has_gpt2_pattern(state):
            texts = [piece.decode("utf-8", "ignore") for piece in self.piece_bytes]
            joins_words = any(map(_JOINS_WORDS.search, texts))
            strips = any(
                token["lstrip"] or token["rstrip"]
                for token in added
                if not token["special"]
            )
            self.cuts = "texts" if joins_words or strips else "spans"
        changed = ordinary or self.cuts != "units" or self.drops_units
        self.version = 2 if changed else 1
        if self._spells_control():
            self._load(_unspellable(state))
            self.version = 3
        if self._type.drops_units or self.removed_spaces:
            self.version += 3
        if self.prefixes_space:
            self.version += 3

    def _load(self, state: dict) -> None:
        """Makes the tokenizers for units from the state of a `tokenizer.json`."""
        self._model = _text_tokenizer(_of_units(state))
        if self._by_space:
            self._word_model = _text_tokenizer(_of_words(state))

    def _spells_control(self) -> bool:
        """Whether a text that spells a control piece is encoded to it."""
        control = {n for n, each in enumerate(self.is_control) if each}
        spelled = [self.pieces[n] for n in control if self.pieces[n]]
        units = [*spelled, *(" " + piece for piece in spelled)]
        return not control.isdisjoint(self._encode(units).token.tolist())

    @property
    def normalizer(self) -> tokenizers.normalizers.Normalizer:
        """The rule that changes letters of units; it adds no space."""
        return self._model.normalizer

    @property
    def pre_tokenizer(self) -> tokenizers.pre_tokenizers.PreTokenizer:
        """The rule that cuts units; it adds no space."""
        return self._model.pre_tokenizer

    def encode(self, units: Sequence[str]) -> EncodedUnits:
        with self._guard():
            return self._encode(units)

    def _encode(self, units: Sequence[str]) -> EncodedUnits:
        found = self._encode_units(units, tokenizers.Tokenizer.encode_batch_fast)
        return _concatenate([encoding.ids for encoding in found])

    def locate(self, texts: Sequence[str]) -> LocatedTokens:
        with self._guard():
            found = self._encode_units(texts, tokenizers.Tokenizer.encode_batch)
            offsets = [encoding.offsets for encoding in found]
            if self._type.splits_unknown:
                offsets = list(map(self._part_bytes, texts, found))
        ids = [encoding.ids for encoding in found]
        return _located(ids, offsets, texts if self._by_space else ())

    def _encode_units(
        self, units: Sequence[str], encode: Callable
    ) -> list[tokenizers.Encoding]:
        def encode_joined(units: Sequence[str]) -> list[tokenizers.Encoding]:
            return encode(self._model, list(units), add_special_tokens=False)

        def encode_words(units: Sequence[str]) -> list[tokenizers.Encoding]:
            return encode(self._word_model, list(units), add_special_tokens=False)

        if not self._by_space:
            return encode_joined(units)
        normalize = self._model.normalizer.normalize_str
        return _encode_by_space(units, encode_words, encode_joined, normalize)

    def _part_bytes(
        self, text: str, encoding: tokenizers.Encoding
    ) -> list[tuple[int, int]]:
        """The offsets of a text's tokens.

        Each byte token has those of its character; the library gives it those of the
        whole run of unknown characters.
        """
        offsets = list(encoding.offsets)
        text = text.removeprefix(" ") if self._by_space else text
        is_byte_piece = [is_byte(piece) for piece in encoding.tokens]
        runs = itertools.groupby(
            range(len(offsets)), lambda token: (is_byte_piece[token], offsets[token])
        )
        for (of_bytes, (begin, end)), run in runs:
            if of_bytes and end - begin > 1:
                tokens = list(run)
                pieces = [self.piece_bytes[encoding.ids[token]] for token in tokens]
                letters = b"".join(pieces).decode("utf-8", "replace")
                aligned = self._align(text[begin:end], letters)
                sizes = [len(letter.encode()) for letter in letters[: len(aligned)]]
                places = np.repeat(begin + np.array(aligned), sizes, axis=0).tolist()
                for token, place in zip(tokens, places, strict=False):
                    offsets[token] = tuple(place)
        return offsets

    def _align(self, text: str, letters: str) -> list[tuple[int, int]]:
        """The characters of a text from which its normalizer makes each letter.

        [] if it does not make these letters.
        """
        normal = self.normalizer.normalize_str(text) if self.normalizer else text
        aligned = self._aligner.encode(text, add_special_tokens=False).offsets
        start = normal.find(letters) if len(aligned) == len(normal) else -1
        return aligned[start : start + len(letters)] if start >= 0 else []

    @functools.cached_property
    def _aligner(self) -> tokenizers.Tokenizer:
        model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a"))
        if self.normalizer:
            model.normalizer = self.normalizer
        model.pre_tokenizer = tokenizers.pre_tokenizers.Split(
            tokenizers.Regex(r"[\s\S]"), "isolated"
        )
        return model


def _has_gpt2_pattern(state: dict) -> bool:
    """Whether a byte-level `tokenizer.json` cuts text only by GPT-2's pattern."""
    steps = _steps(state.get("pre_tokenizer"), "pretokenizers")
    if [step["type"] for step in steps] != ["ByteLevel"]:
        return False
    plain = all(token["special"] for token in state["added_tokens"])
    return plain and steps[0].get("use_regex", True)


def _processor(
    proto: sentencepiece_model_pb2.ModelProto,
) -> sentencepiece.SentencePieceProcessor:
    data = proto.SerializeToString()
    return sentencepiece.SentencePieceProcessor(model_proto=data)


def _text_tokenizer(state: dict) -> tokenizers.Tokenizer:
    """The tokenizer of a state; it does not look for special tokens in a text."""
    model = tokenizers.Tokenizer.from_str(json.dumps(state))
    model.encode_special_tokens = True
    model.no_padding()
    model.no_truncation()
    return model


def _removed_spaces(state: dict) -> str:
    """The characters of `CONTROL_SPACES` at which a `tokenizer.json` does not cut."""
    rules = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    rules |= {name: state.get(name) for name in PATTERNS}
    model = tokenizers.Tokenizer.from_str(json.dumps(rules))
    words = model.encode_batch([f"a{space}b" for space in CONTROL_SPACES])
    pairs = zip(CONTROL_SPACES, words, strict=True)
    return "".join(space for space, word in pairs if len(word) == 1)


def _encode_by_space(
    units: Sequence[str],
    encode_words: Callable[[list[str]], Sequence],
    encode_joined: Callable[[list[str]], Sequence],
    normalize: Callable[[str], str],
) -> list:
    """The encodings of units; those after a space are encoded as texts.

    So the spaces that a normalizer makes at a unit's edge are merged with its own.

    Args:
      encode_words: encodes texts without their space, by the model file's rules.
      encode_joined: encodes texts without adding a space.
      normalize: the text of a unit, with the spaces at its edge.
    """
    is_word = [unit[0] == " " or normalize(unit)[:1] == " " for unit in units]
    pairs = list(zip(units, is_word, strict=True))
    words = iter(encode_words([unit.removeprefix(" ") for unit, word in pairs if word]))
    joined = iter(encode_joined([unit for unit, word in pairs if not word]))
    return [next(words) if word else next(joined) for word in is_word]


def _of_words(state: dict) -> dict:
    """The state of a `tokenizer.json` that encodes words without their space."""
    state = json.loads(json.dumps(state))
    for step in _steps(state.get("pre_tokenizer"), "pretokenizers"):
        if step["type"] == "Metaspace":
            step["prepend_scheme"] = "always"
            if "add_prefix_space" in step:
                step["add_prefix_space"] = True
    return state


def _of_units(state: dict) -> dict:
    """The state of a `tokenizer.json` that encodes units, which have their own space.

    Nothing adds a space to a unit, and nothing removes the one that it has.
    """
    state = json.loads(json.dumps(state))
    normal = _steps(state.get("normalizer"), "normalizers")
    for step in normal:
        if step["type"] == "Strip":
            step["strip_left"] = False
    before = _steps(state.get("pre_tokenizer"), "pretokenizers")
    kept = [step for step in normal if step["type"] != "Prepend"]
    types = [step["type"] for step in before]
    if state["model"]["type"] == "Unigram" and "WhitespaceSplit" in types:
        kept += _ONE_SPACE
    state["normalizer"] = {"type": "Sequence", "normalizers": kept}
    state["post_processor"] = None  # it would trim white space from tokens' offsets
    for step in before:
        if "add_prefix_space" in step:
            step["add_prefix_space"] = False
        if step["type"] == "Metaspace" and state["model"]["type"] != "WordLevel":
            step["prepend_scheme"] = "never"
    if state["model"]["type"] == "Unigram":
        kept = [step for step in before if step["type"] != "WhitespaceSplit"]
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": kept}
    return state


def _unspellable(state: dict) -> dict:
    """The state of a `tokenizer.json` whose special pieces are never found in text.

    They keep their ids and scores. A line end, which no unit has, is put before each,
    and no merge yields one.
    """
    state = json.loads(json.dumps(state))
    model, added = state["model"], state["added_tokens"]
    special = {token["content"] for token in added if token["special"]}

    def name(piece: str) -> str:
        return "\n" + piece if piece in special else piece

    vocab = model["vocab"]
    if isinstance(vocab, dict):
        model["vocab"] = {name(piece): i for piece, i in vocab.items()}
    else:
        model["vocab"] = [[name(piece), score] for piece, score in vocab]
    if model.get("unk_token"):
        model["unk_token"] = name(model["unk_token"])
    if "merges" in model:
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        kept = [pair for pair in pairs if special.isdisjoint([*pair, "".join(pair)])]
        model["merges"] = kept
    for token in added:
        token["content"] = name(token["content"])
    return state


_ONE_SPACE = (
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Strip", "strip_left": False, "strip_right": True},
)
"""Steps of a normalizer that leave one space in the text and none at its end."""

_JOINS_WORDS = re.compile(r"\S (?!\s)")
"""A piece that matches may have text on both sides of where spans are cut."""


def _steps(part: dict | None, name: str) -> list[dict]:
    """The steps of a normalizer or pre-tokenizer."""
    return [] if part is None else part.get(name, [part])


def _tokenizer_type(state: dict) -> str:
    """The type of a `tokenizer.json`.

    Raises:
      UserError: it has none of the known types.
    """
    names = [name for name in FOLDER.names() if named(name).recognises(state)]
    if names:
        return names[0]
    if (kind := state["model"]["type"]) != "BPE":
        raise UserError(
            f"a tokenizer.json of {kind}; give one of WordPiece, Unigram or BPE, or "
            "SentencePiece's own .model file"
        )
    raise UserError(
        "a tokenizer.json of BPE that marks no words: its decoder is neither "
        f"ByteLevel nor Metaspace, and no piece ends with {WORD_END}"
    )


def _concatenate(ids_of_units: Sequence[Sequence[int]]) -> EncodedUnits:
    count = np.fromiter(map(len, ids_of_units), np.int64, len(ids_of_units))
    ids = itertools.chain.from_iterable(ids_of_units)
    return EncodedUnits(np.fromiter(ids, np.int32, int(count.sum())), count)


def _located(
    ids: Sequence[Sequence[int]],
    offsets: Sequence[Sequence[tuple[int, int]]],
    texts: Sequence[str],
) -> LocatedTokens:
    """The tokens of units, with their offsets.

    Args:
      texts: the units, if they were encoded without their spaces; (): with them.
    """
    token, count = _concatenate(ids)
    pairs = list(itertools.chain.from_iterable(offsets))
    begin, end = np.array(pairs, np.int64).reshape(-1, 2).T
    if texts:
        spaces = np.array([text[:1] == " " for text in texts], np.int64)
        begin, end = begin + np.repeat(spaces, count), end + np.repeat(spaces, count)
    return LocatedTokens(token, count, begin, end)
