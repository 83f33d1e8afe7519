"""fill: the tokens in the place of masks of a file, and one-line errors."""

import json

import pytest

from launch.cli import DONE, MISTAKE, main
from launch.commands.fill import parser, run
from research.use.inference.open_run import open_run
from tests.testing.huggingface_goldens import copy_with_vocabulary


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return f"hf:{copy_with_vocabulary('bert', tmp_path_factory.mktemp('fill'))}"


def fill(*flags):
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), list(flags))
    return stop.value.code


def test_lines_say_what_fill_finds(source, tmp_path, capsys):
    texts = ["the [MASK] river", "a <mask> <mask>"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    flags = [f"--workdir={source}", f"--texts={tmp_path}/texts.txt", "--top_k=2"]
    assert fill(*flags) == DONE
    printed = capsys.readouterr().out
    assert fill(*flags, f"--to={tmp_path}/new/out.jsonl") == DONE
    assert (tmp_path / "new" / "out.jsonl").read_text() == printed
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [line["text"] for line in lines] == texts
    expected = open_run(source).fill(texts, 2)
    named = [[[f._asdict() for f in mask] for mask in masks] for masks in expected]
    assert [line["masks"] for line in lines] == named
    assert [len(line["masks"]) for line in lines] == [1, 2]
    assert fill(flags[0], flags[2], texts[0]) == DONE
    shown = [line[10:] for line in capsys.readouterr().out.splitlines() if line]
    assert shown == [each["text"] for each in named[0][0]]


def test_a_text_that_cannot_be_filled_does_not_end_the_others(source, tmp_path, capsys):
    texts = ["river", f"{'a ' * 30}[MASK]", "a [MASK]"]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    flags = [f"--workdir={source}", f"--texts={tmp_path}/texts.txt"]
    assert fill(*flags, "--method=confidence") == DONE
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert [line["text"] for line in lines] == texts
    words = "the text has 33 tokens, special ones included; the model reads at most 20"
    assert "has no mask" in lines[0]["error"] and words in lines[1]["error"]
    assert len(lines[2]["masks"]) == 1 and lines[2]["filled"].startswith("a")
    assert [*map(len, lines)] == [2, 2, 3]
    assert "2 of 3 texts have no answer, text 1 since" in printed.err


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        ("river\n", [], "text 1: the text has no mask; write [MASK] where one is"),
        (
            "a [MASK]\n",
            ["--top_k=0"],
            "--top_k: must be a whole number of at least 1, not 0",
        ),
        ("a [MASK]\n", ["--texts=/none"], "/none: cannot be read"),
        ("a [MASK]\n", ["--workdir=/none"], "/none is not a run"),
        ("a [MASK]\n", ["--method=best"], "--method: unknown method 'best'; did you"),
        ("a [MASK]\n", ["--method=beam"], ", not beam"),
        ("", [], "texts.txt has no texts"),
        ("a [MASK]\n", ["--workdir=/none", "--to=/"], "--to=/ cannot be written (Is a"),
    ],
)
def test_a_mistake_gives_one_line(source, tmp_path, capsys, text, flags, words):
    (tmp_path / "texts.txt").write_text(text)
    usual = [f"--workdir={source}", f"--texts={tmp_path}/texts.txt"]
    assert fill(*usual, *flags) == MISTAKE
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
