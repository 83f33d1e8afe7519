"""Processes of a run that connect and each execute some code, forked for speed."""

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from launch import cli

LOST_EXIT_CODE, TIMEOUT_S = cli.PREEMPTED, 10.0
START_TIMEOUT_S = 120

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["research.distributed.cluster", "launch.cli", "jax"])


class Processes:
    """Connected processes.

    Args:
      folder: receives what they print.
      codes: what each executes, with `peers`, `index` and `say(word)`.
      before: what all execute before they connect, with `index`, `cluster` and `die`.
    """

    def __init__(self, folder: Path, *codes: str, before: str = ""):
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1]
        self.folder, self.processes = folder, []
        for index, code in enumerate(codes):
            arguments = folder, index, len(codes), port, before, code
            process = CONTEXT.Process(target=_run, args=arguments)
            process.start()
            self.processes.append(process)

    def wait_until_connected(self) -> "Processes":
        """Waits until all run their code."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not all("connected" in self.output(i) for i in self.indices):
            assert time.monotonic() < deadline, [self.errors(i) for i in self.indices]
            time.sleep(0.02)
        return self

    def signal(self, index: int, number: int = signal.SIGKILL) -> None:
        os.kill(self.processes[index].pid, number)

    def end(self, timeout: float = TIMEOUT_S) -> list[int]:
        """The exit codes of all; they must end within the timeout."""
        deadline = time.monotonic() + timeout
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        codes = [process.exitcode for process in self.processes]
        for process in self.processes:
            process.kill()
        return codes

    @property
    def indices(self) -> range:
        return range(len(self.processes))

    def output(self, index: int) -> str:
        path = self.folder / f"out{index}"
        return path.read_text() if path.exists() else ""

    def errors(self, index: int) -> list[str]:
        """The lines for the user on standard error; JAX's own begin otherwise."""
        text = (self.folder / f"err{index}").read_text()
        return [line for line in text.splitlines() if line.startswith("error: ")]


def run_together(
    calls: Mapping[Hashable, Callable[[Path], Any]], folder: Path
) -> Callable[[Hashable], Any]:
    """Calls functions at the same time, as they mostly wait, each with its own folder.

    Returns:
      a function from a key to what its call returned; it raises what the call raised.
    """
    folders = {key: folder / str(number) for number, key in enumerate(calls)}
    for each in folders.values():
        each.mkdir()
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = {key: pool.submit(calls[key], folders[key]) for key in calls}
    return lambda key: futures[key].result()


def _run(folder: Path, index: int, count: int, port: int, before: str, code: str):
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / f"{name}{index}", os.O_WRONLY | os.O_CREAT), number)
    from research.distributed import cluster, processes
    from research.distributed.peers import Peers

    def say(word: object) -> None:
        os.write(1, f"{word}\n".encode())

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    cluster.HEARTBEAT_TIMEOUT_S = 3  # JAX's; of several seconds in a run
    names = dict(index=index, say=say, die=die, cluster=cluster, os=os, time=time)
    exec(before, names)
    peers = names["peers"] = Peers(lost_exit_code=LOST_EXIT_CODE)
    if count > 1:
        place = processes.Cluster(f"localhost:{port}", count, index)
        peers = names["peers"] = cluster.join_cluster(
            place, timeout_s=START_TIMEOUT_S, lost_exit_code=LOST_EXIT_CODE
        )
    with peers.handle_sigterm():
        say("connected")
        try:
            exec(code, names)
        except Exception as error:
            peers.announce_failure(cli.MISTAKE, str(error), await_cause=False)
            os._exit(cli.MISTAKE)
    os._exit(cli.DONE)
