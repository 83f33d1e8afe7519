"""Runs that are killed, moved to fewer devices, or robbed of their folder."""

import random
import shutil
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launch import cli
from research.checkpoints.checkpoint import FOLDER
from research.contract.errors import UserError
from research.distributed.file_lock import is_locked
from research.record.workdir import LOCK_FILE
from tests.proofs.chaos.run_process import ProcessGroup, Run, call_in_fork

FAULTS = {
    "starting": 2,
    "caching": 2,
    "stepping": 4,
    "saving": 3,
    "evaluating": 3,
    "asked to stop": 1,
    "paused": 1,
}
"""The moment of a kill -> its relative frequency. The last two are between steps:
SIGTERM, and a kill after the process was stopped (SIGSTOP) and went on."""

PAUSE_S = 2.0
"""How long a process is stopped: the others of a run do not take it for dead."""

END_TIMEOUT_S = 10.0
"""Within which a run whose checkpoints cannot be written has to end."""

MESHES = {
    8: {"data": 2, "fsdp": 2, "tensor": 2},
    4: {"data": 1, "fsdp": 4, "tensor": 1},
    2: {"data": 1, "fsdp": 1, "tensor": 2},
}
TOLERANCE = 1e-5
"""Largest relative difference of losses on other devices."""


class KilledRuns:
    """Kills runs at random moments, and compares them with one that is not killed.

    Args:
      folder: a new one, for the workdirs and their cache.
      keys: config keys of the runs, of which train.eval_every is above 0.
      processes: of each run.
      config: its file.
    """

    def __init__(
        self,
        folder: Path,
        keys: Mapping[str, Any],
        rng: random.Random,
        processes: int = 1,
        config: str = "experiments/mlm.py",
    ):
        self.folder, self.rng, self.processes = folder, rng, processes
        self.config = config
        self.keys = {**keys, "data.cache_dir": folder / "cache"}
        self.kills: Counter[str] = Counter()  # by fault
        self.reference = self.run("uninterrupted")
        self.start_seconds, self.seconds = run_to_end(self.reference)

    def run(self, name: str, devices: int = 0, **mesh: int) -> Run:
        keys = self.keys | {f"mesh.{axis}": size for axis, size in mesh.items()}
        flags = [f"--config.{key}={value}" for key, value in keys.items()]
        return Run(
            self.folder / name,
            [f"--config={self.config}", *flags],
            processes=1 if devices else self.processes,
            devices=devices,
            cache_dir=self.folder / "cache",
        )

    def kill(self, num_kills: int) -> str:
        """Starts and kills runs until there were that many kills; compares each.

        Returns:
          a line that says how often and when.

        Raises:
          UserError: a run ends with another exit code or other arrays than it should.
        """
        num_runs = 0
        while self.kills.total() < num_kills or not num_runs:
            num_runs += 1
            run = self.run(f"killed{num_runs}")
            while (code := self._start_and_kill(run, num_kills)) is None:
                pass
            if code:
                raise UserError(f"{run.workdir} ended with exit code {code}")
            if lines := call_in_fork(differences, self.reference.workdir, run.workdir):
                raise UserError("\n".join(lines))
        counts = ", ".join(f"{fault} {count}" for fault, count in self.kills.items())
        return (
            f"runs of {self.processes}: {self.kills.total()} kills ({counts}) in "
            f"{num_runs} runs; parameters, optimizer state and metrics bit-equal"
        )

    def _start_and_kill(self, run: Run, num_kills: int) -> int | None:
        """Starts a run and kills it; returns its exit code if it ended before that."""
        fault = self.rng.choices([*FAULTS], FAULTS.values())[0]
        is_last = self.kills.total() >= num_kills
        if fault == "caching" and not is_last:
            shutil.rmtree(run.cache_dir)
        group = run.start()
        if is_last or not self._wait_for(group, fault):
            return max(group.wait(), key=abs)
        victim = self.rng.randrange(run.processes)
        if fault == "paused":
            group.pause(victim, PAUSE_S)
        asked = fault == "asked to stop"
        group.kill(victim, signal.SIGTERM if asked else signal.SIGKILL)
        codes = group.wait()
        if not any(codes):
            return 0  # it ended before the signal
        self.kills[fault] += 1
        others = {code for n, code in enumerate(codes) if n != victim or asked}
        if wrong := others - {cli.PREEMPTED, cli.DONE}:
            raise UserError(f"{run.workdir}: {fault}: exit codes {wrong}, not 75")
        return None

    def _wait_for(self, group: ProcessGroup, fault: str) -> bool:
        """Waits for the moment of a fault; returns False if the run ended before."""
        run, first_step = group.run, group.run.last_step()
        eval_every = self.keys["train.eval_every"]
        seconds = self.rng.random() * self.seconds / 5
        begins = {
            "starting": lambda: True,
            "caching": run.is_caching,
            "saving": run.is_saving,
            "evaluating": lambda: run.is_evaluating(eval_every, group.start_time),
        }.get(fault, lambda: run.last_step() > first_step)
        if not group.wait_until(begins):
            return False
        if fault == "starting":
            seconds = self.rng.random() * self.start_seconds
        elif fault in ("caching", "saving", "evaluating"):
            seconds = self.rng.random() * 0.1  # what is seen is over soon
        moment = group.elapsed() + seconds
        return group.wait_until(lambda: group.elapsed() > moment)

    def move_to_fewer_devices(self) -> str:
        """Runs a part of the steps on each number of devices, with a kill after each.

        Returns:
          a line that says how much its losses differ from those of one device.

        Raises:
          UserError: a run failed, or they differ by more than TOLERANCE.
        """
        alone, last_step = self.run("one-device", devices=1), self.keys["train.steps"]
        run_to_end(alone)
        for number, (count, mesh) in enumerate(MESHES.items(), 1):
            run = self.run("moved", devices=count, **mesh)
            stop, group = last_step * number / len(MESHES), run.start()
            if number < len(MESHES) and group.wait_until(
                lambda run=run, stop=stop: run.last_step() >= stop
            ):
                group.kill()
            elif any(group.wait()):
                raise UserError(f"{run.workdir} failed; see {run.log()}")
        largest = max(
            abs(one[name] - other[name]) / abs(one[name])
            for one, other in zip(alone.lines(), run.lines(), strict=True)
            for name in one
            if name.endswith("loss")
        )
        line = f"8, 4 and 2 devices: losses differ by {largest:.1e} from those of one"
        if largest > TOLERANCE:
            raise UserError(line)
        return line

    def lose_folder(self) -> str:
        """A second run of a workdir is refused, and one whose checkpoint folder becomes
        read-only ends, each in one line.

        Raises:
          UserError: that is not so.
        """
        run = self.run("lost")._replace(cache_dir=None)
        run.flags.append("--config.train.steps=100000")
        group = run.start()
        try:
            group.wait_until(lambda: is_locked(run.workdir / LOCK_FILE))
            second = run.start().wait()
            if second != [cli.MISTAKE] or "another run writes" not in _said(run):
                raise UserError(f"the second run ended with {second}; see {run.log()}")
            if not group.wait_until(run.last_checkpoint):
                raise UserError(f"{run.workdir} failed; see {run.log()}")
            began = group.elapsed()
            (run.workdir / FOLDER).chmod(0o555)
            codes, seconds = group.wait(), group.elapsed() - began
        finally:
            group.kill()
            (run.workdir / FOLDER).chmod(0o755)
        said = _said(run)
        if codes != [cli.MISTAKE] or seconds > END_TIMEOUT_S or "Traceback" in said:
            raise UserError(f"read-only: {codes} in {seconds:.1f} s; see {run.log()}")
        return f"a second run was refused; the first one ended in {seconds:.1f} s"


