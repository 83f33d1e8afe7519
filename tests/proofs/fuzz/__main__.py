"""Runs cases of the fuzz test: `python -m tests.proofs.fuzz --cases=5000`.

Prints how many commands went on and how many were refused, or the smallest case that
Hypothesis finds which fails, and exits with 1. With --every_damage each command then
meets each damage of each file.
"""

import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

from hypothesis import HealthCheck, Phase, given, seed, settings

from launch.cli import Parser
from tests.proofs.fuzz import command_cases, config_cases, damage_cases, real_cases

FRACTIONS = {config_cases: 0.6, command_cases: 0.2, damage_cases: 0.2, real_cases: 1.0}
"""Cases of each kind, as a fraction of --cases."""


def run_cases(module, count: int, folder: Path, *, seed_: int | None = None) -> Counter:
    """Runs cases of one kind.

    Args:
      folder: for the files of the cases, which are made once.
      seed_: None: the same cases each time.

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
    @given(case=module.cases())
    def check(case) -> None:
        code = module.check(case, folder).code
        counts["refused" if code else "went on"] += 1

    (check if seed_ is None else seed(seed_)(check))()
    return counts


def main() -> int:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--every_damage", action="store_true")
    args = parser.parse_args()
    print(f"--seed={args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        for module, fraction in FRACTIONS.items():
            folder, began = Path(name) / module.__name__.rpartition(".")[2], time.time()
            folder.mkdir()
            count = round(args.cases * fraction)
            counts = run_cases(module, count, folder, seed_=args.seed)
            if module is damage_cases and args.every_damage:
                for case in damage_cases.every_damage(random.Random(args.seed)):
                    code = damage_cases.check(case, folder).code
                    counts["refused" if code else "went on"] += 1
            print(
                f"{folder.name}: {counts['went on']} went on, {counts['refused']} were "
                f"refused, 0 failed; {time.time() - began:.0f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
