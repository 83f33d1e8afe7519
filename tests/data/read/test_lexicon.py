"""A lexicon's entries are matched greedily, as they are spelled inside a sentence."""

import gzip
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.contract.batch import DOCUMENT, WORD, Lexicon
from research.contract.errors import UserError
from research.data.read import lexicon
from research.data.tokenize import train_tokenizer
from tests.testing import small_data

EOS = 8


def make_lexicon(entries, entry_types=None) -> Lexicon:
    """A lexicon of entries that are given as token ids."""
    width = max(map(len, entries))
    token = np.array([[*e, *[-1] * (width - len(e))] for e in entries], np.int32)
    size = np.array([*map(len, entries)], np.int32)
    entry_type = np.array(entry_types or [0] * len(entries), np.int32)
    return Lexicon(token, size, entry_type, ("any", "other"))


def match_row(token, flags, length, entries, first) -> list[int]:
    """The greedy matches in one row, position by position."""
    found, position = [-1] * len(token), 0
    while position < length:
        best = -1
        limit = first if position < first else length
        documents = np.flatnonzero(flags[position + 1 :] & DOCUMENT) + position + 1
        limit = min([limit, *documents])
        for number, entry in enumerate(entries):
            end = position + len(entry)
            edge = end == limit
            if end < limit:
                edge = flags[end] & WORD or token[end] == EOS
            matches = end <= limit and edge and [*token[position:end]] == [*entry]
            if matches and (best < 0 or len(entry) > len(entries[best])):
                best = number
        if best >= 0 and flags[position] & WORD:
            found[position] = best
            position += len(entries[best])
        else:
            position += 1
    return found


@st.composite
def rows_and_entries(draw):
    """Rows of few distinct tokens, and lexicon entries of the same tokens."""
    width = draw(st.integers(2, 14))
    token = st.integers(5, 8)
    rows = draw(st.lists(st.tuples(*[token] * width), min_size=1, max_size=6))
    bits = st.sampled_from([0, 0, WORD, WORD, WORD | DOCUMENT])
    flags = [draw(st.tuples(*[bits] * width)) for _ in rows]
    length = [draw(st.integers(0, width)) for _ in rows]
    first = [draw(st.integers(0, size)) for size in length]
    entry = st.lists(token, min_size=1, max_size=4).map(tuple)
    entries = draw(st.lists(entry, min_size=1, max_size=12, unique=True))
    arrays = np.array(rows, np.int32), np.array(flags, np.uint8)
    return *arrays, np.array(length), np.array(first), entries


@given(rows_and_entries(), st.booleans())
def test_a_row_is_matched_greedily_from_left_to_right(made, pairs):
    token, flags, length, first, entries = made
    known = make_lexicon(entries)
    first = first if pairs else None
    match = partial(lexicon.match, lexicon=known, eos_id=EOS)
    found = match(token, flags, length, first=first)
    assert found.dtype == np.int32 and found.shape == token.shape
    ends = length if first is None else first
    for n in range(len(token)):
        expected = match_row(token[n], flags[n], length[n], entries, ends[n])
        assert found[n].tolist() == expected
        one = slice(n, n + 1)
        own = None if first is None else first[one]
        row = match(token[one], flags[one], length[one], first=own)
        np.testing.assert_array_equal(row, found[one])


TEXT = "fi bada gune, ta bada ,bada, badagune li。学中文bada 中文学"
ENTRIES = "bada\tword\nbada gune\tphrase\n中文\tname\n学\tname\nbada gune\tname\n"


def matches_in(vocabulary, known, text):
    """(the text before it, the entry) of each match in a text."""
    token, starts = vocabulary.encode(text)
    flags = np.where(starts, WORD, 0).astype(np.uint8)
    arrays = token[None], flags[None], np.array([len(token)])
    entry = lexicon.match(*arrays, known, eos_id=vocabulary.vocab.eos_id)[0]
    positions = np.flatnonzero(entry >= 0)
    cuts = [(token[:at], token[at:][: known.size[entry[at]]]) for at in positions]
    return [tuple(vocabulary.decode(part) for part in parts) for parts in cuts]


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_entries_are_spelled_as_inside_a_sentence(
    vocabularies, tmp_path, tokenizer_type, capsys
):
    (tmp_path / "a.tsv").write_text(ENTRIES)
    vocabulary = vocabularies[tokenizer_type]
    known = lexicon.load_lexicon(str(tmp_path / "a.tsv"), vocabulary)
    assert known.type_names == ("name", "phrase", "word")
    assert known.entry_type.tolist() == [2, 1, 0, 0]
    assert "1 of 5 entries" in capsys.readouterr().err
    cut = "fi |bada gune|, ta |bada| ,bada, badagune li。|学||中文|bada 中文|学|"
    if vocabulary.type.marks:  # it ignores the space before a word
        cut = cut.replace(",bada,", ",|bada|,").replace("bada 中文", "|bada||中文|")
    parts = cut.replace(" ", "").split("|")
    expected = [("".join(parts[:n]), parts[n]) for n in range(1, len(parts), 2)]
    found = matches_in(vocabulary, known, TEXT)
    found = [tuple(text.replace(" ", "") for text in pair) for pair in found]
    assert found == expected


