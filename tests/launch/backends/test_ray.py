"""The Ray backend on a real cluster of this machine, if Ray is installed."""

import os
import subprocess
import sys
import time

import pytest
from etils import epath

from launch.backends import attempt_log, ray, run_attempt, scheduler
from launch.backends.attempt_log import Budget
from launch.backends.backend import load_backend
from launch.backends.progress import JobProgress
from launch.backends.resources import Resources
from tests.testing.script_jobs import ScriptJob, wait_until

RESUMES = """
import os, sys, time
folder = sys.argv[1]
done = os.path.getsize(folder + "/steps") if os.path.exists(folder + "/steps") else 0
print("resumes from", done, flush=True)
for _ in range(done, 30):
    open(folder + "/steps", "a").write("x")
    time.sleep(0.2)
open(folder + "/result.json", "w").write("{}")
"""
FAILS_ONCE_ON_RANK_1 = """
import os, sys, time
folder, *flags = sys.argv[1:]
values = dict(flag[2:].split("=") for flag in flags)
rank = values["process_id"]
open(folder + "/rank" + rank, "a").write(values["coordinator"] + " ")
time.sleep(2)
num_attempts = len(open(folder + "/rank1").read().split())
if num_attempts < 2:
    os._exit(1 if rank == "1" else 75)
open(folder + "/result.json", "w").write("{}")
"""


def _make_jobs(workdir, number, code=RESUMES):
    folders = [epath.Path(workdir / f"job{n}") for n in range(number)]
    for folder in folders:
        folder.mkdir()
    return [ScriptJob(folder, code) for folder in folders]


@pytest.fixture(scope="module")
def cluster():
    """A head without cores and two nodes with one each; `ray` finds it."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    nodes = {"object_store_memory": 10**8}
    cluster = Cluster(True, head_node_args={"num_cpus": 0, **nodes})
    cluster.workers = [cluster.add_node(num_cpus=1, **nodes) for _ in range(2)]
    os.environ["RAY_ADDRESS"] = cluster.address
    yield cluster
    del os.environ["RAY_ADDRESS"]
    sys.modules["ray"].shutdown()
    cluster.shutdown()


def _run(workdir, jobs, backend, **budget):
    return scheduler.Scheduler(
        jobs,
        backend,
        JobProgress("jobs", len(jobs), 0),
        workdir=epath.Path(workdir),
        budget=Budget(**budget),
    ).run()


def test_an_address_without_a_cluster_is_an_error_in_one_line(tmp_path):
    pytest.importorskip("ray")
    words = ["-m", "launch.sweep", "--sweep=experiments/sweeps/objectives.py"]
    words += [f"--workdir={tmp_path}", "--on=ray://127.0.0.1:1"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "error: --on=ray://127.0.0.1:1: no cluster there" in done.stderr
    assert "Traceback" not in done.stderr


class FakeRay:
    """A client of a cluster whose server dies at its first `num_deaths` starts."""

    def __init__(self, num_deaths):
        self.num_deaths, self.addresses = num_deaths, []

    def init(self, address, **options):
        self.addresses.append(address)
        if len(self.addresses) <= self.num_deaths:
            text = "Initialization failure from server:\nTraceback (most recent ...):"
            raise ConnectionAbortedError(
                f"{text}\n  at ...\nRuntimeError: see its log\n"
            )


def test_a_connection_is_retried_when_the_server_dies_at_its_start():
    client = FakeRay(2)
    ray._connect_client(client, "ray://there:10001", {"namespace": "x"})
    assert client.addresses == ["ray://there:10001"] * 3
    with pytest.raises(ConnectionAbortedError) as error:
        ray._connect_client(FakeRay(3), "ray://there:10001", {})
    assert ray._error_line(error.value) == "RuntimeError: see its log"


def test_a_job_of_a_lost_node_resumes_on_another_without_a_driver(cluster, tmp_path):
    backend, jobs = load_backend("ray", Resources(), {}), _make_jobs(tmp_path, 4)
    handles = backend.submit(jobs, Budget(retries=0))
    steps = [job.folder / "steps" for job in jobs]
    wait_until(lambda: sum(path.exists() for path in steps) == 2, 60)
    time.sleep(1)
    cluster.remove_node(cluster.workers.pop(), allow_graceful=False)
    cluster.workers.append(cluster.add_node(num_cpus=1, object_store_memory=10**8))
    wait_until(lambda: not backend.alive(handles.values()), 120)
    assert [job.done for job in jobs] == [True] * 4
    assert {path.stat().length for path in steps} == {30}
    num_attempts = sorted(len(attempt_log.read_attempts(job.folder)) for job in jobs)
    assert num_attempts == [1, 1, 1, 2]
    logs = "".join(run_attempt.log_path(job.folder).read_text() for job in jobs)
    lines = [line for line in logs.splitlines() if line.startswith("resumes")]
    starts = [line.split()[-1] for line in lines]
    assert len(starts) == 5 and sum(start != "0" for start in starts) == 1


def test_another_driver_can_cancel_a_job_and_run_it_again(cluster, tmp_path):
    backend, jobs = load_backend("ray", Resources(), {}), _make_jobs(tmp_path, 1)
    handles = backend.submit(jobs, Budget())
    wait_until((jobs[0].folder / "steps").exists, 60)
    other = load_backend("ray", Resources(), {})
    assert set(other.alive(handles.values())) == set(handles.values())
    other.cancel(handles.values())
    assert not backend.alive(handles.values())
    assert attempt_log.read_attempts(jobs[0].folder)[0].root_cause.stop_requested
    assert _run(tmp_path, jobs, other, round=2) == {}


def test_the_hosts_of_a_job_are_restarted_together(cluster, tmp_path):
    backend = load_backend("ray", Resources(hosts=2), {})
    (job,) = _make_jobs(tmp_path, 1, FAILS_ONCE_ON_RANK_1)
    assert _run(tmp_path, [job], backend, preemptions=0, retries=1) == {}
    addresses = [(job.folder / f"rank{rank}").read_text().split() for rank in (0, 1)]
    assert addresses[0] == addresses[1] and len(addresses[0]) == 2
    assert len({address.rpartition(":")[2] for address in addresses[0]}) == 2
    first, second = attempt_log.read_attempts(job.folder)
    assert len(first.processes) == len(second.processes) == 2
    assert first.root_cause.exit_code == 1 and first.root_cause.rank == 1


def test_a_job_without_budget_is_given_up_without_a_driver(cluster, tmp_path):
    backend = load_backend("ray", Resources(), {})
    jobs = _make_jobs(tmp_path, 2, "raise SystemExit(1)")
    jobs[1].code = "raise SystemExit(2)"
    handles = backend.submit(jobs, Budget(retries=1))
    wait_until(lambda: not backend.alive(handles.values()), 60)
    assert [len(attempt_log.read_attempts(job.folder)) for job in jobs] == [2, 1]
