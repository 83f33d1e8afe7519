"""What is wrong with a task's files or keys is said in one line, with exit code 2."""

import json

import pytest

from launch.cli import MISTAKE, main
from launch.commands.prepare import parser, run

GOOD = "one\ttwo\tgold\n" + "ab cd ef\tgh ij\tx\nkl mn\top qr\ty\n" * 9
PAIR = {"fields": "one,two", "label": "gold"}
CLASSES, TAGS = "sequence_classification", "token_classification"
ANSWERS, CHOICES = "question_answering", "multiple_choice"
ANSWER = {"text": "gh", "answer_start": 3}


def files(name, **keys):
    """Keys of training and evaluation on one file, which has no columns of a table."""
    return {"train": name, "valid": name, "fields": "", "label": ""} | keys


def squad(*answers, **more):
    """A question for each answer."""
    row = {"id": "q", "question": "ab cd?"}
    qas = [row | {"answers": [answer]} | more for answer in answers]
    paragraphs = [{"context": "ef gh ij kl", "qas": qas}]
    return json.dumps({"data": [{"paragraphs": paragraphs}]})


def rows(**more):
    row = {"one": "ab cd ef", "two": "gh ij", "gold": "x"}
    return f"{json.dumps(row)}\n{json.dumps(row | more)}\n" * 9


def choices(number, gold):
    row = {"one": "ab cd ef", "two": ["gh ij"] * number, "gold": gold}
    return f"{json.dumps(row)}\n" * 9


