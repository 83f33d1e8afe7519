"""Tokenizer models of several libraries behind one interface.

A model maps units of text to ids. A unit is a word: " word" after white space, "word"
right after another unit. No piece spans two units, so each distinct unit needs to be
encoded only once.
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
"""How WordPiece vocabularies spell special pieces."""


class EncodedUnits(NamedTuple):
    """The tokens of several units, concatenated."""

    token: np.ndarray  # [T] int32
    count: np.ndarray  # [U] int64: tokens of each unit


class TokenizerModel(Protocol):
    """What `Vocabulary` needs of a tokenizer."""

    tokenizer_type: str
    data: bytes  # the model file
    pieces: list[str]  # [V] as the model file spells them
    piece_bytes: list[bytes]  # [V] the UTF-8 of each; a word's mark is a space
    is_control: list[bool]  # [V] pieces that no text is encoded to

    def encode(self, units: Sequence[str]) -> EncodedUnits:
        """The tokens of units; each starts with a space or joins the unit before it."""


class SentencePieceModel:
    """A SentencePiece model, unigram or BPE."""

    def __init__(self, data: bytes):
        proto = sentencepiece_model_pb2.ModelProto.FromString(data)
        self.data = data
        self.tokenizer_type = "bpe" if proto.trainer_spec.model_type == 2 else "unigram"
        proto.normalizer_spec.add_dummy_prefix = False  # units have their own space
        proto.normalizer_spec.remove_extra_whitespaces = False
        processor = sentencepiece.SentencePieceProcessor(
            model_proto=proto.SerializeToString()
        )
        self._encode = processor.encode
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
        if any(b" " in text.lstrip(b" ") for text in self.piece_bytes):
            raise UserError("it has pieces of more than one word")

    def encode(self, units: Sequence[str]) -> EncodedUnits:
        return _concatenate(self._encode(list(units), return_type=int, num_threads=1))


class HuggingFaceModel:
    """A model of the `tokenizers` library: byte-level BPE, WordPiece or Unigram."""

    def __init__(self, data: bytes):
        self.data = data
        state = json.loads(data)
        self.tokenizer_type = _tokenizer_type(state)
        model = tokenizers.Tokenizer.from_str(json.dumps(_of_units(state)))
        model.encode_special_tokens = True  # "<mask>" in a text is text
        model.no_padding()
        model.no_truncation()
        self._model = model
        vocabulary = model.get_vocab(with_added_tokens=True)
        self.pieces = [""] * (max(vocabulary.values()) + 1)
        for piece, i in vocabulary.items():
            self.pieces[i] = piece
        special = {token["content"] for token in state["added_tokens"]}
        unknown = state["model"].get("unk_token")
        if self.tokenizer_type == "unigram":
            unknown = state["model"]["vocab"][state["model"]["unk_id"]][0]
        self.is_control = [
            not piece or (piece in special and piece != unknown)
            for piece in self.pieces
        ]
        self.piece_bytes = []
        for piece, control in zip(self.pieces, self.is_control, strict=True):
            if control:
                self.piece_bytes.append(b"")
            elif piece == unknown:
                self.piece_bytes.append(" \ufffd".encode())
            elif self.tokenizer_type == "unigram":
                self.piece_bytes.append(_unigram_bytes(piece))
            elif self.tokenizer_type == "wordpiece":
                inside = piece.startswith("##")
                self.piece_bytes.append((piece[2:] if inside else " " + piece).encode())
            else:
                self.piece_bytes.append(_byte_level_bytes(piece))

    def encode(self, units: Sequence[str]) -> EncodedUnits:
        encodings = self._model.encode_batch_fast(list(units), add_special_tokens=False)
        return _concatenate([encoding.ids for encoding in encodings])


def parse_model(data: bytes, file_name: str) -> TokenizerModel:
    """The model in the bytes of a file with that name.

    Raises:
      UserError: the bytes are not a model of a known type.
    """
    try:
        if file_name.endswith(".json"):
            return HuggingFaceModel(data)
        if file_name.endswith(".txt"):
            return HuggingFaceModel(_convert_vocab_txt(data.decode("utf-8")))
        return SentencePieceModel(data)
    except UserError:
        raise
    except Exception as error:  # each library raises its own, some plain Exception
        raise UserError(f"not a vocabulary file ({str(error)[:100]})") from error


def wordpiece_json(
    pieces: Sequence[str], unknown: str, *, lowercase: bool = False
) -> bytes:
    """A `tokenizer.json` with BERT's rules for the pieces of a `vocab.txt`."""
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    model = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    model.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece()
    model.add_special_tokens([piece for piece in pieces if _SPECIAL.fullmatch(piece)])
    return model.to_str().encode("utf-8")


