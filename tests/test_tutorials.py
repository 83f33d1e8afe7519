"""The tutorials' commands, word for word, give the output that their pages show."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing import notebooks, tutorials
from tests.testing.tutorials import ROOT

FOLDER = ROOT / "docs" / "tutorials"


@pytest.fixture(scope="module")
def outputs_of(tmp_path_factory):
    """Runs the commands of a page in a copy of the program, after those before it."""
    folder = tmp_path_factory.mktemp("tutorials")
    tutorials.copy_program(folder)
    process = tutorials.start_python(folder)

    @functools.cache
    def outputs_of(page: str) -> list[str]:
        for earlier in tutorials.PAGES[: tutorials.PAGES.index(page)]:
            outputs_of(earlier)
        blocks = tutorials.blocks((ROOT / page).read_text("utf-8"))
        return tutorials.run([block.commands for block in blocks], folder)

    yield outputs_of
    process.terminate()
    process.wait()
    process.stdout.close()


def test_the_order_has_every_tutorial():
    assert {str(path.relative_to(ROOT)) for path in FOLDER.glob("*.md")} == {
        *tutorials.PAGES
    }


@pytest.mark.long
def test_the_cells_of_the_notebook_give_what_it_shows(tmp_path):
    copy = shutil.copy(FOLDER / "pretrain.ipynb", tmp_path)
    subprocess.run(
        [sys.executable, "-m", "tests.testing.notebooks", copy],
        cwd=ROOT,
        env=os.environ | tutorials.ENVIRONMENT,
        check=True,
    )
    shown, found = (
        [notebooks.text(cell["outputs"]) for cell in notebooks.code(json.loads(text))]
        for text in map(Path.read_text, (FOLDER / "pretrain.ipynb", Path(copy)))
    )
    for cells in zip(shown, found, strict=True):
        assert not tutorials.difference(*cells)


LONG = tuple(
    f"docs/tutorials/{name}.md"
    for name in ("ablation", "bot", "objective", "publish", "published")
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, id=Path(p).stem, marks=[pytest.mark.long] * (p in LONG))
        for p in tutorials.PAGES
    ],
)
def test_its_commands_give_what_it_shows(page, outputs_of):
    blocks = tutorials.blocks((ROOT / page).read_text("utf-8"))
    shown = [block.shown for block in blocks]
    assert any(text is not None for text in shown)
    for block, output in zip(blocks, outputs_of(page), strict=True):
        if block.shown is not None:
            found = tutorials.difference(block.shown, output)
            assert not found, f"{page}\n{block.commands}{found}"


@pytest.mark.parametrize("page", tutorials.PAGES)
def test_what_is_not_run_says_where_it_is_tested(page):
    text = (ROOT / page).read_text("utf-8")
    parts = re.split(r"^```sh\n.*?^```\n\n", text, flags=re.MULTILINE | re.DOTALL)
    for after in parts[1:]:
        words = after.partition("\n")[0]
        assert words.startswith("*Not run with this page")
        (path, *_) = re.findall(r"`(tests/[\w/.]+)`", words)
        assert (ROOT / path).is_file()


@pytest.mark.parametrize(
    ("shown", "output", "found"),
    [
        ("loss 1.00 in 3 steps\n", "loss 1.09 in 3 steps\n", ""),
        ("loss 1.00 in 3 steps\n", "loss 1.12 in 3 steps\n", "loss 1.12"),
        ("loss 1.00 in 3 steps\n", "loss 1.00 in 4 steps\n", "4 steps"),
        ("a 0.02\n", "a 0.06\n", ""),
        ("a 1.5\n", "b 1.5\n", "'b 1.5'"),
        ("a 1.5\n", "a nan\n", "nan"),
        ("one\ntwo\n", "one\n", "2 lines"),
        ("one\n", "one\ntwo\n", "1 lines"),
    ],
)
def test_an_output_that_differs_is_found(shown, output, found):
    assert found in tutorials.difference(shown, output)
    assert bool(found) == bool(tutorials.difference(shown, output))


def test_a_block_that_fails_is_named(tmp_path):
    (tmp_path / "bin").mkdir()
    with pytest.raises(AssertionError, match=r"(?s)^false.*no such command"):
        code = "echo no such command >&2\nfalse\n"
        tutorials.run(["true\n", f"false || true\n{code}", "echo three\n"], tmp_path)
    assert os.listdir(tmp_path / "bin") == []
