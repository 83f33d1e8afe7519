"""curves: the points of a run's metrics over what they cost."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from etils import epath

from launch.cli import DONE, MISTAKE, main
from launch.commands import curves
from launch.reports.bars import curve_bars
from launch.reports.figures import overlaid_figure
from launch.reports.run_costs import axis_unit
from launch.reports.run_differences import read_run
from launch.sweeps import sweep_plan
from research.record.workdir import read_result, write_result


@pytest.fixture(scope="module")
def runs(trained_sweep):
    """The folders of lm and mlm."""
    trials = sweep_plan.read_plan(trained_sweep / "sweep")
    return [str(trial.folder) for trial in reversed(trials)]


def call(capsys, *words):
    """The exit code, and what was printed."""
    with pytest.raises(SystemExit) as caught:
        main(curves.run, curves.parser(), list(words))
    out, err = capsys.readouterr()
    return caught.value.code, out + err


def test_bars_share_one_scale_and_end_where_a_curve_ends():
    long, short = curve_bars([{1.0: 8.0, 40.0: 1.0}, {20.0: 4.5}])
    assert long.startswith("█") and long.endswith("▁ 8 to 1")
    assert short == f"{19 * ' '}▅{20 * ' '} 4.5 to 4.5"


def test_points_that_are_no_numbers_have_a_sign():
    """Those of a run that diverged; the scale is that of the others."""
    nan, inf = float("nan"), float("inf")
    broken, whole, none = curve_bars([{1.0: 8.0, 20.0: nan}, {40.0: 1.0}, {40.0: inf}])
    assert broken == f"█{19 * '×'}{20 * ' '} 8 to nan"
    assert (whole[39:], none[39:]) == ("▁ 1 to 1", "× inf to inf")
    assert next(curve_bars([{40.0: nan}])) == f"{39 * ' '}× nan to nan"


def test_a_run_is_drawn_by_the_first_metric_that_it_has(runs, capsys):
    texts = []
    for metric in ("train/loss", "train/x,train/loss", "tokens_seen,train/loss"):
        code, text = call(capsys, runs[0], f"--metric={metric}")
        assert code == DONE
        texts.append(text.splitlines()[1])
    assert texts[0] == texts[1] != texts[2]
    code, text = call(capsys, runs[0], "--metric=train/x,y")
    assert code == MISTAKE and "train/x,y" in text


@pytest.mark.parametrize("over", curves.AXES)
def test_every_point_is_written(over, runs, capsys, tmp_path):
    file = tmp_path / "points.csv"
    flags = ["--metric=train/loss", f"--over={over}", f"--to={file}"]
    code, text = call(capsys, *runs[:2], *flags)
    shown = {"flops": "GFLOP"}.get(over, curves.AXES[over])
    assert code == DONE and f"lm: train/loss over {shown}\n" in text
    header, *points = csv.reader(file.open())
    assert header == ["run", curves.AXES[over], "train/loss"]
    for path in runs[:2]:
        trials = curves.sweep_trials(runs[:2])
        name = curves.short_names(runs[:2], trials)[runs.index(path)]
        lines = [json.loads(x) for x in (Path(path) / "metrics.jsonl").open()]
        expected = [line for line in lines if "train/loss" in line]
        own = [(float(x), float(y)) for run, x, y in points if run == name]
        assert [y for _, y in own] == [line["train/loss"] for line in expected]
        if over == "tokens":
            seen = [line["tokens_seen"] / 1e6 for line in expected]
            assert [x for x, _ in own] == pytest.approx(seen)
        if over == "flops":
            result = json.loads((Path(path) / "result.json").read_text())
            each = result["flops_per_step"] / 1e15
            steps = [line["step"] for line in expected]
            assert [x for x, _ in own] == pytest.approx([each * n for n in steps])


@pytest.mark.parametrize(
    ("form", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_a_figure_is_the_same_each_time(form, start, runs, capsys, tmp_path):
    files = [tmp_path / f"{name}.{form}" for name in "ab"]
    for file in files:
        assert call(capsys, *runs[:2], "--metric=train/loss", f"--to={file}")[0] == DONE
    one, two = (file.read_bytes() for file in files)
    assert one == two and one.startswith(start)


def test_trials_have_their_names_and_other_runs_their_paths(runs, tmp_path):
    for name in ("one/x", "two"):
        shutil.copytree(runs[0], tmp_path / name)
    own = [str(tmp_path / "one" / "x"), str(tmp_path / "two")]
    assert curves.short_names(own, curves.sweep_trials(own)) == ["one/x", "two"]
    assert curves.short_names(runs[:1], curves.sweep_trials(runs)) == ["lm"]


def test_trials_of_two_sweeps_with_one_name_have_their_sweeps_folder(
    trained_sweep, runs, capsys, tmp_path
):
    for name in ("one", "two"):
        shutil.copytree(trained_sweep / "sweep", tmp_path / name)
    both = [str(tmp_path / name / Path(runs[0]).name) for name in ("one", "two")]
    assert curves.short_names(both, curves.sweep_trials(both)) == ["one/lm", "two/lm"]
    code, text = call(capsys, *both, "--metric=train/loss")
    assert code == DONE and [line[:6] for line in text.splitlines()[1:]] == [
        "one/lm",
        "two/lm",
    ]


def test_each_objective_has_a_panel_and_seeds_have_one_color(runs, tmp_path):
    seed = tmp_path / "seed"
    shutil.copytree(runs[0], seed)
    config = json.loads((seed / "config.json").read_text()) | {"seed": 5}
    (seed / "config.json").write_text(json.dumps(config))
    copy = shutil.copytree(runs[0], tmp_path / "other")
    paths = [str(copy), runs[1], str(seed)]
    found = curves.read_curves(paths, "train/loss", "steps", "objectives")
    lm, mlm, of_seed = (curve.panel for curve in found)
    assert (lm, mlm) == ("lm: train/loss", "mlm: train/loss") and of_seed == lm
    (one,) = {found[0].row, found[2].row}
    assert one.count(", ") == 1 and found[1].row == "mlm"
    panels = [panel for panel in overlaid_figure(found, "steps").axes if panel.lines]
    assert [len(panel.lines) for panel in panels] == [2, 1]
    colors = [[line.get_color() for line in panel.lines] for panel in panels]
    assert colors[0][0] == colors[0][1] != colors[1][0]
    (title,) = {
        c.panel for c in curves.read_curves(paths, "train/loss", "steps", "one")
    }
    assert title == "train/loss (of different objective.name)"


def test_a_panel_names_the_keys_in_which_its_objectives_differ(runs, tmp_path):
    other = shutil.copytree(runs[1], tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    config["objective"]["rate"] = 0.4
    (other / "config.json").write_text(json.dumps(config))
    found = curves.read_curves([*runs, str(other)], "train/loss", "steps", "objectives")
    assert [curve.panel for curve in found] == [
        "lm: train/loss",
        *2 * ["mlm: train/loss (of different objective.rate)"],
    ]


@pytest.mark.parametrize("groups", [("topic", "tags"), ("tags", "pretraining")])
def test_a_row_of_a_table_and_its_task_name_the_curve(trained_sweep, tmp_path, groups):
    """Those of pretrainings come first."""
    shutil.copytree(trained_sweep / "sweep", tmp_path / "sweep")
    plan = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    for trial, group in zip(plan["trials"], groups, strict=True):
        trial |= {"row": "small", "group": group, "name": f"{trial['name']} seed=1"}
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(plan))
    words = [str(tmp_path / "sweep")], "x,train/loss", "steps", "objectives"
    mlm = ("mlm seed=1", "small", f"{groups[0]}: train/loss")
    lm = (
        "lm seed=1",
        "small",
        f"{'lm' if 'pretraining' in groups else 'tags'}: train/loss",
    )
    found = [curve[:3] for curve in curves.read_curves(*words)]
    assert found == ([lm, mlm] if "pretraining" in groups else [mlm, lm])


def test_a_sweep_stands_for_its_trials_that_have_begun(runs, capsys, tmp_path):
    for path in (Path(runs[0]), Path(runs[0]).parent / "sweep.json"):
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, tmp_path / path.name)
    code, text = call(capsys, str(tmp_path), "--metric=train/loss")
    assert code == DONE and "\nlm " in text
    assert f"{tmp_path}: 1 of 2 trials have no metrics yet" in text


def _with_result(run, folder, **changes):
    """A copy of a run with changes of its result; None: without."""
    shutil.copytree(run, folder)
    result = read_result(epath.Path(folder)) | changes
    known = {key: value for key, value in result.items() if value is not None}
    write_result(epath.Path(folder), known)
    return str(folder)


def test_each_phase_has_its_own_flops(runs, tmp_path):
    """A run of six steps, of which the last two cost ten times as much."""
    lines = [json.loads(x) for x in (Path(runs[0]) / "metrics.jsonl").open()]
    steps = [line["step"] for line in lines if "train/loss" in line]
    flops = {"flops_to": [[4, 4e15], [6, 24e15]], "flops_per_step": 4e15}
    run = _with_result(runs[0], tmp_path / "run", **flops)
    _, points = curves.curve(read_run(run), "train/loss", "flops")
    expected = [step if step <= 4 else 10 * step - 36 for step in steps]
    assert [*points] == pytest.approx(expected) and steps == [3, 6]


@pytest.mark.parametrize(
    ("unit", "most", "expected"),
    [
        ("PFLOP", 2.0, ("PFLOP", 2.0)),
        ("PFLOP", 1.0, ("PFLOP", 1.0)),
        ("PFLOP", 0.5, ("TFLOP", 500.0)),
        ("PFLOP", 0.0001, ("GFLOP", 100.0)),
        ("PFLOP", 1e-8, ("GFLOP", 0.01)),
        ("M tokens", 1e-8, ("M tokens", 1e-8)),
    ],
)
def test_an_axis_has_the_unit_of_its_size(unit, most, expected):
    name, factor = axis_unit(unit, most)
    assert (name, factor * most) == (expected[0], pytest.approx(expected[1]))


@pytest.mark.parametrize(
    ("points", "marker"), [({1.0: 3.0}, "o"), ({1.0: 3.0, 2.0: 2.0}, "")]
)
def test_a_curve_of_one_point_has_a_marker(points, marker):
    drawn = overlaid_figure([curves.Curve("a", "a", "lm", points)], "steps")
    assert drawn.axes[0].lines[0].get_marker() == marker


def test_a_run_that_goes_on_has_no_flops_yet(runs, capsys, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs[0], run)
    (run / "result.json").unlink()
    words = [str(run), "--metric=train/loss"]
    assert call(capsys, *words)[0] == DONE
    code, text = call(capsys, *words, "--over=flops")
    assert code == MISTAKE and "has not ended" in text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["{run}", "--metric=train/los"], "did you mean train/loss"),
        (["{run}", "{run}"], "is named twice"),
        (["{run}", "--to=x.gif"], "unknown ending of --to 'gif'"),
        (["{run}", "--over=cost"], "--over"),
        (["{run}/checkpoints"], "is not a run"),
        (["{sweep}"], "no trial of this sweep has metrics yet"),
    ],
)
def test_wrong_input_is_one_line(runs, capsys, tmp_path, words, reason):
    shutil.copy(Path(runs[0]).parent / "sweep.json", tmp_path)  # none has begun
    paths = {"run": runs[0], "sweep": tmp_path}
    code, text = call(capsys, *(word.format(**paths) for word in words))
    assert code == MISTAKE and reason in text and text.count("\n") == 1
