"""A lexicon: words, phrases or entities as token ids, and their matches in a text."""

# B batch, L length, E entries, W tokens of the longest entry

import functools
import gzip
import hashlib
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.contract.batch import DOCUMENT, WORD, Lexicon, Triples
from research.contract.errors import UserError, os_reason
from research.data.read import sentences, word_boundaries
from research.data.read.notations import Triple
from research.data.read.triples import (
    is_of_triples,
    parse_triples,
    spell,
    spell_relation,
)
from research.files.paths import user_path

LEXICON = "data.lexicon"


def load_lexicon(path: str, vocabulary: Any, texts: str = "") -> Lexicon:
    """`read_lexicon(path, texts)` with the token ids of a vocabulary."""
    return read_lexicon(path, texts)(vocabulary)


def read_lexicon(path: str, texts: str = "") -> Callable[[Any], Lexicon]:
    """Reads the files of the config key `data.lexicon`.

    An entry is spelled as inside a sentence: after a space, or right after another
    character if it begins with a CJK ideograph. Entries with text that the vocabulary
    does not know, and entries with the same tokens as an earlier one, are left out;
    their number is printed. A triple with an unknown entity is left out; an entity with
    the tokens of an earlier entry is identified with it.

    Args:
      path: files of lines `entry<TAB>type`, or of triples
        (`research.data.read.triples`), separated by commas; a `.gz` file is
        decompressed. The entities of triples are entries of type `head` or, if they are
        only tails, `tail`.
      texts: a file of lines `name<TAB>text` with the spellings of entities and
        relations; "": they are spelled by their names.

    Returns:
      a function that takes a `research.data.tokenize.vocabulary.Vocabulary` and returns
      the lexicon as its token ids. It raises UserError if no entry is left.

    Raises:
      UserError: there is no such file, a line is malformed, or an entity has no text.
    """
    files = [Path(user_path(name)) for name in path.split(",")]
    if _has_triples(files[0]):
        return _read_graph(path, files, texts)
    if texts:
        raise UserError(
            f"data.lexicon_texts is {texts!r}, but data.lexicon={path} has no triples; "
            "set data.lexicon_texts to nothing"
        )
    rows = [row for file in files for row in _read_entries(file)]
    entries, entry_types = zip(*rows, strict=True)

    def encode(vocabulary: Any) -> Lexicon:
        token, number = _encode_entries(path, entries, vocabulary)
        names = sorted(set(entry_types))
        _, kept = np.unique(number[number >= 0], return_index=True)
        kept = np.flatnonzero(number >= 0)[kept]
        entry_type = np.array([names.index(entry_types[n]) for n in kept], np.int32)
        return Lexicon(*token, entry_type, tuple(names))

    return encode


class _Padded(NamedTuple):
    """Entries as token ids."""

    token: np.ndarray  # [E, W] int32, -1 beyond an entry's end
    size: np.ndarray  # [E] int32


def _pad(tokens: list[np.ndarray]) -> _Padded:
    size = np.array(list(map(len, tokens)), np.int32)
    token = np.full((len(size), size.max(initial=0)), -1, np.int32)
    token[np.arange(token.shape[1]) < size[:, None]] = np.concatenate(tokens)
    return _Padded(token, size)


def _encode(entries: Sequence[str], vocabulary: Any) -> list[np.ndarray]:
    """The tokens of each entry."""
    units = [_units(entry) for entry in entries]
    encoded = vocabulary.encode_units([unit for each in units for unit in each])
    ends = np.cumsum(encoded.count)[np.cumsum([len(each) for each in units]) - 1]
    return np.split(encoded.token, ends[:-1])


def _encode_entries(
    path: str, entries: Sequence[str], vocabulary: Any
) -> tuple[_Padded, np.ndarray]:
    """The entries that are kept, and the number of each entry among them, [entries].

    An entry with the tokens of an earlier one gets its number; -1: it is left out.
    """
    tokens = _encode(entries, vocabulary)
    unknown = vocabulary.vocab.unk_id
    first: dict[bytes, int] = {}
    kept, number = [], np.full(len(tokens), -1)
    for index, each in enumerate(tokens):
        if len(each) and unknown not in each:
            number[index] = first.setdefault(each.tobytes(), len(kept))
            if number[index] == len(kept):
                kept.append(each)
    if len(kept) < len(entries):
        print(
            f"data.lexicon: {len(entries) - len(kept)} of {len(entries)} entries are "
            f"left out: {(number < 0).sum()} have text that the vocabulary does not "
            "know, the others have the tokens of an earlier entry",
            file=sys.stderr,
        )
    if not kept:
        raise UserError(
            f"data.lexicon is {path!r}: the vocabulary knows no entry of it"
        )
    return _pad(kept), number


