"""Normalizers of trained vocabularies, which change text before it is cut into pieces.

A normalizer is part of the model file, so all programs that encode text with it agree.
Units and sentence starts are found in the original text.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # configs need only the names
    from tokenizers.normalizers import Normalizer

NORMALIZERS = ("none", "nfkc", "lower", "accents", "uncased")
"""Values of `data.normalizer`: the text as it is; Unicode's NFKC; lower case; without
accents (NFD without its nonspacing marks); both, as BERT's uncased models have it
(google-research/bert, tokenization.py, BasicTokenizer)."""

BY_CHARACTER = ("lower", "accents", "uncased")
"""Normalizers that map each character separately."""


def make_normalizer(name: str, *, bert: bool = False) -> "Normalizer | None":
    """The normalizer of that name in the library `tokenizers`; "none" may be None.

    Args:
      name: one of `NORMALIZERS`.
      bert: also do what BERT always does: drop control characters, and put spaces
        around CJK ideographs.
    """
    from tokenizers import normalizers

    changes = name in BY_CHARACTER
    marks = normalizers.BertNormalizer(
        clean_text=bert,
        handle_chinese_chars=bert,
        strip_accents=name != "lower" if changes else None,
        lowercase=name in ("lower", "uncased"),
    )
    steps = [normalizers.NFKC()] if name == "nfkc" else []
    steps += [marks] if bert or changes else []
    return normalizers.Sequence(steps) if len(steps) > 1 else next(iter(steps), None)


def character_rules(name: str) -> str:
    """The rules of one of `BY_CHARACTER` in SentencePiece's format.

    A line is a character, a tab and its replacement, as hexadecimal code points.
    """
    normalizer = make_normalizer(name)
    planes = (range(1, 0xD800), range(0xE000, 0x110000))  # without surrogates
    characters = [chr(code) for plane in planes for code in plane if code != ord("\n")]
    becomes = normalizer.normalize_str("\n".join(characters)).split("\n")
    return "".join(
        f"{_code_points(character)}\t{_code_points(text)}\n"
        for character, text in zip(characters, becomes, strict=True)
        if text != character
    )


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)
