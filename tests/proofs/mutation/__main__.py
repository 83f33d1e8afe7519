"""Runs the museum: builds each mutant in a copy of the project and asks its tests.

python -m tests.proofs.mutation [--room=ROOM] [--only=WORD]

First the tests themselves, of which all must pass on the project as it is. Prints a
line for each mutant, then the score; exits with 1 if one is not killed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.proofs.mutation import ROOT, Mutant, rooms

CARRIED = ("research", "experiments", "launch", "tests", "docs")
FILES = ("pyproject.toml", "setup.py", "README.md", "Makefile")
KILLED = 1
"""What pytest exits with when tests fail; anything but this or 0 is no verdict."""

LIMIT = 900
"""Seconds that a mutant's tests may take."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.mutation")
    parser.add_argument(
        "--room", default="", help="mutants of one room", choices=rooms()
    )
    parser.add_argument("--only", default="", help="mutants whose bug has this word")
    flags = parser.parse_args()
    chosen = [
        mutant
        for room, held in rooms().items()
        for mutant in held
        if flags.room in ("", room) and flags.only in f"{mutant.bug} {mutant.file}"
    ]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in CARRIED:
            shutil.copytree(ROOT / name, copy / name)
        for name in FILES:
            shutil.copy(ROOT / name, copy / name)
        status, output = check(chosen, copy)
        if status:
            print(f"the tests fail without any mutant:\n{output}")
            return 1
        killed = sum(
            show(mutant, f"[{number}/{len(chosen)}]", *run(mutant, copy))
            for number, mutant in enumerate(chosen, 1)
        )
    print(f"{killed} of {len(chosen)} mutants killed")
    return int(killed < len(chosen))


def check(chosen: Iterable[Mutant], copy: Path) -> tuple[int, str]:
    """The tests of all mutants on the project as it is."""
    suites = sorted({mutant.suite for mutant in chosen})
    laws = sorted({mutant.laws for mutant in chosen})
    return ask(suites, " or ".join(f"({law})" for law in laws), copy)


def run(mutant: Mutant, copy: Path) -> tuple[int, str]:
    """pytest's exit status on the mutant, and the end of what it printed."""
    path = copy / mutant.file
    whole = path.read_text()
    path.write_text(mutant.applied(whole))
    try:
        return ask([mutant.suite], mutant.laws, copy)
    finally:
        path.write_text(whole)


def ask(suites: list[str], laws: str, copy: Path) -> tuple[int, str]:
    """pytest's exit status, and the end of what it printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *suites, "-k", laws],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no answer in {LIMIT} seconds"
    return done.returncode, done.stdout[-1500:]


def show(mutant: Mutant, number: str, status: int, output: str) -> bool:
    """Prints a mutant's line; whether it was killed."""
    word = {KILLED: "killed", 0: "SURVIVED"}.get(status, f"NO VERDICT ({status})")
    pitfall = f" (pitfall {mutant.pitfall})" if mutant.pitfall else ""
    print(f"{number} {word}: {mutant.bug}{pitfall}", flush=True)
    if status == KILLED:
        told = re.findall(r"^FAILED [^:]*::(.{0,100})", output, re.MULTILINE)
        print(f"    by {told[-1]}" if told else output, flush=True)
    elif status:
        print(output, flush=True)
    return status == KILLED


if __name__ == "__main__":
    sys.exit(main())
