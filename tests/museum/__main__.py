"""Runs the museum: builds each mutant beside the project and asks its tests.

python -m tests.museum [--only=WORD] [--log=FILE]

Prints a line for each mutant, then the score; exits with 1 if one survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.museum import ROOT, Mutant, mutants

CARRIED = ("research", "experiments", "launch", "tests", "docs")
FILES = ("pyproject.toml", "setup.py", "README.md", "Makefile")
KILLED = 1
"""What pytest exits with when tests fail; anything else is not a verdict."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.museum")
    parser.add_argument("--only", default="", help="mutants whose bug has this word")
    only = parser.parse_args().only
    chosen = [m for m in mutants() if only in f"{m.pitfall} {m.bug} {m.file}"]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in CARRIED:
            shutil.copytree(ROOT / name, copy / name)
        for name in FILES:
            shutil.copy(ROOT / name, copy / name)
        killed = sum(
            show(mutant, number, len(chosen), run(mutant, copy))
            for number, mutant in enumerate(chosen, 1)
        )
    print(f"{killed} of {len(chosen)} mutants killed")
    return int(killed < len(chosen))


def run(mutant: Mutant, copy: Path) -> tuple[int, str]:
    """pytest's exit status on the mutant, and the end of what it printed."""
    path = copy / mutant.file
    whole = path.read_text()
    path.write_text(mutant.applied(whole))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(
            [*command, *mutant.tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
        )
    finally:
        path.write_text(whole)
    return done.returncode, (done.stdout + done.stderr)[-600:]


def show(mutant: Mutant, number: int, total: int, verdict: tuple[int, str]) -> bool:
    """Prints a mutant's line; whether it was killed."""
    status, output = verdict
    word = {KILLED: "killed", 0: "SURVIVED"}.get(status, f"NO VERDICT ({status})")
    pitfall = f" (pitfall {mutant.pitfall})" if mutant.pitfall else ""
    print(f"[{number}/{total}] {word}: {mutant.bug}{pitfall}", flush=True)
    if status not in (KILLED, 0):
        print(output, flush=True)
    return status == KILLED


if __name__ == "__main__":
    sys.exit(main())
