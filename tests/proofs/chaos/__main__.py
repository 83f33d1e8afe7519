"""Kills runs, exports, reports and sweeps: nothing may be lost.

    python -m tests.proofs.chaos --workdir=runs/chaos [--kills=50] [--short]

A small run is killed at random moments: while it starts, fills its cache, trains,
saves or evaluates; it ends bit-equal to one that is not killed. So does one of two
processes, of which one is killed. A run goes on with fewer devices and on other meshes;
a second writer of a workdir is refused, and a run whose checkpoint folder becomes
read-only ends. Exports and reports that are killed leave nothing half written. Drivers
of sweeps get signals until the sweep ends. --short does each of these once or twice, on
less text, in about a minute; without it a run of clip is killed, too.
"""

import json
import os
import random
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # most programs run for less time

from launch import cli
from research.contract.errors import UserError
from tests.proofs import permissions
from tests.proofs.chaos import killed_commands
from tests.proofs.chaos.killed_runs import KilledRuns
from tests.testing.tiny_runs import write_corpus

SMALL = {
    "data.length": 32,
    "data.vocabulary_size": 512,
    "model.layers": 2,
    "model.width": 32,
    "model.heads": 2,
    "model.feedforward": 64,
    "model.dropout": 0.1,
    "optimizer.warmup_steps": 10,
    "train.batch": 16,
    "train.steps": 240,
    "train.log_every": 6,
    "train.eval_every": 60,
    "train.checkpoint_every": 10,
}
"""A run of seconds that logs, evaluates and saves often."""

SHORT = {
    "data.vocabulary_size": 384,
    "data.held_out": 0.1,
    "model.layers": 1,
    "train.steps": 60,
    "train.eval_every": 30,
}


def run(args) -> None:
    """Prints a line for each kind of fault.

    Raises:
      UserError: something is lost, or the workdir is not empty.
    """
    folder, rng = Path(args.workdir).resolve(), random.Random(args.seed)
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"--workdir={folder} must be empty; give a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    permissions.obey()
    kills, others = (2, 1) if args.short else (args.kills, args.kills // 2)
    keys = SMALL
    if args.short:
        keys |= SHORT | {"data.corpus": write_corpus(folder) / "corpus"}
    alone = KilledRuns(folder / "one", keys, rng)
    print(alone.kill(kills), flush=True)
    print(alone.lose_folder(), flush=True)
    print(alone.move_to_fewer_devices(), flush=True)
    two = KilledRuns(folder / "two", keys, rng, processes=2)
    print(two.kill(others), flush=True)
    if not args.short:
        print(killed_pictures(folder / "clip", rng).kill(others), flush=True)
    import research.use.export  # noqa: F401  # once, before the forks

    written = killed_commands.reported(folder), killed_commands.exported(folder, keys)
    for each in written:
        print(killed_commands.kill_writer(each, others, rng), flush=True)
    sweeps = 1 if args.short else 6
    print(killed_commands.disturb_sweeps(folder, keys, sweeps, rng), flush=True)


def killed_pictures(folder: Path, rng: random.Random) -> KilledRuns:
    """Runs of clip on random pictures."""
    folder.mkdir()
    captions = folder / "pictures.captioned"
    lines = ({"text": f"picture number {n}", "image": n % 40} for n in range(400))
    captions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    keys = SMALL | SHORT | {"objective.images": "random", "objective.patch": 4}
    keys |= {"data.corpus": captions, "data.vocabulary_size": 280}
    return KilledRuns(folder, keys, rng, config="experiments/clip.py:tiny")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument("--workdir", required=True, help="a new folder")
    parser.add_argument("--kills", type=int, default=50, help="of the runs")
    parser.add_argument("--seed", type=int, default=0, help="of moments and victims")
    parser.add_argument("--short", action="store_true", help="in about a minute")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
