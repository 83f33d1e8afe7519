"""Files of word vectors: what is written is read, whoever wrote it; and what is wrong.

That gensim 4.4 reads what is written here, and the other way round, was tried by hand.
"""

import gzip

import numpy as np
import pytest

from research.contract.errors import UserError
from research.files.vector_files import (
    FORMATS,
    encode_vectors,
    format_of,
    read_vectors,
    rows_of,
)

WORDS = ["the", "naïve", "日本", "100", "</s>"]
VECTORS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
VECTORS[2] = [0, -1e-30, 12345678]
_ZIPPED = gzip.compress(b"the 1 2\n" * 99, mtime=0)
DAMAGED = _ZIPPED[:14] + b"\xff" * 4 + _ZIPPED[18:]


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_written_is_read_again_bit_by_bit(form, tmp_path):
    path = tmp_path / ("v.bin" if form == "bin" else "v.txt")
    path.write_bytes(encode_vectors(WORDS, VECTORS, form))
    words, vectors = read_vectors(path)
    assert words == WORDS
    np.testing.assert_array_equal(vectors, VECTORS)
    header = path.read_bytes().split(b"\n")[0]
    assert (header == b"5 3") == (form != "glove")


@pytest.mark.parametrize("name", ["a.txt", "a.vec", "a.bin", "a", "a.dat"])
@pytest.mark.parametrize("end", ["", ".gz", ".zst"])
@pytest.mark.parametrize("form", ["", *FORMATS])
def test_what_is_written_under_a_name_is_read_by_it(name, end, form, tmp_path):
    """Or refused in one line."""
    path = tmp_path / (name + end)
    try:
        found = format_of(str(path), form)
    except UserError as error:
        told = "\n" not in str(error)
        assert told and (end == ".zst" or not form or "bin" in (form, name[2:]))
        return
    path.write_bytes(encode_vectors(WORDS, VECTORS, found, compress=end == ".gz"))
    assert read_vectors(path)[0] == WORDS
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == (end == ".gz")


def binary(*rows, header=b"2 2\n"):
    return header + b"".join(w + b" " + np.float32(v).tobytes() + e for w, v, e in rows)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        # spaces at the ends of lines (word2vec, fastText), and none after the last
        ("a.vec", b"2 2\nthe 1 2 \ncat 3 4 ", ["the", "cat"]),
        ("a.txt", b"the 1 2\r\ncat 3 4\r\n", ["the", "cat"]),
        # words with spaces, as in glove.840B; a cut character
        ("a.txt", b"the 1 2\n. . . 3 4\n", ["the", ". . ."]),
        ("a.txt", b"1 1 2\nat name@domain.com 3 4\n", ["1", "at name@domain.com"]),
        ("a.txt", b"2 2\nthe 1 2\nna\xc3 3 4\n", ["the", "na�"]),
        ("a.txt", "a\u00a0b 1 2\nc\u0085 3 4\n".encode(), ["a\u00a0b", "c\u0085"]),
        # a byte order mark
        ("a.txt", "\ufeff2 2\nthe 1 2\ncat 3 4\n".encode(), ["the", "cat"]),
        ("a.txt", "\ufeffthe 1 2\ncat 3 4\n".encode(), ["the", "cat"]),
        # a line feed after each vector (word2vec), or none (gensim)
        ("a.bin", binary((b"a", (1, 2), b"\n"), (b"b", (3, 4), b"\n")), ["a", "b"]),
        ("a.bin", binary((b"a", (1, 2), b""), (b"b", (3, 4), b"")), ["a", "b"]),
        ("a.txt.gz", gzip.compress(b"the 1 2\ncat 3 4\n", mtime=0), ["the", "cat"]),
    ],
)
def test_files_of_other_tools_are_read(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    found, vectors = read_vectors(tmp_path / name)
    assert found == words
    assert vectors.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "is empty"),
        ("a.txt", b"3 2\nthe 1 2\ncat 3 4\n", "announces 3 vectors, but it has 2"),
        ("a.txt", b"2 2\nthe 1 2 3\ncat 3 4 5\n", "of 2 numbers, but line 2 has more"),
        ("a.txt", b"2 3\nthe 1 2\ncat 3 4\n", "line 2: 'the 1 2' ... is not a word an"),
        ("a.txt", b"the 1 2\ncat 3 x\n", "line 2: 'cat 3 x' ... is not a word and 2"),
        ("a.txt", b"the 1 2\ncat 3 nan\n", "vector of 'cat' is not finite"),
        ("a.txt", b"the 1\ncat 3 4\ndog 5 6\n", "line 1: 'the 1' ... is not a word an"),
        ("a.txt", b"the 1 2\ncat 3\n", "line 2: 'cat 3' ... is not a word and 2"),
        ("a.txt", "the 1 2".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("a.txt", b"lonely\n", "line 1: 'lonely' is not a word and the numbers"),
        ("a.bin", b"lonely\n", "its first line is b'lonely"),
        ("a.bin", b"1 " + b"9" * 30 + b"\nthe ", "its first line is b'1 999"),
        ("a.vec", b"1 " + b"9" * 15 + b"\nthe 1\n", "its first line is b'1 999"),
        ("a.vec", b"1 " + b"9" * 5000 + b"\nthe 1\n", "is not finite"),
        ("a.txt.gz", DAMAGED, "cannot be read"),
        ("a.bin", binary((b"a", (1, 2), b"")), "ends in or after number 1"),
        ("a.bin", binary((b"a", (1, 2), b""), header=b"0 2\n"), "its first line is"),
        ("a.bin", binary(*[(b"a", (1, 2), b"")] * 3), "but the file has more"),
        ("a.txt.gz", b"the 1 2\n", "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        read_vectors(tmp_path / name)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_word_that_would_be_read_as_two_is_not_written():
    with pytest.raises(UserError, match="'New York' is empty or has a space"):
        encode_vectors(["New York"], VECTORS[:1], "bin")


def test_a_word_that_is_missing_has_the_same_vector_in_every_vocabulary():
    words, vectors = ["one", "two"], np.float32([[1] * 400, [-1] * 400])
    table, known = rows_of(["", "new", "one", "newer"], words, vectors)
    other, _ = rows_of(["two", "newer", "new"], words, vectors)
    np.testing.assert_array_equal(table[[1, 3]], other[[2, 1]])
    assert known == 1 and not table[0].any() and (table[1] != table[3]).all()
    np.testing.assert_allclose(table[[1, 3]].var(), vectors.var(), rtol=0.15)
