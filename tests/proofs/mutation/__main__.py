"""Applies each mutant to a copy of the project, and runs the tests that must kill it.

    python -m tests.proofs.mutation [--group=GROUP] [--only=WORD] [--parallel=NUMBER]
    python -m tests.proofs.mutation --check

Prints first which mutants no longer apply to the code, and with --check which select no
test, and no more than that. The tests of all others must pass without a mutant. Prints
a line for each, then the number killed; exits with 1 unless that is all of them.
"""

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.proofs.mutation import ROOT, Mutant, mutants_by_group, stale_lines
from tests.proofs.mutation._selections import empty_selections

COPIED_FOLDERS = ("research", "experiments", "launch", "tests", "docs")
COPIED_FILES = ("palimpsest.py", "pyproject.toml", "setup.py", "README.md", "Makefile")
TESTS_FAILED = 1
"""pytest's exit status. Any other than this and 0 says nothing about the mutant."""
TIMED_OUT = -1
TIMEOUT_S = 900
"""For the tests of one mutant."""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.mutation")
    parser.add_argument(
        "--group", default="", help="mutants of one group", choices=mutants_by_group()
    )
    parser.add_argument(
        "--only", default="", help="mutants with this in their bug or file"
    )
    parser.add_argument(
        "--parallel",
        type=int,
        default=os.cpu_count(),
        help="mutants at a time, each in a copy of its own (default: one a core)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="only say which mutants no longer apply or select no test, in a minute",
    )
    return parser


def main() -> int:
    args = parser().parse_args()
    if args.parallel < 1:
        parser().error(f"--parallel must be at least 1, got {args.parallel}")
    groups = {
        name: [m for m in group if args.only in f"{m.bug} {m.file}"]
        for name, group in mutants_by_group().items()
        if args.group in ("", name)
    }
    mutants = [mutant for group in groups.values() for mutant in group]
    if not mutants:
        parser().error(
            f"no mutant of these groups has {args.only!r} in its bug or file"
        )
    stale = stale_lines(groups)
    for line in stale.values():
        print(f"STALE: {line}", flush=True)
    if args.check:
        untested = empty_selections(mutants)
        for line in untested.values():
            print(f"NO TEST: {line}")
        print(f"{len(mutants) - len(stale)} of {len(mutants)} mutants apply")
        return int(bool(stale or untested))
    num_killed = run_mutants([m for m in mutants if m not in stale], args.parallel)
    print(f"{num_killed} of {len(mutants)} mutants killed, {len(stale)} stale")
    return int(num_killed < len(mutants))


def run_mutants(chosen: list[Mutant], num_copies: int) -> int:
    """The number of killed mutants: 0 if tests fail without any, or none is chosen."""
    if not chosen:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder, str(number)) for number in range(num_copies)]
        for copy in copies:
            copy_project(copy)
        status, output = check_without_mutant(chosen, copies[0])
        if status:
            print(f"the tests fail without any mutant:\n{output}")
            return 0
        return sum(
            report(mutant, f"[{number}/{len(chosen)}]", *result)
            for number, (mutant, result) in enumerate(
                zip(chosen, check_mutants(chosen, copies), strict=True), 1
            )
        )


def copy_project(copy: Path) -> None:
    for name in COPIED_FOLDERS:
        shutil.copytree(ROOT / name, copy / name)
    for name in COPIED_FILES:
        shutil.copy(ROOT / name, copy / name)


def check_without_mutant(chosen: Iterable[Mutant], copy: Path) -> tuple[int, str]:
    """`run_pytest` on the tests of all chosen mutants, on the unchanged copy."""
    files = sorted({mutant.test_file for mutant in chosen})
    expressions = sorted({mutant.test_expression for mutant in chosen})
    expression = " or ".join(f"({expression})" for expression in expressions)
    files += ["-n", "auto", "--dist", "loadfile"]
    return run_pytest(files, expression, copy, timeout_s=None)


def check_mutants(
    chosen: Iterable[Mutant], copies: list[Path]
) -> Iterator[tuple[int, str]]:
    """`check_mutant` on each, in order, as many at a time as there are copies."""
    free = queue.SimpleQueue[Path]()
    for copy in copies:
        free.put(copy)

    def check(mutant: Mutant) -> tuple[int, str]:
        copy = free.get()
        try:
            return check_mutant(mutant, copy)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(check, chosen)


def check_mutant(mutant: Mutant, copy: Path) -> tuple[int, str]:
    """`run_pytest` on a mutant's tests, with the mutant applied to the copy."""
    path = copy / mutant.file
    original = path.read_text()
    path.write_text(mutant.applied(original))
    try:
        return run_pytest([mutant.test_file], mutant.test_expression, copy)
    finally:
        path.write_text(original)


def run_pytest(
    arguments: list[str],
    expression: str,
    copy: Path,
    timeout_s: float | None = TIMEOUT_S,
) -> tuple[int, str]:
    """pytest's exit status, or TIMED_OUT, and the end of its output."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *arguments, "-k", expression],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return TIMED_OUT, f"pytest did not end within {timeout_s} s"
    return done.returncode, done.stdout[-1500:]


def report(mutant: Mutant, number: str, status: int, output: str) -> bool:
    """Prints a mutant's line; returns whether it was killed."""
    result = {TESTS_FAILED: "killed", 0: "SURVIVED"}
    word = result.get(status, f"UNKNOWN (pytest status {status})")
    pitfall = f" (published bug {mutant.pitfall})" if mutant.pitfall else ""
    print(f"{number} {word}: {mutant.bug}{pitfall}", flush=True)
    if status == TESTS_FAILED:
        failed = re.findall(r"^FAILED [^:]*::(.{0,100})", output, re.MULTILINE)
        print(f"    by {failed[-1]}" if failed else output, flush=True)
    elif status:
        print(output, flush=True)
    return status == TESTS_FAILED


if __name__ == "__main__":
    sys.exit(main())
