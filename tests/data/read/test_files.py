"""Corpora: documents are read unchanged, each in one split; no held-out text leaks."""

import gzip
import json
import os
import re
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest

from research.contract.errors import UserError
from research.data.read import files, stdlib_corpus
from research.data.read.corpus import SPLITS
from research.data.read.formats import FileOptions, txt
from research.data.source.build import division_note, largest_note, load_corpus
from research.data.store.tokenize import check_stream
from research.files import paths
from research.use.retrieval.documents import read_documents

TEXTS = [f"Text number {n}.\nIt has a second line, {n * n}." for n in range(1500)]


def texts_of(corpus, split):
    return [document.text.strip("\n") for document in corpus.documents(split)]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def write_texts(path, texts=TEXTS):
    return write_jsonl(path, [{"text": text} for text in texts])


def test_each_document_is_in_one_split_at_its_fraction(tmp_path):
    corpus = load_corpus(write_texts(tmp_path / "a.jsonl"), 0.1)
    found = {split: texts_of(corpus, split) for split in SPLITS}
    assert sorted(chain(*found.values())) == sorted(TEXTS)
    for split in ("valid", "test"):  # 150 +- 11.6: five standard deviations
        assert 92 < len(found[split]) < 208
    assert found["train"] == [text for text in TEXTS if text in set(found["train"])]


def test_growth_and_copies_move_no_document_to_another_split(tmp_path):
    few = load_corpus(write_texts(tmp_path / "few.jsonl", TEXTS[:700]), 0.1)
    many = load_corpus(write_texts(tmp_path / "many.jsonl", TEXTS[::-1] * 2), 0.1)
    for split in SPLITS:
        kept = [text for text in texts_of(many, split) if text in set(TEXTS[:700])]
        assert sorted(kept) == sorted(texts_of(few, split) * 2)


@pytest.mark.parametrize(
    "suffix",
    [
        suffix + end
        for suffix in (".txt", ".jsonl", ".tsv")
        for end in ("", ".gz", ".zst")
    ],
)
def test_all_file_types_give_the_same_documents(tmp_path, suffix):
    expected = TEXTS[:50]
    text = "\n\n \n".join(expected) + "\n"
    if "jsonl" in suffix:
        text = "\n".join(json.dumps({"text": each}) for each in expected) + "\n\n"
    if "tsv" in suffix:
        text = "\r\n".join(each.replace("\n", "\t") for each in expected) + "\n\n"
    data = text.encode()
    path = tmp_path / f"a{suffix}"
    if suffix.endswith("gz"):
        data = gzip.compress(data)
    if suffix.endswith("zst"):
        data = pyarrow.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)
    (tmp_path / "README.md").write_text("not text of the corpus")
    for name in (path, tmp_path, tmp_path / "*a.*"):
        corpus = load_corpus(str(name), 0.0)
        assert texts_of(corpus, "train") == expected
        last = list(corpus.documents("train"))[-1]
        assert 0 < last.amount_read <= corpus.size == path.stat().st_size


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_may_end_as_on_any_system(tmp_path, end):
    text = f"One.{end}Two.{end}{end}Three.{end}{end}{end}Four."
    (tmp_path / "a.txt").write_bytes(text.encode())
    found = texts_of(load_corpus(str(tmp_path), 0.0), "train")
    assert [each.split() for each in found] == [["One.", "Two."], ["Three."], ["Four."]]


def test_a_file_is_one_document_if_its_format_says_so(tmp_path):
    (tmp_path / "a.txt").write_text("One.\n\nTwo.\n")
    found = files.load_file_corpus(str(tmp_path), None, FileOptions("document"))
    assert texts_of(found, "train") == ["One.\n\nTwo."]
    corpus = load_corpus(str(tmp_path), 0.0)
    assert len(texts_of(corpus, "train")) == 2
    assert "data.format=document" in division_note(corpus, 101)
    assert division_note(corpus, 100) == division_note(found, 101) == ""


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (
            {"train": [3, 90, 4], "valid": [3]},
            "of the 4 .* 90 of the 100 .* train s",
        ),
        (
            {"train": [3, 4], "valid": [90, 3]},
            "90 %.* the valid split: in .txt a bl",
        ),
        ({"train": [40]}, "is one document, of 40 tokens"),
        ({"train": [3, 4, 3], "valid": [4]}, ""),
    ],
)
def test_a_document_that_is_half_of_the_text_is_told(tmp_path, sizes, words):
    (tmp_path / "a.txt").write_text("One.\n\nTwo.\n")
    streams = {
        split: SimpleNamespace(
            document_offsets=np.cumsum([0, *own]), meta={"shards": [{}]}
        )
        for split, own in sizes.items()
    }
    found = largest_note(load_corpus(str(tmp_path), 0.0), streams)
    assert re.search(words, found) if words else not found