CASES = {
    "no such file": (CLASSES, {}, {"train": "none.tsv"}, "data.train is"),
    "no files of the other split": (CLASSES, {}, {"valid": ""}, "those of data.valid"),
    "no such column": (CLASSES, {}, {"fields": "one,tow"}, "t.tsv:1: unknown column"),
    "no such label column": (
        CLASSES,
        {},
        {"label": "glod"},
        "'glod'; did you mean gold",
    ),
    "a row that is long": (
        CLASSES,
        {"t.tsv": GOOD + "a\t" * 4},
        {},
        "t.tsv:20: has 5 col",
    ),
    "an unknown label": (
        CLASSES,
        {"v.tsv": "one\ttwo\tgold\na\tb\tz\n"},
        {},
        "v.tsv:2: label 'z' is unknown",
    ),
    "labels that are no numbers": (
        CLASSES,
        {},
        {"objective.task": "regression"},
        "label 'x' is not a number",
    ),
    "no labels": (
        CLASSES,
        {},
        {"label": ""},
        "no documents with labels; data.label names their column",
    ),
    "blank labels": (
        CLASSES,
        {"t.tsv": GOOD.replace("\ty", "\t").replace("\tx", "\t")},
        {},
        "no documents with labels; data.label=gold is blank in every row",
    ),
    "one label alone": (
        CLASSES,
        {"t.tsv": GOOD.replace("\ty", "\tx"), "v.tsv": GOOD.replace("\ty", "\tx")},
        {},
        "all documents have the label 'x'",
    ),
    "an empty list of labels where one is read": (
        CLASSES,
        {"t.jsonl": rows(gold=[])},
        files("t.jsonl") | PAIR,
        "t.jsonl:2: label '' is an empty list; objective.task=multi",
    ),
    "several labels where one is read": (
        CLASSES,
        {"t.jsonl": rows(gold=["x", "y"])},
        files("t.jsonl") | PAIR,
        "t.jsonl:2: label 'x, y' is several; objective.task=multi",
    ),
    "an object as a label": (
        CLASSES,
        {"t.jsonl": rows(gold={"x": 1})},
        files("t.jsonl") | PAIR,
        "t.jsonl:2: 'gold' of data.label: {'x': 1} is not a label",
    ),
    "two columns of one name": (
        CLASSES,
        {"t.tsv": GOOD.replace("two", "one", 1)},
        {"fields": "one"},
        "t.tsv:1: several columns are named 'one'",
    ),
    "a column that is read twice": (
        CLASSES,
        {},
        {"fields": "one,gold"},
        "data.fields=one,gold and data.label=gold name 'gold' twice",
    ),
    "an unknown format": (
        CLASSES,
        {},
        {"format": "xml"},
        "unknown data.format 'xml'; known: auto",
    ),
    "a wrong format": (CLASSES, {}, {"format": "jsonl"}, "t.tsv:1: not a JSON object"),
    "no text": (
        CLASSES,
        {"t.tsv": "one\ttwo\tgold\n"},
        {},
        "t.tsv' has no text: it has only white space, or rows without text",
    ),
    "an empty file": (
        CLASSES,
        {"t.tsv": ""},
        {},
        "t.tsv' is empty; name a file with text",
    ),
    "an empty file of evaluations": (
        CLASSES,
        {"v.tsv": ""},
        {},
        "v.tsv' is empty; name a file with text",
    ),
    "bytes that are not UTF-8": (
        CLASSES,
        {"t.tsv": b"\xff"},
        {},
        "t.tsv:1: not UTF-8 (invalid start byte); data.encoding names the files' enc",
    ),
    "bytes that are not of the encoding": (
        CLASSES,
        {"t.tsv": GOOD.encode() + b"\x81"},
        {"encoding": "cp1252"},
        "t.tsv:20: not cp1252 (character maps to <undefined>); data.encoding names",
    ),
    "an encoding that is none": (
        CLASSES,
        {},
        {"encoding": "base64"},
        "data.encoding must be an encoding that Python knows, such as utf-8, latin-1 "
        "or cp1252, not 'base64'",
    ),
    "an encoding of what is no text": (
        CLASSES,
        {"t.parquet": b""},
        files("t.parquet", encoding="latin-1"),
        "data.encoding=latin-1 is for text files",
    ),
    "fractions whose sum is not 1": (
        CLASSES,
        {},
        {"valid": "", "split": "0.8,0.1,0.2"},
        "data.split must be three fractions, of train, valid and test, with sum 1",
    ),
    "a split of two sources": (
        CLASSES,
        {},
        {"split": "0.8,0.2,0"},
        "data.valid names files, but data.split=0.8,0.2,0 takes its valid split from",
    ),
    "fractions without files": (
        CLASSES,
        {},
        {"train": "", "valid": "", "split": "0.8,0.2,0"},
        "data.split divides the files of data.train, which is empty",
    ),
    "no part to evaluate": (
        CLASSES,
        {},
        {"valid": "", "split": "0.8,0,0.2"},
        "data.split=0.8,0,0.2 has nothing in valid, and data.valid names no files",
    ),
    "a rule of labels that is none": (
        CLASSES,
        {"t.txt": "ab cd\n"},
        files("t.txt", label="gold"),
        "t.txt has no columns; data.label can be file, suffix or folder",
    ),
    "a label that all files have": (
        CLASSES,
        {"t.a": "ab cd\n", "t.b": "ef gh\n"},
        files("t.[ab]", format="lines", label="file"),
        "have the label 't', such as t.a; data.label=file is the",
    ),
    "a label without a text": (
        CLASSES,
        {"t.label": "x ab\ny\n"},
        files("t.label", format="lines", label="prefix"),
        "t.label:2: data.label=prefix: no text follows the label 'y'",
    ),
    "a coarse label without a colon": (
        CLASSES,
        {"t.label": "x:y ab\nx ab\n"},
        files("t.label", format="lines", label="coarse_prefix"),
        "t.label:2: data.label=coarse_prefix reads the first word up to its colon",
    ),
    "first words that are no labels": (
        CLASSES,
        {"t.label": "".join(f"w{n} ab\n" for n in range(20))},
        files("t.label", format="lines", label="prefix"),
        "t.label:1: data.label=prefix: 20 lines have 20 labels, such as 'w0'",
    ),
    "half of a gzip file": (
        CLASSES,
        {"t.tsv.gz": b"\x1f\x8b\x08"},
        {"train": "t.tsv.gz"},
        "not a complete gzip file",
    ),
    "two texts": (CLASSES, {}, {"mixture": '{"embedded": 1}'}, "name two texts"),
    "the other reader": (CLASSES, {}, {"reader": "seqio"}, "data.reader=native"),
    "a stride of its own": (CLASSES, {}, {"stride": "3"}, "set data.stride=0"),
    "words without tags": (TAGS, {}, {}, "data.format=conll"),
    "tags where labels are read": (
        CLASSES,
        {"t.conll": "a B\nb O\n\nc O\n"},
        files("t.conll"),
        "no documents with labels, but words with tags; objective token_classification",
    ),
    "an unknown tag": (
        TAGS,
        {"t.conll": "a B\nb O\n", "v.conll": "a X\nb X\n"},
        files("t.conll", valid="v.conll"),
        "v.conll:1: label 'X' is unknown; the training text has B, O",
    ),
    "words that are their own tags": (
        TAGS,
        {"t.conll": "a\nb\n"},
        files("t.conll"),
        "t.conll:1: the word and its tag have the same column of 1",
    ),
    "an unknown head": (
        TAGS,
        {},
        {"objective.head": "cfr"},
        "head must be linear, crf",
    ),
    "a text without a target": (
        "sequence_to_sequence",
        {},
        {"fields": "one", "label": ""},
        "no texts of two parts",
    ),
    "a question that is no text": (
        ANSWERS,
        {"t.json": squad(ANSWER, question=3)},
        files("t.json"),
        "t.json:1: not SQuAD's JSON",
    ),
    "answers that are no list": (
        ANSWERS,
        {"t.json": squad(ANSWER, answers={"text": ["gh"], "answer_start": [3]})},
        files("t.json"),
        "t.json:1: question q: not SQuAD's",
    ),
    "answers that are nowhere": (
        ANSWERS,
        {"t.json": squad(ANSWER | {"answer_start": -8})},
        files("t.json"),
        "no questions whose answers are in their contexts",
    ),
    "labels where answers are read": (
        ANSWERS,
        {},
        {},
        "v.tsv:2: label 'x' is none of a question; set data.format=squad",
    ),
    "one choice alone": (
        CHOICES,
        {"t.jsonl": rows(gold="y")},
        files("t.jsonl") | PAIR,
        "no texts of a question and its choices",
    ),
    "a choice below 0": (
        CHOICES,
        {"t.jsonl": choices(2, -1)},
        files("t.jsonl") | PAIR,
        "questions whose right choice is known; data.label=gold is blank or -1 in ev",
    ),
    "a choice that is called by a name": (
        CHOICES,
        {"t.jsonl": choices(2, "left")},
        files("t.jsonl") | PAIR,
        "t.jsonl:1: label 'left' is not the number of a choice, counted from 0, nor",
    ),
    "choices of letters and of numbers": (
        CHOICES,
        {"t.jsonl": choices(2, "A") + choices(2, 1)},
        files("t.jsonl") | PAIR,
        "labels of choices must all be numbers from 0, letters from A, or",
    ),
    "too many choices": (
        CHOICES,
        {"t.jsonl": choices(3, 0)},
        files("t.jsonl") | PAIR,
        "an example has 3 choices; objective.choices is 2",
    ),
    "a label that is no choice": (
        CHOICES,
        {"t.jsonl": choices(2, 2)},
        files("t.jsonl") | PAIR,
        "label 2 is not one of the 2 choices",
    ),
    "answers between ends of lines": (
        ANSWERS,
        {"t.json": squad(ANSWER)},
        files("t.json", separator="lines", whitespace="collapse"),
        "data.separator is lines, but answers",
    ),
    "a row that is too short for choices": (
        CHOICES,
        {"t.jsonl": choices(2, 1)},
        files("t.jsonl", length="8") | PAIR,
        "data.length is 8, but objective multiple_choice needs at least 10",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_input_gives_one_line(case, tmp_path, capsys):
    objective, contents, keys, words = CASES[case]
    for name, content in ({"t.tsv": GOOD, "v.tsv": GOOD} | contents).items():
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(content)
    values = {"train": "t.tsv", "valid": "v.tsv", "length": "32"} | PAIR | keys
    values |= {
        key: str(tmp_path / values[key]) for key in ("train", "valid") if values[key]
    }
    values |= {"cache_dir": tmp_path / "cache", "vocabulary": "bytebpe"}
    values |= {"vocabulary_size": "264", "sentinels": "2"}
    argv = ["--config=experiments/finetune.py", "--batches=1", f"--output={tmp_path}/b"]
    argv += [f"--config.objective.name={objective}"]
    for key, value in values.items():
        section = "" if "." in key else "data."
        argv.append(f"--config.{section}{key}={value}")
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), argv)
    error = capsys.readouterr().err.splitlines()
    assert stop.value.code == MISTAKE
    assert words in error[-1] and error[-1].startswith("error: ")
    assert sum(line.startswith("error") for line in error) == 1


def test_an_answer_that_is_not_at_its_offset_is_counted(tmp_path, capsys):
    content = squad(ANSWER, ANSWER | {"answer_start": 2})
    (tmp_path / "t.json").write_text(content)
    argv = ["--config=experiments/finetune.py"]
    argv += ["--config.objective.name=question_answering"]
    for key in ("train", "valid"):
        argv.append(f"--config.data.{key}={tmp_path}/t.json")
    argv += [f"--config.data.cache_dir={tmp_path}/cache", "--config.data.length=32"]
    argv += ["--config.data.vocabulary=bytebpe", "--config.data.vocabulary_size=264"]
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), [*argv, "--config.data.sentinels=2"])
    assert not stop.value.code
    assert "1 row, number 2: not trained on" in capsys.readouterr().err
