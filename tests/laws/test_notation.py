"""The contract of every notation of triples, found by listing the folder."""

import dataclasses

import pytest

from research.contract.errors import UserError
from research.data.read import files, lexicon
from research.data.read.formats import FileOptions, by_suffix
from research.data.read.notations import FOLDER, Triple, notations
from research.data.read.triples import is_of_triples, parse_triples

TRIPLES = [Triple("0", "2", "1"), Triple("1", "3", "0")]

each_notation = pytest.mark.parametrize("name", FOLDER.names())


def _lines(text):
    return list(enumerate(text.splitlines(keepends=True), 1))


def _parse(lines):
    return [triple for _, triple in parse_triples(lines)]


@each_notation
def test_a_file_is_in_one_notation(name):
    """Its first line tells which; a list of words or pairs is in none."""
    notation = notations()[name]
    assert dataclasses.is_dataclass(notation) and not dataclasses.fields(notation)
    first = notation.example.splitlines()[0]
    assert is_of_triples(first)
    assert [n for n, other in notations().items() if other.recognises(first)] == [name]
    for words in ("", "word", "a word", "word\ttype", "a word\ta type"):
        assert not notation.recognises(words), words
    for suffix in notation.suffixes:
        assert by_suffix()[suffix].__class__.__module__.endswith("formats.triples")


@each_notation
def test_its_example_has_the_triples_in_order(name):
    """Whatever ends its lines; blank lines change nothing."""
    notation = notations()[name]
    lines = _lines(notation.example)
    assert _parse(lines) == TRIPLES == [t for _, t in notation.parse(lines)]
    windows = [(n, line.replace("\n", "\r\n")) for n, line in lines]
    assert _parse(windows) == _parse([*lines, (len(lines) + 1, " \n")]) == TRIPLES
    numbers = [number for number, _ in parse_triples(lines)]
    assert numbers == sorted({*numbers}) and {*numbers} <= {n for n, _ in lines}


@each_notation
def test_a_line_that_is_no_triple_is_named(name):
    lines = _lines(notations()[name].example)
    for at in range(1, len(lines)):
        number = lines[at][0]
        wrong = [*lines[:at], (number, "no\n"), *lines[at + 1 :]]
        with pytest.raises(ValueError) as error:
            _parse(wrong)
        found, reason = error.value.args
        assert found == number and reason and "\n" not in reason


@each_notation
def test_both_readers_of_graphs_read_it(name, tmp_path):
    path = tmp_path / "graph.x"
    path.write_text(notations()[name].example)
    options = FileOptions("triples")
    corpus = files.load_file_corpus(str(path), None, options)
    texts = [document.text for document in corpus.documents("train")]
    assert texts == ["0 <2> 1", "1 <3> 0"]
    assert lexicon.read_triples(path) == TRIPLES
    path.write_text(notations()[name].example.rstrip() + "\nno\n")
    with pytest.raises(UserError, match=r"graph\.x"):
        lexicon.read_triples(path)
