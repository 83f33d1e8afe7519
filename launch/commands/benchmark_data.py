"""Measures each objective's data pipeline in text tokens per CPU second.

`palimpsest benchmark_data --config=F [--config.key=value]` prints a JSON object:
for each objective, the rate at which batches are made (read, corrupt, format) in the
best of `--rounds` rounds. Tokens are batch x length; seconds are CPU time of the one
thread that makes them, so that other load on the machine matters less. The rate is null
if the config lacks something that the objective needs (labels, a lexicon, a network
with bidirectional attention).
"""

import json
import sys
import time

from launch.cli import Parser, main, whole
from launch.config import load_config
from research import objectives
from research.contract.errors import UserError
from research.program.setup import open_run_data

MIN_ROUND_S = 0.5


def run(args) -> None:
    load_config(args.config, args.overrides)  # is the config legal by itself?
    rates = {}
    for name in objectives.names():
        one_length = {"objective.name": name, "data.length_buckets": []}
        try:
            config = load_config(args.config, {**args.overrides, **one_length})
            tokens = config.train.batch * config.data.length
            data = open_run_data(config)
            rates[name] = max(
                tokens * _batches_per_second(data.train) for _ in range(args.rounds)
            )
        except UserError as error:
            rates[name] = None
            print(f"{name}: {error}", file=sys.stderr)
    print(json.dumps({"tokens_per_second": rates}))


def _batches_per_second(pipeline) -> float:
    """The rate in one round."""
    calls = pipeline.calls()
    next(calls)  # opens the files
    start, num = time.thread_time(), 0
    while (elapsed := time.thread_time() - start) < MIN_ROUND_S:
        num += len(next(calls))
    return num / elapsed


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_path("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--rounds", type=whole(1), default=5)
    return parser


if __name__ == "__main__":
    main(run, parser())
