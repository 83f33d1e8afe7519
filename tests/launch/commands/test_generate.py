"""generate: texts of prompts from everywhere, on a mesh, and one-line errors."""

import io
import json
import re

import pytest
from etils import epath

from launch.cli import DONE, MISTAKE, main
from launch.commands.generate import _prompts, parser, run
from research.config.identity import read_run_config
from research.contract.errors import UserError
from research.data.read.files import load_file_corpus, read_texts
from research.data.read.formats import FileOptions
from research.data.tokenize.vocabulary import load_vocabulary
from research.generation.samplers import make_sampler
from research.generation.text import (
    decode_after,
    encode_prompt,
    make_writer,
    spell,
)
from research.record.workdir import write_result
from research.use.inference.open_run import open_run
from tests.testing import tiny_runs

PROMPTS = ["the old", "", "a small stone reads and"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A causal model, in `run`, and prompts."""
    folder = tiny_runs.write_corpus(tmp_path_factory.mktemp("generate"))
    tiny_runs.save_untrained(folder / "run", tiny_runs.tiny_config(folder, "lm"))
    (folder / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    return folder


def generate(*flags):
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), list(flags))
    return stop.value.code


def test_texts_are_those_of_the_library_on_one_device(
    folder, tmp_path, capsys, monkeypatch
):
    """The command's mesh has eight."""
    sampler = make_sampler(method="sample", seed=5, max_tokens=5)
    write = make_writer(open_run(folder / "run").run, sampler, batch=2)
    expected = write(PROMPTS)
    flags = [f"--workdir={folder}/run", "--method=sample", "--seed=5", "--max_tokens=5"]
    to = tmp_path / "new" / "out.jsonl"
    assert generate(*flags, f"--texts={folder}/prompts.txt", f"--to={to}") == DONE
    lines = [json.loads(line) for line in to.read_text().splitlines()]
    assert [line["prompt"] for line in lines] == PROMPTS
    for line, texts in zip(lines, expected, strict=True):
        assert [text["text"] for text in line["texts"]] == [t.text for t in texts]
        scores = [text["score"] for text in line["texts"]]
        assert scores == pytest.approx([text.score for text in texts], rel=1e-4)
    capsys.readouterr()
    lines = io.BytesIO("".join(f"{prompt}\n" for prompt in PROMPTS).encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(lines))
    assert generate(*flags) == DONE
    printed = capsys.readouterr().out
    assert printed.splitlines() == [texts[0].text for texts in expected]
    # They are the side of a parallel text, of which a student learns: docs/smaller.md.
    for side, text in (("src", "\n".join(PROMPTS)), ("tgt", printed)):
        (tmp_path / f"told.{side}").write_text(text)
    sides = FileOptions("auto", ("src", "tgt"))
    corpus = load_file_corpus(str(tmp_path / "told.*"), None, sides)
    found = {each.text for each in corpus.documents("train")}
    pairs = zip(PROMPTS, printed.splitlines(), strict=True)
    assert found == {f"{one}\n{other}" for one, other in pairs if one and other}


def test_lines_of_standard_input_are_those_of_a_file(folder, tmp_path, monkeypatch):
    lines = "the old\u2028stone\x0cby\x85a\n\n small river \r\nend".encode()
    (tmp_path / "lines.txt").write_bytes(lines)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines), "latin-1"))
    texts = _prompts(parser().parse_args(["--workdir=x"]))
    assert texts == read_texts(tmp_path / "lines.txt", "") and len(texts) == 4
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff\n")))
    with pytest.raises(UserError, match="standard input:2: not UTF-8"):
        _prompts(parser().parse_args(["--workdir=x"]))


def test_sentinels_and_the_space_before_a_text_are_spelled(folder):
    vocabulary = load_vocabulary(folder / "run", sentinels=100)
    first, second = vocabulary.vocab.sentinel_ids[:2]
    ids = encode_prompt(vocabulary, "the <extra_id_0> river<extra_id_1>")
    old, river = (vocabulary.encode(word)[0].tolist() for word in ("the", "river"))
    assert ids == [*old, first, *river, second]
    assert spell(vocabulary, ids) == "the <extra_id_0> river <extra_id_1>"
    assert decode_after(vocabulary, old, river) == " river"
    assert decode_after(vocabulary, [], river) == "river"


