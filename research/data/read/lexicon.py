"""A lexicon: words, phrases or entities as token ids, and their matches in a text."""

# B batch, L length, E entries, W tokens of the longest entry

import functools
import gzip
import hashlib
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.contract.batch import DOCUMENT, WORD, Lexicon
from research.contract.errors import UserError, os_reason
from research.data.read import sentences, word_boundaries
from research.files.paths import user_path


def load_lexicon(path: str, vocabulary: Any) -> Lexicon:
    """The lexicon of the config key `data.lexicon`, as token ids of a vocabulary.

    An entry is spelled as inside a sentence: after a space, or right after another
    character where it begins with a CJK ideograph. Entries with text that the
    vocabulary does not know, and entries with the tokens of an earlier one, are left
    out; their number is printed.

    Args:
      path: a file of lines `entry<TAB>type`; a `.gz` file is decompressed.
      vocabulary: a `research.data.tokenize.vocabulary.Vocabulary`.

    Raises:
      UserError: there is no such file, a line has another form, or no entry is left.
    """
    entries, entry_types = zip(*_read_entries(Path(user_path(path))), strict=True)
    units = [_units(entry) for entry in entries]
    encoded = vocabulary.encode_units([unit for each in units for unit in each])
    ends = np.cumsum(encoded.count)[np.cumsum([len(each) for each in units]) - 1]
    tokens = np.split(encoded.token, ends[:-1])  # [tokens of an entry] each
    unknown = vocabulary.vocab.unk_id
    known = [len(each) > 0 and unknown not in each for each in tokens]
    first: dict[bytes, int] = {}
    for number, each in enumerate(tokens):
        if known[number]:
            first.setdefault(each.tobytes(), number)
    kept = list(first.values())
    if len(kept) < len(entries):
        print(
            f"data.lexicon: {len(entries) - len(kept)} of {len(entries)} entries are "
            f"left out: {known.count(False)} have text that the vocabulary does not "
            "know, the others have the tokens of an earlier entry",
            file=sys.stderr,
        )
    if not kept:
        raise UserError(
            f"data.lexicon is {path!r}: the vocabulary knows no entry of it"
        )
    size = np.array([len(tokens[number]) for number in kept], np.int32)
    token = np.full((len(kept), size.max()), -1, np.int32)
    token[np.arange(size.max()) < size[:, None]] = np.concatenate(
        [tokens[number] for number in kept]
    )
    names = sorted(set(entry_types))
    entry_type = np.array([names.index(entry_types[n]) for n in kept], np.int32)
    return Lexicon(token, size, entry_type, tuple(names))


def lexicon_fingerprint(lexicon: Lexicon) -> str:
    """A hash of the content, as 32 hex digits."""
    digest = hashlib.blake2b("\t".join(lexicon.type_names).encode(), digest_size=16)
    for array in (lexicon.size, lexicon.entry_type, lexicon.token):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def match(
    token: np.ndarray,
    flags: np.ndarray,
    length: np.ndarray,
    lexicon: Lexicon,
    *,
    eos_id: int,
    first: np.ndarray | None = None,
) -> np.ndarray:
    """The number of the entry that begins at each position, -1 elsewhere: [B, L] int32.

    From left to right the longest entry is taken that begins where a word starts and
    ends before a word's start or a separator, or at the end of the row or document; the
    next entry begins after it. A row's result depends on that row alone.

    Args:
      token, flags, length: see `Example`.
      eos_id: the separator.
      first: [B], the `first_length` of an `Example` of pairs: an entry lies within one
        of the two spans.
    """
    levels = _prefix_tree(_ById(lexicon))
    position = np.arange(token.shape[1])
    word = (flags & WORD > 0) & (position < length[:, None])
    ends = np.zeros((len(token), token.shape[1] + 1), bool)
    ends[:, :-1] = word | (token == eos_id)
    row, column = np.nonzero(word)
    limit = np.minimum(length[row], _next_document(flags)[row, column])
    if first is not None:
        limit = np.where(column < first[row], np.minimum(first[row], limit), limit)
    longest = np.full(token.shape, -1, np.int32)
    node = np.zeros(len(row), np.int64)
    for depth, (keys, entry) in enumerate(levels):
        kept = np.flatnonzero(column + depth < limit)
        row, column, limit = row[kept], column[kept], limit[kept]
        key = node[kept] << 32 | token[row, column + depth]
        node = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        kept = np.flatnonzero(keys[node] == key)
        row, column, limit, node = row[kept], column[kept], limit[kept], node[kept]
        end = column + depth + 1
        matched = (entry[node] >= 0) & (ends[row, end] | (end == limit))
        longest[row[matched], column[matched]] = entry[node[matched]]
    return _drop_overlaps(longest, lexicon.size)