def test_what_is_not_there_is_named_with_the_nearest(tmp_path):
    (tmp_path / "novels").mkdir()
    for name in ("novells", "novells/*.txt"):
        with pytest.raises(UserError, match=r"no f.*novells; did you mean .*novels\?$"):
            load_corpus(str(tmp_path / name), 0.0)


def test_a_text_without_blank_lines_is_cut_into_documents(tmp_path, monkeypatch):
    monkeypatch.setattr(txt, "MAX_DOCUMENT_BYTES", 100)
    lines = [f"line {n}" for n in range(100)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    found = texts_of(load_corpus(str(tmp_path), 0.0), "train")
    assert "\n".join(found).split("\n") == lines
    assert max(map(len, found)) < 120


def test_lone_surrogates_are_replaced_and_blank_documents_dropped(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x\\ud800y"}\n{"text": " \\n"}\n')
    assert texts_of(load_corpus(str(tmp_path), 0.0), "train") == ["x\ufffdy"]


def test_the_fingerprint_depends_on_content_and_not_on_the_folder(tmp_path):
    for folder in ("here", "there", "else"):
        (tmp_path / folder).mkdir()
        write_texts(tmp_path / folder / "a.jsonl", TEXTS[:20])
    write_texts(tmp_path / "else" / "a.jsonl", TEXTS[1:20] + TEXTS[:1])
    here, there, other = (
        load_corpus(str(tmp_path / folder), 0.1).fingerprint()
        for folder in ("here", "there", "else")
    )
    assert here == there != other
    assert load_corpus(str(tmp_path / "here"), 0.2).fingerprint() != here


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            b'{"text": "x"}\n{"body": "y"}\n',
            "a.jsonl:2: a line must be a JSON",
        ),
        ("a.jsonl", b'{"text": "x"}\n\n{"text": 3}\n', "a.jsonl:3:"),
        ("a.jsonl", b'{"text": "x"\n', "a.jsonl:1: not a JSON object"),
        (
            "a.jsonl",
            b'{"text": "\t"}\n',
            "object (Invalid control character, column 11)",
        ),
        ("a.jsonl", b"[1]\n", "a.jsonl:1:"),
        ("a.jsonl", b'{"text": "\xff"}\n', "a.jsonl:1:"),
        ("a.tsv", b"one\ttwo\nthree\n", "a.tsv:2: a line must have two columns"),
        ("a.tsv", b"one\ttwo\n\n\tfour\n", "a.tsv:3: a line must have two columns"),
        ("a.tsv", b"one\ttwo\tthree\n", "a.tsv:1: a line must have two columns"),
        ("a.tsv", b"\xff\ttwo\n", "a.tsv:1: not UTF-8"),
        ("a.txt", b"fine\n\xff\xfe\n", "a.txt:2: not UTF-8"),
        ("a.txt.gz", b"not gzip", "a.txt.gz: not a complete gzip file"),
        (
            "a.txt.gz",
            gzip.compress(b"word " * 9999, mtime=0)[:40],
            "a.txt.gz: not a complete",
        ),
    ],
)
def test_an_unreadable_file_gives_a_one_line_error(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        list(load_corpus(str(tmp_path), 0.0).documents("train"))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["absent", "*.jsonl", "folder", "a.xyz", "embeded"])
def test_a_missing_corpus_gives_a_one_line_error(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.xyz").write_text("x")
    (tmp_path / "a.csv").write_text("x")
    for key in ("data.corpus", "data.mixture"):
        with pytest.raises(UserError, match=rf"{key} is .*\.jsonl\.gz"):
            load_corpus(name, 0.1, key=key)
    with pytest.raises(
        UserError, match=r"a\.csv has columns; .*data\.fields=sentence1"
    ):
        load_corpus("a.csv", 0.1)


def test_too_few_documents_are_told_and_what_divides_them(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    corpus = load_corpus(str(tmp_path / "a.txt"), 0.0)
    with pytest.raises(UserError, match=r"has 1 document, none in .*blank"):
        check_stream(corpus, "valid", {"shards": [], "unknown": 0})


def test_an_empty_file_is_told(tmp_path):
    for name, text in (("a.txt", ""), ("b.txt", " \n")):
        (tmp_path / name).write_text(text)
        corpus = load_corpus(str(tmp_path / name), 0.0)
        said = (
            "has no text: it has only white space" if text else "is empty; name a file"
        )
        with pytest.raises(UserError, match=f"{name}' {said}"):
            check_stream(corpus, "valid", {"shards": [], "unknown": 0})


def test_what_a_folder_leaves_out_is_told(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.txt").write_text("text")
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "c.txt").write_text("text")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "link.txt").symlink_to(tmp_path / "a.txt")
    found = files.load_file_corpus(str(folder), None).documents("train")
    assert [document.id for document in found] == ["c.txt:1", "link.txt:1"]
    said = capsys.readouterr().err
    assert f"1 links to folders are left out, such as {folder / 'link'};" in said
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere")
    for corpus in (folder, folder / "*.txt"):
        with pytest.raises(UserError, match=r"gone\.txt: no such file"):
            files.load_file_corpus(str(corpus), None)

    def walk(folder, onerror):
        onerror(PermissionError(13, "Permission denied", f"{folder}/secret"))

    monkeypatch.setattr(paths.os, "walk", walk)
    with pytest.raises(UserError, match="secret: cannot be read"):
        files.load_file_corpus(str(folder), None)


@pytest.mark.parametrize(
    "name", [".ipynb_checkpoints/a-checkpoint.txt", "__MACOSX/._a.txt", "neg/._b.txt"]
)
def test_hidden_copies_are_no_documents_and_no_label(tmp_path, capsys, name):
    """As Jupyter, the archives of macOS and version control leave them."""
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "a.txt").write_text(f"of {label}")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"\xff copy")
    options = FileOptions(label="folder")
    corpus = files.load_file_corpus(str(tmp_path), None, options, "data.train")
    found = [(each.text, each.label) for each in corpus.documents("train")]
    assert found == [("of neg", "neg"), ("of pos", "pos")]
    assert [text for _, text in read_documents(str(tmp_path))] == ["of neg", "of pos"]
    assert "1 hidden files and folders are left out" in capsys.readouterr().err


