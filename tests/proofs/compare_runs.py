"""Compares two finished runs, bit by bit."""

import multiprocessing
import os
from pathlib import Path
from typing import Any


def compare(reference: Path, killed: Path) -> list[str]:
    """`differences` in a fork, since this process must not use JAX: it forks runs."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(differences, (reference, killed))


def differences(reference: Path, killed: Path) -> list[str]:
    """What differs, bit by bit, between two finished runs, a line for each."""
    import numpy as np

    lines = []
    texts = [(folder / "metrics.jsonl").read_text() for folder in (reference, killed)]
    if texts[0] != texts[1]:
        lines.append(f"{killed}/metrics.jsonl differs from that of {reference}")
    expected, found = _arrays(reference), _arrays(killed)
    if expected.keys() != found.keys():
        lines.append(f"{killed} has other arrays than {reference}")
    for name in expected.keys() & found.keys():
        if not np.array_equal(expected[name], found[name], equal_nan=True):
            lines.append(f"{killed}: {name} differs from that of {reference}")
    return lines


def _arrays(workdir: Path) -> dict[str, Any]:
    """All arrays of a run's newest checkpoint, by name, on the host."""
    import jax

    from research.checkpoints.checkpoint import path_name
    from research.interop.partial_restore import find_checkpoint, load_on_host

    tree = load_on_host(find_checkpoint(str(workdir)), "params", "rest")
    return {path_name(path): x for path, x in jax.tree_util.tree_leaves_with_path(tree)}
