"""diff: what differs between two runs is shown, and what may does not count."""

import json
import shutil

import pytest

from launch.cli import DONE, FAILED, main
from launch.commands import diff
from research.record.workdir import CHANGEABLE_KEYS


@pytest.fixture(scope="module")
def runs(trained_sweep):
    return [path.parent for path in trained_sweep.glob("sweep/*/metrics.jsonl")]


@pytest.fixture
def pair(runs, tmp_path):
    """A run and a copy of it."""
    two = tmp_path / "two"
    shutil.copytree(runs[0], two)
    return runs[0], two


def call(capsys, *words):
    """The exit code, and what was printed."""
    with pytest.raises(SystemExit) as caught:
        main(diff.run, diff.parser(), [str(word) for word in words])
    out, err = capsys.readouterr()
    return caught.value.code, out + err


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_copy_does_not_differ(pair, capsys):
    code, text = call(capsys, *pair)
    assert code == DONE
    assert "config: equal" in text and "provenance: equal" in text
    assert "metrics: equal in the 2 steps that both logged" in text


def test_a_default_that_one_lacks_and_what_may_differ_do_not_count(pair, capsys):
    _, two = pair

    def change(config):
        del config["train"]["profile_steps"]
        config["train"]["checkpoint_every"] = 77

    edit(two / "config.json", change)
    edit(two / "provenance.json", lambda x: x.update(started="now", devices=64))
    code, text = call(capsys, *pair)
    assert code == DONE and "train.checkpoint_every" in CHANGEABLE_KEYS
    for word in ("train.checkpoint_every", "started", "devices"):
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {word} "))
        assert line.endswith(")")
    assert "profile_steps" not in text


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("config.json", {"optimizer": {"learning_rate": 0.5}}, "rate  0.01  0.5\n"),
        ("provenance.json", {"commit": "abc"}, "  commit "),
        ("provenance.json", {"packages": {"jax": "0.1"}}, "  packages.jax "),
        ("provenance.json", {"data": "abc"}, "  data "),
    ],
)
def test_what_says_what_is_computed_counts(pair, capsys, file, change, words):
    def update(content):
        for key, value in change.items():
            if isinstance(value, dict):
                content[key].update(value)
            else:
                content[key] = value

    edit(pair[1] / file, update)
    code, text = call(capsys, *pair)
    assert code == FAILED and words in text


def test_what_has_changed_behind_an_equal_key_is_said(runs, capsys, tmp_path):
    pair = tmp_path / "one", tmp_path / "two"
    for path in pair:
        shutil.copytree(runs[0], path)
    one, two = (path / "provenance.json" for path in pair)
    edit(two, lambda content: content.update(code="abc", data="def"))
    edit(one, lambda content: content.update(code="ghi"))
    code, text = call(capsys, *pair)
    assert code == FAILED
    (line,) = (line for line in text.splitlines() if line.startswith("  code "))
    assert line.endswith("(of one commit: changes that are in none)")
    assert "(the files behind equal keys have changed)" in text
    edit(two, lambda content: content.update(commit="xyz"))
    edit(pair[1] / "config.json", lambda content: content["data"].update(held_out=0.3))
    text = call(capsys, *pair)[1]
    assert "changes that" not in text and "behind equal keys" not in text


def test_runs_that_logged_no_step_of_the_same_number(pair, capsys):
    path = pair[1] / "metrics.jsonl"
    path.write_text('{"step": 5, "train/loss": 1.0}\n')
    code, text = call(capsys, *pair)
    assert code == FAILED and "metrics: there is no step that both logged" in text


def test_the_first_step_that_differs_is_shown_with_how_much(pair, capsys):
    path = pair[1] / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    before = lines[1]["train/loss"]
    assert (lines[0]["step"], lines[1]["step"]) == (3, 6)
    lines[1]["train/loss"] = before - 0.25
    lines.append({"step": 9, "train/loss": 1.0, "train/new": 2.0})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, text = call(capsys, *pair)
    assert code == FAILED
    words = "metrics: step 6 is the first that differs of the 2 that both logged"
    assert words in text
    assert f"  train/loss  {before:.8g}  {before - 0.25:.8g}  -0.25  " in text
    assert "the last step is 6 of 1, and 9 of 2" in text
    assert "2 alone has train/new" in text
    assert "the largest difference is -0.25, at step 6" in text


def test_runs_of_two_objectives_are_compared_key_by_key(runs, capsys, tmp_path):
    code, text = call(capsys, *runs[:2], f"--to={tmp_path}/sub/curves.svg")
    assert code == FAILED and "  objective.name " in text
    assert "metrics: step 3 is the first that differs of the 2" in text
    first = (tmp_path / "sub" / "curves.svg").read_bytes()
    call(capsys, *runs[:2], f"--to={tmp_path}/curves.svg")
    assert b"<svg" in first and (tmp_path / "curves.svg").read_bytes() == first
    call(capsys, *runs[:2], f"--to={tmp_path}/curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["{run}"], "required: RUN"),
        (
            ["{run}", "{run}/checkpoints"],
            "checkpoints is not a run: it has no config.json",
        ),
        (["{run}", ""], "is not a run"),
        (["{run}", "{run}", "--to=x.pdf"], "unknown ending of --to 'pdf'; known: png"),
        (["{run}", "{run}", "{run}"], "unknown flag"),
    ],
)
def test_wrong_input_is_one_line(runs, capsys, words, reason):
    code, text = call(capsys, *(word.format(run=runs[0]) for word in words))
    assert code == 2 and reason in text
    assert text.count("\n") == 1
