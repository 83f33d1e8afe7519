"""`launch.sweep` status, logs, resume and stop, which read the files of a sweep."""

import json
import time

import pytest

from launch import sweep
from launch.backends import scheduler
from launch.cli import main
from launch.sweeps import sweep_plan
from research.files.paths import absolute_path
from tests.testing import fake_backend


@pytest.fixture
def do(tmp_path, sweep_file, backend, capsys):
    """do(*words) -> exit code, stdout, stderr; the first word may be an action."""

    def do(*words):
        words = [*words, f"--workdir={tmp_path / 'work'}"]
        if words[0].startswith("-"):
            words += [f"--sweep={sweep_file}", "--on=fake"]
        with pytest.raises(SystemExit) as caught:
            main(sweep.run, sweep.parser(), words)
        return caught.value.code, *capsys.readouterr()

    do.workdir = tmp_path / "work"
    return do


def test_a_preemption_costs_no_retry(do, backend):
    _, codes = backend
    codes.update({0: 75, 1: fake_backend.LOST, 2: 75})
    code, out, _ = do("--retries=0")
    assert code == 0 and "4 of 4" in out
    assert len(backend[0]) == 4 + 3


def test_the_number_of_preemptions_is_limited(do, backend):
    started, codes = backend
    codes.update(dict.fromkeys(range(3), 75))
    code, _, err = do("--retries=9", "--preemptions=2")
    assert code == 1 and "error: mlm: preempted" in err
    assert len(started) == 3 + 1  # the trial without a parent


@pytest.mark.parametrize("code", [2, 3])
def test_a_user_error_or_non_finite_loss_is_not_retried(do, backend, code):
    started, codes = backend
    codes[0] = code
    assert do("--retries=9")[0] == 1
    assert started.count(started[0]) == 1


def test_a_job_that_never_starts_is_a_failure(do, backend):
    started, codes = backend
    codes.update({0: fake_backend.NEVER_STARTED, 1: fake_backend.NEVER_STARTED})
    assert do("--retries=1")[0] == 1
    assert started.count(started[0]) == 2
    assert do("--retries=0")[0] == 0


def test_resume_uses_the_flags_of_the_sweep(do, backend):
    codes = backend[1]
    codes[1] = 130  # while the second trial runs
    assert do("--parallel=2", "--fake.colour=red", "--config.model.layers=3")[0] == 130
    assert not scheduler.read_handles(absolute_path(do.workdir))
    codes.clear()
    before = [trial.id for trial in sweep_plan.read_plan(do.workdir)]
    code, out, _ = do("resume")
    assert code == 0 and "4 of 4" in out
    assert [trial.id for trial in sweep_plan.read_plan(do.workdir)] == before
    header = sweep_plan.read_header(do.workdir)
    assert header["round"] == 2 and header["flags"] == {"fake.colour": "red"}
    assert {t.config["model.layers"] for t in sweep_plan.read_plan(do.workdir)} == {3}


def test_resume_has_other_limits_where_they_are_given(do, backend):
    started, codes = backend
    codes.update(dict.fromkeys(range(99), 1))
    assert do("--retries=0", "--preemptions=9")[0] == 1
    assert "--parallel=0" in do("resume", "--parallel=0")[2]
    assert do("resume", "--retries=1", "--parallel=2")[0] == 1
    assert len(started) == 2 + 4  # the trials without a parent, then these twice
    assert fake_backend.Backend.max_alive == 2
    header = sweep_plan.read_header(do.workdir)
    limits = [header[name] for name in ("parallel", "retries", "preemptions")]
    assert limits == [2, 1, 9]


def test_resume_with_dry_run_shows_the_trials_and_runs_none(do, backend):
    backend[1][0] = 130
    assert do()[0] == 130
    backend[0].clear()
    first, child, *_ = sweep_plan.read_plan(do.workdir)
    code, out, _ = do("resume", "--dry_run", f"--trial={child.id}")
    assert code == 0 and not backend[0]
    shown = [line.split()[0] for line in out.splitlines()[::2]]
    assert shown == [first.id, child.id]
    assert sweep_plan.read_header(do.workdir)["round"] == 1


