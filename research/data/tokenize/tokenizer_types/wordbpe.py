"""GPT's BPE (Radford et al. 2018): pieces mark the ends of words; read from files."""

from dataclasses import dataclass

from research.data.tokenize import tokenizer_types

WORD_END = "</w>"
"""The mark of a word's end."""


@dataclass(frozen=True)
class TokenizerType(tokenizer_types.TokenizerType):
    """It lowercases text and cuts it at punctuation, as BERT does."""

    marks = "ends"
    exports_as_is = True

    def recognises(self, state):
        model = state["model"]
        is_bpe = model["type"] == "BPE" and "ByteLevel" not in str(state["decoder"])
        return is_bpe and model["end_of_word_suffix"] == WORD_END

    def piece_bytes(self, piece):
        return piece.replace(WORD_END, " ").encode()
