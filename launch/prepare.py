"""A run's data made ahead: `python -m launch.prepare --config=F [--config.key=value]`.

Makes vocabulary, token streams and indices in data.cache_dir, where runs find them.
Processes that share that folder share the work: the same command may run on many
machines at once, or --shards=N --workdir=D starts it N times on an engine (--on=...).
The result is the same, byte for byte, as that of one process.

With `--batches=N --output=DIR` also writes the batches of the first N steps and of the
evaluation; `--config.data.task=DIR` trains from them where there is no text.
"""

import dataclasses
import json

from etils import epath

from launch import cli
from launch.backends import attempt_log, run_attempt, scheduler, submit
from launch.backends.backend import absolute_path
from launch.config import load
from research import objectives
from research.data.loading import saved_batches
from research.data.pipeline import open_data
from research.errors import UserError


@dataclasses.dataclass(eq=False)
class Shard:
    """One of the processes that prepare the same data; a task of an engine."""

    name: str
    folder: epath.Path
    words: list[str]  # flags of this command

    parents, progress = {}, (0, 1)

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def done(self) -> bool:
        return self._result.exists()

    @property
    def command(self) -> list[str]:
        words = [*self.words, f"--workdir={self.folder}"]
        return ["python", "-m", "launch.prepare", *words]

    @property
    def counts(self) -> dict[str, int]:
        """What `launch.prepare` counted."""
        return json.loads(self._result.read_text())

    @property
    def summary(self) -> str:
        return "done"

    @property
    def _result(self) -> epath.Path:
        return self.folder / run_attempt.RESULT


def run(args) -> int:
    if (args.batches is None) != (args.output is None):
        raise UserError("--batches=N and --output=DIR go together")
    if args.batches is not None and args.batches < 1:
        raise UserError(f"--batches={args.batches}: it is at least 1")
    config = load(args.config, args.overrides)
    if args.shards:
        return _spread(args)
    data = open_data(config, objectives.make_objective(**config.objective))
    _print(data.counts)
    if args.output:
        folder = epath.Path(args.output)
        saved_batches.write(config, data, folder, args.batches)
        print(f"{args.batches} batches in {folder}: --config.data.task={folder}")
    if args.workdir:
        attempt_log.write_json(
            epath.Path(args.workdir) / run_attempt.RESULT, data.counts
        )
    return cli.DONE


def _spread(args) -> int:
    """Prepares by several processes of an engine."""
    if not args.workdir or args.shards < 1 or args.output:
        raise UserError(
            "--shards=N, N at least 1, wants --workdir=DIR for their logs; "
            "--batches are written by one process afterwards"
        )
    words = [f"--config={args.config}"]
    words += [f"--config.{key}={value}" for key, value in args.overrides.items()]
    workdir = absolute_path(args.workdir)
    shards = [
        Shard(f"shard {n + 1} of {args.shards}", workdir / f"shard-{n}", words)
        for n in range(args.shards)
    ]
    flags = submit.read_flags(args)
    submit.make_backend(flags)  # what is wrong with it is told at once
    with scheduler.only_driver(workdir):
        for shard in shards:  # what was made then is found, and may be of other text
            (shard.folder / run_attempt.RESULT).unlink(missing_ok=True)
        before = [
            each.round for s in shards for each in attempt_log.read_attempts(s.folder)
        ]
        number = 1 + max(before, default=0)
        code = submit.run_jobs(
            shards, flags, workdir=workdir, round=number, noun="shards"
        )
    if all(shard.done for shard in shards):
        _print(shards[0].counts)
    return code


def _print(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        print(f"{name} {count}")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--batches", type=int, help="steps whose batches are written")
    parser.add_argument("--output", help="the folder they are written to")
    parser.add_argument("--shards", type=int, help="processes that share the work")
    parser.add_argument("--workdir", help="the folder of their logs")
    submit.add_flags(parser)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
