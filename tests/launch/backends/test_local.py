"""The scheduler with the local backend: restarts, and drivers that take over."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from etils import epath

from launch.backends import attempt_log, local, run_attempt, scheduler
from launch.backends.attempt_log import Budget, ProcessRecord
from launch.backends.progress import JobProgress
from launch.backends.resources import Resources
from research.contract.errors import UserError
from tests.testing import fake_bucket
from tests.testing.script_jobs import ScriptJob, wait_until

PREEMPTED_UNTIL = """
import os, sys, time
folder = sys.argv[1]
with open(folder + "/attempts_made", "a") as file:
    file.write("x")
number = os.path.getsize(folder + "/attempts_made")
while not os.path.exists(folder + "/last_attempt"):
    time.sleep(0.02)
if number < int(open(folder + "/last_attempt").read()):
    os._exit(75)
open(folder + "/result.json", "w").write("{}")
"""
"""Waits for the file `last_attempt`; exits with 75 before the attempt that it names."""


def _run(workdir: epath.Path, jobs: list, **budget) -> dict:
    run = scheduler.Scheduler(
        jobs,
        local.Backend("", Resources()),
        JobProgress("jobs", len(jobs), 0),
        workdir=workdir,
        budget=Budget(**budget),
        parallel=2,
    ).run
    with scheduler.only_driver(workdir):
        return run()


def _make_jobs(workdir: Path, *last_attempts: int) -> list[ScriptJob]:
    """Jobs that are preempted before their last attempt, in folders of their own."""
    folders = [epath.Path(workdir / f"job{n}") for n in range(len(last_attempts))]
    for folder, number in zip(folders, last_attempts, strict=True):
        folder.mkdir(parents=True)
        (folder / "last_attempt").write_text(str(number))
    return [ScriptJob(folder, PREEMPTED_UNTIL) for folder in folders]


def test_a_preempted_job_is_restarted_within_its_own_budget(tmp_path):
    jobs = _make_jobs(tmp_path, 3, 1, 4)
    failed = _run(epath.Path(tmp_path), jobs, preemptions=2, retries=0)
    made = [(job.folder / "attempts_made").read_text() for job in jobs]
    assert made == ["xxx", "x", "xxx"]
    assert [job.done for job in jobs] == [True, True, False]
    assert "2 times" in failed[jobs[2]] or "preempted" in failed[jobs[2]]
    assert scheduler.read_handles(epath.Path(tmp_path)) == {}


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGINT])
def test_another_driver_takes_over(tmp_path, death):
    """A killed driver leaves its job running; an interrupted one stops it."""
    (job,) = _make_jobs(tmp_path, 1)
    (job.folder / "last_attempt").unlink()
    code = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored
        from etils import epath
        import importlib.util
        spec = importlib.util.spec_from_file_location('t', {__file__!r})
        spec.loader.exec_module(t := importlib.util.module_from_spec(spec))
        job = t.ScriptJob(epath.Path({str(job.folder)!r}), t.PREEMPTED_UNTIL)
        t._run(epath.Path({str(tmp_path)!r}), [job])
    """
    driver = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    wait_until((job.folder / "attempts_made").exists)
    workdir = epath.Path(tmp_path)
    assert scheduler.current_driver(workdir)["pid"] == driver.pid
    with (
        pytest.raises(UserError, match="another sweep"),
        scheduler.only_driver(workdir),
    ):
        pass
    driver.send_signal(death)
    driver.wait()
    assert scheduler.current_driver(workdir) is None
    assert run_attempt.is_running(job.folder) == (death == signal.SIGKILL)
    (job.folder / "last_attempt").write_text("1")
    assert _run(workdir, [job], round=2) == {}
    made = "x" if death == signal.SIGKILL else "xx"
    assert (job.folder / "attempts_made").read_text() == made
    assert len(attempt_log.read_attempts(job.folder)) == len(made)


