"""embed: vectors of the lines of a file, and one-line errors."""

import gzip
import json

import numpy as np
import pytest

from launch.cli import DONE, MISTAKE, main
from launch.commands.embed import parser, run
from research.use.inference.open_run import open_run
from tests.testing.huggingface_goldens import copy_with_vocabulary

TEXTS = ["the old river", "", "a small stone reads"]


def embed(*flags):
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), list(flags))
    return stop.value.code


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return f"hf:{copy_with_vocabulary('bert', tmp_path_factory.mktemp('embed'))}"


def test_vectors_of_lines_are_those_of_encode(source, tmp_path, capsys):
    """In both formats, of both kinds of files."""
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    (tmp_path / "texts.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    flags = [f"--workdir={source}", f"--texts={tmp_path}/texts.txt"]
    assert embed(*flags, f"--to={tmp_path}/new/mean.npy") == DONE
    said = capsys.readouterr().err
    assert said.endswith("3 vectors of width 16\nblank texts among them: 1\n")
    flags = [f"--workdir={source}", f"--texts={tmp_path}/texts.jsonl.gz"]
    assert embed(*flags, "--pool=class", f"--to={tmp_path}/class.jsonl") == DONE
    model = open_run(source)
    mean, of_class = (model.encode(TEXTS, pool) for pool in ("mean", "class"))
    np.testing.assert_array_equal(np.load(tmp_path / "new" / "mean.npy"), mean)
    rows = [json.loads(line) for line in (tmp_path / "class.jsonl").open()]
    assert [row["text"] for row in rows] == TEXTS
    np.testing.assert_array_equal([row["vector"] for row in rows], of_class)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"mean.npy"}
    capsys.readouterr()
    assert embed(flags[0], "--pool=class", *TEXTS) == DONE
    assert capsys.readouterr().out == (tmp_path / "class.jsonl").read_text()


def test_products_are_of_bfloat16_if_that_is_asked(source, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    flags = [f"--workdir={source}", f"--texts={tmp_path}/texts.txt"]
    flags += ["--product-dtype=bfloat16", f"--to={tmp_path}/rounded.npy"]
    assert embed(*flags) == DONE
    rounded, exact = np.load(tmp_path / "rounded.npy"), open_run(source).encode(TEXTS)
    assert 0 < np.abs(rounded - exact).max() < 0.03 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--to=x.txt"], "must end in .npy or .jsonl"),
        (["--texts=/dev/null"], "--texts=/dev/null has no texts"),
        (["--workdir=/none", "--to=/etc/hosts/v.npy"], "v.npy cannot be written ("),
        (["--texts=/none.txt"], "/none.txt: cannot be read (No such file"),
        (["--workdir=/none"], "/none is not a run"),
        (["--workdir=hf:/none"], "hf:/none: no such folder"),
        (["--pool=men"], "--pool: invalid choice: 'men'"),
    ],
)
def test_a_mistake_gives_one_line(source, tmp_path, capsys, flags, words):
    (tmp_path / "texts.txt").write_text("the river\n")
    usual = [f"--workdir={source}", f"--texts={tmp_path}/texts.txt"]
    assert embed(*usual, f"--to={tmp_path}/x.npy", *flags) == MISTAKE
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