def test_of_a_long_prompt_the_end_is_read_and_one_in_error_is_left_out(
    folder, tmp_path, capsys
):
    """As lm_eval's HFLM cuts contexts: `max_tokens` positions are left to the text."""
    word = " old"  # of one token
    longest = 512 - 5  # bos needs one of 512 positions, the last new token none
    kept = "the" + word * (longest - 1)
    prompts = ["stone " * 600 + kept, kept, "a <extra_id_500>"]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts) + "\n")
    flags = [f"--workdir={folder}/run", "--max_tokens=5", f"--to={tmp_path}/o.jsonl"]
    assert generate(*flags, f"--texts={tmp_path}/prompts.txt") == DONE
    lines = [
        json.loads(line) for line in (tmp_path / "o.jsonl").read_text().split("\n")[:3]
    ]
    assert lines[0]["texts"] == lines[1]["texts"] and lines[0]["prompt"] == prompts[0]
    assert "numbered from 0" in lines[2]["error"] and "texts" not in lines[2]
    said = capsys.readouterr().err
    assert "of 1 prompts only the end is read" in said
    assert "1 of 3 prompts have no answer, prompt 3 since <extra_id_500>" in said


def test_a_run_that_has_learnt_little_says_so(folder, capsys):
    run = epath.Path(folder / "run")
    result = {"token_entropy": 6.0, "tokens_seen": 5000}
    result |= {"best_step": 0, "steps": 3}
    config = read_run_config(run)
    try:
        for loss, flags, words in (
            (5.9, [], "2 % below .* greedily .*--method=sample$"),
            (5.9, ["--method=sample"], "makes little sense yet$"),
            (3.0, [], ""),
        ):
            found = result | {"metrics": {"train/lm": loss}, "config": config}
            write_result(run, found)
            assert generate(f"--workdir={run}", "a", "--max_tokens=2", *flags) == DONE
            notes = [x for x in capsys.readouterr().err.splitlines() if "note:" in x]
            assert len(notes) == bool(words) and re.search(words, "".join(notes))
    finally:
        (run / "result.json").unlink()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["a", "--top_p=.5"],
            "--top_p is not read by method greedy, only by ",
        ),
        (
            ["a", "--method=sample", "--length_penalty=1"],
            "--length_penalty is not read by method sample, only by beam; change the",
        ),
        (
            ["a", "--top_p=2", "--method=sample"],
            "--top_p must be above 0 and at most 1, not 2.0",
        ),
        (["a", "--method=best"], "unknown method 'best'; did you mean beam"),
        (["a", "--beams=x"], "--beams: invalid int value"),
        (["a", "--languages=en"], "--languages must be token types such as 0"),
        (
            ["a", "--languages=0:1"],
            "languages is 0:1, but the network has one",
        ),
        (
            ["a", "--batch=0"],
            "--batch: must be a whole number of at least 1, not 0",
        ),
        (["a", "--texts=F"], "give a prompt after the flags, as in"),
        (["--texts=/none"], "/none: cannot be read"),
        (["--texts=/dev/null"], "--texts=/dev/null has no texts"),
        (["a", "--workdir=/none", "--to=/"], "--to=/ cannot be written (Is a"),
        (["a", "--workdir=/none"], "/none is not a run"),
        (["a <extra_id_500>"], "numbered from 0"),
        ([f"a <extra_id_{'1' * 5000}>"], "<extra_id_11111111111111111111>: "),
        (["a", "--forced_bos=900000"], "forced_bos names token 900000, but"),
        (
            ["a", "--workdir=hf:x", "--step=3", "--config.model.width", "8"],
            "error: --step, --config.model.width: hf:x is a model in Hugging Face's",
        ),
        (["a", "--max_tokens=600"], "model.max_length is 512"),
    ],
)
def test_a_mistake_gives_one_line(folder, capsys, flags, words):
    assert generate(f"--workdir={folder}/run", *flags) == MISTAKE
    error = capsys.readouterr().err
    assert words in error.splitlines()[-1]
