"""Draws up docs/objectives.md: every objective and experiment, and what proves it.

make docs

Nothing in the page is typed: rows are the modules of research/objectives and
experiments, words are their docstrings, numbers of parameters come from the networks'
shapes, and proofs from the report of a test run (pytest --junitxml).
"""

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"\[(?:\d+-)?([a-z_0-9]+)")
PROOFS = {
    "test_contract": "contract",
    "test_laws": "leaks",
    "test_one_gradient": "one gradient",
    "test_optimum": "optimum",
}
"""The general tests, and what of an objective they prove."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.objectives")
    parser.add_argument("--proof", required=True, help="pytest's JUnit report")
    proof = parser.parse_args().proof
    passed, failed = outcomes(ElementTree.parse(proof))
    print(page(passed, failed), end="")
    sys.exit(any(count.total() for count in failed.values()))


def outcomes(report: ElementTree.ElementTree) -> tuple[dict, dict]:
    """Module of tests -> name of an objective or experiment -> tests of it.

    Tests that passed, and tests that did not; skipped ones are neither.
    """
    passed, failed = defaultdict(Counter), defaultdict(Counter)
    for case in report.iter("testcase"):
        module = case.get("classname").rpartition(".")[2]
        named = NAMED.search(case.get("name"))
        subject = named[1] if named else ""
        if case.get("classname").startswith("tests.objectives"):
            subject = module.split("_")[1]  # test_dae_variants.py is of dae
            module = "own"
        outcome = {child.tag for child in case}
        if outcome & {"failure", "error"}:
            failed[module][subject] += 1
        elif "skipped" not in outcome:
            passed[module][subject] += 1
    return passed, failed


INTRODUCTION = """# Objectives and experiments

Drawn up by `make docs` from the code and a run of its tests; numbers are tests that
passed. *contract*: shapes, purity, padding, patterns, the untrained loss, weights, sums
of parts. *leaks*: the network's gradient against rank and reach, place by place, and
packed neighbours. *one gradient*: mesh and micro-batches against the whole. *optimum*:
the analytic value of its loss on a source of known entropy. *own*: its recipe's golden
values, statistics and enumerations.
"""


def page(passed: dict, failed: dict) -> str:
    tables = objective_rows(passed, failed), experiment_rows(passed, failed)
    return "\n".join([INTRODUCTION, *tables[0], "", *tables[1], ""])


def objective_rows(passed: dict, failed: dict) -> list[str]:
    """The table of research/objectives."""
    from research import objectives

    names = objectives.names()
    heads = ["objective", "family", "what it is", *PROOFS.values(), "own", "status"]
    rows = [heads, [":--", ":--", ":--", *["--:"] * (len(PROOFS) + 1), ":--"]]
    for name in names:
        kind = objectives.objective_class(name)
        counts = [passed[module][name] for module in (*PROOFS, "own")]
        broken = sum(failed[module][name] for module in (*PROOFS, "own"))
        status = f"{broken} fail" if broken else "proven" if all(counts[:2]) else "open"
        said = first_line(ROOT / "research" / "objectives" / f"{name}.py")
        shown = [str(count or "–") for count in counts]
        rows.append([f"`{name}`", kind.family, said, *shown, status])
    return [f"| {' | '.join(row)} |" for row in rows]


def experiment_rows(passed: dict, failed: dict) -> list[str]:
    """The table of experiments/."""
    heads = ["experiment", "what it is", "objective", "parameters, M", "status"]
    rows = [heads, [":--", ":--", ":--", ":--", ":--"]]
    for path in sorted((ROOT / "experiments").glob("*.py")):
        name = path.stem
        if name in ("__init__", "base"):
            continue
        if failed["test_experiments"][name]:
            status = "fails"
        else:
            status = "trains" if passed["test_experiments"][name] else "open"
        objective, sizes = facts(path)
        rows.append([f"`{name}`", first_line(path), f"`{objective}`", sizes, status])
    return [f"| {' | '.join(row)} |" for row in rows]


def facts(path: Path) -> tuple[str, str]:
    """An experiment's objective, and its parameters at each size, from shapes alone."""
    import jax

    from launch.compile import vocab
    from launch.config import load, module_at
    from research.run.setup import build_program, count_parameters

    told = []
    for size in getattr(module_at(str(path)), "SIZES", ("",)):
        config = load(f"{path}:{size}" if size else str(path))
        program = build_program(config, jax.devices()[:1], vocab=vocab(config))
        number = count_parameters(program.abstract_state.params) / 1e6
        told.append(f"{size} {number:.{0 if number >= 10 else 1}f}".strip())
    return config.objective.name, ", ".join(told)


def first_line(path: Path) -> str:
    """The first line of a module's docstring, without its full stop."""
    return ast.get_docstring(ast.parse(path.read_text())).splitlines()[0].rstrip(".")


if __name__ == "__main__":
    main()
