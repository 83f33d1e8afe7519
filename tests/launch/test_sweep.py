"""`launch.sweep` runs each trial that has no result once, after its parents."""

import pytest

from launch import sweep
from launch.cli import main
from launch.sweeps import sweep_plan
from tests.testing import fake_backend


def _plan(file, workdir):
    return sweep_plan.make_plan(file, workdir, scale="smoke", shared={})


def _sweep(file, workdir, *flags):
    words = [f"--sweep={file}", f"--workdir={workdir}", "--on=fake", *flags]
    with pytest.raises(SystemExit) as caught:
        main(sweep.run, sweep.parser(), words)
    return caught.value.code


def test_only_trials_without_a_result_run(sweep_file, tmp_path, backend):
    started, _ = backend
    assert _sweep(sweep_file, tmp_path) == 0
    assert started == [trial.folder for trial in _plan(sweep_file, tmp_path)]
    assert _sweep(sweep_file, tmp_path) == 0
    assert len(started) == 4
    (started[2] / "result.json").unlink()
    assert _sweep(sweep_file, tmp_path) == 0
    assert started[4:] == [started[2]]


def test_a_failure_stops_only_its_children(sweep_file, tmp_path, backend, capsys):
    started, codes = backend
    codes[0] = 2  # exit code of the parent
    assert _sweep(sweep_file, tmp_path) == 1
    done = [trial.done for trial in _plan(sweep_file, tmp_path)]
    assert done == [False, False, False, True]
    assert len(started) == 2
    printed = capsys.readouterr()
    assert printed.err.count("since mlm has no result") == 2
    assert "the last line" in printed.err
    first, *_ = printed.err.splitlines()
    assert first.startswith("[0/4] 4 trials to run, 1 at a time; a trial")
    assert "1 of 4 trials" in printed.out


@pytest.mark.parametrize("retries, code", [(0, 1), (1, 1), (2, 0)])
def test_crashes_are_retried_within_the_budget(
    sweep_file, tmp_path, backend, retries, code
):
    started, codes = backend
    codes.update({0: -9, 1: 1})
    assert _sweep(sweep_file, tmp_path, f"--retries={retries}") == code
    assert len(started) == 2 + retries + (2 if code == 0 else 0)


@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_no_more_than_parallel_trials_run_at_a_time(
    sweep_file, tmp_path, backend, parallel
):
    assert _sweep(sweep_file, tmp_path, f"--parallel={parallel}") == 0
    # Two trials are ready at first: the parent and the one without a parent.
    assert fake_backend.Backend.max_alive == min(parallel, 2)
    assert fake_backend.Backend.num_alive == 0


def test_an_interrupted_sweep_ends_its_jobs_and_can_be_resumed(
    sweep_file, tmp_path, backend
):
    started, codes = backend
    codes[1] = 130
    assert _sweep(sweep_file, tmp_path) == 130
    codes.clear()
    assert _sweep(sweep_file, tmp_path) == 0
    assert len(started) == 2 + 3


def test_dry_run_prints_the_trials_and_writes_nothing(
    sweep_file, tmp_path, backend, capsys
):
    workdir = tmp_path / "new"
    assert _sweep(sweep_file, workdir, "--dry_run") == 0
    printed = capsys.readouterr().out
    assert all(trial.id in printed for trial in _plan(sweep_file, workdir))
    assert not workdir.exists() and not backend[0]


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--on=slrum:gpu", "slurm"),
        ("--scale=smok", "smoke"),
        ("--sweep=nowhere.py", "nowhere.py"),
        ("--sweep=experiments/mlm.py", "sweep(scale)"),
        ("--parallel=0", "--parallel"),
        ("--config.train.stepz=1", "train.steps"),
    ],
)
def test_a_user_error_is_one_line(sweep_file, tmp_path, backend, capsys, flag, message):
    assert _sweep(sweep_file, tmp_path, flag) == 2
    *before, error = capsys.readouterr().err.splitlines()
    assert message in error and len(before) <= 1 and "error" not in "".join(before)


def test_more_jobs_at_a_time_than_there_are_cores_are_refused(
    sweep_file, tmp_path, capsys
):
    flags = "--on=local", "--local.cores=1", "--parallel=100000"
    assert _sweep(sweep_file, tmp_path, *flags) == 2
    assert "--parallel=100000: this machine has cores for" in capsys.readouterr().err
    assert not any(path.is_dir() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"data.corpus": "{folder}/text.txt"}, ""),
        ({"data.corpus": "{folder}/txt.txt"}, "did you mean"),
        ({"data.train": "{folder}/text.txt"}, "name those of data.valid too"),
        ({"data.train": "tfds:none", "data.valid": "tfds:none"}, ""),
        (
            {"data.train": "{folder}/text.txt", "data.valid": "{folder}/v.tsv"},
            "no such files",
        ),
    ],
)
def test_dry_run_finds_the_files_of_text(tmp_path, capsys, keys, message):
    (tmp_path / "text.txt").write_text("a text\n")
    keys = {key: value.format(folder=tmp_path) for key, value in keys.items()}
    file, name = tmp_path / "sweep.py", next(iter(keys))
    file.write_text(f"def sweep(scale):\n    yield 'experiments/lm.py', {keys!r}\n")
    code = _sweep(file, tmp_path / "new", "--dry_run", "--on=local")
    out, error = capsys.readouterr()
    assert "to do" in out and (code, message in error) == (2 * bool(message), True)
    assert error.count("\n") == bool(message) and (not message or name[:5] in error)


def test_dry_run_of_a_student_does_not_look_for_its_teacher(tmp_path, capsys):
    file = tmp_path / "sweep.py"
    file.write_text(
        "def sweep(scale):\n"
        "    teacher = 'experiments/bert.py:tiny', {}\n"
        "    student = {'objective.teacher': teacher}\n"
        "    yield 'experiments/distilbert.py:tiny', student\n"
    )
    code = _sweep(file, tmp_path / "new", "--dry_run", "--on=local")
    out, error = capsys.readouterr()
    assert (code, out.count("to do"), error) == (0, 2, "")