def test_wrong_fractions_and_splits_are_refused():
    with pytest.raises(UserError, match=r"data\.held_out"):
        load_corpus("embedded", 0.5)
    with pytest.raises(UserError, match="did you mean valid"):
        load_corpus("embedded", 0.1).documents("validd")


def test_no_held_out_docstring_is_in_the_training_text():
    embedded, single = load_corpus("embedded", 0.02), load_corpus("docstrings", 0.02)
    trained = " ".join(" ".join(texts_of(embedded, "train")).split())
    train_docstrings = set(texts_of(single, "train"))
    for split in ("valid", "test"):
        for text in texts_of(single, split):
            assert " ".join(text.split()) not in trained
            assert text not in train_docstrings


def test_a_held_out_docstring_in_a_topic_of_training_is_left_out(monkeypatch):
    (first, *others) = texts_of(load_corpus("docstrings", 0.02), "valid")
    monkeypatch.setattr(stdlib_corpus, "language_topics", lambda: (topic,))
    for number in range(100):  # a topic that is of the training text
        topic = f"{number} {first}"
        if stdlib_corpus._topics("train", 0.02):
            break
    assert [*texts_of(load_corpus("docstrings", 0.02), "valid")] == others


def test_docstring_classes_are_balanced_and_texts_are_distinct():
    corpus = load_corpus("docstrings", 0.02)
    documents = {split: list(corpus.documents(split)) for split in SPLITS}
    labels = [document.label for document in documents["test"]]
    assert len(set(labels)) == stdlib_corpus.NUM_CLASSES
    assert max(map(labels.count, labels)) < 0.2 * len(labels)
    assert {document.label for document in documents["train"]} == set(labels)
    every = list(chain(*documents.values()))
    assert len({document.text for document in every}) == len(every)
    error = abs(len(labels) / len(every) - stdlib_corpus.TEST_FRACTION)
    assert error < 5 * (0.25 * 0.75 / len(every)) ** 0.5 + 0.01
    source = corpus.vocabulary_source
    assert source.fingerprint() == load_corpus("embedded", 0.02).fingerprint()


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "texts.txt")
    with pytest.raises(UserError, match=r"texts.txt is a pipe; write its lines to a"):
        files.read_texts(tmp_path / "texts.txt", "--texts")
