"""Splits that have files of their own, and the labels that a run knows."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from research.contract.errors import UserError
from research.contract.notices import report
from research.data.documents import single_labels
from research.data.label_types import label_type
from research.data.read.corpus import split_of
from research.data.source.labels import known_labels
from tests.testing import fake_tfds, small_data, toy_objectives


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("splits")
    small_data.write_corpus(folder, "texts", seed=0)
    splits = {"train": "xyz", "valid": "zx", "other": "xw", "unseen": "vw"}
    for name, labels in splits.items():
        lines = [f"{label} ab cd\t{label}" for label in labels * 30]
        (folder / f"{name}.tsv").write_text("\n".join(lines))
    rows = [f"{label} ab {n}\t{label}" for n in range(400) for label in "xyz"]
    (folder / "all.tsv").write_text("\n".join(rows + rows[:300]))
    return folder


class Labelled(toy_objectives.Objective):
    def text_spec(self, length):
        return super().text_spec(length).replace(label="class")


def open_split(folder, objective, **keys):
    config = small_data.config(str(folder / "texts"), folder / "cache")
    config.data.stride, config.data.vocabulary_size = 0, 282
    for key in ("train", "valid", "test"):
        if key in keys:
            keys[key] = str(folder / f"{keys[key]}.tsv")
    config.data.update({"fields": "0", "label": "1"} | keys)
    return small_data.open_with(config, objective)


def test_files_take_the_place_of_the_hash_split(folder):
    both = {"train": "train", "valid": "valid"}
    data = open_split(folder, Labelled("document"), **both)
    assert data.train.num_examples == 90 and data.eval.num_examples == 60
    assert data.vocab.labels == ("x", "y", "z")
    swapped = {"train_split": "valid", "eval_split": "train"}
    data = open_split(folder, toy_objectives.Objective("document"), **both, **swapped)
    assert data.train.num_examples == 60 and data.eval.num_examples == 90


class OfLanguages(toy_objectives.Objective):
    reads_corpus = True


def two_corpora(folder):
    """The rates of two folders of text."""
    for name in ("en", "fr"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "texts.tsv").write_text((folder / "train.tsv").read_text())
    return {str(folder / name): 1.0 for name in ("en", "fr")}


def test_files_of_a_split_are_refused_where_corpora_are_languages(folder):
    """They would be read as the first corpus, in whatever language they are."""
    keys = {"mixture": two_corpora(folder), "valid": "valid"}
    assert open_split(folder, toy_objectives.Objective("document"), **keys)
    with pytest.raises(UserError, match=r"data\.valid names none of these"):
        open_split(folder, OfLanguages("document"), **keys)
    one = keys | {"mixture": {str(folder / "en"): 1.0}}
    assert open_split(folder, OfLanguages("document"), **one)


def test_corpora_that_an_objective_does_not_know_are_refused(folder):
    class OfTwo(toy_objectives.Objective):
        def check_corpora(self, num):
            if num != 2:
                raise UserError("two languages")

    keys = {"mixture": two_corpora(folder), "valid": "valid"}
    assert open_split(folder, OfTwo("document"), **keys)
    with pytest.raises(UserError, match="two languages"):
        open_split(folder, OfTwo("document"), train="train", valid="valid")


def test_rows_without_a_label_are_counted(folder, capsys):
    lines = (folder / "valid.tsv").read_text() + "\nz ab cd\t"
    (folder / "some.tsv").write_text(lines)
    open_split(folder, Labelled("document"), train="some", valid="valid")
    line = "1 of 61 rows of training text have no label"
    assert line in capsys.readouterr().err


def test_labels_that_training_lacks_are_counted_and_not_known(folder, capsys):
    data = open_split(folder, Labelled("document"), train="train", valid="other")
    assert data.vocab.labels == ("x", "y", "z")
    line = "other.tsv:2: label 'w' is unknown to the training text, as are 30 of 60"
    assert line in capsys.readouterr().err
    (source,) = data.eval.source.indices
    assert source.name_table(data.vocab.labels).tolist() == [0, -1, -1]


@pytest.mark.parametrize("kind", ["class", "set", "number", "choice"])
def test_numbers_that_are_equal_are_one_label(folder, kind):
    """As of a column that has a missing value: then pandas writes all as floats."""
    labels = {"one": ["1", "0", "1.0", "2.5" if kind == "number" else "2"]}
    labels["two"] = ["0.0", "1", "2", "1.00"]
    for name, column in labels.items():
        lines = (f"ab cd {n}\t{label}\n" for n, label in enumerate(column * 9))
        (folder / f"{name}.tsv").write_text("".join(lines))

    class Reads(toy_objectives.Objective):
        def text_spec(self, length):
            return super().text_spec(length).replace(label=kind)

    data = open_split(folder, Reads("document"), train="one", valid="two")
    values = [float(name) for name in data.vocab.labels]
    if kind != "number":
        assert single_labels(data.vocab.labels) == ("0", "1", "2")
    for source in (data.train.source, data.eval.source):
        (index,) = source.indices
        table = index.name_table(data.vocab.labels)
        found = [values[table[each]] for each in index.label]
        assert found == [float(each) for each in labels[index_name(index)] * 9]


def test_a_letter_of_a_choice_is_known_where_the_training_text_lacks_it(folder):
    for name, letters in (("one", "AC"), ("two", "AB")):
        lines = (f"ab cd {n}\t{letters[n % 2]}\n" for n in range(36))
        (folder / f"{name}.tsv").write_text("".join(lines))

    class Reads(toy_objectives.Objective):
        def text_spec(self, length):
            return super().text_spec(length).replace(label="choice")

    data = open_split(folder, Reads("document"), train="one", valid="two")
    assert data.vocab.labels == ("A", "B", "C")


def index_name(index):
    """Which of the two files above has these labels."""
    return "one" if index.stream.label_names[0] == "1" else "two"


def test_a_file_that_is_trained_on_and_evaluated_is_known(folder, capsys):
    """Opening tells nothing, as for show: what evaluates tells it."""
    (folder / "linked.tsv").symlink_to(folder / "train.tsv")
    for name, is_told in (("valid", False), ("train", True), ("linked", True)):
        data = open_split(folder, Labelled("document"), train="train", valid=name)
        line = "train.tsv, as the training text does: its evaluations are not of held"
        assert (line in data.evaluation_note) == is_told
        assert "held" not in capsys.readouterr().err


def test_an_evaluation_may_read_another_corpus_than_the_training(folder):
    keys = {"fields": "", "label": "", "valid": "parallel"}
    (folder / "parallel.tsv").write_text("ab cd\tcd ab\n" * 7)
    data = open_split(folder, toy_objectives.Objective("document"), **keys)
    hashed = small_data.config(str(folder / "texts"), folder / "cache")
    hashed.data.stride, hashed.data.vocabulary_size = 0, 282
    other = small_data.open_with(hashed, toy_objectives.Objective("document"))
    assert data.train.fingerprint == other.train.fingerprint
    assert data.eval.num_examples == 7 != other.eval.num_examples


@pytest.mark.parametrize(
    ("kind", "train", "valid", "known", "unlabelled"),
    [
        ("class", "n e c -", "n e c -", "c e n", 1),  # SNLI's files
        ("class", "0 1 2 -1", "0 1 2 -1", "0 1 2", 1),  # at Hugging Face
        ("class", "0.0 1.0 2.0 -1.0", "0.0 -1.0 1.0 2.0", "0.0 1.0 2.0", 1),
        ("class", "1 2 3 -1", "1 2 3 -1", "1 2 3", 1),
        ("class", "0 1 0 1", "-1 -1 -1 -1", "0 1", 4),  # a hidden test split
        ("class", "n e c n", "- n e c", "c e n", 1),
        ("class", "n e c n", "-1 -1 -1 -1", "c e n", 4),
        ("class", "+ - + -", "+ - - -", "+ -", 0),
        ("class", "x - x -", "x - - -", "- x", 0),
        ("class", "-1 1 -1 1", "1 -1 1 1", "-1 1", 0),
        ("class", "-1 0 1 0", "-1 0 1 1", "-1 0 1", 0),
        ("class", "-2 -1 0 1 2", "-1 0 1 2", "-1 -2 0 1 2", 0),
        ("choice", "0 1 0 1", "-1 -1 -1 -1", "0 1", 4),
        ("choice", "A B - B", "A B B A", "A B", 0),
        ("number", "1.5 2 0 3", "-1 -1 -1 -1", "0 1.5 2 3", 4),
        ("number", "1.5 2 -1 3", "-1 2 3 1", "-1 1 1.5 2 3", 0),
    ],
)
def test_labels_that_say_there_is_none(
    folder, kind, train, valid, known, unlabelled, capsys
):
    report.cache_clear()
    for name, column in (("marked", train), ("evaluated", valid)):
        rows = (f"ab {n}\t{label}\n" for n, label in enumerate(column.split()))
        (folder / f"{name}.tsv").write_text("".join(rows) * 9)

    class Reads(toy_objectives.Objective):
        def text_spec(self, length):
            return super().text_spec(length).replace(label=kind)

    data = open_split(folder, Reads("document"), train="marked", valid="evaluated")
    assert sorted(data.vocab.labels) == known.split()
    golds = [document.label for document in data.documents()]
    assert golds.count(None) == 9 * unlabelled
    (index,) = data.eval.source.indices
    numbers = index.label_table(data.vocab.labels)[index.label]
    assert (numbers < 0).sum() == 9 * unlabelled
    error = capsys.readouterr().err
    assert ("'-1' is read as a class" in error) == (known == "-1 0 1")
    told = f"{9 * unlabelled} of {len(golds)} labels of data.valid text are -"
    assert (told in error) == bool(unlabelled)
    dropped = len(train.split()) - sum(map(known.split().count, train.split()))
    line = f"{9 * dropped} of {9 * len(train.split())} rows of training text have no"
    assert (line in error) == bool(dropped)


@pytest.mark.parametrize(
    ("kind", "names", "words"),
    [
        ("tags", ["O"], "all words have the tag 'O', but a tagger needs two"),
        ("number", ["0.5", "1e39"], "'1e39' is beyond 1e\\+18, and float32 does not"),
        ("number", ["0.5", "nan"], "'nan' is not a number"),
    ],
)
def test_labels_that_nothing_is_learnt_of_are_refused(kind, names, words):
    stream = SimpleNamespace(label_names=names, arrays={"tags": ()})
    index = SimpleNamespace(stream=stream, label=np.arange(len(names)))
    with pytest.raises(UserError, match=words):
        known_labels(label_type(kind), [index], [index], [], "", "label")


def test_a_file_is_divided_by_fractions(folder):
    """Each row is in one part, and equal texts are in the same one."""
    sizes, texts = {}, {}
    for split in ("valid", "test"):
        keys = {"train": "all", "split": "0.7,0.2,0.1", "eval_split": split}
        data = open_split(folder, Labelled("document"), **keys)
        sizes |= {"train": data.train.num_examples, split: data.eval.num_examples}
        texts[split] = {document.text for document in data.documents()}
        assert data.vocab.labels == ("x", "y", "z")
    assert sum(sizes.values()) == 1500
    assert not texts["valid"] & texts["test"]
    for split, fraction in (("valid", 0.2), ("test", 0.1)):
        deviation = (1200 * fraction * (1 - fraction)) ** 0.5
        assert abs(len(texts[split]) - 1200 * fraction) < 4 * deviation


def test_a_label_that_the_own_part_lacks_is_unknown(folder, capsys):
    texts = [f"ab {n}" for n in range(60)]
    parts = [split_of(text, valid=0.2, test=0.1) for text in texts]
    (folder / "rare.tsv").write_text(
        "".join(
            f"{text}\t{'r' if n == parts.index('valid') else 'xy'[n % 2]}\n"
            for n, text in enumerate(texts)
        )
    )
    keys = {"train": "rare", "split": "0.7,0.2,0.1"}
    data = open_split(folder, Labelled("document"), **keys)
    assert data.vocab.labels == ("x", "y")
    assert "label 'r' is unknown to the training text, as are 1" in (
        capsys.readouterr().err
    )


def test_a_split_with_its_own_file_is_no_part_of_the_training_file(folder):
    keys = {"train": "all", "test": "valid", "split": "0.5,0.5,0"}
    parts = open_split(folder, Labelled("document"), **keys)
    assert parts.train.num_examples + parts.eval.num_examples == 1500
    data = open_split(folder, Labelled("document"), **keys, eval_split="test")
    assert data.eval.num_examples == 60
    assert data.train.fingerprint == parts.train.fingerprint
    assert not data.evaluation_note and not parts.evaluation_note


@pytest.mark.parametrize("name", ["tlm", "sequence_to_sequence"])
def test_sides_in_files_give_the_batches_of_a_table(folder, name):
    sides = [f"ab {n} cd\n" * 3 for n in range(9)], [f"ef {n}\n" * 3 for n in range(9)]
    rows = zip(*("".join(side).splitlines() for side in sides), strict=True)
    (folder / "table.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    for language, side in zip(("en", "de"), sides, strict=True):
        (folder / f"sides.{language}").write_text("".join(side))
    config = small_data.config("", folder / "cache", name)
    config.data.vocabulary_size = 282
    opened = []
    for files, fields in (("table.tsv", "0,1"), ("sides.*", "en,de")):
        split = str(folder / files)
        config.data.update(train=split, valid=split, fields=fields)
        opened.append(small_data.open_small(config)[0].train)
    table, sides = (data.batch(1) for data in opened)
    assert table["weight"].any()
    for key, array in table.items():
        np.testing.assert_array_equal(array, sides[key], key)


def test_one_split_may_be_of_tfds_and_another_a_file(folder, monkeypatch):
    """As tfds:glue/mrpc, whose labels have names; the validation is a file."""
    loaded = []

    def builder(name):
        loaded.append(name)
        label = SimpleNamespace(names=["x", "y"])
        return fake_tfds.make_builder(["train", "test"], text=None, label=label)

    tfds = SimpleNamespace(builder=builder)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", tfds)
    (folder / "named.tsv").write_text("text\tlabel\nab cd\ty\n")
    keys = {"fields": "text", "label": "label", "valid": str(folder / "named.tsv")}
    config = small_data.config(str(folder / "texts"), folder / "cache")
    config.data.update(
        keys | {"stride": 0, "vocabulary_size": 282, "train": "tfds:a/b"}
    )
    data = small_data.open_with(config, Labelled("document"))
    assert (data.train.num_examples, data.eval.num_examples) == (200, 1)
    assert data.vocab.labels == ("x", "y")
    config.data.update({"valid": "tfds:a/b:1.0.0/split=test"})
    assert small_data.open_with(config, Labelled("document")).eval.num_examples == 200
    config.data.update({"valid": "", "split": "0.5,0.5,0"})
    data = small_data.open_with(config, Labelled("document"))
    assert data.train.num_examples + data.eval.num_examples == 200
    assert 50 < data.train.num_examples < 150
    assert {*loaded} == {"a/b", "a/b:1.0.0"}
