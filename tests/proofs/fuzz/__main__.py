"""Runs cases of the fuzz proof: `python -m tests.proofs.fuzz [--cases=5000] [--short]`.

Whatever a user writes as a config or a command, and however files are damaged, a
command works or says in one line what is wrong. Prints how many commands went on and
how many were refused, or the smallest failing case that Hypothesis finds, and exits
with 1. --short runs a hundred cases, the same each time, in about a minute.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

os.environ["JAX_PLATFORMS"] = "cpu"
# Programs run for less time than they take to compile, and are kept for other cases.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

import jax
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from launch.cli import Parser
from tests.proofs.fuzz import command_cases, config_cases, file_cases

FRACTIONS = {config_cases: 0.6, command_cases: 0.4, file_cases: 1.0}
"""Cases of each kind, as a fraction of --cases."""

SHORT_SUBJECTS = ("run", "hf", "sweep", "plan", "texts", "output")
"""Those that take least to be made."""


def run_cases(
    module: ModuleType, count: int, folder: Path, drawn: SearchStrategy, seed_: int
) -> Counter[str]:
    """Runs cases of one kind.

    Args:
      folder: for the files of the cases, which are made once.
      drawn: the cases.
      seed_: of the cases; 0: the same cases each time.

    Returns:
      how many went on, and how many were refused.

    Raises:
      AssertionError: a case fails; Hypothesis shows the smallest that it finds.
    """
    counts, told = Counter[str](), time.time()

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=not seed_,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(case=drawn)
    def check(case) -> None:
        nonlocal told
        code = module.check(case, folder).code
        counts["refused" if code else "went on"] += 1
        if time.time() - told > 60:
            told = time.time()
            print(f"{folder.name}: {counts.total()} of {count}", flush=True)

    (seed(seed_)(check) if seed_ else check)()
    return counts


def main() -> int:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--short", action="store_true", help="in about a minute")
    args = parser.parse_args()
    count, seed_ = (60, 0) if args.short else (args.cases, args.seed)
    print(f"--seed={seed_}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        jax.config.update("jax_compilation_cache_dir", f"{name}/xla")
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        for module, fraction in FRACTIONS.items():
            folder, began = Path(name) / module.__name__.rpartition(".")[2], time.time()
            folder.mkdir()
            drawn = module.cases()
            if args.short and module is file_cases:
                drawn = module.cases(SHORT_SUBJECTS)
            counts = run_cases(module, round(count * fraction), folder, drawn, seed_)
            print(
                f"{folder.name}: {counts['went on']} went on, {counts['refused']} were "
                f"refused, 0 failed; {time.time() - began:.0f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
