"""Files of word vectors, in the formats of word2vec, GloVe and fastText.

word2vec  a line `V D`, then a line for each word: it and D numbers
bin       the line `V D`, then each word, a space, and D float32, little endian;
          word2vec writes a line feed after each, gensim none
glove     the lines without the first one
vec       as word2vec (fastText)

Words are UTF-8, behind a byte order mark or not; word2vec cuts them at 99 bytes, which
may be inside a character. In text a word may have spaces, as GloVe's have: the last D
columns, between single spaces, are the numbers. A name that ends in .gz is compressed.
"""

# V words, D width

import codecs
import collections
import gzip
import io
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np

from research.contract.errors import UserError, os_reason
from research.files.output_files import SPECIAL_FOLDERS
from research.files.paths import user_path

FORMATS = ("word2vec", "bin", "glove", "vec")
BINARY = "bin"
SUFFIXES = {".bin": "bin", ".vec": "vec", ".txt": "word2vec"}
"""Suffix of a file that is written -> its format."""
ENDINGS = tuple(suffix + end for suffix in SUFFIXES for end in ("", ".gz"))
"""Ends of the names of files of word vectors."""
SAMPLE = 100
"""Lines that tell the width of a file without a header."""
MAX_WORD_BYTES, MAX_WIDTH = 2**16, 2**20
LINES_PER_CALL = 4096


def read_vectors(path: str | os.PathLike) -> tuple[list[str], np.ndarray]:
    """The words of a file and their vectors [V, D] float32.

    A file is binary if its name ends in .bin or .bin.gz; a text whose first line is two
    whole numbers has a header.

    Raises:
      UserError: there is no such file, or it is not one of the formats; says where.
    """
    name = user_path(path)
    is_gzip = name.endswith(".gz")
    try:
        with gzip.open(name, "rb") if is_gzip else open(name, "rb") as file:
            if name.removesuffix(".gz").endswith(".bin"):
                words, vectors = _read_binary(file, name)
            else:
                words, vectors = _read_text(file, name)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{name} cannot be read ({os_reason(error)})") from error
    wrong = ~np.isfinite(vectors).all(axis=1)
    if wrong.any():
        word = words[int(wrong.argmax())]
        raise UserError(f"{name}: the vector of {word!r} is not finite")
    return words, vectors


def rows_of(
    spelling: Sequence[str], words: Sequence[str], vectors: np.ndarray
) -> tuple[np.ndarray, int]:
    """The vectors [V, D] of a vocabulary's words, and how many words a file has.

    A word that the file lacks has the vector of its lower case, if that is there; else
    numbers that are drawn uniformly, with the variance of the file's (Kim 2014, section
    4.3), the same for a word in every vocabulary. An entry that is no word ("") has 0.
    """
    row = {word: number for number, word in reversed([*enumerate(words)])}
    found = np.array(
        [row.get(word, row.get(word.lower(), -1)) if word else -1 for word in spelling]
    )
    bound = 3**0.5 * float(vectors.std())
    table = np.zeros((len(spelling), vectors.shape[1]), np.float32)
    table[found >= 0] = vectors[found[found >= 0]]
    for number in np.flatnonzero(found < 0):
        if word := spelling[number]:
            draw = np.random.default_rng(zlib.crc32(word.encode()))
            table[number] = draw.uniform(-bound, bound, vectors.shape[1])
    return table, int((found >= 0).sum())


def _read_binary(file: BinaryIO, name: str) -> tuple[list[str], np.ndarray]:
    count, width = _header(file.readline(64), name)
    words, vectors = [], []
    for _ in range(count):
        word = _binary_word(file)
        data = file.read(4 * width)
        if word is None or len(data) < 4 * width:
            raise UserError(
                f"{name}: its first line announces {count} vectors of {width} numbers, "
                f"but the file ends in or after number {len(words)}"
            )
        words.append(_decode(word.lstrip(b"\n")))
        vectors.append(np.frombuffer(data, "<f4"))
    if file.read(2).strip(b"\n"):
        raise UserError(
            f"{name}: its first line announces {count} vectors of {width} numbers, but "
            "the file has more"
        )
    return words, np.array(vectors, np.float32)


def _binary_word(file: BinaryIO) -> bytes | None:
    """The bytes before the next space; None: the file ends, or it is no word."""
    word = bytearray()
    while len(word) < MAX_WORD_BYTES:
        byte = file.read(1)
        if byte == b" ":
            return bytes(word)
        if not byte:
            return None
        word += byte
    return None


def _header(line: bytes, name: str) -> tuple[int, int]:
    """V and D of a first line."""
    found = _numbers(line)
    if found is None or min(found) < 1 or found[1] > MAX_WIDTH:
        raise UserError(
            f"{name}: its first line is {line[:40]!r}, not the number of words and the "
            "width of their vectors"
        )
    return found


def _numbers(line: bytes) -> tuple[int, int] | None:
    """The two whole numbers of which a line consists, if it does."""
    fields = line.split()
    if len(fields) == 2 and all(x.isdigit() and len(x) < 19 for x in fields):
        return int(fields[0]), int(fields[1])
    return None


