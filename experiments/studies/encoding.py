"""Vectors of texts beside sentence-transformers: rates in turns, as a Markdown table.

    python -m experiments.studies.encoding \\
        --model=DIR --texts=texts.txt --python=other/bin/python

DIR is a folder of sentence-transformers, the Python one that has that package. Both
open the model, encode the texts once, and then in turns, each in a process of its own
that waits while the other works. Rates are texts by CPU second of the process; the last
column is the median of the turns' ratios. The largest difference between the vectors
is printed, too. Beside other work threads that wait for each other use up seconds: run
it on one core (`taskset -c 0`), or on a machine that does nothing else.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from launch import cli
from launch.measure.processor import processor_name
from research.contract.errors import UserError

WORKER = """
import json, sys, time
import numpy as np
model_name, texts, vectors = sys.argv[1:]
texts = open(texts, encoding="utf-8").read().splitlines()
{load}
for turn, _ in enumerate(sys.stdin):
    began = time.perf_counter(), time.process_time()
    found = encode(texts)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    if not turn:
        np.save(vectors, np.asarray(found, np.float32))
    print(json.dumps(seconds), flush=True)
"""
OURS = """
from research.use.inference.open_run import open_run
encode = open_run("hf:" + model_name).encode
"""
THEIRS = """
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(model_name, device="cpu")
encode = lambda texts: model.encode(texts, show_progress_bar=False)
"""


class Worker:
    """A process that encodes the texts once for each `turn`."""

    def __init__(self, python: str, load: str, args: argparse.Namespace, vectors: Path):
        code = WORKER.format(load=load)
        words = [python, "-c", code, args.model, args.texts, str(vectors)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def turn(self) -> tuple[float, float]:
        """Wall and CPU seconds."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            raise UserError(f"{self.process.args[0]} ended; its error is above")
        wall, cpu = json.loads(line)
        return wall, cpu

    def end(self) -> None:
        self.process.communicate()


def run(args: argparse.Namespace) -> None:
    count = len(Path(args.texts).read_text("utf-8").splitlines())
    folder = Path(args.workdir)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "ours.npy", folder / "theirs.npy"]
    workers = [
        Worker(sys.executable, OURS, args, files[0]),
        Worker(args.python, THEIRS, args, files[1]),
    ]
    first = [worker.turn() for worker in workers]  # opens, compiles
    turns = [[worker.turn() for worker in workers] for _ in range(args.turns)]
    for worker in workers:
        worker.end()
    print("\n".join(table(count, first, turns)))
    ours, theirs = (np.load(file) for file in files)
    print(f"\nLargest difference of the vectors: {np.abs(ours - theirs).max():.1e}")


def table(count: int, first: Sequence[Any], turns: Sequence[Any]) -> list[str]:
    """The lines of the table.

    Args:
      count: the number of texts.
      first: (wall, CPU) seconds of the first turn, of ours and of theirs.
      turns: the same of each later turn.
    """
    wall, cpu = np.moveaxis(np.array(turns), 2, 0)  # [turns, 2] each
    ratio = np.median(cpu[:, 1] / cpu[:, 0])
    rates = count / np.median(cpu, axis=0)
    lines = [
        f"| {processor_name()}, {count} texts, {len(turns)} turns "
        "| first, s | a turn, s | texts by CPU second | ours / theirs |",
        "|---|--:|--:|--:|--:|",
    ]
    for n, name in enumerate(("ours", "sentence-transformers")):
        shown = f"{ratio:.2f}" if n == 0 else ""
        lines.append(
            f"| {name} | {first[n][0]:.1f} | {np.median(wall[:, n]):.2f} | "
            f"{rates[n]:.0f} | {shown} |"
        )
    return lines


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--texts", required=True, help="a text a line")
    parser.add_argument("--python", required=True, help="that of the other package")
    parser.add_argument("--turns", type=cli.whole(1), default=5)
    parser.add_argument("--workdir", default="runs/encoding", help="of the vectors")
    return parser


if __name__ == "__main__":
    sys.exit(cli.main(run, parser()))
