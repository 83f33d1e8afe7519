"""Entries are found where a reader who knows the words would find them."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.batch import DOCUMENT, WORD, Lexicon
from research.data.corpora import lexicon
from research.data.tokenizers import train_tokenizer
from research.errors import UserError
from tests.testing import small_data


def make(entries, kinds=None) -> Lexicon:
    """A lexicon of entries that are given in tokens."""
    width = max(map(len, entries))
    token = np.array([[*e, *[-1] * (width - len(e))] for e in entries], np.int32)
    size = np.array([*map(len, entries)], np.int32)
    kind = np.array(kinds or [0] * len(entries), np.int32)
    return Lexicon(token, size, kind, ("any", "other"))


def longest_first(token, flags, length, entries, first) -> list[int]:
    """The greedy segmentation of one row, place by place."""
    found, place = [-1] * len(token), 0
    while place < length:
        best = -1
        for number, entry in enumerate(entries):
            end = place + len(entry)
            fits = end <= (first if place < first else length)
            edge = end in (first, length) or (end < length and flags[end] & WORD)
            if end + 1 < len(token) and flags[end] == 0 and flags[end + 1] & DOCUMENT:
                edge = True
            whole = fits and edge and [*token[place:end]] == [*entry]
            if whole and (best < 0 or len(entry) > len(entries[best])):
                best = number
        if best >= 0 and flags[place] & WORD:
            found[place] = best
            place += len(entries[best])
        else:
            place += 1
    return found


@st.composite
def texts(draw):
    """Rows of few distinct tokens, and a lexicon of runs of them."""
    width = draw(st.integers(2, 14))
    token = st.integers(5, 8)
    rows = draw(st.lists(st.tuples(*[token] * width), min_size=1, max_size=6))
    bits = st.sampled_from([0, 0, WORD, WORD, WORD | DOCUMENT])
    flags = [draw(st.tuples(*[bits] * width)) for _ in rows]
    length = [draw(st.integers(0, width)) for _ in rows]
    first = [draw(st.integers(0, size)) for size in length]
    runs = st.lists(token, min_size=1, max_size=4).map(tuple)
    entries = draw(st.lists(runs, min_size=1, max_size=12, unique=True))
    arrays = np.array(rows, np.int32), np.array(flags, np.uint8)
    return *arrays, np.array(length), np.array(first), entries


@given(texts(), st.booleans())
def test_a_row_is_segmented_greedily_from_left_to_right(made, pairs):
    token, flags, length, first, entries = made
    known = make(entries)
    first = first if pairs else None
    found = lexicon.match(token, flags, length, known, first=first)
    assert found.dtype == np.int32 and found.shape == token.shape
    ends = length if first is None else first
    for n in range(len(token)):
        expected = longest_first(token[n], flags[n], length[n], entries, ends[n])
        assert found[n].tolist() == expected
        alone = slice(n, n + 1)
        own = None if first is None else first[alone]
        row = lexicon.match(token[alone], flags[alone], length[alone], known, first=own)
        np.testing.assert_array_equal(row, found[alone])


TEXT = "fi bada gune, ta bada ,bada, badagune li。学中文bada 中文学"
ENTRIES = "bada\tword\nbada gune\tphrase\n中文\tname\n学\tname\nbada gune\tname\n"


def found_in(vocabulary, known, text):
    """What stands before each entry that is found in a text, and the entry."""
    token, starts = vocabulary.encode(text)
    flags = np.where(starts, WORD, 0).astype(np.uint8)
    entry = lexicon.match(token[None], flags[None], np.array([len(token)]), known)[0]
    places = np.flatnonzero(entry >= 0)
    cuts = [(token[:at], token[at:][: known.size[entry[at]]]) for at in places]
    return [tuple(vocabulary.decode(part) for part in parts) for parts in cuts]


@pytest.mark.parametrize("kind", train_tokenizer.KINDS)
def test_entries_are_spelled_as_inside_a_sentence(vocabularies, tmp_path, kind, capsys):
    (tmp_path / "a.tsv").write_text(ENTRIES)
    known = lexicon.load(str(tmp_path / "a.tsv"), vocabularies[kind])
    assert known.type_names == ("name", "phrase", "word")
    assert known.entry_type.tolist() == [2, 1, 0, 0]
    assert "1 of 5 entries" in capsys.readouterr().err
    cut = "fi |bada gune|, ta |bada| ,bada, badagune li。|学||中文|bada 中文|学|"
    if kind == "wordpiece":  # to it a word is the same with no space before it
        cut = cut.replace(",bada,", ",|bada|,").replace("bada 中文", "|bada||中文|")
    parts = cut.replace(" ", "").split("|")
    expected = [("".join(parts[:n]), parts[n]) for n in range(1, len(parts), 2)]
    found = found_in(vocabularies[kind], known, TEXT)
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


def test_the_fingerprint_of_a_lexicon_knows_all_of_it():
    made = [
        make([(5, 6), (7,)]),
        make([(5, 6), (8,)]),
        make([(5, 6), (7,)], [0, 1]),
        make([(5, 6), (7,)])._replace(type_names=("any", "more")),
    ]
    assert len({lexicon.fingerprint(each) for each in made}) == len(made)
    assert lexicon.fingerprint(made[0]) == lexicon.fingerprint(make([(5, 6), (7,)]))


def test_rows_without_entries_are_left_alone():
    known = make([(5, 6)])
    none = np.zeros((0, 4), np.int32)
    assert lexicon.match(none, none.astype(np.uint8), none[:, 0], known).shape == (0, 4)
    empty = np.full((3, 4), 5, np.int32)
    flags = np.full((3, 4), WORD, np.uint8)
    assert (lexicon.match(empty, flags, np.zeros(3, int), known) == -1).all()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "a.tsv",
            b"one\tword\ntwo\n",
            "a.tsv:2: a line of a lexicon is entry<TAB>kind",
        ),
        ("a.tsv", b"one\tword\tmore\n", "a.tsv:1:"),
        ("a.tsv", b"\n\n \tword\n", "a.tsv:3:"),
        ("a.tsv", b"\n", "no entries"),
        ("a.tsv", b"\xff\tword\n", "cannot be read"),
        ("a.tsv.gz", b"one\tword\n", "cannot be read"),
        ("b.tsv", None, "No such file"),
    ],
)
def test_a_file_that_is_no_lexicon_is_one_line(
    vocabularies, tmp_path, name, content, says
):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        lexicon.load(str(tmp_path / name), vocabularies["bpe"])
    assert says in str(error.value) and "\n" not in str(error.value)


def test_entries_of_unknown_text_are_told(vocabularies, tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("☃ bada\tword\nbada\tword\n")
    known = lexicon.load(str(tmp_path / "a.tsv"), vocabularies["wordpiece"])
    assert len(known.size) == 1
    assert "1 of 2 entries are left out, 1 since" in capsys.readouterr().err
    (tmp_path / "a.tsv").write_text("☃ bada\tword\n")
    with pytest.raises(UserError, match="no entry"):
        lexicon.load(str(tmp_path / "a.tsv"), vocabularies["wordpiece"])