def _read_text(file: BinaryIO, name: str) -> tuple[list[str], np.ndarray]:
    lines = _lines(file)
    first = list(itertools.islice(lines, SAMPLE))
    if not first:
        raise UserError(f"{name} is empty")
    if first[0][1].startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{name} is UTF-16; save it as UTF-8")
    count, width = _numbers(first[0][1]) or (None, None)
    if count is None:
        width = _most_common_width(first, name)
    else:
        count, width = _header(first.pop(0)[1], name)
        _check_width(first, width, name)
    words: list[str] = []
    parts: list[np.ndarray] = []
    rest = itertools.chain(first, lines)
    while batch := list(itertools.islice(rest, LINES_PER_CALL)):
        split = [line.rsplit(b" ", width) for _, line in batch]
        words += [_decode(fields[0]) for fields in split]
        parts.append(_parse(batch, split, width, name))
    if count is not None and len(words) != count:
        raise UserError(
            f"{name}: its first line announces {count} vectors, but it has {len(words)}"
        )
    return words, np.concatenate([*parts, np.zeros((0, width), np.float32)])


def _most_common_width(lines: list[tuple[int, bytes]], name: str) -> int:
    """How many numbers most lines end with, of equally many lines the larger number.

    Raises:
      UserError: no line has a word and a number behind it.
    """
    counts: collections.Counter[int] = collections.Counter()
    for _, line in lines:
        _, *fields = line.split(b" ")
        counts[sum(1 for _ in itertools.takewhile(_is_number, reversed(fields)))] += 1
    del counts[0]
    if not counts:
        number, line = lines[0]
        raise UserError(
            f"{name}, line {number}: {_decode(line[:40])!r} is not a word and the "
            "numbers of its vector"
        )
    return max(counts, key=lambda width: (counts[width], width))


def _check_width(lines: list[tuple[int, bytes]], width: int, name: str) -> None:
    """Raises UserError: all lines have a number more than a header announces.

    A word may have spaces, and its last part may be a number (route 66), but not so all
    words.
    """
    split = [line.rsplit(b" ", width + 1) for _, line in lines]
    if split and all(len(each) == width + 2 and _is_number(each[1]) for each in split):
        raise UserError(
            f"{name}: its first line announces vectors of {width} numbers, but line "
            f"{lines[0][0]} has more"
        )


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number and content of each line that is not empty, without spaces at its end."""
    for number, line in enumerate(file, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if stripped := line.rstrip(b" \r\n"):
            yield number, stripped


def _parse(batch: list, split: list, width: int, name: str) -> np.ndarray:
    """The numbers [lines, D] of lines."""
    try:
        rows = [fields[1:] for fields in split]
        if all(len(row) == width for row in rows):
            flat = np.array(list(itertools.chain.from_iterable(rows)))
            return flat.astype(np.float32).reshape(-1, width)
    except ValueError:
        pass
    for (number, line), fields in zip(batch, split, strict=True):
        try:
            numbers = [float(field) for field in fields[1:]]
        except ValueError:
            numbers = []
        if len(numbers) != width:
            raise UserError(
                f"{name}, line {number}: {_decode(line[:40])!r} ... is not a word and "
                f"{width} numbers"
            )
    raise AssertionError("a line that does not parse")


def _decode(word: bytes) -> str:
    """The text of a word, of which the last character may be cut."""
    return word.decode("utf-8", "replace")


def format_of(name: str, form: str = "") -> str:
    """The one of `FORMATS` in which a file is written.

    Args:
      form: the one that is asked for; "": that of the name's suffix.

    Raises:
      UserError: the name says none, or `read_vectors` would read another one.
    """
    plain = name.removesuffix(".gz")
    suffix = os.path.splitext(plain)[1]
    if suffix in (".bz2", ".xz", ".zip", ".zst"):
        raise UserError(f"--to={name} must end in .gz to be compressed, not {suffix}")
    if not (form := form or SUFFIXES.get(suffix, "")):
        raise UserError(
            f"--to={name}: its name does not end in {', '.join(SUFFIXES)}; give such a "
            "name, or --format"
        )
    is_read = not name.startswith(SPECIAL_FOLDERS)
    if is_read and (form == BINARY) != plain.endswith(".bin"):
        raise UserError(
            f"--to={name}: files of --format=bin, and no others, must end in .bin or "
            f".bin.gz; the format is {form}"
        )
    return form


def encode_vectors(
    words: Sequence[str], vectors: np.ndarray, form: str, *, compress: bool = False
) -> bytes:
    """The content of a file in one of `FORMATS`; numbers are exact.

    Args:
      compress: by gzip, the same content always to the same bytes.

    Raises:
      UserError: a word has a space or a line end, so that it would be read as two.
    """
    for word in words:
        if not word or any(space in word for space in " \t\n\r"):
            raise UserError(
                f"the word {word!r} is empty or has a space or a line's end, which a "
                "file of vectors cannot have"
            )
    vectors = np.asarray(vectors, np.float32)
    header = f"{len(words)} {vectors.shape[1]}\n".encode()
    out = io.BytesIO()
    if form != "glove":
        out.write(header)
    out.writelines(_rows(words, vectors, form))
    content = out.getvalue()
    return gzip.compress(content, mtime=0) if compress else content


def _rows(words: Iterable[str], vectors: np.ndarray, form: str) -> Iterator[bytes]:
    if form == "bin":
        for word, row in zip(words, vectors.astype("<f4"), strict=True):
            yield word.encode() + b" " + row.tobytes() + b"\n"
        return
    pattern = " ".join(["%.9g"] * vectors.shape[1])
    for word, row in zip(words, vectors, strict=True):
        yield f"{word} {pattern % tuple(row)}\n".encode()
