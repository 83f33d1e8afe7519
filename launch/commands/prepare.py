"""Prepares a run's data: `palimpsest prepare --config=F [--config.key=value]`.

Builds the vocabulary, token streams and indices in data.cache_dir, where runs find
them. Processes with the same cache_dir share the work: start the command on several
machines, or give --shards=N --workdir=D to start it N times on a backend (--on=...).
The result has the same bytes as that of one process.

`--batches=N --output=DIR` also saves the batches of the first N steps and of the
evaluation; `--config.data.task=DIR` trains from them without the text. Such a run has
no test split and does not score predictions, since both need the text.
"""

import dataclasses

from etils import epath

from launch import cli
from launch.backends import attempt_log, run_attempt, scheduler, submit
from launch.config import load_config
from research.config.identity import CONFIG_FILE
from research.config.phases import run_phases
from research.contract.errors import UserError
from research.data.source import saved_batches
from research.data.source.build import with_test_split
from research.files.existence import exists
from research.files.json_files import read_json, write_json
from research.files.paths import absolute_path
from research.program.setup import open_run_data

MAX_SHARDS = 256
"""Largest value of --shards; each process gets at least a gigabyte of text."""


@dataclasses.dataclass(eq=False)
class Shard:
    """One of the processes that prepare the same data; a job of a backend."""

    name: str
    folder: epath.Path
    flags: list[str]  # of this command

    parents, progress = {}, (0, 1)

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def done(self) -> bool:
        return self._result.exists()

    @property
    def command(self) -> list[str]:
        flags = [*self.flags, f"--shard={self.folder}"]
        return ["python", "-m", "launch.commands.prepare", *flags]

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of tokens, documents and examples, as the process printed them."""
        remedy = "delete it and start the command again"
        return read_json(self._result, remedy, values=int)

    @property
    def summary(self) -> str:
        return "done"

    @property
    def _result(self) -> epath.Path:
        return self.folder / run_attempt.RESULT


def run(args) -> int:
    if (args.batches is None) != (args.output is None):
        raise UserError("--batches=N and --output=DIR must be given together")
    config = load_config(args.config, args.overrides)
    if args.shards:
        return _run_shards(args)
    if args.workdir:
        raise UserError(
            "--workdir=DIR is for the logs of --shards=N; leave it out: prepared data "
            "is in data.cache_dir"
        )
    for phase in run_phases(config):
        open_run_data(phase.config)  # the index of its length
    if (tested := with_test_split(config.data, config.objective)) is not None:
        open_run_data(dataclasses.replace(config, data=tested))
    data = open_run_data(config)
    _print_counts(data.counts)
    if args.output:
        folder = epath.Path(args.output)
        saved_batches.save_batches(
            config.data,
            config.objective,
            data,
            folder,
            seed=config.seed,
            steps=args.batches,
        )
        print(f"{args.batches} batches in {folder}: --config.data.task={folder}")
    if args.shard:
        write_json(epath.Path(args.shard) / run_attempt.RESULT, data.counts)
    return cli.DONE


def _run_shards(args) -> int:
    """Prepares the data in several processes on a backend."""
    if not args.workdir or args.output:
        raise UserError(
            "--shards=N needs --workdir=DIR for its logs and no --output; "
            "save batches afterwards, in one process"
        )
    config_flags = [f"--config={args.config}"]
    config_flags += [f"--config.{key}={value}" for key, value in args.overrides.items()]
    workdir = absolute_path(args.workdir)
    if exists(workdir / CONFIG_FILE) or exists(workdir / "sweep.json"):
        raise UserError(
            f"--workdir={args.workdir} holds a run or a sweep; give the logs of shards "
            "a folder of their own"
        )
    shards = [
        Shard(f"shard {n + 1} of {args.shards}", workdir / f"shard-{n}", config_flags)
        for n in range(args.shards)
    ]
    flags = submit.read_flags(args)
    submit.make_backend(flags)  # reports wrong flags before the work starts
    with scheduler.only_driver(workdir):
        for shard in shards:  # an old result may belong to other text
            (shard.folder / run_attempt.RESULT).unlink(missing_ok=True)
        before = [
            each.round for s in shards for each in attempt_log.read_attempts(s.folder)
        ]
        number = 1 + max(before, default=0)
        code = submit.run_jobs(
            shards, flags, workdir=workdir, round=number, noun="shards"
        )
    if all(shard.done for shard in shards):
        _print_counts(shards[0].counts)
    return code


def _print_counts(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        print(f"{name} {count}")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_path("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument(
        "--batches", type=cli.whole(1), help="number of steps whose batches to save"
    )
    parser.add_path("--output", help="folder for the saved batches")
    parser.add_argument(
        "--shards", type=cli.whole(1, MAX_SHARDS), help="processes that share the work"
    )
    parser.add_path("--workdir", help="folder for the logs of the shards")
    parser.add_path(
        "--shard",
        help="folder of one process; set by --shards",
    )
    submit.add_flags(parser)
    return parser


if __name__ == "__main__":
    cli.main(run, parser(), resumes=True)