def _convert_vocab_txt(text: str) -> bytes:
    """A `tokenizer.json` of a `vocab.txt`.

    It lowercases text if no piece, but special ones, has a capital letter.
    """
    pieces = text.split("\n")
    pieces = pieces[:-1] if pieces[-1] == "" else pieces
    lowercase = all(p == p.lower() for p in pieces if not _SPECIAL.fullmatch(p))
    unknown = [piece for piece in ("[UNK]", "<unk>") if piece in pieces]
    if not unknown:
        raise UserError("a vocab.txt is a WordPiece vocabulary with a line [UNK]")
    return wordpiece_json(pieces, unknown[0], lowercase=lowercase)


def byte_level_json(vocab_json: bytes, merges: str) -> bytes:
    """A `tokenizer.json` of GPT-2's files vocab.json and merges.txt.

    Raises:
      UserError: the pieces are not those of byte-level BPE.
    """
    vocabulary = json.loads(vocab_json)
    if any(piece.endswith("</w>") for piece in vocabulary):
        raise UserError("its BPE marks the ends of words, as GPT's: not byte-level")
    lines = [line for line in merges.split("\n") if not line.startswith("#version")]
    pairs = [tuple(line.split(" ")) for line in lines if line.strip()]
    model = tokenizers.Tokenizer(models.BPE(vocabulary, pairs))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    special = [p for p in vocabulary if re.fullmatch(r"<\|?\w+\|?>", p)]
    model.add_special_tokens(special)
    return model.to_str().encode("utf-8")


def _of_units(state: dict) -> dict:
    """The state of a `tokenizer.json` that encodes units, which have their own space.

    Nothing adds a space to a unit, and nothing removes the one that it has.
    """
    state = json.loads(json.dumps(state))
    normal = _steps(state.get("normalizer"), "normalizers")
    for step in normal:
        if step["type"] == "Strip":
            step["strip_left"] = False
    kept = [step for step in normal if step["type"] != "Prepend"]
    state["normalizer"] = {"type": "Sequence", "normalizers": kept}
    before = _steps(state.get("pre_tokenizer"), "pretokenizers")
    for step in before:
        if "add_prefix_space" in step:
            step["add_prefix_space"] = False
        if step["type"] == "Metaspace":
            step["prepend_scheme"] = "never"
    if state["model"]["type"] == "Unigram":
        kept = [step for step in before if step["type"] != "WhitespaceSplit"]
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": kept}
    return state


def _steps(part: dict | None, name: str) -> list[dict]:
    """The steps of a normalizer or pre-tokenizer."""
    return [] if part is None else part.get(name, [part])


def _tokenizer_type(state: dict) -> str:
    """ "wordpiece", "bytebpe" or "unigram", from a `tokenizer.json`."""
    if state["model"]["type"] == "WordPiece":
        return "wordpiece"
    if state["model"]["type"] == "Unigram":
        return "unigram"
    if state["model"]["type"] == "BPE" and "ByteLevel" in json.dumps(state["decoder"]):
        return "bytebpe"
    raise UserError(
        f"a tokenizer.json of {state['model']['type']}; give one of WordPiece, Unigram "
        "or byte-level BPE, or SentencePiece's own .model file"
    )


def _concatenate(ids_of_units: Sequence[Sequence[int]]) -> EncodedUnits:
    count = np.fromiter(map(len, ids_of_units), np.int64, len(ids_of_units))
    ids = itertools.chain.from_iterable(ids_of_units)
    return EncodedUnits(np.fromiter(ids, np.int32, int(count.sum())), count)


def _unigram_bytes(piece: str) -> bytes:
    """The bytes that a piece of a Unigram model stands for; "<0x0A>" is a byte."""
    if re.fullmatch(r"<0x[0-9A-F]{2}>", piece):
        return bytes([int(piece[3:-1], 16)])
    return piece.replace(MARK, " ").encode()


def _byte_level_bytes(piece: str) -> bytes:
    """The bytes that a piece of byte-level BPE stands for."""
    return bytes(_BYTE_OF[letter] for letter in piece if letter in _BYTE_OF)


def _gpt2_byte_letters() -> dict[str, int]:
    """GPT-2's letters for bytes: a printable one stands for itself (in Latin-1)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = _gpt2_byte_letters()
