"""The Ray backend: its actors alone, and on a real cluster if Ray is installed."""

import functools
import importlib.util
import os
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest
from etils import epath

from launch import backends
from launch.backends import attempt_log, ray, run_attempt, scheduler
from launch.backends.attempt_log import Budget
from launch.backends.backend import load_backend
from launch.backends.progress import JobProgress
from launch.backends.resources import Resources
from tests.testing.alarm import ends_within
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


class RayError(Exception):
    """In place of ray.exceptions.RayError."""


class FakeActor:
    """An actor of this process; `actor.method.remote(...)` is what `get` calls."""

    def __init__(self, actor):
        self.actor = actor

    def __getattr__(self, name):
        method = getattr(self.actor, name)
        return SimpleNamespace(remote=lambda *args: functools.partial(method, *args))


class FakeActors(ModuleType):
    """The module ray, as far as this backend uses it: actors and their names."""

    def __init__(self):
        super().__init__("ray")
        self.named, self.num_started = {}, 0
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.util = SimpleNamespace(
            get_node_ip_address=lambda: "127.0.0.1",
            list_named_actors=lambda all_namespaces: [
                {"name": name, "namespace": "palimpsest"} for name in [*self.named]
            ],
        )

    def remote(self, cls):
        return SimpleNamespace(
            options=lambda **options: SimpleNamespace(
                remote=functools.partial(self._start, cls, options)
            )
        )

    def _start(self, cls, options, spec):
        name = options.get("name")
        if name in self.named:
            if not options.get("get_if_exists"):
                raise ValueError(f"The name {name} is already taken.")
            return self.named[name]
        self.num_started += 1
        if not name:
            return FakeActor(cls(spec))
        self.named[name] = name  # before its thread runs, which may end at once
        cls(spec)
        return name

    def get_actor(self, name, namespace):
        return self.named[name]

    def kill(self, actor, no_restart=True):
        self.named.pop(actor, None)

    def get(self, reference):
        return reference()


@pytest.fixture
def fake_ray(monkeypatch):
    """Makes `launch.backends.ray` start its actors in this process."""
    module = FakeActors()
    groups = ModuleType("ray.util.placement_group")
    group = SimpleNamespace(ready=lambda: lambda: None)
    groups.placement_group = lambda *args, **options: group
    groups.remove_placement_group = lambda group: None
    strategies = ModuleType("ray.util.scheduling_strategies")
    strategies.PlacementGroupSchedulingStrategy = lambda *args, **options: None
    for each in (module, groups, strategies):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    monkeypatch.setitem(sys.modules, "ray.util", module.util)
    name = "launch.backends.ray_actors"
    spec = importlib.util.find_spec(name)
    module.actors = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module.actors)
    monkeypatch.setitem(sys.modules, name, module.actors)
    monkeypatch.setattr(backends, "ray_actors", module.actors, raising=False)
    monkeypatch.setattr(module.actors, "RETRY_INTERVAL_S", 0.0)
    monkeypatch.setattr(ray.Backend, "poll_interval_s", 0.02)
    return module


def _fake_backend(fake_ray, **resources):
    backend = ray.Backend("", Resources(**resources))
    backend._ray = fake_ray
    return backend


def _submitted(fake_ray, jobs):
    """What the actors of jobs would be started with; they are not."""
    specs = []
    fake_ray.actors.JobActor = specs.append
    return _fake_backend(fake_ray).submit(jobs, Budget()), specs


def test_attempts_that_never_begin_are_counted_and_given_up(
    fake_ray, tmp_path, monkeypatch
):
    """`run_attempt` ends before it has a record: it cannot be imported, for example."""
    (job,) = _make_jobs(tmp_path, 1)
    code = f"open({str(tmp_path / 'starts')!r}, 'a').write('x'); import none"
    command = ["python", "-c", code, "--"]
    monkeypatch.setattr(run_attempt, "attempt_command", lambda *args: command)
    backend = _fake_backend(fake_ray)
    with ends_within(20):
        failed = _run(tmp_path, [job], backend, preemptions=0, retries=1)
    assert "failed with exit code 1" in failed[job]
    assert "given up: 2 attempts did not begin" in failed[job]
    assert (tmp_path / "starts").read_text() == "xx"
    attempts = attempt_log.read_attempts(job.folder)
    assert [each.root_cause.failure for each in attempts] == ["failure"] * 2
    log = run_attempt.log_path(job.folder).read_text()
    assert log.count("exit code 1 before the attempt began") == 2


def test_a_folder_that_its_actor_cannot_write_ends_the_job(fake_ray, monkeypatch):
    job = ScriptJob(epath.Path("/dev/null/job"), "")
    command = ["python", "-c", "raise SystemExit(1)", "--"]
    monkeypatch.setattr(run_attempt, "attempt_command", lambda *args: command)
    backend = _fake_backend(fake_ray)
    handles = backend.submit([job], Budget(retries=1))
    wait_until(lambda: not backend.alive(handles.values()), 10)
    assert fake_ray.num_started == 1, "an actor is not started again"


def test_hosts_that_are_lost_before_they_run_are_counted_and_given_up(
    fake_ray, tmp_path, monkeypatch
):
    def address(host):
        raise RayError

    monkeypatch.setattr(fake_ray.actors.HostActor, "address", address)
    (job,) = _make_jobs(tmp_path, 1)
    backend = _fake_backend(fake_ray, hosts=2)
    with ends_within(20):
        failed = _run(tmp_path, [job], backend, preemptions=1, retries=0)
    assert "preempted" in failed[job] and "2 attempts lost a host" in failed[job]
    assert fake_ray.num_started == 1 + 2 * 2
    attempts = attempt_log.read_attempts(job.folder)
    assert [each.root_cause.failure for each in attempts] == ["preemption"] * 2


def test_an_attempt_that_has_its_record_is_not_counted_by_its_actor(fake_ray, tmp_path):
    (job,) = _make_jobs(tmp_path, 1, "raise SystemExit(9)")
    _, (spec,) = _submitted(fake_ray, [job])
    assert fake_ray.actors.HostActor(spec).run("1") == 9
    (attempt,) = attempt_log.read_attempts(job.folder)
    assert attempt.name == "1" and attempt.root_cause.exit_code == 9
    assert "before" not in run_attempt.log_path(job.folder).read_text()


def test_jobs_whose_driver_was_killed_as_it_submitted_them_are_taken_over(
    fake_ray, tmp_path
):
    """Their actors have names that the file of handles lacks."""
    jobs = _make_jobs(tmp_path, 2)
    first, _ = _submitted(fake_ray, jobs[:1])
    handles, started = _submitted(fake_ray, jobs)
    assert handles.items() >= first.items() and len(started) == 1
    assert set(_fake_backend(fake_ray).alive(handles.values())) == {*handles.values()}


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
