"""evaluate: the last evaluation again, other files, and one-line errors."""

import json
import re

import pytest

from launch.cli import DONE, MISTAKE, main
from launch.commands.evaluate import parser, run
from research.record.metric_writer import latest_metrics, read_metrics
from research.record.workdir import read_result
from tests.testing import tiny_runs

ROWS = [("the old stone", "x"), ("a small river", "y"), ("by and by", "x")] * 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run on a task, in `run`, and other files of the task."""
    folder = tiny_runs.write_corpus(tmp_path_factory.mktemp("evaluate"))
    splits = {"train": ROWS * 5, "valid": ROWS, "test": ROWS[1:6], "other": ROWS[:4]}
    for name, rows in splits.items():
        lines = (f"{text}\t{label}\n" for text, label in rows)
        (folder / f"{name}.tsv").write_text("".join(lines))
    (folder / "unlabelled.tsv").write_text("the river\t\n")
    files = {
        f"data.{name}": str(folder / f"{name}.tsv")
        for name in splits
        if name != "other"
    }
    keys = {"data.fields": "0", "data.label": "1", "data.vocabulary": "bytebpe"}
    keys |= {"data.vocabulary_size": 264, "data.sentinels": 2, "train.steps": 4}
    keys |= {"train.eval_every": 2}
    config = tiny_runs.tiny_config(folder, "finetune", **files, **keys)
    tiny_runs.train(config, folder / "run")
    return folder


def evaluate(capsys, *flags):
    """The exit code, the metrics on stdout, the folder on its last line, and stderr."""
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), list(flags))
    out, error = capsys.readouterr()
    *lines, folder = out.splitlines() or [""]
    values = dict(line.split(maxsplit=1) for line in lines)
    return stop.value.code, values, folder, error


def test_the_last_evaluation_again(folder, capsys):
    code, metrics, place, error = evaluate(capsys, f"--workdir={folder}/run")
    assert code == DONE
    is_told = "warning: Matthews' correlation is 0" in error
    assert is_told == (float(metrics["valid/matthews"].split(" ± ")[0]) == 0)
    logged = latest_metrics(read_metrics(folder / "run"))
    for name in ("loss", "accuracy", "f1", "matthews"):
        own = float(metrics[f"valid/{name}"].split(" ± ")[0])
        assert own == pytest.approx(logged[f"valid/{name}"], rel=1e-5)
    with open(f"{place}/predictions.jsonl") as file:
        items = list(map(json.loads, file))
    with open(f"{folder}/run/predictions/valid.jsonl") as file:
        of_training = list(map(json.loads, file))
    for item, own in zip(items, of_training, strict=True):
        assert item.pop("probabilities") == pytest.approx(
            own.pop("probabilities"), rel=1e-4
        )
    assert items == of_training
    assert [item["texts"] for item in items] == [[text] for text, _ in ROWS]
    assert [item["gold"] for item in items] == [label for _, label in ROWS]
    assert [item["id"] for item in items] == [f"valid.tsv:{n + 1}" for n in range(21)]
    margins = read_result(folder / "run")["margins"]
    margin = float(metrics["valid/f1"].split(" ± ")[1])
    assert margin == pytest.approx(margins["valid/f1"], rel=0.05)
    assert "test/f1" in margins and "valid/loss" not in margins
    right = sum(item["prediction"] == item["gold"] for item in items)
    assert right / len(items) == pytest.approx(logged["valid/accuracy"])
    assert right == sum(item["score"] for item in items)
    assert re.search("accuracy, f1.*: from 0 to 1; .*matthews.*: from -1 to 1", error)
    found = read_result(folder / "run")["ranges"]
    assert found["valid/f1"] == found["test/f1"] == [0, 1]
    assert found["valid/matthews"] == [-1, 1] and "valid/loss" not in found


def test_an_evaluation_with_other_values_has_a_folder_of_its_own(folder, capsys):
    _, _, own, _ = evaluate(capsys, f"--workdir={folder}/run")
    flags = [f"--workdir={folder}/run", "--config.train.accumulate=2"]
    _, _, other, _ = evaluate(capsys, *flags)
    _, _, again, _ = evaluate(capsys, *flags, "--config.train.checkpoint_every=3")
    assert other.rpartition(".")[0] == own and again == other


def test_the_test_split_is_scored_once_at_the_end(folder):
    result, lines = read_result(folder / "run"), read_metrics(folder / "run")
    tested = [line for line in lines if "test/accuracy" in line]
    assert [line["step"] for line in tested] == [4]
    assert len([line for line in lines if "valid/accuracy" in line]) == 2
    tested = (folder / "run" / "predictions" / "test.jsonl").read_text().splitlines()
    scores = result["item_scores"]
    assert [json.loads(line)["score"] for line in tested] == scores["test"]
    assert {split: len(each) for split, each in scores.items()} == {
        "valid": 21,
        "test": 5,
    }
    for split, each in scores.items():
        assert sum(each) / len(each) == pytest.approx(
            result["metrics"][f"{split}/accuracy"]
        )
    assert result["provenance"]["test_data"] != result["provenance"]["data"]


def test_other_files_and_files_without_labels(folder, capsys):
    flags = [f"--workdir={folder}/run", f"--config.data.valid={folder}/other.tsv"]
    code, metrics, place, _ = evaluate(capsys, *flags)
    assert code == DONE and "valid/f1" in metrics
    with open(f"{place}/predictions.jsonl") as file:
        assert len(file.readlines()) == 4
    flags = [f"--workdir={folder}/run", f"--config.data.test={folder}/unlabelled.tsv"]
    code, metrics, place, _ = evaluate(capsys, *flags, "--config.data.eval_split=test")
    assert code == DONE and not [name for name in metrics if name.startswith("test/")]
    with open(f"{place}/predictions.jsonl") as file:
        item = json.loads(file.read())
    assert item["gold"] is item["score"] is None and item["prediction"] in ("x", "y")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--workdir={0}/none"], "is not a run"),
        (["--workdir={0}/run", "--step=7"], "has checkpoints of the steps"),
        (
            ["--workdir={0}/run", "--config.model.width=8"],
            "model.width cannot be changed",
        ),
        (["--workdir={0}/run", "--config.data.valid={0}/none"], "data.valid is"),
    ],
)
def test_a_mistake_gives_one_line(folder, capsys, flags, words):
    flags = [flag.format(folder) for flag in flags]
    code, _, _, error = evaluate(capsys, *flags)
    assert code == MISTAKE
    assert words in error.splitlines()[-1]


def test_texts_are_written_at_the_end_and_scored(folder, capsys, tmp_path):
    """Of all examples, in their order, cut to the target's length; once a run."""
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in ROWS[:3]))
    files = dict.fromkeys(("data.train", "data.valid"), f"{tmp_path}/pairs.tsv")
    keys = {"data.fields": "0,1", "data.vocabulary": "bytebpe", "train.steps": 4}
    keys |= {"data.vocabulary_size": 264, "data.sentinels": 2, "train.batch": 8}
    keys |= {"objective.target_length": 6, "objective.beams": 2, "train.eval_every": 2}
    keys |= {"objective.name": "sequence_to_sequence"}
    tiny_runs.train(
        tiny_runs.tiny_config(folder, "finetune", **files, **keys), tmp_path / "run"
    )
    lines = read_metrics(tmp_path / "run")
    assert ["valid/bleu" in line for line in lines if "valid/loss" in line] == [
        False,
        True,
    ]
    code, found, place, error = evaluate(capsys, f"--workdir={tmp_path}/run")
    assert code == DONE, error
    assert float(found["valid/chrf"].split(" ± ")[0]) == pytest.approx(
        latest_metrics(lines)["valid/chrf"], rel=1e-5
    )
    with open(f"{place}/predictions.jsonl") as file:
        items = list(map(json.loads, file))
    assert [item["gold"] for item in items] == [label for _, label in ROWS[:3]]
    assert all(0 <= item["score"] <= 1 for item in items)
