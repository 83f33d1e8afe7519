"""One run: `python -m launch.train --config=F --workdir=D [--config.key=value]`.

It starts again where it stopped. Exit code 0: done; 2: something given was wrong;
3: the loss is not a number.
"""

import sys

from launch import Parser, main
from launch.config import load

NON_FINITE = 3


def run(args) -> int:
    config = load(args.config, args.overrides)
    import jax  # only now: a wrong key is told at once

    from research.data import cache
    from research.train import NonFiniteLossError, train

    jax.config.update(
        "jax_compilation_cache_dir", str(cache.root(config.data.cache_dir) / "xla")
    )
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    try:
        result = train(config, args.workdir)
    except NonFiniteLossError as error:
        print(f"error: {error}", file=sys.stderr)
        return NON_FINITE
    for name, value in result["metrics"].items():
        print(f"{name} {value:.6g}")
    return 0


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--workdir", required=True, help="the run's folder")
    return parser


if __name__ == "__main__":
    main(run, parser())
