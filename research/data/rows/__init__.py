"""Units of text: each module says which tokens of a stream an example reads.

An objective names a unit in its `TextSpec`. A module is found by listing this folder:
nothing else names it.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from research.contract.parts import Folder
from research.data import label_types
from research.data.documents import Document
from research.data.label_types import LabelType

UNITS = Folder("research.data.rows", "Unit")


class TokenStream(Protocol):
    """The part of a token stream that units use, see `research.data.store.stream`."""

    num_tokens: int
    separator_length: int
    shard_offsets: np.ndarray
    document_offsets: np.ndarray
    sentence_offsets: np.ndarray
    part_offsets: np.ndarray
    labels: np.ndarray

    def gather(
        self, start: np.ndarray, length: np.ndarray, width: int, pad: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of tokens and flags."""

    def gather_arrays(
        self, names: Sequence[str], start: np.ndarray, length: np.ndarray, width: int
    ) -> dict[str, np.ndarray]:
        """Rows of arrays by name."""


class Spans(NamedTuple):
    """The N examples of one unit of text, and what they leave out."""

    start: np.ndarray  # [N] int64, in tokens of the stream
    length: np.ndarray  # [N] int64
    label: np.ndarray | int = -1  # [N], see `TextSpec.pair_labels`
    second: np.ndarray | None = None  # [N] int64, start of the second span
    second_length: np.ndarray | None = None  # [N] int64, 0 in a row of one span
    total: int = 0  # tokens of text
    truncated: int = 0  # tokens that are left out because a text or pair is too long
    cut: int = 0  # sentences or documents that are longer than a row
    pieces: Any = None  # of packed rows; `start` is that of the first one


def not_indexed(default: Any) -> Any:
    """A field that affects how rows are read, but not their index."""
    return dataclasses.field(default=default, metadata={"not_indexed": True})


@dataclasses.dataclass(frozen=True)
class TextSpec:
    """The text that an objective reads for one example.

    `TextSpec("pair", 128, short_rate=0.1)` is the class of that unit, with its fields.
    Each module of this folder defines exactly one, a class named `Unit`.
    """

    unit: str
    length: int  # the most raw tokens; for packed rows those of a piece

    _: dataclasses.KW_ONLY

    # What a document's label is, see `research.data.label_types`; "": it is not read.
    label: str = not_indexed("")

    # Corpora of data.mixture, by their number in order of names, that are read as
    # streams whatever the unit (monolingual text beside parallel text).
    streams: tuple[int, ...] = not_indexed(())

    # Names of arrays that the text's format has beside it, see `Example.arrays`.
    arrays: tuple[str, ...] = not_indexed(())

    # The number of the copy of the text, each of which is packed anew where
    # `has_copies`.
    copy: int = 0

    def __new__(cls, unit: str = "", *args: Any, **fields: Any) -> "TextSpec":
        return object.__new__(_unit_class(unit) if cls is TextSpec else cls)

    if TYPE_CHECKING:  # that of the unit

        def __init__(self, unit: str, length: int, **fields: Any) -> None: ...

    takes_stride = False
    """Whether data.stride may determine where examples start; else the text does."""

    has_copies = False
    """Whether examples depend on random choices, which differ for each `copy`."""

    has_pairs = False
    """Whether examples are two spans."""

    pair_labels = False
    """Whether labels are those of pairs (`batch.NEXT`, ...), not of documents."""

    packing = "none"
    """The value of data.packing by which rows are pieces of documents, one after the
    other; none: they are not packed."""

    structure: ClassVar[int] = 0
    """How much of a text's structure an example keeps: 1 anything, 2 whole sentences, 3
    of one document, 4 in two segments. Examples of less are derived from those of more
    (`shared_input`): spans from the beginning, or, of pairs from pairs, the sentences
    beside the boundary. 0: neither."""

    max_first = 0
    """The most tokens of the first of two spans; 0: any number."""

    stride = 0
    """Tokens from the start of one example to the next; 0: data.stride, or `length`."""

    contiguous = False
    """Whether row r of a step continues row r of the previous step."""

    reverse = False
    """Whether half of the rows read their stream from its end to its start."""

    random_start = False
    """Whether a row starts at a random token of its stride, drawn by its key."""

    @property
    def has_pieces(self) -> bool:
        """Whether rows are packed."""
        return self.packing != "none"

    @property
    def label_type(self) -> LabelType | None:
        """The label type that `label` names; None: no label is read."""
        return label_types.label_type(self.label) if self.label else None

    @property
    def width(self) -> int:
        """R: the most raw tokens that are read for an example."""
        return self.length

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        """The examples of a stream.

        Args:
          stride: the objective's stride, else data.stride; 0: neither is set.

        Raises:
          UserError: the text is too short for this unit.
        """
        raise NotImplementedError

    def lacks(self, document: Document) -> str:
        """What the objective needs and this document lacks; "": nothing.

        Its text and label are not considered.
        """
        return ""

    def of_corpus(self, number: int) -> "TextSpec":
        """The text that an example from corpus `number` reads."""
        if number in self.streams:
            return TextSpec("stream", self.length, arrays=self.arrays)
        return self.replace(streams=())

    def replace(self, **changes: Any) -> "TextSpec":
        """The spec with some fields changed, possibly the unit."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return TextSpec(**fields | changes)

    def changed_fields(self) -> dict[str, Any]:
        """The keyword fields that are not their defaults, by name."""
        return {
            field.name: value
            for field in dataclasses.fields(self)
            if field.kw_only and (value := getattr(self, field.name)) != field.default
        }

    def index_fields(self) -> dict[str, Any]:
        """The `changed_fields` on which an index depends."""
        changed = self.changed_fields()
        return {
            field.name: changed[field.name]
            for field in dataclasses.fields(self)
            if field.name in changed and "not_indexed" not in field.metadata
        }


def single_texts() -> tuple[str, ...]:
    """The units whose examples are one span of text each."""
    specs = (TextSpec(name, 1) for name in UNITS.names())
    return tuple(s.unit for s in specs if not (s.has_pairs or s.has_pieces))


def units_with(field: str) -> tuple[str, ...]:
    """The units that have a field of their own of this name."""
    fields = {name: _unit_class(name).__dataclass_fields__ for name in UNITS.names()}
    return tuple(name for name, own in fields.items() if field in own)


def packings() -> dict[str, str]:
    """Value of data.packing -> the unit of packed rows; none: the objective's own."""
    specs = (TextSpec(name, 1) for name in UNITS.names())
    return {"none": ""} | {s.packing: s.unit for s in specs if s.has_pieces}


@functools.cache
def _unit_class(unit: str) -> type:
    return UNITS.part_class(unit, "unit of text")
