"""The batch contract: what a network reads, the attention mask, and what is scored.

Query q attends to key k iff segment[q] == segment[k] > 0 and rank[k] is in an interval
of the query's: low[q] <= rank[k] <= reach[q], or low2[q] <= rank[k] <= reach2[q].

Without the optional arrays low, low2 and reach2 the condition is rank[k] <= reach[q].
Rank and reach alone express exactly the masks whose key sets are nested: of any two
queries of a segment, one attends to all keys of the other (causal, prefix, permuted).
Windows, block diffusion (Arriola et al. 2025), trees (K-BERT, Liu et al. 2020) and
global tokens (Longformer, Beltagy et al. 2020) are not nested, but need at most two
intervals per query.
"""

# B batch, L length, K scored positions, R raw tokens an example, V vocabulary

import functools
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from research.contract.errors import UserError

NEVER = 2**30
"""The rank of a key that no query reaches."""

WORD, SENTENCE, PARAGRAPH, DOCUMENT = 1, 2, 4, 8
"""Bits of a token's flags: it starts a word, sentence, paragraph or document."""

PART, ANSWER_START, ANSWER_END = 16, 32, 64
"""More bits, for examples of tasks: the token starts a later part of the document (a
second text, a word with a tag); it is the first or the last token of the answer."""

PIECE = 128
"""One more bit, for packed rows: the token starts a piece, which is a document or a
part of a document that is longer than a row."""

PIECE_SPECIALS, MIN_PIECE_COLUMNS = 3, 16
"""Columns of a packed row: what a piece has in addition to its text, for specials and
the separator after it; and the minimum per piece, so that specials and the rounded
numbers of targets of short pieces cannot fill a row."""

NEXT, OTHER_DOCUMENT, NONADJACENT, LONE = 0, 1, 2, 3
"""Labels of pairs: the second span follows the first, is from another document, or is
from the same document but not adjacent. LONE: it is from another document because only
one sentence was left; used only if `TextSpec.lone` is set."""

BACKWARD = 1
"""Label of rows that read a stream from end to start; the tokens of a row stay in text
order."""

INPUT_ARRAYS = ("token", "position", "segment", "token_type", "rank", "reach")
"""One network input, each [B, L] int32: token id; position for position embeddings;
segment, 0 for padding; token type, such as sentence A or B; attention rank as a key;
highest rank that the position attends to as a query."""

INTERVAL_ARRAYS = ("low", "low2", "reach2")
"""Optional arrays of a network input, [B, L] int32 each: the lowest rank that a query
attends to (without it there is no lower bound); the lowest and highest rank of a second
interval, which exists only with `reach2`. An objective that makes them names them in
its batch_spec; its pattern is "general"."""

FEATURE = "feature"
"""Optional array of a network input, [B, L, F] float32: a vector per position in
addition to its token, such as the features of an image region; 0 for none. An objective
that makes it gives F in its needs (`Needs.input_features`)."""

SPANS = ("span_start", "span_end", "span_segment", "span_candidate", "span_prior")
"""Optional arrays of a network input: S mentions of entities and C candidates of each.
First and last position and segment [B, S] int32, segment 0 for no mention; vectors of
candidates [B, S, C, E] float32; their prior probabilities [B, S, C] float32, 0 for no
candidate. An objective that makes them gives E in its needs (`Needs.span_width`)."""

SCORED_ARRAYS = ("scored", "target", "weight")
"""What is scored, each [B, K]: index of the position; token id to predict there; its
float32 weight in the loss, 0 for unused slots."""


class ArraySpec(NamedTuple):
    """Shape of one example's array (the batch adds a leading B) and its dtype."""

    shape: tuple[int, ...]
    dtype: type = np.int32


Batch = dict[str, Any]
"""Name -> array [B, ...], with "constants" the arrays of `CONSTANTS`."""

CONSTANTS = "constants"
"""Key of a batch for the arrays of `Objective.constants`, by name: they have no batch
axis, and every micro-batch of a step has all of them."""


class ConstantSpec(NamedTuple):
    """Arrays that a loss reads and training never changes, and where they come from."""

    source: str  # for parameters: a run's workdir, one of its checkpoints, or hf:DIR;
    # or an .npz file, whose arrays have names such as "blocks/dense/kernel"
    arrays: Any  # a tree of their shapes and dtypes, with logical axes
    # (`research.networks.init`), or without for replicated ones. The source may have
    # more
    spelling: tuple[str, ...] = ()  # of the vocabulary's words, "" for other entries: a
    # file of word vectors, or `random`, then has rows for token/embedding
    values: Any = None  # the arrays themselves, if the objective computes them from
    # `source`


EVALUATION_STEP = 2**31 - 1
"""The step of evaluation rows: past the end of every schedule."""