def test_run_runs_the_trials_that_are_named(do, backend):
    code, out, _ = do("--trial=steps=7")
    assert code == 0 and "1 of 1" in out
    done = [trial.done for trial in sweep_plan.read_plan(do.workdir)]
    assert done == [False, False, False, True]


def test_resume_retries_a_user_error(do, backend):
    started, codes = backend
    codes.update({0: 2, 1: 2})
    assert do("--retries=0")[0] == 1
    assert do("resume")[0] == 0
    assert len(started) == 2 + 4


def test_jobs_of_a_backend_that_outlives_its_driver_are_adopted(do, backend):
    started, codes = backend
    fake_backend.Backend.detached = True
    codes[1] = 130
    assert do("--parallel=2")[0] == 130
    left = scheduler.read_handles(absolute_path(do.workdir))
    assert 1 in [json.loads(job)[0] for job in left.values()]
    codes.clear()
    assert do("resume")[0] == 0
    assert len(started) == 4


def test_jobs_that_still_run_are_found_after_a_resume_of_another(do, backend):
    codes = backend[1]
    fake_backend.Backend.detached = True
    codes.update({0: fake_backend.GOES_ON, 1: 130})
    assert do("--parallel=2")[0] == 130
    codes.pop(1)
    assert do("resume", "--trial=steps=7")[0] == 0
    first, *_, last = sweep_plan.read_plan(do.workdir)
    assert last.done
    assert [*scheduler.read_handles(absolute_path(do.workdir))] == [first.id]
    assert do("stop")[0] == 0
    assert fake_backend.Backend.num_alive == 0


def test_a_job_that_ends_during_a_resume_of_another_is_forgotten(do, backend):
    fake_backend.Backend.detached = True
    backend[1][0] = 130
    assert do("--parallel=2")[0] == 130
    backend[1].clear()
    assert do("resume", "--trial=steps=7")[0] == 0
    assert sweep_plan.read_plan(do.workdir)[0].done
    assert not scheduler.read_handles(absolute_path(do.workdir))


def test_status_shows_each_state_without_a_driver(do, backend):
    codes = backend[1]
    fake_backend.Backend.detached = True
    codes.update({0: 2, 1: 130})
    do("--retries=0", "--parallel=2")
    code, out, _ = do("status")
    assert code == 0
    header, *rows = out.splitlines()
    assert "on fake: 0 of 4" in header and "no driver is running" in header
    states = {row.split()[0]: row.split()[1] for row in rows}
    first, child, other, last = sweep_plan.read_plan(do.workdir)
    assert states[first.id] == "failed" and states[last.id] == "queued"
    assert states[child.id] == states[other.id] == "waiting"
    assert "exit code 2" in rows[0] and str(first.folder) in rows[0]
    assert "for mlm" in out
    file = last.folder / "attempts/00001.0.json"
    process = json.loads(file.read_text()) | {"heartbeat": time.time(), "host": "here"}
    file.write_text(json.dumps(process))
    (last.folder / "metrics.jsonl").write_text('{"step": 5}\n')
    row = do("status")[1].splitlines()[4]
    assert row.split()[1] == "running" and "step 5 of 7, on here" in row


def test_status_of_a_trial_lists_each_attempt_at_it(do, backend):
    codes = backend[1]
    codes.update({0: 75, 1: fake_backend.LOST, 2: 2})
    do("--retries=0")
    first = sweep_plan.read_plan(do.workdir)[0]
    file = first.folder / "attempts/00000.0.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"step": 5}))
    lines = do("status", f"--trial={first.id[:6]}")[1].splitlines()
    rows = lines[lines.index(f"==> {first.name}") + 1 :]
    assert [row.split(":")[0] for row in rows] == [f"attempt {n}" for n in (1, 2, 3)]
    ends = ["preempted, step 5", "lost with nowhere, step unknown", "exit code 2, step"]
    for row, end in zip(rows, ends, strict=True):
        assert ", nowhere, " in row and end in row
    assert do("status", "--trial=nobody")[0] == 2


