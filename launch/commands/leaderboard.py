"""Ranks runs of any machine: `palimpsest leaderboard --entries=F [--workdir=D]`.

F is a folder of JSON files, one per run: objective, network, tokens, words, FLOPs,
hardware, seconds, commit, and scores with their intervals. With --workdir, the finished
runs of D, a run or a sweep, are first added to F; --babylm=R adds the results of
`palimpsest babylm --to=R`. Other people's files can be copied into F.

    palimpsest leaderboard --entries=leaderboard --workdir=runs/compare
    palimpsest leaderboard --entries=leaderboard --by='blimp accuracy' --to=board.md

Runs that differ only in the seed share a row, with a 95 % interval over seeds; with one
seed the interval is over items. --by is the score to rank by, by default the one that
most runs have; --scores=A,B are shown next to it. A * in both stands for one word, and
each word has a row: --by='babylm_2026 * blimp' shows all backends. --baseline=ROW adds
the differences from a row, paired by seed, with p for all of them together (Holm).
"""

import argparse
import sys
from pathlib import Path

from launch import cli
from research.contract.errors import UserError, unknown


def run(args: argparse.Namespace) -> None:
    from launch.reports import entries
    from research.files.json_files import write_json
    from research.files.output_files import write_output

    folder = Path(args.entries)
    if args.workdir:
        results = Path(args.babylm) if args.babylm else None
        for workdir, name in _runs(args.workdir):
            entry = entries.make_entry(workdir, name, results)
            write_json(folder / f"{entry['id']}.json", entry)
    elif args.babylm:
        raise UserError("--babylm needs --workdir, the run or sweep that was evaluated")
    others = [name for name in args.scores.split(",") if name]
    patterns = [name for name in (args.by, *others) if "*" in name]
    found = entries.by_backend(entries.read_entries(folder), patterns)
    by, rows = entries.rank([*found], args.by)
    known = {name for row in rows for name in row.values}
    for name in others:
        if name not in known:
            raise unknown("score", name, known)
    lines = entries.ranking_lines(by, rows, others, args.baseline)
    print("\n".join(lines))
    if args.to:
        write_output(args.to, "\n".join(lines) + "\n", "--to")
        print(args.to, file=sys.stderr)


def _runs(workdir: str) -> list[tuple[Path, str]]:
    """The finished runs of a folder, with their names."""
    from launch.sweeps.sweep_plan import finished_trials

    if (trials := finished_trials(workdir)) is None:
        return [(Path(workdir), Path(workdir).name)]
    if not trials:
        raise UserError(f"{workdir} has no finished run")
    return [(Path(trial.folder), trial.row or trial.name) for trial in trials]


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("--entries", required=True, help="folder of the JSON files")
    parser.add_path("--workdir", default="", help="a run or sweep to enter")
    parser.add_path("--babylm", default="", help="its results of palimpsest babylm")
    parser.add_argument("--by", default="", help="the score to rank by")
    parser.add_argument("--scores", default="", help="further scores, comma-separated")
    help = "the row to subtract"
    parser.add_argument("--baseline", default="", help=help)
    parser.add_path("--to", default="", help="file for the table in Markdown")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