class Triples(NamedTuple):
    """The T triples of a knowledge graph with Q relations; ends are lexicon entries."""

    head: np.ndarray  # [T] int32
    relation: np.ndarray  # [T] int32
    tail: np.ndarray  # [T] int32
    file: np.ndarray  # [T] int32, index of the file of data.lexicon that has it
    relation_token: np.ndarray  # [Q, W] int32, -1 beyond a relation's end
    relation_size: np.ndarray  # [Q] int32, tokens of each relation


class Lexicon(NamedTuple):
    """Words, phrases or entities that objectives treat as units, as token ids."""

    token: np.ndarray  # [E, W] int32, -1 beyond an entry's end
    size: np.ndarray  # [E] int32, tokens of each entry
    entry_type: np.ndarray  # [E] int32, index into `type_names`
    type_names: tuple[str, ...]
    triples: Triples | None = None  # of a knowledge graph whose entities are entries


class Pieces(NamedTuple):
    """The text of tokens, and the tokens of text."""

    text: tuple[bytes, ...]  # [V]: UTF-8 of each entry, with the space before a word;
    # a character may continue in the next token; empty for special ids
    encode: Callable[[str], np.ndarray]  # a word, or a part of one -> its ids [T] int32


class VocabInfo(NamedTuple):
    """Token ids that an objective needs, and facts about the vocabulary and data."""

    size: int  # V, special ids included, before padding for the mesh
    pad_id: int
    bos_id: int  # also [CLS]
    eos_id: int  # also [SEP]
    mask_id: int
    unk_id: int
    sentinel_ids: tuple[int, ...]  # in the order in which spans use them
    is_special: np.ndarray  # [V] bool: pad, bos, eos, mask, sentinels
    ordinary_ids: np.ndarray  # [V'] int32: ids that a random replacement may draw
    labels: tuple[str, ...] = ()  # names of the documents' labels
    lexicon: Lexicon | None = None  # the file that data.lexicon names
    lowercase_ids: np.ndarray | None = None  # [V] int32: id in lower case, or itself
    token_count: np.ndarray | None = None  # [V] int64: in the training text
    spelling: tuple[str, ...] | None = None  # [V]: of entries that are words, else ""
    num_corpora: int = 1  # of the training text; each row of a mixture is from one
    starts_word: np.ndarray | None = None  # [V] bool: the token starts a word wherever
    # it occurs; None: all do
    pieces: Pieces | None = None  # of words, whose text can be encoded again

    @property
    def texts(self) -> tuple[str, ...]:
        """[V]: the letters of each entry, without white space; "" for special ids.

        Raises:
          UserError: the text of the entries is not known.
        """
        if self.spelling is not None:
            return self.spelling
        if self.pieces is None:
            raise UserError(
                "the letters of tokens are not known; data.reader must be native"
            )
        return _stripped(self.pieces.text)