def _said(run: Run) -> str:
    return run.log().read_text(errors="replace")


def run_to_end(run: Run) -> tuple[float, float]:
    """Seconds from a run's start to its first metrics, and from there to its end.

    Raises:
      UserError: the run failed.
    """
    group = run.start()
    group.wait_until(run.last_step)
    began = group.elapsed()
    if any(group.wait()):
        raise UserError(f"{run.workdir} failed; see {run.log()}")
    return began, group.elapsed() - began


def differences(reference: Path, killed: Path) -> list[str]:
    """Returns what differs, bit by bit, between two finished runs: a line for each."""
    import numpy as np

    lines = []
    texts = [(folder / "metrics.jsonl").read_text() for folder in (reference, killed)]
    if texts[0] != texts[1]:
        lines.append(f"{killed}/metrics.jsonl differs from that of {reference}")
    expected, arrays = _arrays(reference), _arrays(killed)
    for name in sorted(expected.keys() | arrays.keys()):
        both = name in expected and name in arrays
        if not both or not np.array_equal(expected[name], arrays[name], equal_nan=True):
            lines.append(f"{killed}: {name} differs from that of {reference}")
    return lines


def _arrays(workdir: Path) -> dict[str, Any]:
    """All arrays of a run's newest checkpoint, by name, on the host."""
    import jax

    from research.checkpoints.checkpoint import path_name
    from research.interop.partial_restore import find_checkpoint, load_on_host

    tree = load_on_host(find_checkpoint(str(workdir)), "params", "rest")
    return {path_name(path): x for path, x in jax.tree_util.tree_leaves_with_path(tree)}
