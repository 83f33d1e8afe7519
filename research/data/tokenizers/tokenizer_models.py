"""Tokenizer models behind one face: units of text in, ids out, and each piece's bytes.

A unit is a word: " word" after white space, "word" right after another unit. Pieces
never reach across units, so a stream may encode each distinct unit once.
"""

# U units, T tokens, V pieces

import itertools
import json
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers

from research.errors import UserError

MARK = "▁"
"""SentencePiece's mark of a word's start; it stands for a space."""


_SPECIAL = re.compile(r"\[\w+\]|<\S\w*>")
"""How WordPiece vocabularies spell what is not text."""


class Encoded(NamedTuple):
    """The tokens of several units, one after the other."""

    token: np.ndarray  # [T] int32
    count: np.ndarray  # [U] int64: tokens of each unit


class Model(Protocol):
    """What `Vocabulary` asks of a tokenizer."""

    kind: str
    data: bytes  # the model file
    names: list[str]  # [V] the pieces as the file spells them
    surface: list[bytes]  # [V] the UTF-8 that each stands for, a space where it marks
    control: list[bool]  # [V] never made from text

    def encode(self, units: Sequence[str]) -> Encoded:
        """Tokens of units that start with a space or follow the unit before."""


class SentencePiece:
    """A SentencePiece model, unigram or BPE."""

    def __init__(self, data: bytes):
        proto = sentencepiece_model_pb2.ModelProto.FromString(data)
        self.data = data
        self.kind = "bpe" if proto.trainer_spec.model_type == 2 else "unigram"
        proto.normalizer_spec.add_dummy_prefix = False  # units bring their own space
        proto.normalizer_spec.remove_extra_whitespaces = False
        processor = sentencepiece.SentencePieceProcessor(
            model_proto=proto.SerializeToString()
        )
        self._encode = processor.encode
        ids = range(len(processor))
        self.names = [processor.id_to_piece(i) for i in ids]
        self.control = [processor.is_control(i) or processor.is_unused(i) for i in ids]
        self.surface = []
        for i, name in enumerate(self.names):
            if processor.is_byte(i):
                self.surface.append(bytes([int(name[3:-1], 16)]))
            elif processor.is_unknown(i):
                self.surface.append("\ufffd".encode())
            else:
                text = "" if self.control[i] else name.replace(MARK, " ")
                self.surface.append(text.encode())
        if any(b" " in text.lstrip(b" ") for text in self.surface):
            raise UserError("it has pieces that reach across words")

    def encode(self, units: Sequence[str]) -> Encoded:
        return _joined(self._encode(list(units), return_type=int, num_threads=1))


class Tokens:
    """A model of the `tokenizers` library: byte-level BPE or WordPiece."""

    def __init__(self, data: bytes):
        self.data = data
        model = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
        model.encode_special_tokens = True  # "<mask>" in a text is text
        model.no_padding()
        model.no_truncation()
        self._model = model
        state = json.loads(data)
        self.kind = _kind(state)
        vocabulary = model.get_vocab(with_added_tokens=True)
        self.names = [""] * (max(vocabulary.values()) + 1)
        for name, i in vocabulary.items():
            self.names[i] = name
        special = {token["content"] for token in state["added_tokens"]}
        unknown = state["model"].get("unk_token")
        self.control = [
            not name or (name in special and name != unknown) for name in self.names
        ]
        self.surface = []
        for name, control in zip(self.names, self.control, strict=True):
            if control:
                self.surface.append(b"")
            elif name == unknown:
                self.surface.append(" \ufffd".encode())
            elif self.kind == "wordpiece":
                inside = name.startswith("##")
                self.surface.append((name[2:] if inside else " " + name).encode())
            else:
                self.surface.append(_bytes_of(name))

    def encode(self, units: Sequence[str]) -> Encoded:
        found = self._model.encode_batch_fast(list(units), add_special_tokens=False)
        return _joined([encoding.ids for encoding in found])


def read(data: bytes, name: str) -> Model:
    """The model of a file's bytes; `name` is the file's name.

    Raises:
      UserError: the bytes are no model of a kind that is known.
    """
    try:
        if name.endswith(".json"):
            return Tokens(data)
        if name.endswith(".txt"):
            return Tokens(_from_lines(data.decode("utf-8")))
        return SentencePiece(data)
    except UserError:
        raise
    except Exception as error:  # each library has its own, some of type Exception
        raise UserError(f"not a vocabulary file ({str(error)[:100]})") from error


def wordpiece(names: Sequence[str], unknown: str, *, lowercase: bool = False) -> bytes:
    """A `tokenizer.json` of BERT's rules for the pieces of a `vocab.txt`, in order."""
    vocabulary = {name: i for i, name in enumerate(names)}
    model = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    model.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece()
    model.add_special_tokens([name for name in names if _SPECIAL.fullmatch(name)])
    return model.to_str().encode("utf-8")


def _from_lines(text: str) -> bytes:
    """A `vocab.txt`: without a capital letter in it, it is of lowercased text."""
    names = text.split("\n")
    names = names[:-1] if names[-1] == "" else names
    lowercase = all(n == n.lower() for n in names if not _SPECIAL.fullmatch(n))
    unknown = [name for name in ("[UNK]", "<unk>") if name in names]
    if not unknown:
        raise UserError("a vocab.txt is of WordPiece and has a line [UNK]")
    return wordpiece(names, unknown[0], lowercase=lowercase)


def _kind(state: dict) -> str:
    """ "wordpiece" or "bytebpe", from a `tokenizer.json`."""
    if state["model"]["type"] == "WordPiece":
        return "wordpiece"
    if state["model"]["type"] == "BPE" and "ByteLevel" in json.dumps(state["decoder"]):
        return "bytebpe"
    raise UserError(
        f"a tokenizer.json of {state['model']['type']}; it reads WordPiece and "
        "byte-level BPE (and SentencePiece's own .model file)"
    )


def _joined(parts: Sequence[Sequence[int]]) -> Encoded:
    count = np.fromiter(map(len, parts), np.int64, len(parts))
    ids = itertools.chain.from_iterable(parts)
    return Encoded(np.fromiter(ids, np.int32, int(count.sum())), count)


def _bytes_of(name: str) -> bytes:
    """The bytes that a piece of byte-level BPE stands for."""
    return bytes(_BYTE[letter] for letter in name if letter in _BYTE)


def _byte_letters() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves (Latin-1)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {chr(byte): byte for byte in plain}
    return letters | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE = _byte_letters()