def _read_graph(
    path: str, files: Sequence[Path], texts: str
) -> Callable[[Any], Lexicon]:
    """The entities of files of triples as entries, and the triples."""
    rows = [(n, *each) for n, file in enumerate(files) for each in read_triples(file)]
    file, heads, relations, tails = zip(*rows, strict=True)
    entities, names = (list(dict.fromkeys(each)) for each in (heads + tails, relations))
    text_of = read_texts(texts) if texts else {}
    every = [*entities, *names]
    if texts and (missing := [name for name in every if name not in text_of]):
        raise UserError(
            f"data.lexicon_texts={texts} has no text of {missing[0]!r} ({len(missing)} "
            f"of {len(every)} are missing); add a line name<TAB>text of each entity "
            "and relation"
        )

    def encode(vocabulary: Any) -> Lexicon:
        def spelled(found: Sequence[str], as_word: Callable[[str], str]) -> list[str]:
            if texts:
                return [text_of[name] for name in found]
            is_words = vocabulary.type.has_words
            return list(map(as_word, found)) if is_words else list(found)

        token, number = _encode_entries(path, spelled(entities, spell), vocabulary)
        entity_id = dict(zip(entities, number.tolist(), strict=True))
        relation_id = {name: n for n, name in enumerate(names)}
        columns = [
            [entity_id[name] for name in heads],
            [relation_id[name] for name in relations],
            [entity_id[name] for name in tails],
            file,
        ]
        triple = np.array(columns, np.int32)
        known = (triple[[0, 2]] >= 0).all(axis=0)
        if not known.all():
            print(
                f"data.lexicon: {(~known).sum()} of {len(known)} triples are left out "
                "with their entities",
                file=sys.stderr,
            )
        is_tail = ~np.isin(np.arange(len(token.size)), triple[0])
        relation = _pad(_encode(spelled(names, spell_relation), vocabulary))
        triples = Triples(*triple[:, known], *relation)
        return Lexicon(*token, is_tail.astype(np.int32), ("head", "tail"), triples)

    return encode


def lexicon_fingerprint(lexicon: Lexicon) -> str:
    """A hash of the content, as 32 hex digits."""
    digest = hashlib.blake2b("\t".join(lexicon.type_names).encode(), digest_size=16)
    entries = lexicon.size, lexicon.entry_type, lexicon.token
    for array in (*entries, *(lexicon.triples or ())):
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

    From left to right, the longest entry is taken that begins at a word start and ends
    before a word start or a separator, or at the end of the row or document; the next
    entry begins after it. A row's result depends only on that row.

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
    """[B, L]: where the next document after each position starts; L: nowhere."""
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


def _has_triples(file: Path) -> bool:
    """Whether a file of data.lexicon has triples, by its first line."""
    return is_of_triples(next(iter(read_lines(file, LEXICON)))[1])


def read_triples(file: Path, name: str = LEXICON) -> list[Triple]:
    """The triples of a file, which may be a `.gz`.

    Args:
      name: the key or flag that names the file, for errors.

    Raises:
      UserError: it cannot be read, or a line is not a triple.
    """
    try:
        return [triple for _, triple in parse_triples(read_lines(file, name))]
    except UserError:
        raise
    except ValueError as error:
        number, reason = error.args
        raise UserError(f"{file}:{number}: {reason}") from error


def read_texts(path: str) -> dict[str, str]:
    """Name -> text, from a file of lines name<TAB>text, which may be a `.gz`.

    Raises:
      UserError: it cannot be read, or a line is malformed.
    """
    file, texts = Path(user_path(path)), {}
    for number, line in read_lines(file, "data.lexicon_texts"):
        name, _, text = line.partition("\t")
        if not (name.strip() and text.strip()):
            raise UserError(f"{file}:{number}: must be name<TAB>text; got {line!r:.60}")
        texts[name.strip()] = text.strip()
    return texts


def read_rows(file: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    """(number, tab-separated columns) of the lines of a file; see `read_lines`."""
    for number, line in read_lines(file, name):
        yield number, [column.strip() for column in line.split("\t")]


def _read_entries(file: Path) -> Iterator[tuple[str, str]]:
    """(entry, type) of each line that is not blank."""
    for number, columns in read_rows(file, LEXICON):
        if len(columns) != 2 or not all(columns):
            raise UserError(
                f"{file}:{number}: a line of a lexicon must be entry<TAB>type"
            )
        yield columns[0], columns[1]


def read_lines(file: Path, name: str) -> list[tuple[int, str]]:
    """(number, line) of the lines that are not blank.

    Args:
      name: the key or flag that names the file, for errors.

    Raises:
      UserError: the file cannot be read, or has no such lines.
    """
    try:
        data = file.read_bytes()
        data = gzip.decompress(data) if file.suffix == ".gz" else data
        text = data.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{name}={file} cannot be read ({error})") from error
    except OSError as error:
        reason = os_reason(error)
        raise UserError(f"{name}={file} cannot be read ({reason})") from error
    rows = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not rows:
        raise UserError(f"{name}={file} has no lines")
    return rows
