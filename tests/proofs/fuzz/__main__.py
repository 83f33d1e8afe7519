"""Runs cases of the fuzz test: `python -m tests.proofs.fuzz --cases=5000`.

Prints how many commands went on and how many were refused, or the smallest case that
Hypothesis finds which fails, and exits with 1. With --every_damage each file then has
each damage, and one of the commands that read it is run.
"""

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
# Programs run for less time than they take to compile, and are kept for other cases.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

import jax
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from launch.cli import Parser
from tests.proofs.fuzz import command_cases, config_cases, real_cases

FRACTIONS = {real_cases: 1.0, config_cases: 0.6, command_cases: 0.4}
"""Cases of each kind, as a fraction of --cases."""


def run_cases(
    module,
    count: int,
    folder: Path,
    *,
    drawn: SearchStrategy | None = None,
    seed_: int | None = None,
    report: Callable[[Counter], None] = lambda counts: None,
) -> Counter:
    """Runs cases of one kind.

    Args:
      folder: for the files of the cases, which are made once.
      drawn: the cases; None: all of the kind.
      seed_: None: the same cases each time.
      report: gets the counts after each case.

    Returns:
      how many went on, and how many were refused.

    Raises:
      AssertionError: a case fails; Hypothesis shows the smallest that it finds.
    """
    counts = Counter()

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=seed_ is None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(case=module.cases() if drawn is None else drawn)
    def check(case) -> None:
        code = module.check(case, folder).code
        counts["refused" if code else "went on"] += 1
        report(counts)

    (check if seed_ is None else seed(seed_)(check))()
    return counts


class Progress:
    """Prints a line a minute: how many cases of one module have passed."""

    def __init__(self, name: str, total: int):
        self._name, self._total, self._last = name, total, time.time()

    def __call__(self, counts: Counter) -> None:
        if time.time() - self._last > 60:
            self._last = time.time()
            print(f"{self._name}: {counts.total()} of {self._total}", flush=True)


def main() -> int:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--every_damage", action="store_true")
    args = parser.parse_args()
    print(f"--seed={args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        jax.config.update("jax_compilation_cache_dir", f"{name}/xla")
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        for module, fraction in FRACTIONS.items():
            folder, began = Path(name) / module.__name__.rpartition(".")[2], time.time()
            folder.mkdir()
            count = round(args.cases * fraction)
            report = Progress(folder.name, count)
            counts = run_cases(module, count, folder, seed_=args.seed, report=report)
            if module is real_cases and args.every_damage:
                rng = random.Random(args.seed)
                for case in real_cases.every_damage(rng, folder):
                    code = real_cases.check(case, folder).code
                    counts["refused" if code else "went on"] += 1
                    report(counts)
            print(
                f"{folder.name}: {counts['went on']} went on, {counts['refused']} were "
                f"refused, 0 failed; {time.time() - began:.0f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