def _next_document(flags: np.ndarray) -> np.ndarray:
    """[B, L]: where the next document starts, behind each position; L: in no column."""
    width = flags.shape[1]
    start = np.where(flags & DOCUMENT > 0, np.arange(width), width)
    start = np.append(start[:, 1:], np.full((len(flags), 1), width), axis=1)
    return np.minimum.accumulate(start[:, ::-1], axis=1)[:, ::-1]


def _drop_overlaps(longest: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The matches without those that begin inside a kept match to their left.

    Args:
      longest: [B, L] int32, the longest entry that begins at each position; -1: none.
      size: [E] int32, the tokens of each entry.
    """
    flat = longest.reshape(-1)
    begin = np.flatnonzero(flat >= 0)
    following = np.searchsorted(begin, begin + size[flat[begin]]).tolist()
    kept, current = [], 0
    while current < len(following):
        kept.append(current)
        current = following[current]
    entry = np.full_like(flat, -1)
    entry[begin[kept]] = flat[begin[kept]]
    return entry.reshape(longest.shape)


class _Level(NamedTuple):
    """The prefixes of one length, sorted; a prefix's index is its node number."""

    key: np.ndarray  # int64: the node of the prefix without its last token << 32 | it
    entry: np.ndarray  # int64: the entry that consists of the prefix; -1: none


class _ById:
    """A lexicon that is equal only to itself, so that its tree is built once."""

    def __init__(self, lexicon: Lexicon):
        self.lexicon = lexicon

    def __eq__(self, other: object) -> bool:
        return self.lexicon.token is other.lexicon.token

    def __hash__(self) -> int:
        return id(self.lexicon.token)


@functools.lru_cache(maxsize=4)
def _prefix_tree(wrapped: _ById) -> list[_Level]:
    """The prefixes of all entries, by length."""
    token, size = wrapped.lexicon.token, wrapped.lexicon.size
    node, levels = np.zeros(len(size), np.int64), []
    for depth in range(int(size.max(initial=0))):
        longer = np.flatnonzero(size > depth)
        key, node[longer] = np.unique(
            node[longer] << 32 | token[longer, depth], return_inverse=True
        )
        entry = np.full(len(key), -1, np.int64)
        complete = longer[size[longer] == depth + 1][::-1]
        entry[node[complete]] = complete
        levels.append(_Level(key, entry))
    return levels


def _units(entry: str) -> list[str]:
    """The units of an entry, spelled as inside a sentence."""
    first, *rest = sentences.split_units(entry)
    joined = word_boundaries.is_ideograph(word_boundaries.code_points(first[0]))[0]
    return [sentences.JOINED + first if joined else first, *rest]


def _read_entries(file: Path) -> Iterator[tuple[str, str]]:
    """(entry, type) of each line that is not blank."""
    try:
        data = file.read_bytes()
        data = gzip.decompress(data) if file.suffix == ".gz" else data
        text = data.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"data.lexicon: {file} cannot be read ({error})") from error
    except OSError as error:
        raise UserError(
            f"data.lexicon is {str(file)!r}: {os_reason(error)}; give a file of lines "
            "entry<TAB>type"
        ) from error
    rows = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        raise UserError(f"data.lexicon: {file} has no entries")
    for number, line in rows:
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            raise UserError(f"{file}:{number}: a line of a lexicon is entry<TAB>type")
        yield columns[0], columns[1]
