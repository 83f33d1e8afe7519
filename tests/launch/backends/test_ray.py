"""Ray for real, where it is installed: a node dies, a driver dies, all tasks end."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from etils import epath

from launch import backends
from launch.backends import attempt_log, ray, run_attempt, scheduler
from launch.backends.attempt_log import Budget
from launch.backends.progress import Board
from launch.backends.resources import Need

SAVES = """
import os, sys, time
folder = sys.argv[1]
done = os.path.getsize(folder + "/steps") if os.path.exists(folder + "/steps") else 0
print("goes on from", done, flush=True)
for _ in range(done, 30):
    open(folder + "/steps", "a").write("x")
    time.sleep(0.2)
open(folder + "/result.json", "w").write("{}")
"""
RANKS = """
import os, sys, time
folder, *flags = sys.argv[1:]
told = dict(flag[2:].split("=") for flag in flags)
open(folder + "/rank" + told["process_id"], "a").write(told["coordinator"] + " ")
time.sleep(2)
tries = len(open(folder + "/rank1").read().split())
if tries < 2:
    os._exit(1 if told["process_id"] == "1" else 75)
open(folder + "/result.json", "w").write("{}")
"""


class Errand(SimpleNamespace):
    parents, progress, summary = {}, (0, 1), "done"

    __hash__ = object.__hash__

    @property
    def done(self):
        return (self.folder / "result.json").exists()


def _errands(workdir, number, code=SAVES):
    tasks = []
    for n in range(number):
        folder = epath.Path(workdir / f"task{n}")
        folder.mkdir()
        words = ["python", "-c", code, os.fspath(folder)]
        tasks.append(Errand(id=folder.name, name=str(n), folder=folder, command=words))
    return tasks


@pytest.fixture(scope="module")
def cluster():
    """A head without cores and two nodes with one each; `ray` finds it."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    nodes = {"object_store_memory": 10**8}
    found = Cluster(True, head_node_args={"num_cpus": 0, **nodes})
    found.some = [found.add_node(num_cpus=1, **nodes) for _ in range(2)]
    os.environ["RAY_ADDRESS"] = found.address
    yield found
    del os.environ["RAY_ADDRESS"]
    sys.modules["ray"].shutdown()
    found.shutdown()


def _until(condition, seconds=60.0):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came to hold"
        time.sleep(0.1)


def _run(workdir, tasks, engine, **budget):
    board = Board("errands", len(tasks), 0)
    given = scheduler.Runner(
        tasks, engine, board, workdir=epath.Path(workdir), budget=Budget(**budget)
    )
    return given.run()


def test_a_cluster_that_is_not_there_is_told(tmp_path):
    pytest.importorskip("ray")
    words = ["-m", "launch.sweep", "--sweep=experiments/sweeps/objectives.py"]
    words += [f"--workdir={tmp_path}", "--on=ray://127.0.0.1:1"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "error: --on=ray://127.0.0.1:1: no cluster there" in done.stderr
    assert "Traceback" not in done.stderr


class Ray:
    """A client of a cluster whose server dies as it starts, so many times."""

    def __init__(self, deaths):
        self.deaths, self.asked = deaths, []

    def init(self, address, **told):
        self.asked.append(address)
        if len(self.asked) <= self.deaths:
            text = "Initialization failure from server:\nTraceback (most recent ...):"
            raise ConnectionAbortedError(
                f"{text}\n  at ...\nRuntimeError: see its log\n"
            )


def test_a_server_that_dies_as_it_starts_is_asked_for_again():
    client = Ray(2)
    ray._join(client, "ray://there:10001", {"namespace": "x"})
    assert client.asked == ["ray://there:10001"] * 3
    with pytest.raises(ConnectionAbortedError) as error:
        ray._join(Ray(3), "ray://there:10001", {})
    assert ray._reason(error.value) == "RuntimeError: see its log"


def test_a_node_dies_and_its_task_goes_on_elsewhere_without_a_driver(cluster, tmp_path):
    engine, tasks = backends.load("ray", Need(), {}), _errands(tmp_path, 4)
    jobs = engine.submit(tasks, Budget(retries=0))
    steps = [task.folder / "steps" for task in tasks]
    _until(lambda: sum(path.exists() for path in steps) == 2)
    time.sleep(1)
    cluster.remove_node(cluster.some.pop(), allow_graceful=False)
    cluster.some.append(cluster.add_node(num_cpus=1, object_store_memory=10**8))
    _until(lambda: not engine.alive(jobs.values()), 120)
    assert [task.done for task in tasks] == [True] * 4
    assert {path.stat().length for path in steps} == {30}
    attempts = sorted(len(attempt_log.read(task.folder)) for task in tasks)
    assert attempts == [1, 1, 1, 2]
    logs = "".join(run_attempt.log(task.folder).read_text() for task in tasks)
    lines = [line for line in logs.splitlines() if line.startswith("goes on")]
    starts = [line.split()[-1] for line in lines]
    assert len(starts) == 5 and sum(start != "0" for start in starts) == 1


def test_a_stopped_task_saves_and_another_driver_adopts(cluster, tmp_path):
    engine, tasks = backends.load("ray", Need(), {}), _errands(tmp_path, 1)
    jobs = engine.submit(tasks, Budget())
    _until((tasks[0].folder / "steps").exists)
    other = backends.load("ray", Need(), {})
    assert set(other.alive(jobs.values())) == set(jobs.values())
    other.cancel(jobs.values())
    assert not engine.alive(jobs.values())
    assert attempt_log.read(tasks[0].folder)[0].worst.asked
    assert _run(tmp_path, tasks, other, round=2) == {}


def test_several_hosts_run_together_and_start_anew_together(cluster, tmp_path):
    engine = backends.load("ray", Need(hosts=2), {})
    (task,) = _errands(tmp_path, 1, RANKS)
    assert _run(tmp_path, [task], engine, preemptions=0, retries=1) == {}
    found = [(task.folder / f"rank{rank}").read_text().split() for rank in (0, 1)]
    assert found[0] == found[1] and len(found[0]) == 2
    assert len({address.rpartition(":")[2] for address in found[0]}) == 2
    first, second = attempt_log.read(task.folder)
    assert len(first.processes) == len(second.processes) == 2
    assert first.worst.code == 1 and first.worst.rank == 1


def test_a_task_that_cannot_go_on_is_given_up_by_ray_itself(cluster, tmp_path):
    engine = backends.load("ray", Need(), {})
    tasks = _errands(tmp_path, 2, "raise SystemExit(1)")
    tasks[1].command = ["python", "-c", "raise SystemExit(2)"]
    jobs = engine.submit(tasks, Budget(retries=1))
    _until(lambda: not engine.alive(jobs.values()))
    assert [len(attempt_log.read(task.folder)) for task in tasks] == [2, 1]
