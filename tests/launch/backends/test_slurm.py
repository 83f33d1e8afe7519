"""The Slurm backend with fakes of Slurm's commands, and with submitit if installed."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from etils import epath

from launch.backends import attempt_log
from launch.backends import slurm as slurm_backend
from launch.backends.attempt_log import Budget
from launch.backends.backend import load_backend
from launch.backends.resources import Resources
from research.contract.errors import UserError
from tests.testing.script_jobs import wait_until

RUN_JOB = """
import sys
import time
from types import SimpleNamespace
from launch.backends.attempt_log import Budget
from launch.backends.slurm import RunJob
folder, retries, code = sys.argv[1:]
job = SimpleNamespace(command=["python", "-c", code], folder=folder)
RunJob(job, Budget(preemptions=1, retries=int(retries)))()
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """slurm(name, output, code) makes a fake of one of Slurm's commands.

    `slurm.calls()` are the command lines of all calls of the fakes.
    """
    folder, calls_file = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def fake_command(name, output="", code=0):
        path = folder / name
        path.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{calls_file}\n'
            f'echo "{output}" >&{2 if code else 1}\nexit {code}\n'
        )
        path.chmod(0o755)

    def calls():
        return calls_file.read_text().splitlines() if calls_file.exists() else []

    fake_command.calls = calls
    return fake_command


def _backend(**flags):
    flags = {f"slurm.{name}": value for name, value in flags.items()}
    return load_backend("slurm:gpu", Resources(), flags)


def test_jobs_that_squeue_lists_are_alive(slurm):
    slurm("squeue", "17_0\n17_12\n18")
    assert _backend().alive(["17_1", "17_12", "18", "8"]) == {"17_12", "18"}
    assert "--array" in slurm.calls()[0]
    assert _backend().alive([]) == set() and len(slurm.calls()) == 1


def test_an_unreachable_controller_is_an_error_after_a_timeout(slurm, monkeypatch):
    slurm("squeue", code=1)
    backend = _backend()
    assert backend.alive(["1"]) == {"1"}
    monkeypatch.setattr(slurm_backend, "CONTROLLER_TIMEOUT_S", 0.0)
    with pytest.raises(UserError, match="slurm:gpu"):
        backend.alive(["1"])


def test_a_machine_without_slurm_is_an_error(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="squeue"):
        _backend().alive(["1"])


def test_cancelled_jobs_get_sigterm_before_they_are_killed(slurm):
    slurm("squeue", "7_1\n7_2")
    slurm("scancel")
    _backend(grace=0).cancel(["7_2", "7_1", "7_0"])
    cancels = [line for line in slurm.calls() if line.startswith("scancel")]
    jobs = "7_1 7_2"
    assert cancels == [
        f"scancel --state=PENDING {jobs}",
        f"scancel --signal=TERM {jobs}",
        f"scancel {jobs}",
    ]


@pytest.fixture
def call(tmp_path, slurm, monkeypatch):
    """call(code, retries, rank) starts `RunJob` as a process of a job array does."""
    slurm("scontrol")
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    variables = {"SLURM_JOB_ID": "19", "SLURM_ARRAY_JOB_ID": "17"}
    variables |= {"SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "2"}

    def call(code, retries=0, rank=0):
        words = [sys.executable, "-c", RUN_JOB, str(tmp_path / "task"), str(retries)]
        variables["SLURM_PROCID"] = str(rank)
        return subprocess.Popen([*words, code], env=os.environ | variables)

    return call


@pytest.mark.parametrize(
    "code, retries, rank, requeues",
    [
        (0, 1, 0, 0),
        (1, 1, 0, 1),
        (1, 0, 0, 0),
        (2, 1, 0, 0),
        (75, 0, 0, 1),
        (75, 0, 1, 0),
    ],
)
def test_rank_0_requeues_the_job_within_its_budget(
    call, slurm, tmp_path, code, retries, rank, requeues
):
    assert call(f"raise SystemExit({code})", retries, rank).wait() == 0
    assert slurm.calls() == ["scontrol requeue 17_3"] * requeues
    (attempt,) = attempt_log.read_attempts(epath.Path(tmp_path / "task"))
    (process,) = attempt.processes
    assert (process.attempt, process.rank, process.exit_code) == ("17_3.2", rank, code)


@pytest.mark.parametrize("number, requeues", [(signal.SIGUSR2, 1), (signal.SIGTERM, 0)])
def test_a_job_requeues_itself_at_its_time_limit_but_not_when_slurm_preempts_it(
    call, slurm, tmp_path, number, requeues
):
    ready = tmp_path / "ready"
    wait = "import os, time; open({!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    job = call(wait.format(str(ready)))
    wait_until(lambda: ready.exists() and ready.read_text())
    if number == signal.SIGUSR2:  # Slurm sends it to the command as well
        os.kill(int(ready.read_text()), number)
        time.sleep(0.5)
    job.send_signal(number)
    assert job.wait() == 0
    assert slurm.calls() == ["scontrol requeue 17_3"] * requeues
    (attempt,) = attempt_log.read_attempts(epath.Path(tmp_path / "task"))
    process = attempt.root_cause
    assert process.stop_requested and process.exit_code == 128 + signal.SIGTERM


def test_jobs_are_an_array_that_requeues(slurm, tmp_path):
    pytest.importorskip("submitit")
    slurm("srun")
    slurm("sbatch", "Submitted batch job 17")
    resources = Resources(hosts=2, cpus=4, gpus=8)
    flags = {"slurm.minutes": 90, "slurm.account": "us", "slurm.memory": 64}
    backend = load_backend("slurm:gpu", resources, flags)
    jobs = [
        SimpleNamespace(id=n, folder=epath.Path(tmp_path / n), command=["true"])
        for n in "abc"
    ]
    assert backend.submit(jobs, Budget()) == {"a": "17_0", "b": "17_1", "c": "17_2"}
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
        backend.submit(jobs, Budget())


@pytest.mark.parametrize(
    "on, resources, message",
    [
        ("slurm", Resources(), "PARTITION"),
        ("slurm:x", Resources(slice="v5e:2x4"), "TPU"),
    ],
)
def test_a_wrong_flag_is_an_error(on, resources, message):
    with pytest.raises(UserError, match=message):
        load_backend(on, resources, {})
