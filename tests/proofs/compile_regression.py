"""Compiles every experiment at its published sizes for a slice, and compares.

python -m tests.proofs.compile_regression [--only=WORD] [--update] [--ci]

What memory, collectives and parameters were is kept in tests/goldens/compile, a file
for each experiment and size. More than 2 % more memory, another collective or another
tree of parameters fails and is shown; --update writes the files anew. --ci takes the
few that stand for all: tiny networks of every kind, on four chips.
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
from launch.config import load, module_at
from launch.hardware.tpu_topology import set_environment, topology_devices
from research.errors import UserError

ROOT = Path(__file__).parents[2]
GOLDENS = ROOT / "tests" / "goldens" / "compile"
SLICES = {
    "tiny": ("v5e:2x2", {"mesh.fsdp": 2}),
    "base": ("v5e:4x4", {"mesh.fsdp": 4}),
    "large": ("v5e:16x16", {"mesh.fsdp": 16}),
}
"""Size -> the slice it is compiled for, and the keys that are set there, unless its
experiment's file has SLICES of its own.
"""

CI = ("gpt", "bert", "xlnet", "t5", "electra")
MORE = 1.02
"""How much more memory passes."""


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
    if not chosen:
        raise UserError(f"--only={args.only}: no experiment has this in its name")
    wrong = 0
    for number, case in enumerate(chosen, 1):
        title = f"[{number}/{len(chosen)}] {case.name}:{case.size} on {case.topology}"
        facts = apart(case)
        if facts is None:
            wrong += 1
            print(f"{title}: the compiler crashed", flush=True)
            continue
        if args.update:
            case.golden.parent.mkdir(parents=True, exist_ok=True)
            case.golden.write_text(json.dumps(facts, indent=1) + "\n")
        found = differences(golden(case), facts)
        wrong += bool(found)
        word = "differs" if found else "as before"
        print(
            f"{title}: {word}, {facts['peak_bytes_per_device'] or 0:,} bytes a device"
        )
        for line in found:
            print(f"  {line}")
        sys.stdout.flush()
    print(f"{len(chosen) - wrong} of {len(chosen)} compile as before")
    return int(wrong > 0)


def cases(*, ci: bool) -> Iterator[Case]:
    """Every experiment at its published sizes, or the few that CI compiles."""
    for path in sorted((ROOT / "experiments").glob("*.py")):
        if path.stem in ("__init__", "base"):
            continue
        module = module_at(str(path))
        slices = SLICES | getattr(module, "SLICES", {})
        sizes = getattr(module, "SIZES", ())
        if ci:
            wanted = ["tiny"] if path.stem in CI and "tiny" in sizes else []
        else:
            wanted = [size for size in sizes if size in ("base", "large")]
        for size in wanted:
            yield Case(path.stem, size, *slices[size])


def apart(case: Case) -> dict | None:
    """`compiled` in a process of its own; None if the compiler took it down."""
    fork = multiprocessing.get_context("fork")  # this process has not begun with JAX
    with ProcessPoolExecutor(1, mp_context=fork) as pool:
        try:
            return pool.submit(compiled, case).result()
        except BrokenProcessPool:
            return None


def compiled(case: Case) -> dict:
    """What is kept of a compiled step."""
    # Imports JAX, which reads the environment that `run` sets.
    from launch.hardware.aot_compile import compile_facts

    spec = f"{ROOT / 'experiments' / case.name}.py:{case.size}"
    config = load(spec, case.keys)
    facts = compile_facts(config, case.topology, topology_devices(case.topology))
    kept = ("topology", "mesh", "batch", "fits", "peak_bytes_per_device", "parameters")
    talk = facts.get("collectives", {})
    return {name: facts[name] for name in kept} | {
        "collectives": {kind: one["count"] for kind, one in talk.items()},
        "tree": facts["tree"],
    }


def golden(case: Case) -> dict:
    """Raises UserError: there is none yet."""
    if not case.golden.exists():
        raise UserError(
            f"{case.golden.relative_to(ROOT)} is missing; --update writes it"
        )
    return json.loads(case.golden.read_text())


def differences(before: dict, now: dict) -> list[str]:
    """What is worse than before, a line each; less memory is no difference."""
    found = [] if now["fits"] else ["it does not fit"]
    for name in ("topology", "mesh", "batch", "parameters"):
        if before[name] != now[name]:
            found.append(f"{name}: {before[name]} before, {now[name]} now")
    was, peak = before["peak_bytes_per_device"], now["peak_bytes_per_device"]
    if was and peak and peak > MORE * was:
        more = 100 * (peak / was - 1)
        found.append(f"memory: {was:,} before, {peak:,} now ({more:.1f} % more)")
    for part in ("collectives", "tree"):
        found += _changes(part, before[part], now[part])
    return found


def _changes(part: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    names = sorted({*before, *now})
    return [
        f"{part} {name}: {before.get(name, 'none')} before, {now.get(name, 'none')} now"
        for name in names
        if before.get(name) != now.get(name)
    ]


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument("--only", default="", help="experiments with this in a name")
    parser.add_argument("--update", action="store_true", help="write the files anew")
    parser.add_argument("--ci", action="store_true", help="the few that CI compiles")
    return parser


if __name__ == "__main__":
    main(run, parser())
