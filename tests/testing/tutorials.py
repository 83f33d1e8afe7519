"""The commands of tutorials and what they print, as the pages show it.

    python -m tests.testing.tutorials FOLDER

runs all tutorials in a copy of the program in FOLDER, and writes what comes into the
pages. A block without a language is commands of bash, `python` one of a Python file,
`text` the standard output of the block before it, `sh` commands that are only shown.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from experiments.studies.site_pages import NAV
from tests.testing.compile_flags import FAST_COMPILE

ROOT = Path(__file__).parents[2]
PAGES = tuple(NAV["Tutorials"].values())
COPIED = ("research", "launch", "experiments", "docs", "palimpsest.py")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.\d+(?:e[-+]?\d+)?")
MARK, END = "\0", "END_OF_PYTHON"
TIMEOUT_S = 900  # of a page on a busy machine
IMPORTED = [
    *(f"launch.{name}" for name in ("train", "sweep", "table")),
    *(
        f"launch.commands.{name}"
        for name in ("compile", "evaluate", "export", "generate", "serve")
    ),
    *(
        "launch.backends.run_attempt",
        "research.use.inference.open_run",
        "experiments.studies.patterns",
    ),
    *("orbax.checkpoint", "research.program.setup", "research.train"),
]
"""What the commands import: once for all."""
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": FAST_COMPILE,
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore::RuntimeWarning:runpy",
}
"""As in conftest.py: programs run for less time than they take to compile. A command
that `IMPORTED` has is run anew, of which runpy warns."""


class Block(NamedTuple):
    """Commands and the output that the page shows, None if it shows none."""

    commands: str
    shown: str | None


def blocks(text: str) -> list[Block]:
    """The blocks of a page that are run, in its order."""
    found: list[Block] = []
    for language, code in BLOCK.findall(text):
        if language == "text":
            found[-1] = found[-1]._replace(shown=code)
        elif language == "python":
            found.append(Block(f"python - <<'{END}'\n{code}{END}\n", None))
        elif language == "":
            found.append(Block(code, None))
    return found


def run(commands: list[str], folder: Path) -> list[str]:
    """The standard output of each block; one bash runs all, and ends where one fails.

    Raises:
      AssertionError: a block fails; its commands and the end of standard error.
    """
    script = "set -eo pipefail\n" + "".join(f"{c}\nprintf '\\0'\n" for c in commands)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    with (folder / "stderr.log").open("w+") as errors:
        bash = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=os.environ | ENVIRONMENT | {"PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        stop = threading.Timer(TIMEOUT_S, os.killpg, (bash.pid, signal.SIGKILL))
        stop.start()
        outputs = bash.communicate()[0].split(MARK)
        stop.cancel()
        errors.seek(0)
        last = "".join(errors.readlines()[-20:])
    assert not bash.returncode, f"{commands[len(outputs) - 1]}\n{outputs[-1]}\n{last}"
    return outputs[:-1]


def difference(shown: str, output: str) -> str:
    """The first line in which an output differs from the page's; "" if none does.

    A number with a decimal point may differ by a tenth, or by 0.05.
    """
    lines = shown.splitlines(), output.splitlines()
    for wanted, line in zip(*lines, strict=False):
        if NUMBER.sub("#", wanted) != NUMBER.sub("#", line):
            return f"the page has {wanted!r}, what comes is {line!r}"
        numbers = zip(NUMBER.findall(wanted), NUMBER.findall(line), strict=True)
        for one, other in numbers:
            a, b = (float(number.replace(",", "")) for number in (one, other))
            if abs(a - b) > max(0.05, 0.1 * abs(a)):
                return f"the page has {wanted!r}, what comes is {line!r}"
    if len(lines[0]) != len(lines[1]):
        return f"the page has {len(lines[0])} lines, what comes has {len(lines[1])}"
    return ""


def copy_program(folder: Path) -> None:
    """What a clone has, but for its tests: tutorials write into it."""
    for name in COPIED:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, folder / name)


def start_python(folder: Path) -> subprocess.Popen:
    """FOLDER/bin/python (tests/testing/forked_python.py), ready to be called."""
    (folder / "bin").mkdir()
    program = [sys.executable, ROOT / "tests/testing/forked_python.py"]
    with (folder / "seconds.log").open("w") as seconds:
        process = subprocess.Popen(
            [*program, folder / "bin", *IMPORTED],
            cwd=folder,
            env=os.environ | ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=seconds,
            text=True,
        )
    assert process.stdout.readline() == "ready\n", (folder / "seconds.log").read_text()
    command = folder / "bin" / "palimpsest"
    command.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m palimpsest "$@"\n')
    command.chmod(0o755)
    return process


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True)
    copy_program(folder)
    process = start_python(folder)
    try:
        for page in PAGES:
            path = ROOT / page
            text = path.read_text("utf-8")
            found = blocks(text)
            outputs = run([block.commands for block in found], folder)
            pairs = zip(found, outputs, strict=True)
            shown = iter([o for block, o in pairs if block.shown is not None])

            def filled(match: re.Match, shown=shown) -> str:
                is_output = match[1] == "text"
                return f"```text\n{next(shown)}```" if is_output else match[0]

            path.write_text(BLOCK.sub(filled, text), "utf-8")
            print(page, flush=True)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
