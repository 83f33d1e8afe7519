"""Byte-pair encoding of bytes, with GPT-2's letters for them (Radford et al. 2019)."""

from collections.abc import Collection
from dataclasses import dataclass

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from research.contract.errors import UserError
from research.data.tokenize import normalization, tokenizer_types
from research.data.tokenize.tokenizer_types import check_size, special_pieces


@dataclass(frozen=True)
class TokenizerType(tokenizer_types.TokenizerType):
    """Its pieces can encode any text."""

    cost = (0.45, 7)
    least = (256, "sentinels and bytes")
    spells_space = True
    spells_white_space = True

    def train(self, lines, options, corpus):
        if not options.sampling.keep_whitespace:
            lines = (" " + line for line in lines)
        model = tokenizers.Tokenizer(models.BPE())
        if normalizer := normalization.make_normalizer(options.normalizer):
            model.normalizer = normalizer
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=options.size,
            special_tokens=special_pieces(options.sentinels),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        model.train_from_iterator(lines, trainer)
        check_size(options.size, model.get_vocab_size())
        return model.to_str().encode("utf-8")

    def recognises(self, state):
        is_bpe = state["model"]["type"] == "BPE"
        return is_bpe and "ByteLevel" in str(state["decoder"])

    def piece_bytes(self, piece):
        return bytes(_BYTE_OF[letter] for letter in piece if letter in _BYTE_OF)

    def added_bytes(self, piece):
        return piece.encode()  # as it is spelled in text

    def check(self, pieces: Collection[str], unknown: str | None) -> None:
        missing = [
            f"0x{byte:02X}"
            for letter, byte in _BYTE_OF.items()
            if byte not in _NOT_UTF8 and letter not in pieces
        ]
        if missing and unknown is None:
            raise UserError(
                f"it has no piece for {len(missing)} bytes, such as {missing[0]}, and "
                "no unk_token, so text would be lost; train it with "
                "initial_alphabet=ByteLevel.alphabet()"
            )


def _gpt2_byte_letters() -> dict[str, int]:
    """GPT-2's letters for bytes: a printable one stands for itself (in Latin-1)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = _gpt2_byte_letters()
_NOT_UTF8 = {0xC0, 0xC1, *range(0xF5, 256)}
"""Bytes that are in no text."""