@functools.lru_cache(maxsize=4)
def _stripped(text: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(piece.decode("utf-8", "replace").strip() for piece in text)


class Example(NamedTuple):
    """Raw text on the host, before corruption. Rows may be shorter than R, or empty."""

    token: np.ndarray  # [B, R] int32, pad_id beyond `length`
    flags: np.ndarray  # [B, R] uint8, bits WORD to PIECE; 0 beyond `length`
    length: np.ndarray  # [B] int32
    label: np.ndarray  # [B] int32: of the document, the pair, or BACKWARD; -1 for none
    first_length: np.ndarray  # [B] int32, tokens of a pair's first span; else `length`
    corpus: np.ndarray  # [B] int32, index of the corpus in the mixture
    step: np.ndarray  # [B] int64, training step; EVALUATION_STEP in an evaluation
    document: np.ndarray  # [B] int64, number, over all corpora, of the document in
    # which the text begins; -1 for rows without text
    number: np.ndarray  # [B] int64, the row's index in the order of the epoch; rows of
    # a batch mostly have consecutive numbers
    arrays: Mapping[str, np.ndarray] = MappingProxyType({})  # of TextSpec.arrays: name
    # -> [B, R], the value of each token, or of the part or the document that it is in;
    # `no_value` for none. If each document has an array: [B, *shape], that of the
    # document in which the text begins

    def rows(self, index: Any) -> "Example":
        """The rows at an index, a slice or an array of numbers."""
        *fields, arrays = self
        picked = {name: array[index] for name, array in arrays.items()}
        rows = (array[index] for array in fields)
        return Example._make([*rows, picked])


def no_value(dtype: Any) -> int:
    """The entry of an array that means "no value": -1, or 0 for unsigned types."""
    return -1 if np.issubdtype(np.dtype(dtype).base, np.signedinteger) else 0


def empty_examples(
    num: int, width: int, pad_id: int, arrays: Mapping[str, Any] = MappingProxyType({})
) -> Example:
    """Rows without text, to be filled or to be scored with weight 0.

    Args:
      arrays: name -> dtype of `Example.arrays`.
    """
    return Example(
        token=np.full((num, width), pad_id, np.int32),
        flags=np.zeros((num, width), np.uint8),
        length=np.zeros(num, np.int32),
        label=np.full(num, -1, np.int32),
        first_length=np.zeros(num, np.int32),
        corpus=np.zeros(num, np.int32),
        step=np.full(num, EVALUATION_STEP, np.int64),
        document=np.full(num, -1, np.int64),
        number=np.zeros(num, np.int64),
        arrays={
            name: np.full(shape, no_value(dtype), dtype)
            for name, dtype in arrays.items()
            for shape in [num if np.dtype(dtype).shape else (num, width)]
        },
    )


def example_ids(number: np.ndarray) -> np.ndarray:
    """[B] int32: a batch's "example" array, the low 31 bits of `number` [B] int64."""
    return (number & np.iinfo(np.int32).max).astype(np.int32)


def piece_columns(num_raw: Any, length: int) -> np.ndarray:
    """Columns that pieces of `num_raw` tokens (any shape) take in a packed row.

    Args:
      length: `TextSpec.length` of packed rows, which have PIECE_SPECIALS more columns.
    """
    columns = np.maximum(np.add(num_raw, PIECE_SPECIALS), MIN_PIECE_COLUMNS)
    return np.minimum(columns, length + PIECE_SPECIALS)


def check_arrays(
    name: str, arrays: Mapping[str, Any], specs: Mapping[str, ArraySpec], num_rows: int
) -> None:
    """Checks the arrays that `corrupt` of the objective `name` returns.

    Args:
      num_rows: B, the number of rows that `corrupt` was given.

    Raises:
      UserError: an array is missing, is not in batch_spec, or differs from it in shape
        or dtype.
    """
    for extra in arrays.keys() - specs.keys():
        raise UserError(
            f"objective {name}: corrupt returns an array {extra!r} that batch_spec "
            f"does not name; it names {', '.join(specs)}"
        )
    for array, (shape, dtype) in specs.items():
        right = f"by batch_spec it is {np.dtype(dtype)} {[num_rows, *shape]}"
        if array not in arrays:
            raise UserError(
                f"objective {name}: corrupt returns no array {array!r}; {right}"
            )
        found = np.asarray(arrays[array])
        if (found.shape, found.dtype) != ((num_rows, *shape), np.dtype(dtype)):
            raise UserError(
                f"objective {name}: corrupt returns {array!r} as {found.dtype} "
                f"{[*found.shape]}; {right}"
            )


def input_specs(
    length: int, prefix: str = "", *, intervals: Collection[str] = ()
) -> dict[str, ArraySpec]:
    """Specs of the arrays of one network input, each of shape [length].

    Args:
      intervals: the INTERVAL_ARRAYS that it has in addition to the six.
    """
    names = (*INPUT_ARRAYS, *intervals)
    return {prefix + name: ArraySpec((length,)) for name in names}


def scored_specs(count: int, *, gathered: bool = True) -> dict[str, ArraySpec]:
    """Specs of K = `count` scored positions.

    Without `gathered` all positions are scored in order: there is no "scored" array.
    """
    specs = {"target": ArraySpec((count,)), "weight": ArraySpec((count,), np.float32)}
    return ({"scored": ArraySpec((count,))} if gathered else {}) | specs


def input_names(names: Collection[str], prefix: str = "") -> tuple[str, ...]:
    """The six arrays of one network input, and the INTERVAL_ARRAYS in `names`."""
    return INPUT_ARRAYS + tuple(n for n in INTERVAL_ARRAYS if prefix + n in names)


def input_group(batch: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The arrays of one network input; `prefix` is "", "encoder_", ..."""
    names = (*input_names(batch, prefix), FEATURE, *SPANS)
    return {name: batch[prefix + name] for name in names if prefix + name in batch}


def attention_mask(group: Mapping[str, Any]) -> Any:
    """[B, L, L] bool: whether query q (axis 1) attends to key k (axis 2)."""
    segment = group["segment"]
    same = segment[:, :, None] == segment[:, None, :]
    return same & (segment[:, None, :] > 0) & rank_mask(group, group)


def rank_mask(query: Mapping[str, Any], key: Mapping[str, Any]) -> Any:
    """[B, L, M] bool: whether the rank of key m is in an interval of query l.

    Args:
      query: reach and INTERVAL_ARRAYS, [B, L] each.
      key: rank [B, M].
    """
    rank = key["rank"][:, None, :]

    def within(low: str, reach: str) -> Any:
        mask = rank <= query[reach][:, :, None]
        return mask & (query[low][:, :, None] <= rank) if low in query else mask

    mask = within("low", "reach")
    return mask | within("low2", "reach2") if "reach2" in query else mask
