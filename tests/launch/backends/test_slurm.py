"""Slurm's engine against commands that answer as Slurm's do; submitit's where it is."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from etils import epath

from launch import backends
from launch.backends import attempt_log
from launch.backends import slurm as module
from launch.backends.attempt_log import Budget
from launch.backends.resources import Need
from research.errors import UserError

CALLS = """
import sys
from types import SimpleNamespace
from launch.backends.attempt_log import Budget
from launch.backends.slurm import Run
folder, retries, code = sys.argv[1:]
task = SimpleNamespace(command=["python", "-c", code], folder=folder)
Run(task, Budget(preemptions=1, retries=int(retries)))()
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands of Slurm that say what `slurm(name, text, code)` told them to.

    `slurm.said()` are the command lines that they were given.
    """
    folder, calls = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def say(name, text="", code=0):
        path = folder / name
        path.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{calls}\n'
            f'echo "{text}" >&{2 if code else 1}\nexit {code}\n'
        )
        path.chmod(0o755)

    say.said = lambda: calls.read_text().splitlines() if calls.exists() else []
    return say


def _engine(**flags):
    told = {f"slurm.{name}": value for name, value in flags.items()}
    return backends.load("slurm:gpu", Need(), told)


def test_alive_is_what_squeue_lists(slurm):
    slurm("squeue", "17_0\n17_12\n18")
    assert _engine().alive(["17_1", "17_12", "18", "8"]) == {"17_12", "18"}
    assert "--array" in slurm.said()[0]
    assert _engine().alive([]) == set() and len(slurm.said()) == 1


def test_a_controller_out_of_reach_is_waited_for(slurm, monkeypatch):
    slurm("squeue", code=1)
    engine = _engine()
    assert engine.alive(["1"]) == {"1"}
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    with pytest.raises(UserError, match="slurm:gpu"):
        engine.alive(["1"])


def test_no_slurm_here_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="squeue"):
        _engine().alive(["1"])


def test_cancelled_jobs_may_save_themselves_first(slurm):
    slurm("squeue", "7_1\n7_2")
    slurm("scancel")
    _engine(grace=0).cancel(["7_2", "7_1", "7_0"])
    ended = [line for line in slurm.said() if line.startswith("scancel")]
    jobs = "7_1 7_2"
    assert ended == [
        f"scancel --state=PENDING {jobs}",
        f"scancel --signal=TERM {jobs}",
        f"scancel {jobs}",
    ]


@pytest.fixture
def call(tmp_path, slurm, monkeypatch):
    """call(code, retries, rank) starts what a job of an array calls."""
    slurm("scontrol")
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    told = {"SLURM_JOB_ID": "19", "SLURM_ARRAY_JOB_ID": "17"}
    told |= {"SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "2"}

    def call(code, retries=0, rank=0):
        words = [sys.executable, "-c", CALLS, str(tmp_path / "task"), str(retries)]
        told["SLURM_PROCID"] = str(rank)
        return subprocess.Popen([*words, code], env=os.environ | told)

    return call


@pytest.mark.parametrize(
    "code, retries, rank, again",
    [
        (0, 1, 0, 0),
        (1, 1, 0, 1),
        (1, 0, 0, 0),
        (2, 1, 0, 0),
        (75, 0, 0, 1),
        (75, 0, 1, 0),
    ],
)
def test_a_job_requeues_itself_while_its_budget_lasts(
    call, slurm, tmp_path, code, retries, rank, again
):
    assert call(f"raise SystemExit({code})", retries, rank).wait() == 0
    assert slurm.said() == ["scontrol requeue 17_3"] * again
    (attempt,) = attempt_log.read(epath.Path(tmp_path / "task"))
    (process,) = attempt.processes
    assert (process.attempt, process.rank, process.code) == ("17_3.2", rank, code)


@pytest.mark.parametrize("number, again", [(signal.SIGUSR2, 1), (signal.SIGTERM, 0)])
def test_time_that_is_up_requeues_and_what_slurm_takes_away_is_slurms(
    call, slurm, tmp_path, number, again
):
    ready = tmp_path / "ready"
    wait = "import os, time; open({!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    job = call(wait.format(str(ready)))
    limit = time.monotonic() + 30
    while not (ready.exists() and ready.read_text()):
        assert time.monotonic() < limit
        time.sleep(0.05)
    if number == signal.SIGUSR2:  # which Slurm sends to the command as well
        os.kill(int(ready.read_text()), number)
        time.sleep(0.5)
    job.send_signal(number)
    assert job.wait() == 0
    assert slurm.said() == ["scontrol requeue 17_3"] * again
    worst = attempt_log.read(epath.Path(tmp_path / "task"))[0].worst
    assert worst.asked and worst.code == 128 + signal.SIGTERM


def test_tasks_are_an_array_that_requeues(slurm, tmp_path):
    pytest.importorskip("submitit")
    slurm("srun")
    slurm("sbatch", "Submitted batch job 17")
    need = Need(hosts=2, cpus=4, gpus=8)
    flags = {"slurm.minutes": 90, "slurm.account": "us", "slurm.memory": 64}
    engine = backends.load("slurm:gpu", need, flags)
    tasks = [
        SimpleNamespace(id=n, folder=epath.Path(tmp_path / n), command=["true"])
        for n in "abc"
    ]
    assert engine.submit(tasks, Budget()) == {"a": "17_0", "b": "17_1", "c": "17_2"}
    (script,) = (tmp_path / "slurm").glob("17_submission.sh")
    flags = {
        line.removeprefix("#SBATCH --")
        for line in script.read_text().splitlines()
        if line.startswith("#SBATCH")
    }
    assert flags >= {
        "array=0-2%3",
        "requeue",
        "partition=gpu",
        "time=90",
        "signal=USR2@120",
        "nodes=2",
        "ntasks-per-node=1",
        "cpus-per-task=4",
        "gpus-per-node=8",
        "account=us",
        "mem=64GB",
        "open-mode=append",
    }
    slurm("sbatch", "sbatch: error: invalid partition specified: gpu", 1)
    with pytest.raises(UserError, match=r"slurm:gpu: .*invalid partition"):
        engine.submit(tasks, Budget())


@pytest.mark.parametrize(
    "on, need, said",
    [("slurm", Need(), "PARTITION"), ("slurm:x", Need(slice="v5e:2x4"), "TPU")],
)
def test_what_is_missing_is_told(on, need, said):
    with pytest.raises(UserError, match=said):
        backends.load(on, need, {})
