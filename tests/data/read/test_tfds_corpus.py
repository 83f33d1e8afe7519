"""Corpora of TensorFlow Datasets: their splits, features, questions and words."""

import itertools
import socket
import sys
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest

from research.contract.errors import UserError
from research.data.documents import TAGS
from research.data.read import tfds_corpus
from research.data.read.formats import FileOptions
from tests.testing.fake_tfds import make_builder


def texts_of(corpus, split):
    return [document.text for document in corpus.documents(split)]


def test_a_tfds_corpus_keeps_its_own_splits():
    label = SimpleNamespace(names=["no", "yes"])
    builder = make_builder(["train", "test"], text=None, label=label)
    corpus = tfds_corpus.corpus_of_builder("tfds:made", builder, 0.1)
    assert corpus.classes == ("no", "yes")
    assert texts_of(corpus, "test") == [f"test {n}" for n in range(200)]
    train, valid = (list(corpus.documents(split)) for split in ("train", "valid"))
    assert 0 < len(valid) < 45
    assert sorted(d.text for d in train + valid) == sorted(
        f"train {n}" for n in range(200)
    )
    for document in train + valid:
        assert document.label == ("yes" if int(document.text.split()[1]) % 2 else "no")


@pytest.mark.parametrize(
    ("name", "split", "own"),
    [
        ("tfds:made", "train", "train"),
        ("tfds:made", "valid", "validation_matched"),
        ("tfds:made", "test", "test"),
        ("tfds:made/split=train[:9%]", "valid", "train[:9%]"),
    ],
)
def test_a_split_of_a_data_set_is_all_of_one_split(name, split, own):
    builder = make_builder(
        ["train", "validation_matched", "test", "train[:9%]"], text=None
    )
    corpus = tfds_corpus.corpus_of_builder(name, builder, None, split=split)
    for ours in ("train", split):  # a vocabulary is trained on "train"
        assert texts_of(corpus, ours) == [f"{own} {n}" for n in range(200)]


def test_a_split_in_the_name_is_divided_in_place_of_the_data_sets_own():
    builder = make_builder(["train", "validation", "test"], text=None)
    corpora = [
        tfds_corpus.corpus_of_builder(f"tfds:made{end}", builder, held_out, split=split)
        for end, held_out, split in (
            ("", 0.1, ""),
            ("/split=train", 0.1, ""),
            ("/split=test", 0.1, ""),
            ("", None, "train"),
        )
    ]
    found = [texts_of(corpora[2], split) for split in ("train", "valid", "test")]
    assert sorted(itertools.chain(*found)) == sorted(f"test {n}" for n in range(200))
    assert all(0 < len(texts) < 45 for texts in found[1:])
    assert len({corpus.fingerprint() for corpus in corpora}) == 4


@pytest.mark.parametrize(
    ("end", "split", "message"),
    [
        ("", "valid", "data.valid is 'tfds:made': it has no split 'valid'; it has tr"),
        ("/split=tset", "test", "data.test is .* no split 'tset'; it has train, test"),
        ("/split=", "train", "no split ''"),
    ],
)
def test_a_split_that_a_data_set_lacks_is_refused(end, split, message):
    builder = make_builder(["train", "test"], text=None)
    with pytest.raises(UserError, match=message):
        tfds_corpus.corpus_of_builder(f"tfds:made{end}", builder, None, split=split)


def test_a_split_is_checked_before_the_network_is_asked(monkeypatch):
    builder, asked = make_builder(["train"], text=None), []
    builder.download_and_prepare = lambda: asked.append("network")
    library = SimpleNamespace(builder=lambda name: builder)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", library)
    with pytest.raises(UserError, match="it has no split 'dev'; it has train"):
        tfds_corpus.load_tfds_corpus("tfds:made/split=dev", 0.1)
    assert not asked
    tfds_corpus.load_tfds_corpus("tfds:made/split=train", 0.1)
    assert asked == ["network"]