def test_a_lexicon_of_a_config_reaches_its_objective(corpora, folder, lexicon):
    config = small_data.config(corpora["one"], folder / "cache")
    plain = small_data.open_small(config)[0]
    config.data.lexicon = lexicon
    data = small_data.open_small(config)[0]
    assert plain.vocab.lexicon is None
    assert data.vocab.lexicon.type_names == ("phrase", "word")
    assert data.fingerprint != plain.fingerprint
    other = folder / "other.tsv.gz"
    other.write_bytes(gzip.compress(b"a\tword\n\nb c\tphrase\n"))
    config.data.lexicon = str(other)
    assert small_data.open_small(config)[0].fingerprint not in {
        data.fingerprint,
        plain.fingerprint,
    }


def test_the_fingerprint_of_a_lexicon_depends_on_all_fields():
    made = [
        make_lexicon([(5, 6), (7,)]),
        make_lexicon([(5, 6), (8,)]),
        make_lexicon([(5, 6), (7,)], [0, 1]),
        make_lexicon([(5, 6), (7,)])._replace(type_names=("any", "more")),
    ]
    assert len({lexicon.lexicon_fingerprint(each) for each in made}) == len(made)
    again = lexicon.lexicon_fingerprint(make_lexicon([(5, 6), (7,)]))
    assert lexicon.lexicon_fingerprint(made[0]) == again


def test_rows_without_entries_have_no_matches():
    known = make_lexicon([(5, 6)])
    none = np.zeros((0, 4), np.int32)
    match = partial(lexicon.match, lexicon=known, eos_id=EOS)
    assert match(none, none.astype(np.uint8), none[:, 0]).shape == (0, 4)
    empty = np.full((3, 4), 5, np.int32)
    flags = np.full((3, 4), WORD, np.uint8)
    assert (match(empty, flags, np.zeros(3, int)) == -1).all()


def test_an_entry_ends_with_a_word_and_within_a_document():
    """Rows without separators, with the end of a line, and cut behind a separator."""
    known = make_lexicon([(5, 6), (5,)])
    token = np.array([[5, 6, 7, 5, 6], [5, 6, EOS, 5, EOS], [5, 6, 7, EOS, 5]])
    flags = np.array([[3, 0, 0, 1, 3], [3, 0, 0, 1, 0], [3, 0, 0, 0, 1]]) * WORD
    flags = np.where(flags == 3 * WORD, WORD | DOCUMENT, flags).astype(np.uint8)
    found = lexicon.match(token, flags, np.array([5, 5, 5]), known, eos_id=EOS)
    assert found.tolist() == [
        [-1, -1, -1, 1, -1],  # 5 6 ends inside a word, and then has two documents
        [0, -1, -1, 1, -1],
        [-1, -1, -1, -1, 1],
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            b"one\tword\ntwo\n",
            "a.tsv:2: a line of a lexicon must be entry<TAB>type",
        ),
        ("a.tsv", b"one\tword\tmore\tyet\n", "a.tsv:1:"),
        (
            "a.tsv",
            b"a\tb\tc\nd\te\n",
            "a.tsv:2: a triple is head<TAB>relation<TAB>tail",
        ),
        ("a.tsv", b"2\n0 1 0\n0 1\n", "a.tsv:3: a triple is head tail relation; got 2"),
        ("a.tsv", b"3\n0 1 0\n1 0 0\n", "a.tsv:1: the file has 2 triples, not 3"),
        ("a.tsv", b"\n\n \tword\n", "a.tsv:3:"),
        ("a.tsv", b"\n", "a.tsv has no lines"),
        ("a.tsv", b"\xff\tword\n", "cannot be read"),
        ("a.tsv.gz", b"one\tword\n", "cannot be read"),
        ("b.tsv", None, "No such file"),
    ],
)
def test_a_file_that_is_not_a_lexicon_gives_a_one_line_error(
    vocabularies, tmp_path, name, content, message
):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        lexicon.load_lexicon(str(tmp_path / name), vocabularies["bpe"])
    assert message in str(error.value) and "\n" not in str(error.value)


def test_texts_of_entities_that_are_none_are_refused(tmp_path):
    (tmp_path / "a.tsv").write_text("bada\tword\n")
    with pytest.raises(UserError, match=r"has no triples; set data\.lexicon"):
        lexicon.read_lexicon(str(tmp_path / "a.tsv"), "texts.tsv")
    (tmp_path / "texts.tsv").write_text("one\tan entity\ntwo\t\n")
    with pytest.raises(
        UserError, match=r"texts\.tsv:2: must be name<TAB>text; got 'two"
    ):
        lexicon.read_texts(str(tmp_path / "texts.tsv"))


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_entry(vocabularies, tmp_path, name):
    data = "\ufeffbada\tword\r\ngune\tword\r\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if ".gz" in name else data)
    known = lexicon.load_lexicon(str(tmp_path / name), vocabularies["bytebpe"])
    (tmp_path / "b.tsv").write_text("bada\tword\ngune\tword\n")
    plain = lexicon.load_lexicon(str(tmp_path / "b.tsv"), vocabularies["bytebpe"])
    assert lexicon.lexicon_fingerprint(known) == lexicon.lexicon_fingerprint(plain)


def test_entries_of_unknown_text_are_left_out_and_counted(
    vocabularies, tmp_path, capsys
):
    (tmp_path / "a.tsv").write_text("☃ bada\tword\nbada\tword\n")
    known = lexicon.load_lexicon(str(tmp_path / "a.tsv"), vocabularies["wordpiece"])
    assert len(known.size) == 1
    assert "1 of 2 entries are left out: 1 have text" in capsys.readouterr().err
    (tmp_path / "a.tsv").write_text("☃ bada\tword\n")
    with pytest.raises(UserError, match="no entry"):
        lexicon.load_lexicon(str(tmp_path / "a.tsv"), vocabularies["wordpiece"])
