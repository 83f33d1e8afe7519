"""Types of vocabularies: how they are trained, found in a file, and spelled.

A module here defines a frozen dataclass `TokenizerType(tokenizer_types.TokenizerType)`
without fields. It is found by listing the folder; the name of one that can be trained
is a value of data.vocabulary.
"""

from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import tokenizers
from tokenizers import models

from research.contract.errors import UserError
from research.contract.parts import Folder
from research.data.read.corpus import Corpus
from research.data.tokenize import tokenizer_sample

FOLDER = Folder(
    "research.data.tokenize.tokenizer_types",
    "TokenizerType",
    named_by="data.vocabulary",
)


class Options(NamedTuple):
    """The vocabulary to train."""

    tokenizer_type: str  # a name of `trained`
    size: int  # pieces, special ones included
    sentinels: int  # sentinel pieces
    sampling: tokenizer_sample.Options = tokenizer_sample.Options()
    normalizer: str = "none"  # one of `normalization.NORMALIZERS`


class TokenizerType:
    """The base of all types. Types that are only read from files define no training.

    A model is the bytes of a `tokenizer.json` or of a SentencePiece model; a state is
    the content of such a JSON.
    """

    cost: ClassVar[tuple[float, float] | None] = None
    """Seconds of one core and MB of memory for a MB of text, measured on 75 MB of
    English Wikipedia and novels with 8,192 pieces, on an AMD EPYC; None: it is not
    trained here."""

    least: ClassVar[tuple[int, str]] = (1, "sentinels")
    """The least number of pieces that are not special, and what all are for."""

    library: ClassVar[Any] = tokenizers
    """The module that trains it, on whose version the vocabulary depends."""

    trained_by: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """What else names a trained vocabulary in the cache: another value where a change
    of the training gives another one of the same text."""

    sentencepiece_type: ClassVar[int] = 0
    """The type of a SentencePiece model (`trainer_spec.model_type`); 0: it is none."""

    has_words: ClassVar[bool] = False
    """Whether its pieces are whole words."""

    spells_space: ClassVar[bool] = False
    """Whether the first piece of a word, and no other, begins with a space."""

    spells_white_space: ClassVar[bool] = False
    """Whether its pieces spell all white space."""

    marks: ClassVar[str] = ""
    """Of words inside a unit, such as those beside punctuation, pieces mark the starts
    or the ends; "": neither."""

    drops_units: ClassVar[bool] = False
    """Whether a unit of which its normalizer leaves nothing has no token."""

    by_space: ClassVar[bool] = False
    """Whether a word after a space is encoded without it, where its file has marks."""

    exports_as_is: ClassVar[bool] = False
    """Whether its `tokenizer.json` is exported as it is; else with rules by which a run
    of white space is one space, and text is cut after Chinese full stops."""

    splits_unknown: ClassVar[bool] = False
    """Whether places of the bytes of letters without a piece are to be found."""

    unknown_bytes: ClassVar[bytes] = "\ufffd".encode()
    """What the piece of unknown text decodes to."""

    def train(
        self, lines: tokenizer_sample.SampledLines, options: Options, corpus: Corpus
    ) -> bytes:
        """The model of exactly `options.size` pieces, `special_pieces` first.

        Raises:
          SizeError: the text of the lines gives more or fewer.
        """
        raise NotImplementedError

    def recognises(self, state: Mapping[str, Any]) -> bool:
        """Whether a state is of this type and no other."""
        return False

    def piece_bytes(self, piece: str) -> bytes:
        """The text of a piece, with a space for the word mark."""
        raise NotImplementedError

    def added_bytes(self, piece: str) -> bytes | None:
        """The text of a piece that a file adds to its model's, if it is not special.

        None: the text of other pieces.
        """
        return None

    def check(self, pieces: Collection[str], unknown: str | None) -> None:
        """Raises UserError: with these pieces, text would be lost.

        Args:
          unknown: the piece for unknown text; None: there is none.
        """

    def check_bytes(self, piece_bytes: Collection[bytes]) -> None:
        """Raises UserError: pieces have text that this type does not allow."""

    def library_model(self, proto: Any) -> models.Model:
        """A SentencePiece model in the form of the library `tokenizers`."""
        raise NotImplementedError


@cache
def named(name: str) -> TokenizerType:
    """The type with this name."""
    return FOLDER.part_class(name, "data.vocabulary")()


def trained() -> tuple[str, ...]:
    """The types that are trained here."""
    return tuple(name for name in FOLDER.names() if named(name).cost)


def special_pieces(sentinels: int) -> list[str]:
    """The pieces of ids 0, 1, ...: pad, bos, eos, mask, unk, and the sentinels."""
    pieces = ["<pad>", "<s>", "</s>", "<mask>", "<unk>"]
    return pieces + [f"<extra_id_{n}>" for n in range(sentinels)]


class SizeError(UserError):
    """The size of a vocabulary does not fit its text.

    Attributes:
      fits: a size that does; 0: unknown.
    """

    def __init__(self, size: int, advice: str, fits: int = 0):
        super().__init__(
            f"data.vocabulary_size is {size}, which does not fit the corpus: {advice}"
        )
        self.fits = fits


def check_size(size: int, found: int) -> None:
    """Raises SizeError: the text gave another number of pieces than `size`."""
    if found != size:
        bound = "most" if found < size else "least"
        advice = f"its text gives {found}; give at {bound} as many"
        raise SizeError(size, advice, found)
