"""Applies each mutant of tests/mutants.toml, and runs the tests that must fail.

    python -m tests.proofs.mutants [--only=WORD] [--parallel=NUMBER]

A mutant is a bug as a change of one file. Each runs in a fork of this process, which
has imported the libraries and nothing of the project, inside of a copy of the project.
The named tests must pass without a mutant, and each must fail with its own: by an
assertion, or by the exception that the mutant names. Exits with 1 unless all do.
"""

import argparse
import contextlib
import importlib
import json
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).parents[2]
COPIED = ("research", "experiments", "launch", "tests", "docs", "pyproject.toml")
LIBRARIES = ("flax.linen", "optax", "orbax.checkpoint", "ml_collections", "scipy.stats")
"""Imported before the forks."""
ASSERTIONS = {"AssertionError", "Failed", "FlakyFailure", "ExceptionGroup"}
"""Exceptions of an assertion: also of pytest.raises, and of hypothesis."""
TIMEOUT_S = 600


class Mutant(NamedTuple):
    """A row of mutants.toml."""

    id: str
    bug: str  # in words
    file: str
    old: str  # occurs exactly once in the file
    new: str
    tests: list[str]  # pytest's node ids; one without [...] has all its cases
    published: int = 0  # its row of docs/published_bugs.md; 0: a bug of our own
    error: str = ""  # the exception by which tests fail that fail by no assertion

    def applied(self, text: str) -> str:
        """Returns the file's text with the bug.

        Raises:
          ValueError: `old` does not occur exactly once.
        """
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.id}: {self.old!r} must occur once, got {count}")
        return text.replace(self.old, self.new)


class Job(NamedTuple):
    """Tests that run in one fork, with a mutant or without."""

    tests: list[str]
    mutant: Mutant | None = None

    def failure(self, status: int | None, errors: dict[str, list[str]]) -> str:
        """Returns what is wrong with how pytest ended; "" if nothing is.

        Args:
          status: pytest's; None: it was killed, or took too long.
          errors: test -> types of the exceptions by which its cases failed.
        """
        if self.mutant is None:
            return "" if status == 0 else "FAILS WITHOUT A MUTANT"
        if status not in (0, 1):
            return f"UNKNOWN (status {status})"
        if alive := [test for test in self.tests if not errors[test]]:
            return f"SURVIVED ({', '.join(alive)})"
        expected = {self.mutant.error} if self.mutant.error else ASSERTIONS
        others = {name for names in errors.values() for name in names} - expected
        return f"WRONG FAILURE ({', '.join(others)})" if others else ""


def read_mutants() -> list[Mutant]:
    text = (ROOT / "tests" / "mutants.toml").read_text("utf-8")
    return [Mutant(**row) for row in tomllib.loads(text)["mutant"]]


class Recorder:
    """A plugin of pytest that keeps by which exceptions tests fail.

    Further cases of a test that has failed are skipped.
    """

    def __init__(self, tests: Iterable[str]):
        self.errors: dict[str, list[str]] = {test: [] for test in tests}

    def _tests_of(self, nodeid: str) -> list[str]:
        return [name for name in self.errors if f"{nodeid}[".startswith(f"{name}[")]

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)  # a smaller example says no more
        settings.register_profile("mutants", settings(), phases=phases)
        settings.load_profile("mutants")

    def pytest_runtest_setup(self, item: Any) -> None:
        import pytest

        if all(self.errors[name] for name in self._tests_of(item.nodeid)):
            pytest.skip("a case of it has failed")

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.excinfo and call.excinfo.typename != "Skipped":
            for name in self._tests_of(item.nodeid):
                self.errors[name].append(call.excinfo.typename)


