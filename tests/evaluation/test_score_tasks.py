"""Items of tasks are read from their files; a wrong file gives one line."""

import json

import numpy as np
import pytest

from research.contract.errors import UserError
from research.evaluation.score_tables import Item
from research.evaluation.score_tasks import (
    TASKS,
    check_labels,
    chosen_items,
    read_items,
)


def write(folder, *rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


PAIR = {"sentence_good": "Cats  sleep.", "sentence_bad": "Cats sleeps.", "UID": "x"}
CHOICES = {"query": "The man\ndrank", "choices": ["tea.", "wood.", "air."], "gold": 1}
SCHEMA = {"context_options": ["A so A", "A so B"], "continuation": "won.", "gold": 0}


@pytest.mark.parametrize("name", TASKS)
def test_a_tasks_example_is_read_and_needs_its_columns(name, tmp_path):
    row = TASKS[name].example
    (item,), _ = read_items(name, write(tmp_path, row))
    values = [v for value in row.values() for v in np.ravel(value).tolist()]
    assert item.texts and len(item.texts) == len(item.contexts)
    assert {*item.texts, *item.contexts, item.suffix} <= {"", *values}
    assert item.gold in range(-1, len(item.texts))
    for column in {*TASKS[name].fields, *filter(None, [TASKS[name].label])}:
        rest = {key: value for key, value in row.items() if key != column}
        with pytest.raises(UserError, match=f"{column}|its label None"):
            read_items(name, write(tmp_path, rest))


def test_items_are_read(tmp_path):
    pair = ("Cats  sleep.", "Cats sleeps.")
    items, _ = read_items("blimp", write(tmp_path, PAIR, PAIR))
    assert items[1] == Item("rows.jsonl:2", "x", pair, ("", ""), 0)
    items, _ = read_items("pairs", write(tmp_path, PAIR))
    assert items == [Item("rows.jsonl:1", "", pair, ("", ""), 0)]
    (choice,), _ = read_items("choices", write(tmp_path, CHOICES))
    assert choice.texts == ("tea.", "wood.", "air.") and choice.gold == 1
    assert choice.contexts == ("The man\ndrank",) * 3
    (schema,), _ = read_items("schema", write(tmp_path, SCHEMA))
    assert schema.texts == ("won.", "won.") and schema.contexts == ("A so A", "A so B")
    (word,), _ = read_items(
        "lambada", write(tmp_path, {"context": "a b", "continuation": "c"})
    )
    assert word[2:] == (("c",), ("a b",), 0, "")
    cup = {"prefix": "a", "middle": "b c", "suffix": "d"}
    (middle,), _ = read_items("infilling", write(tmp_path, cup))
    assert middle[2:] == (("b c",), ("a",), -1, "d")
    rows = {"text": "Good."}, {"text": "Bad the."}
    items, _ = read_items("sentences", write(tmp_path, *rows))
    assert [(i.texts, i.gold) for i in items] == [(("Good.",), -1), (("Bad the.",), -1)]


def test_zorro_is_read_as_blimp_is(tmp_path):
    file = write(tmp_path, PAIR, PAIR)
    assert read_items("zorro", file) == read_items("blimp", file)


def test_groups_and_a_limit_choose_the_first_items_of_each():
    names = ["noun_agreement", "island", "verb_agreement"] * 4
    items = [Item(str(n), name, (), (), 0) for n, name in enumerate(names)]
    chosen = chosen_items(items, ("*agreement*",), 3)
    assert [item.id for item in chosen] == ["0", "2", "3", "5", "6", "8"]
    assert chosen_items(items, (), 0) == items
    assert len(chosen_items(items, ("island", "verb*"), 0)) == 8
    with pytest.raises(UserError, match=r"--groups 'islands'.*island"):
        chosen_items(items, ("islands",), 0)


def test_texts_of_one_label_have_nothing_to_tell():
    items = [Item(str(n), "", ("a",), ("",), gold) for n, gold in enumerate((-1, 1, 0))]
    for legal in (items, items[:1]):
        check_labels("sentences", legal)
    with pytest.raises(UserError, match="all texts have the label 1, and the area"):
        check_labels("sentences", items[:2])
    check_labels("pairs", items[1:2])  # it is the number of the right text


def test_other_columns_can_be_named(tmp_path):
    file = tmp_path / "cola.tsv"
    file.write_text("gj04\t1\t\tThe sailors rode.\ngj04\t0\t*\tThe rode.\n")
    items, _ = read_items("sentences", str(file), ("3",), "1")
    assert [(item.texts[0], item.gold) for item in items] == [
        ("The sailors rode.", 1),
        ("The rode.", 0),
    ]


@pytest.mark.parametrize(
    ("task", "row", "words"),
    [
        ("blimp", {"sentence_good": "a"}, "rows.jsonl:1: unknown column"),
        ("pairs", PAIR | {"sentence_bad": ["b", "c"]}, "a pair has two texts"),
        ("choices", CHOICES | {"gold": 3}, "its label '3' is none of its 3 choices"),
        ("choices", CHOICES | {"gold": None}, "its label None is none of its 3"),
        ("choices", CHOICES | {"choices": ["a"]}, "has fewer than two choices"),
        ("schema", SCHEMA | {"gold": -1}, "its label '-1'"),
        ("lambada", {"context": ["a", "b"], "continuation": "c"}, "is a list"),
        ("sentences", {"text": "a", "label": "good"}, "neither 0 nor 1"),
        ("sentences", {"text": " "}, "has no items"),
    ],
)
def test_a_wrong_row_gives_one_line(tmp_path, task, row, words):
    with pytest.raises(UserError, match=words):
        read_items(task, write(tmp_path, row))


def test_a_file_without_a_header_is_told_its_flag(tmp_path):
    (tmp_path / "pairs.tsv").write_text("a river\ta rivers\n")
    words = r"pairs\.tsv:1: unknown column of --fields .* by number, 0 to 1\)"
    with pytest.raises(UserError, match=words):
        read_items("pairs", str(tmp_path / "pairs.tsv"))
