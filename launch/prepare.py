"""A run's data made ahead: `python -m launch.prepare --config=F [--config.key=value]`.

Makes vocabulary, token streams and indices in data.cache_dir, where runs find them.
With `--batches=N --output=DIR` also writes the batches of the first N steps and of the
evaluation; `--config.data.task=DIR` trains from them where there is no text.
"""

from etils import epath

from launch import Parser, main
from launch.config import load
from research import objectives
from research.data import written
from research.data.pipeline import open_data
from research.errors import UserError


def run(args) -> None:
    if (args.batches is None) != (args.output is None):
        raise UserError("--batches=N and --output=DIR go together")
    if args.batches is not None and args.batches < 1:
        raise UserError(f"--batches={args.batches}: it is at least 1")
    config = load(args.config, args.overrides)
    data = open_data(config, objectives.load(**config.objective))
    for name, count in data.counts.items():
        print(f"{name} {count}")
    if args.output:
        folder = epath.Path(args.output)
        written.write(config, data, folder, args.batches)
        print(f"{args.batches} batches in {folder}: --config.data.task={folder}")


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--batches", type=int, help="steps whose batches are written")
    parser.add_argument("--output", help="the folder they are written to")
    return parser


if __name__ == "__main__":
    main(run, parser())
