"""Compile regression: each published size is compiled for a TPU slice and compared.

    python -m tests.proofs.compile_regression [--only=WORD] [--update] [--ci]

The golden files, tests/goldens/compile, have the memory, collectives and parameters of
each experiment and size. More than 2 % more memory, more collectives of a kind or
another parameter tree is an error; newer compilers may need fewer
(libtpu 0.0.50 than 0.0.42). --update rewrites the files, and writes those of sizes that
have none, which are left out otherwise. --ci compiles a selection: a tiny network of
each architecture, on four chips.
"""

import json
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

from launch.cli import Parser, main
from launch.config import load_config
from launch.measure.tpu_topology import set_environment, topology_devices
from launch.user_code import module_at
from research.contract.errors import UserError

ROOT = Path(__file__).parents[2]
GOLDENS = ROOT / "tests" / "goldens" / "compile"
SLICES = {
    "tiny": ("v5e:2x2", {"mesh.fsdp": 2}),
    "base": ("v5e:4x4", {"mesh.fsdp": 4}),
    "large": ("v5e:16x16", {"mesh.fsdp": 16}),
}
"""Size -> the slice for which it is compiled, and the config keys of that.

An experiment's file may have SLICES of its own, which take precedence.
"""

CI_EXPERIMENTS = ("gpt", "bert", "xlnet", "t5", "electra")
MAX_MEMORY_RATIO = 1.02
"""To the memory in the golden file."""


class Case(NamedTuple):
    """One experiment at one size on one slice."""

    name: str
    size: str
    topology: str
    keys: dict[str, Any]

    @property
    def golden(self) -> Path:
        return GOLDENS / f"{self.name}-{self.size}.json"


def run(args) -> int:
    set_environment("v5e:2x2")
    chosen = [case for case in cases(ci=args.ci) if args.only in case.name]
    chosen = [case for case in chosen if args.update or case.golden.exists()]
    if not chosen:
        raise UserError(
            f"--only={args.only}: no compiled experiment has this in its name"
        )
    num_failed = 0
    for number, case in enumerate(chosen, 1):
        title = f"[{number}/{len(chosen)}] {case.name}:{case.size} on {case.topology}"
        facts = compile_in_subprocess(case)
        if facts is None:
            num_failed += 1
            print(f"{title}: the compiler crashed", flush=True)
            continue
        is_new = args.update and not case.golden.exists()
        lines = differences(facts if is_new else golden(case), facts)
        if args.update:
            case.golden.write_text(json.dumps(facts, indent=1) + "\n")
        else:
            num_failed += bool(lines)
        word = "differs" if lines else "as before"
        print(
            f"{title}: {word}, {facts['peak_bytes_per_device'] or 0:,} bytes a device"
        )
        for line in lines:
            print(f"  {line}")
        sys.stdout.flush()
    print(f"{len(chosen) - num_failed} of {len(chosen)} compile as before")
    return int(num_failed > 0)


def cases(*, ci: bool) -> Iterator[Case]:
    """Every experiment at its published sizes, or the selection for CI."""
    for path in sorted((ROOT / "experiments").glob("*.py")):
        if path.stem in ("__init__", "base"):
            continue
        module = module_at(str(path))
        slices = SLICES | getattr(module, "SLICES", {})
        sizes = getattr(module, "SIZES", ())
        if ci:
            chosen = ["tiny"] if path.stem in CI_EXPERIMENTS and "tiny" in sizes else []
        else:
            chosen = [size for size in sizes if size in ("base", "large")]
        for size in chosen:
            yield Case(path.stem, size, *slices[size])


def compile_in_subprocess(case: Case) -> dict | None:
    """`compiled` in a process of its own; None if the compiler crashed."""
    fork = multiprocessing.get_context("fork")  # this process has not used JAX
    with ProcessPoolExecutor(1, mp_context=fork) as pool:
        try:
            return pool.submit(compiled, case).result()
        except BrokenProcessPool:
            return None


def compiled(case: Case) -> dict:
    """The facts about a compiled step that a golden file has."""
    # Imports JAX, which reads the environment that `run` sets.
    from launch.measure.aot_compile import compile_facts

    spec = f"{ROOT / 'experiments' / case.name}.py:{case.size}"
    config = load_config(spec, case.keys)
    facts = compile_facts(config, case.topology, topology_devices(case.topology))
    kept = ("topology", "mesh", "batch", "fits", "peak_bytes_per_device", "parameters")
    collectives = facts.get("collectives", {})
    return {name: facts[name] for name in kept} | {
        "collectives": {name: each["count"] for name, each in collectives.items()},
        "tree": facts["tree"],
    }


def golden(case: Case) -> dict:
    """The content of a golden file.

    Raises:
      UserError: there is no such file.
    """
    if not case.golden.exists():
        raise UserError(
            f"{case.golden.relative_to(ROOT)} is missing; --update writes it"
        )
    return json.loads(case.golden.read_text())


def differences(before: dict, now: dict) -> list[str]:
    """What is worse than before, a line for each.

    Less memory and fewer collectives are no difference.
    """
    lines = [] if now["fits"] else ["it does not fit"]
    for name in ("topology", "mesh", "batch", "parameters"):
        if before[name] != now[name]:
            lines.append(f"{name}: {before[name]} before, {now[name]} now")
    was, peak = before["peak_bytes_per_device"], now["peak_bytes_per_device"]
    if was and peak and peak > MAX_MEMORY_RATIO * was:
        more = 100 * (peak / was - 1)
        lines.append(f"memory: {was:,} before, {peak:,} now ({more:.1f} % more)")
    kinds, found = before["collectives"], now["collectives"]
    grown = {kind: count for kind, count in found.items() if count > kinds.get(kind, 0)}
    lines += _changed_entries("collectives", kinds, kinds | grown)
    return lines + _changed_entries("tree", before["tree"], now["tree"])


def _changed_entries(
    part: str, before: dict[str, Any], now: dict[str, Any]
) -> list[str]:
    names = sorted({*before, *now})
    return [
        f"{part} {name}: {before.get(name, 'none')} before, {now.get(name, 'none')} now"
        for name in names
        if before.get(name) != now.get(name)
    ]


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument(
        "--only", default="", help="experiments whose name contains this"
    )
    parser.add_argument(
        "--update", action="store_true", help="rewrite the golden files"
    )
    parser.add_argument("--ci", action="store_true", help="the selection for CI")
    return parser


if __name__ == "__main__":
    main(run, parser())