def run_in_fork(job: Job, copy: Path, scratch: Path) -> NoReturn:
    """Runs pytest in this process, a fork; writes log.txt and verdict.json."""
    os.setsid()
    log = os.open(scratch / "log.txt", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(copy)
    sys.path[:] = [str(copy), *(p for p in sys.path if p and Path(p) != ROOT)]
    os.environ["PYTHONPATH"] = str(copy)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    sys.dont_write_bytecode = job.mutant is not None
    import pytest

    recorder = Recorder(job.tests)
    flags = ["-n0", "-p", "no:cacheprovider", f"--basetemp={scratch / 'tmp'}"]
    flags += ["-m", "long or not long", "--disable-warnings"]
    status = int(pytest.main([*flags, *job.tests], plugins=[recorder]))
    verdict = {"status": status, "errors": recorder.errors}
    (scratch / "verdict.json").write_text(json.dumps(verdict))
    sys.stdout.flush()
    os._exit(0)


@contextlib.contextmanager
def applied(mutant: Mutant | None, copy: Path) -> Iterator[None]:
    """Changes the copy; then restores the file, with the time that its bytecode has."""
    if mutant is None:
        yield
        return
    path = copy / mutant.file
    text, stat = path.read_text("utf-8"), path.stat()
    path.write_text(mutant.applied(text), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def run_job(job: Job, copy: Path) -> Iterator[tuple[bool, str] | None]:
    """Yields None while the job runs, then whether all is well, and its line."""
    began, title = time.monotonic(), job.mutant.id if job.mutant else job.tests[0]
    with tempfile.TemporaryDirectory() as name, applied(job.mutant, copy):
        scratch = Path(name)
        pid = os.fork()
        if not pid:
            try:
                run_in_fork(job, copy, scratch)
            finally:
                os._exit(1)
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() - began > TIMEOUT_S:
                os.killpg(pid, signal.SIGKILL)
            yield None
        verdict: dict[str, Any] = {"status": None, "errors": {}}
        if (scratch / "verdict.json").exists():
            verdict = json.loads((scratch / "verdict.json").read_text())
        problem = job.failure(**verdict)
        log = (scratch / "log.txt").read_text(errors="replace")[-3000:]
    word = problem or ("killed" if job.mutant else "passes without a mutant")
    line = f"{title}: {word}, {time.monotonic() - began:.1f} s"
    yield not problem, f"{line}\n{log}" if problem else line


def run_jobs(jobs: Iterable[Job], copies: Iterable[Path]) -> int:
    """Runs a job in each copy at a time; returns how many of them failed."""
    waiting, failures = list(jobs)[::-1], 0
    running: dict[int, Iterator[tuple[bool, str] | None]] = {}
    while waiting or running:
        for slot, copy in enumerate(copies):
            if slot not in running and waiting:
                running[slot] = run_job(waiting.pop(), copy)
            if slot in running and (end := next(running[slot])):
                del running[slot]
                failures += not end[0]
                print(end[1], flush=True)
        time.sleep(0.02)
    return failures


def baseline(mutants: Iterable[Mutant]) -> list[Job]:
    """Returns the tests of all mutants: a job for each file of tests."""
    by_file: dict[str, dict[str, None]] = {}
    for mutant in mutants:
        for test in mutant.tests:
            by_file.setdefault(test.partition("::")[0], {})[test] = None
    return [Job([*tests]) for tests in by_file.values()]


def copy_project(copy: Path, source: Path = ROOT) -> Path:
    copy.mkdir()
    for name in COPIED:
        is_folder = (source / name).is_dir()
        (shutil.copytree if is_folder else shutil.copy2)(source / name, copy / name)
    return copy


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.mutants")
    parser.add_argument("--only", default="", help="mutants with this in their id")
    parser.add_argument("--parallel", type=int, default=os.cpu_count())
    return parser


def main() -> int:
    args, began = parser().parse_args(), time.monotonic()
    mutants = [mutant for mutant in read_mutants() if args.only in mutant.id]
    if not mutants:
        parser().error(f"no mutant has {args.only!r} in its id")
    runpy.run_path(str(ROOT / "tests" / "conftest.py"))  # for JAX's environment
    for name in LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        first, *others = (Path(folder, str(n)) for n in range(args.parallel))
        copy_project(first)
        if run_jobs(baseline(mutants), [first] * args.parallel):
            return 1
        # With the bytecode that the first copy has now.
        copies = [first, *(copy_project(other, first) for other in others)]
        failures = run_jobs([Job(m.tests, m) for m in mutants], copies)
    seconds = time.monotonic() - began
    print(
        f"{len(mutants) - failures} of {len(mutants)} mutants killed, {seconds:.0f} s"
    )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
