"""A file's words, phrases or entities in pieces, and where they stand in a text."""

# B batch, L length, E entries, W pieces of the longest, C places that may begin one

import functools
import gzip
import hashlib
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.batch import DOCUMENT, WORD, Lexicon
from research.data.corpora import sentences, word_boundaries
from research.errors import UserError


def load(path: str, vocabulary: Any) -> Lexicon:
    """The lexicon of the config key `data.lexicon`, in the pieces of a vocabulary.

    An entry is spelled as it is inside a sentence: after a space, or right after
    another character where it begins with a CJK ideograph. Left out, and counted, is
    what the vocabulary does not know and what it spells like an earlier entry.

    Args:
      path: a file of lines `entry<TAB>kind`; `.gz` is unpacked.
      vocabulary: a `research.data.tokenizers.vocabulary.Vocabulary`.

    Raises:
      UserError: there is no such file, a line is not of that form, or none is left.
    """
    entries, kinds = zip(*_read(Path(path).expanduser()), strict=True)
    cut = [_units(entry) for entry in entries]
    found = vocabulary.encode_units([unit for units in cut for unit in units])
    ends = np.cumsum(found.count)[np.cumsum([len(units) for units in cut]) - 1]
    spelled = np.split(found.token, ends[:-1])
    known = [vocabulary.vocab.unk_id not in pieces for pieces in spelled]
    first: dict[bytes, int] = {}
    for number, pieces in enumerate(spelled):
        if known[number]:
            first.setdefault(pieces.tobytes(), number)
    kept = list(first.values())
    if len(kept) < len(entries):
        print(
            f"data.lexicon: {len(entries) - len(kept)} of {len(entries)} entries are "
            f"left out, {known.count(False)} since the vocabulary does not know their "
            "text, the others since they are spelled like an earlier one",
            file=sys.stderr,
        )
    if not kept:
        raise UserError(f"data.lexicon is {path!r}: no entry of it can be read")
    size = np.array([len(spelled[number]) for number in kept], np.int32)
    token = np.full((len(kept), size.max()), -1, np.int32)
    token[np.arange(size.max()) < size[:, None]] = np.concatenate(
        [spelled[number] for number in kept]
    )
    names = sorted(set(kinds))
    kind = np.array([names.index(kinds[number]) for number in kept], np.int32)
    return Lexicon(token, size, kind, tuple(names))


def fingerprint(lexicon: Lexicon) -> str:
    """32 hex digits that say what it holds."""
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
    first: np.ndarray | None = None,
) -> np.ndarray:
    """The entry that begins at each place, -1 elsewhere: [B, L] int32.

    From left to right the longest entry is taken that begins where a word starts and
    ends before one, or where the row or the document ends; the next one begins behind
    it. A row's result depends on that row alone.

    Args:
      token, flags, length: of an `Example`.
      first: of an `Example` of pairs, whose entries lie in one of the two spans.
    """
    tree = _tree(_Same(lexicon))
    place = np.arange(token.shape[1])
    word = (flags & WORD > 0) & (place < length[:, None])
    ends = np.zeros((len(token), token.shape[1] + 1), bool)
    ends[:, :-1] = word
    # A separator starts no word; it is known by the document that starts behind it.
    ends[:, :-2] |= (flags[:, :-1] == 0) & (flags[:, 1:] & DOCUMENT > 0)
    row, column = np.nonzero(word)
    limit = length[row]
    if first is not None:
        limit = np.where(column < first[row], first[row], limit)
    longest = np.full(token.shape, -1, np.int32)
    node = np.zeros(len(row), np.int64)
    for depth, (keys, entry) in enumerate(tree):
        here = np.flatnonzero(column + depth < limit)
        row, column, limit = row[here], column[here], limit[here]
        key = node[here] << 32 | token[row, column + depth]
        node = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        here = np.flatnonzero(keys[node] == key)
        row, column, limit, node = row[here], column[here], limit[here], node[here]
        after = column + depth + 1
        whole = (entry[node] >= 0) & (ends[row, after] | (after == limit))
        longest[row[whole], column[whole]] = entry[node[whole]]
    return _apart(longest, lexicon.size)


def _apart(longest: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Without the entries that begin inside one to their left, row after row."""
    flat = longest.reshape(-1)
    begin = np.flatnonzero(flat >= 0)
    following = np.searchsorted(begin, begin + size[flat[begin]]).tolist()
    taken, here = [], 0
    while here < len(following):
        taken.append(here)
        here = following[here]
    entry = np.full_like(flat, -1)
    entry[begin[taken]] = flat[begin[taken]]
    return entry.reshape(longest.shape)


class Level(NamedTuple):
    """The prefixes of one length: sorted, so that a prefix's node is its place."""

    key: np.ndarray  # int64: the node of what is before << 32 | the last token
    entry: np.ndarray  # int64: the entry that it is the whole of; -1: none


class _Same:
    """A lexicon that equals itself alone, so that its tree is made once."""

    def __init__(self, lexicon: Lexicon):
        self.lexicon = lexicon

    def __eq__(self, other: object) -> bool:
        return self.lexicon.token is other.lexicon.token

    def __hash__(self) -> int:
        return id(self.lexicon.token)


@functools.lru_cache(maxsize=4)
def _tree(same: _Same) -> list[Level]:
    """The prefixes of all entries, by length."""
    token, size = same.lexicon.token, same.lexicon.size
    node, levels = np.zeros(len(size), np.int64), []
    for depth in range(int(size.max(initial=0))):
        longer = np.flatnonzero(size > depth)
        key, node[longer] = np.unique(
            node[longer] << 32 | token[longer, depth], return_inverse=True
        )
        entry = np.full(len(key), -1, np.int64)
        whole = longer[size[longer] == depth + 1][::-1]
        entry[node[whole]] = whole
        levels.append(Level(key, entry))
    return levels


def _units(entry: str) -> list[str]:
    """The units of an entry as they are inside a sentence."""
    first, *rest = sentences.units(entry)
    joined = word_boundaries.ideograph(word_boundaries.points(first[0]))[0]
    return [sentences.JOINED + first if joined else first, *rest]


def _read(file: Path) -> Iterator[tuple[str, str]]:
    """(entry, kind) of each line that is not blank."""
    try:
        data = file.read_bytes()
        text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode()
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"data.lexicon: {file} cannot be read ({error})") from error
    except OSError as error:
        raise UserError(
            f"data.lexicon is {str(file)!r}: {error.strerror}; it is a file of lines "
            "entry<TAB>kind"
        ) from error
    rows = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        raise UserError(f"data.lexicon: {file} has no entries")
    for number, line in rows:
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            raise UserError(f"{file}:{number}: a line of a lexicon is entry<TAB>kind")
        yield columns[0], columns[1]
