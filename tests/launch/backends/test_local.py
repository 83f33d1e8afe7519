"""Drivers on this machine: restarts, and who takes over from whom."""

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from etils import epath

from launch.backends import attempt_log, local, run_attempt, scheduler
from launch.backends.attempt_log import Budget
from launch.backends.progress import Board
from launch.backends.resources import Need
from research.errors import UserError


def _until(condition, seconds=30.0):
    """Waits for a condition, which is to hold within so many seconds."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came to hold"
        time.sleep(0.02)


@dataclasses.dataclass(eq=False)
class Errand:
    """A task of its own code, done by writing its result."""

    folder: epath.Path
    code: str
    parents: dict = dataclasses.field(default_factory=dict)
    progress = (0, 1)
    summary = "done"

    @property
    def id(self):
        return self.folder.name

    name = id

    @property
    def done(self):
        return (self.folder / "result.json").exists()

    @property
    def command(self):
        return ["python", "-c", self.code, os.fspath(self.folder)]


COUNTS = """
import os, sys, time
folder = sys.argv[1]
with open(folder + "/tries", "a") as file:
    file.write("x")
tries = os.path.getsize(folder + "/tries")
while not os.path.exists(folder + "/go"):
    time.sleep(0.02)
if tries < int(open(folder + "/go").read()):
    os._exit(75)
open(folder + "/result.json", "w").write("{}")
"""


def _drive(workdir: epath.Path, tasks: list, **budget) -> dict:
    engine = local.Engine("", Need())
    board = Board("errands", len(tasks), 0)
    given = scheduler.Runner(
        tasks, engine, board, workdir=workdir, budget=Budget(**budget), parallel=2
    )
    with scheduler.driving(workdir):
        return given.run()


def _errands(workdir: Path, *tries: int) -> list[Errand]:
    """Tasks that are preempted until their so manyth attempt, in folders of theirs."""
    folders = [epath.Path(workdir / f"task{n}") for n in range(len(tries))]
    for folder, number in zip(folders, tries, strict=True):
        folder.mkdir(parents=True)
        (folder / "go").write_text(str(number))
    return [Errand(folder, COUNTS) for folder in folders]


def test_what_is_preempted_is_started_again_within_its_own_budget(tmp_path):
    tasks = _errands(tmp_path, 3, 1, 4)
    failed = _drive(epath.Path(tmp_path), tasks, preemptions=2, retries=0)
    assert [(task.folder / "tries").read_text() for task in tasks] == [
        "xxx",
        "x",
        "xxx",
    ]
    assert [task.done for task in tasks] == [True, True, False]
    assert "2 times" in failed[tasks[2]] or "preempted" in failed[tasks[2]]
    assert scheduler.jobs(epath.Path(tmp_path)) == {}


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGINT])
def test_another_driver_takes_over(tmp_path, death):
    """Killed, a driver leaves its job running; interrupted, it asks it to stop."""
    (task,) = _errands(tmp_path, 1)
    (task.folder / "go").unlink()
    code = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored
        from etils import epath
        import importlib.util
        spec = importlib.util.spec_from_file_location('t', {__file__!r})
        spec.loader.exec_module(t := importlib.util.module_from_spec(spec))
        task = t.Errand(epath.Path({str(task.folder)!r}), t.COUNTS)
        t._drive(epath.Path({str(tmp_path)!r}), [task])
    """
    driver = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    _until((task.folder / "tries").exists)
    workdir = epath.Path(tmp_path)
    assert scheduler.driver(workdir)["pid"] == driver.pid
    with pytest.raises(UserError, match="another sweep"), scheduler.driving(workdir):
        pass
    driver.send_signal(death)
    driver.wait()
    assert scheduler.driver(workdir) is None
    assert run_attempt.held(task.folder) == (death == signal.SIGKILL)
    (task.folder / "go").write_text("1")
    assert _drive(workdir, [task], round=2) == {}
    tries = "x" if death == signal.SIGKILL else "xx"
    assert (task.folder / "tries").read_text() == tries
    assert len(attempt_log.read(task.folder)) == len(tries)


def test_a_local_job_can_be_stopped_by_another_process(tmp_path):
    (task,) = _errands(tmp_path, 1)
    (task.folder / "go").unlink()
    jobs = local.Engine("", Need()).submit([task], Budget())
    _until((task.folder / "tries").exists)
    other = local.Engine("", Need())
    assert list(other.alive(jobs.values())) == list(jobs.values())
    other.cancel(jobs.values())
    _until(lambda: not other.alive(jobs.values()))
    assert attempt_log.read(task.folder)[0].worst.fault == "preemption"
