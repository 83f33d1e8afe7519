"""Runs of an earlier version resume, open and fill their table."""

import json
from pathlib import Path

import numpy as np
import pytest
from etils import epath
from ml_collections import ConfigDict

from launch import table
from launch.config import load_config
from launch.config_values import flatten
from launch.sweeps.sweep_plan import make_plan, read_plan
from research import train as loop
from research.config.identity import read_run_config
from research.use.inference.open_run import open_run
from tests.testing import earlier_runs
from tests.testing.tiny_runs import train


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    folder = earlier_runs.extract(tmp_path_factory.mktemp("earlier"))
    (folder / "experiments").symlink_to(Path(loop.__file__).parents[1] / "experiments")
    return folder


@pytest.fixture(autouse=True)
def in_folder(earlier, monkeypatch):
    monkeypatch.chdir(earlier)


def _trial(earlier, name):
    """The folder of the sweep's first trial of this objective with checkpoints."""
    trials = json.loads((earlier / "sweep" / "sweep.json").read_text())["trials"]
    folders = [
        earlier / "sweep" / t["id"] for t in trials if t["name"].startswith(name)
    ]
    return next((f for f in folders if (f / "checkpoints").exists()), folders[0])


def test_a_finished_sweep_has_nothing_left_to_run(earlier):
    planned = make_plan("sweep.py", "sweep", scale="smoke", shared={})
    for trials in (planned, read_plan("sweep")):
        assert len(trials) == 3
        for trial in trials:
            assert trial.done
            trial.check_result()


def _means(text):
    """Row -> the mean of its numbers: of two seeds, or what is before the interval."""
    rows = [line.split("|")[1:3] for line in text.splitlines() if "4." in line]
    numbers = {row.strip(): cell.split("±")[0].split(",") for row, cell in rows}
    return {row: np.mean([float(number) for number in numbers[row]]) for row in numbers}


def test_its_table_is_the_same(earlier, capsys):
    """But that two seeds had an interval then, and have their two numbers now."""
    table.run(table.parser().parse_args(["--table=table.py", "--workdir=sweep"]))
    today, before = capsys.readouterr().out, (earlier / "table.md").read_text()
    assert _means(today) == pytest.approx(_means(before), abs=1e-4)
    assert _means(before).keys() == {"mlm", "lm"}
    assert today.splitlines()[-1] == before.splitlines()[-1]


def test_a_stopped_run_goes_on_to_the_result_of_one_that_was_not(earlier):
    settings = read_run_config(epath.Path(_trial(earlier, "lm")))
    flat = flatten(ConfigDict(settings, allow_dotted_keys=True))
    resumed = train(load_config("experiments/lm.py", flat), "stopped")
    whole = json.loads((_trial(earlier, "lm") / "result.json").read_text())
    assert resumed["steps"] == 6
    for name, value in whole["metrics"].items():
        assert resumed["metrics"][name] == pytest.approx(value, rel=1e-5), name


def test_a_run_opens(earlier):
    model = open_run(_trial(earlier, "mlm"))
    assert np.isfinite(model.encode(["the old river"])).all()


def test_an_exported_model_gives_the_same_vectors(earlier):
    model = open_run("hf:exported")
    texts = (earlier / "texts.txt").read_text().splitlines()
    vectors = np.load(earlier / "vectors.npy")
    np.testing.assert_allclose(model.encode(texts), vectors, rtol=1e-5, atol=1e-6)