def test_status_names_a_running_driver(do, backend):
    codes = backend[1]
    codes[0] = 2
    do()
    with scheduler.only_driver(absolute_path(do.workdir)):
        assert "driver: process" in do("status")[1]
        assert do("resume")[0] == 2


def test_logs_are_those_of_unfinished_or_named_trials(do, backend):
    codes = backend[1]
    codes[0] = 2
    do("--retries=0")
    _, out, _ = do("logs", "--lines=1")
    assert out.count("==>") == 1 and "some line" not in out and "the last line" in out
    last = sweep_plan.read_plan(do.workdir)[-1]
    assert last.done
    for name in (last.id[:6], "steps=7"):
        assert "some line" in do("logs", f"--trial={name}", "--lines=0")[1]
    assert do("logs", "--trial=nobody")[0] == 2


def test_stop_cancels_the_submitted_jobs(do, backend):
    codes = backend[1]
    fake_backend.Backend.detached = True
    codes[0] = 130
    do()
    assert fake_backend.Backend.num_alive == 1
    assert do("stop")[0] == 0
    assert fake_backend.Backend.num_alive == 0
    assert "queued" not in do("status")[1]


@pytest.mark.parametrize(
    "words, message",
    [
        (("statsu",), "did you mean status"),
        (("status",), "holds no sweep"),
        (("resume",), "holds no sweep"),
        (("resume", "--config.seed=1"), "resume does not read --config.seed; it reads"),
        (("resume", "--scale=paper"), "resume does not read --scale; it reads"),
        (("stop", "--trial=seed=1"), "stop does not read --trial; it reads --workdir"),
        (("status", "--lines=1"), "status does not read --lines"),
        (("--lines=1",), "--lines is read only by logs"),
        (("--trial=nobody",), "no trial has this id or name"),
        (("--retries=-1",), "--retries"),
        (("--gpus=-1",), "--gpus"),
        (("--slice=v5e",), "v5e:16x16"),
        (("--fake.color=x",), "--fake.colour"),
    ],
)
def test_a_user_error_is_one_line(do, words, message):
    code, _, err = do(*words)
    assert code == 2 and message in err and err.count("\n") == 1


def test_the_status_of_a_sweep_without_trials(do, backend):
    assert do()[0] == 0
    path = do.workdir / "sweep.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"trials": []}))
    code, out, _ = do("status")
    assert code == 0 and "0 of 0 trials have a result" in out


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1}', "[" * 9999])
@pytest.mark.parametrize("file", ["jobs.json", "attempts/*.json"])
def test_a_damaged_file_is_named_with_the_way_out(do, backend, content, file):
    backend[1][0] = 2
    assert do("--retries=0")[0] == 1
    folder = do.workdir if file == "jobs.json" else backend[0][0]
    path = next(folder.glob(file))
    path.write_text(content)
    code, _, err = do("status")
    assert code == 2 and err.count("\n") == 1
    assert f"{path} is damaged" in err and "delete it" in err


def test_resume_runs_the_trials_that_are_named_and_what_they_start_from(do, backend):
    started, codes = backend
    codes.update(dict.fromkeys(range(99), 2))
    assert do("--retries=0")[0] == 1
    codes.clear()
    started.clear()
    code, out, _ = do("resume", "--trial=seed=1")
    assert code == 0 and "2 of 2" in out
    planned = sweep_plan.read_plan(do.workdir)
    assert [trial.done for trial in planned] == [True, False, True, False]


def test_a_sweep_with_the_earlier_key_of_trackers_is_read(do):
    assert do()[0] == 0
    before = [trial.id for trial in sweep_plan.read_plan(do.workdir)]
    path = do.workdir / "sweep.json"
    plan = json.loads(path.read_text())
    for row in plan["trials"]:
        row["config"]["train.wandb"] = row["config"].pop("train.track")
    path.write_text(json.dumps(plan))
    trials = sweep_plan.read_plan(do.workdir)
    assert [trial.id for trial in trials] == before
    assert {trial.config["train.track"] for trial in trials} == {""}
