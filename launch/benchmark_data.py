"""Host side of each objective, on one thread: text tokens (batch x length) a second.

`python -m launch.benchmark_data --config=F [--config.key=value]` prints a JSON object:
per objective the rate of its batches end to end (read, hide, lay out), the best of
`--rounds` rounds; null where the config has not what it reads (labels, a lexicon).
"""

import json
import sys
import time

from launch.cli import Parser, main
from launch.config import load
from research import objectives
from research.data.pipeline import open_data
from research.errors import UserError

SECONDS = 0.5
"""That a round takes at least."""


def run(args) -> None:
    rates = {}
    for name in objectives.names():
        config = load(args.config, {**args.overrides, "objective.name": name})
        tokens = config.train.batch * config.data.length
        try:
            data = open_data(config, objectives.make_objective(**config.objective))
            rates[name] = max(tokens * _rate(data.train) for _ in range(args.rounds))
        except UserError as error:
            rates[name] = None
            print(f"{name}: {error}", file=sys.stderr)
    print(json.dumps({"tokens_per_second": rates}))


def _rate(pipeline) -> float:
    """Batches a second over one round."""
    batches = pipeline.batches()
    next(batches)  # opens the files
    start, num = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < SECONDS:
        for _ in range(32):
            next(batches)
        num += 32
    return num / passed


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--rounds", type=int, default=5)
    return parser


if __name__ == "__main__":
    main(run, parser())
