"""What SentencePiece's two types share: their training, and how pieces are spelled."""

import contextlib
import io
import re
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from research.contract.errors import UserError
from research.data.tokenize import normalization, tokenizer_sample, tokenizer_types
from research.data.tokenize.tokenizer_types import SizeError, special_pieces

MARK = "\u2581"
"""SentencePiece's mark of a space."""

NUM_THREADS = 4
"""Threads of SentencePiece's trainer on every machine; its result depends on them."""

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def is_byte(piece: str) -> bool:
    """Whether a piece is that of a byte, as SentencePiece spells it."""
    return bool(_BYTE.fullmatch(piece))


@dataclass(frozen=True)
class SentencePieceType(tokenizer_types.TokenizerType):
    """The base of both."""

    least = (257, "sentinels and bytes, and as many more as the text has letters")
    library = sentencepiece
    spells_space = True

    def train(self, lines, options, corpus):
        model = io.BytesIO()
        tokenizer_type, size, sentinels, _, normalizer = options
        special = special_pieces(sentinels)
        is_large = lines.num_bytes >= 2**31
        large = {"train_extremely_large_corpus": True} if is_large else {}
        try:
            with _rules(normalizer) as rules:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(lines),
                    model_writer=model,
                    model_type=tokenizer_type,
                    vocab_size=size,
                    byte_fallback=True,
                    character_coverage=0.9995,
                    num_threads=NUM_THREADS,
                    input_sentence_size=0,
                    max_sentence_length=tokenizer_sample.MAX_LINE_BYTES,
                    pad_id=0,
                    bos_id=1,
                    eos_id=2,
                    unk_id=4,
                    pad_piece=special[0],
                    bos_piece=special[1],
                    eos_piece=special[2],
                    unk_piece=special[4],
                    control_symbols=[special[3], *special[5:]],
                    minloglevel=2,
                    **rules,
                    **large,
                )
        except RuntimeError as error:
            raise SizeError(size, *_size_advice(str(error))) from error
        if normalizer not in normalization.BY_CHARACTER:
            return model.getvalue()
        proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
        proto.normalizer_spec.name = normalizer
        proto.normalizer_spec.ClearField("normalization_rule_tsv")  # a temporary file
        return proto.SerializeToString(deterministic=True)

    def piece_bytes(self, piece):
        if is_byte(piece):
            return bytes([int(piece[3:-1], 16)])
        return piece.replace(MARK, " ").encode()

    def check_bytes(self, piece_bytes: Collection[bytes]) -> None:
        if any(b" " in text.lstrip(b" ") for text in piece_bytes):
            raise UserError("it has pieces of more than one word")


@contextlib.contextmanager
def _rules(normalizer: str) -> Iterator[dict[str, str]]:
    """The options of SentencePiece's trainer that normalize its text."""
    if normalizer not in normalization.BY_CHARACTER:
        names = {"none": "identity"}
        yield {"normalization_rule_name": names.get(normalizer, normalizer)}
        return
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        file.write(normalization.character_rules(normalizer))
        file.flush()
        yield {"normalization_rule_tsv": file.name}


def _size_advice(message: str) -> tuple[str, int]:
    """The size to use instead, from an error message of SentencePiece's trainer."""
    too_high = re.search(r"too high.* <= (\d+)", message)
    too_low = re.search(r"smaller than required.* vs (\d+)", message)
    if too_high:
        most = int(too_high[1])
        return f"its text gives {most}; give at most as many", most
    if too_low:
        least = f"give at least {too_low[1]}, for its letters, sentinels and bytes"
        return least, int(too_low[1])
    return " ".join(message.split()), 0