def test_a_job_in_a_bucket_logs_to_standard_output(tmp_path, monkeypatch, capfd):
    folder = fake_bucket.install(monkeypatch, tmp_path) / "bucket" / "job"
    start, job = run_attempt.start_process, epath.Path("gs://bucket/job")
    monkeypatch.setattr(run_attempt.sys, "stdout", sys.__stdout__)
    code = run_attempt.run(["python", "-c", "print('runs'); 1 / 0"], job, Budget())
    assert code == 1 and "runs\n" in capfd.readouterr().out
    (attempt,) = attempt_log.read_attempts(job)
    assert attempt.root_cause.failure == "failure" and not run_attempt.is_running(job)

    def start_here(command, output, **options):
        return start(["python", "-c", "print('starts')"], output, **options)

    monkeypatch.setattr(run_attempt, "start_process", start_here)
    backend = local.Backend("", Resources())
    (handle,) = backend.submit([ScriptJob(job, "")], Budget()).values()
    wait_until(lambda: not backend.alive([handle]))
    assert "starts\n" in capfd.readouterr().out
    assert [path.name for path in folder.iterdir()] == ["attempts"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"host": "elsewhere"}, "is on elsewhere"),
        ({"process_start": "1"}, "is another one"),
        ({"process_start": ""}, "is another one"),
        ({"pid": 2**22 + 1}, "has ended"),
    ],
)
def test_only_the_same_process_of_this_machine_is_signalled(
    tmp_path, capsys, monkeypatch, change, reason
):
    """Ids of processes are given again, and each machine has its own."""
    signals, pid = [], os.getpid()
    record = ProcessRecord(
        *("1", 0, 1, socket.gethostname(), pid, 0.0, 0.0),
        process_start=attempt_log.process_start(pid),
    )
    dataclasses.replace(record, **change).write(epath.Path(tmp_path))
    monkeypatch.setattr(run_attempt, "is_running", lambda _: True)
    monkeypatch.setattr(local.os, "kill", lambda *words: signals.append(words))
    local.Backend("", Resources()).cancel([str(tmp_path)])
    assert signals == ([] if reason else [(pid, signal.SIGTERM)])
    error = capsys.readouterr().err
    assert reason in error and error.count("not stopped") == len(change)


def test_another_process_can_cancel_a_job(tmp_path):
    (job,) = _make_jobs(tmp_path, 1)
    (job.folder / "last_attempt").unlink()
    handles = local.Backend("", Resources()).submit([job], Budget()).values()
    wait_until((job.folder / "attempts_made").exists)
    other = local.Backend("", Resources())
    assert list(other.alive(handles)) == list(handles)
    other.cancel(handles)
    wait_until(lambda: not other.alive(handles))
    cause = attempt_log.read_attempts(job.folder)[0].root_cause
    assert cause.failure == "preemption"


SHOWS_CORES = """
import json, os, sys, time
folder = sys.argv[1]
time.sleep(0.2)
with open(folder + "/result.json", "w") as file:
    json.dump({"cores": sorted(os.sched_getaffinity(0))}, file)
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone")
def test_jobs_at_a_time_have_cores_of_their_own(tmp_path):
    own = sorted(os.sched_getaffinity(0))
    backend = local.Backend("", Resources(), cores=1)
    assert backend.default_parallel == backend.max_parallel == len(own)
    folders = [epath.Path(tmp_path / f"job{n}") for n in range(len(own) + 1)]
    jobs = [ScriptJob(folder, SHOWS_CORES) for folder in folders]
    budget, progress = Budget(), JobProgress("jobs", len(jobs), 0)
    with scheduler.only_driver(tmp_path):
        run = scheduler.Scheduler(
            jobs, backend, progress, workdir=tmp_path, budget=budget
        )
        assert not run.run()
    assert sorted(os.sched_getaffinity(0)) == own
    found = [json.loads((f / "result.json").read_text())["cores"] for f in folders]
    assert sorted(found[:-1]) == [[core] for core in own]
    assert found[-1] in found[:-1]  # of a job that had ended


SHOWS_VARIABLE = """
import json, os, sys
with open(sys.argv[1] + "/result.json", "w") as file:
    json.dump({"variable": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE")}, file)
"""


@pytest.mark.parametrize("own", [None, "true"])
def test_jobs_at_a_time_share_the_memory_of_a_gpu(tmp_path, monkeypatch, own):
    """Unless the user says otherwise, JAX preallocates no memory."""
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.delenv(name, raising=False)
    if own:
        monkeypatch.setenv(name, own)
    job = ScriptJob(epath.Path(tmp_path / "job"), SHOWS_VARIABLE)
    backend, progress = local.Backend("", Resources()), JobProgress("jobs", 1, 0)
    with scheduler.only_driver(tmp_path):
        scheduler.Scheduler(
            [job], backend, progress, workdir=tmp_path, budget=Budget()
        ).run()
    found = json.loads((job.folder / "result.json").read_text())
    assert found["variable"] == (own or "false")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone")
@pytest.mark.parametrize("cores", [-1, 10**6])
def test_cores_that_the_machine_does_not_have_are_refused(cores):
    with pytest.raises(UserError, match=rf"--local.cores={cores}: this machine has"):
        local.Backend("", Resources(), cores=cores)