@pytest.mark.parametrize("is_offline", [True, False])
def test_without_a_network_a_download_is_not_tried_again(is_offline, monkeypatch):
    """Ten retries that cannot help take 200 s."""
    asked, downloader = [], SimpleNamespace(MAX_RETRIES=10)

    def resolve(host, port):
        if is_offline:
            raise socket.gaierror(-2, "Name or service not known")

    builder = make_builder(["train"], text=None)
    builder.download_and_prepare = lambda: asked.append(downloader.MAX_RETRIES)
    library = SimpleNamespace(builder=lambda name: builder)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", library)
    package = SimpleNamespace(downloader=downloader)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets.core.download", package)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    tfds_corpus.load_tfds_corpus("tfds:made", 0.1)
    assert asked == [0 if is_offline else 10] and downloader.MAX_RETRIES == 10


def test_features_of_a_tfds_corpus_are_parts_of_an_example():
    builder = make_builder(["train", "test"], text=None, label=None)
    fmt = FileOptions("auto", ("text", "text"), "label")
    corpus = tfds_corpus.corpus_of_builder("tfds:made", builder, 0.0, fmt)
    found = list(corpus.documents("test"))
    assert found[3].text == "test 3\ntest 3" and found[3].starts == (7,)
    assert [each.label for each in found[:3]] == ["0", "1", "0"]
    assert found[3].id == "tfds:made:3"
    with pytest.raises(UserError, match="a feature label, sentence"):
        wrong = fmt._replace(fields=("sentence",))
        tfds_corpus.corpus_of_builder("tfds:made", builder, 0.0, wrong)
    with pytest.raises(UserError, match="feature label is not text"):
        wrong = fmt._replace(fields=("label",))
        numbers = tfds_corpus.corpus_of_builder("tfds:made", builder, 0.0, wrong)
        list(numbers.documents("test"))


def test_questions_of_a_tfds_corpus_have_answers_at_their_characters(capsys):
    """As of squad and squad/v2.0; every fifth is unanswerable, one is misplaced."""

    def row(split, n):
        answers = {"text": [b"cd"], "answer_start": np.array([3 + (n == 7)])}
        if n % 5 == 0:
            answers = {"text": [], "answer_start": np.zeros(0, int)}
        texts = {"context": b"\xc3\xa4b cd", "question": f"{n}?".encode()}
        return texts | {
            "id": b"q%d" % n,
            "answers": answers,
            "is_impossible": n % 5 == 0,
        }

    features = dict.fromkeys(("id", "context", "question", "answers"))
    builder = make_builder(["train", "validation_matched"], row, **features)
    fmt = FileOptions("squad")
    corpus = tfds_corpus.corpus_of_builder("tfds:squad", builder, 0.0, fmt)
    found = list(corpus.documents("valid"))
    assert [each.id for each in found] == [f"q{n}" for n in range(200)]
    labels = [each.label for each in found]
    assert labels.count("unanswerable") == 40 and labels[7] is None
    for each in found:
        if each.answer:
            assert each.text[slice(*each.answer)] == "cd" == each.golds[0]
    assert sum(each.answer is not None for each in found) == 159
    assert "1 row, number 7: not trained on" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"data\.format may be conll, squad"):
        tfds_corpus.corpus_of_builder("tfds:squad", builder, 0.0)


def test_words_of_a_tfds_corpus_have_the_names_of_their_tags():
    def row(split, n):
        return {"tokens": [b"ab", b"c"], "ner": np.array([n % 2, 1])}

    tags = SimpleNamespace(names=["O", "B-x"])
    builder = make_builder(["train", "test"], row, tokens=None, ner=tags)
    fmt = FileOptions("conll")
    corpus = tfds_corpus.corpus_of_builder("tfds:conll2003", builder, 0.0, fmt)
    first, second, *_ = corpus.documents("test")
    assert corpus.arrays == TAGS
    assert (first.text, first.starts) == ("ab c", (3,))
    assert first.arrays == {"tags": ("O", "B-x")}
    assert second.arrays == {"tags": ("B-x", "B-x")}


def test_a_tfds_corpus_without_text_is_refused():
    with pytest.raises(UserError, match="feature text"):
        tfds_corpus.corpus_of_builder(
            "tfds:made", make_builder(["train"], image=None), 0.1
        )
