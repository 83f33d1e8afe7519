"""Draws the pictures of docs/concepts.md: the arrays of a batch, and rank and reach.

    python -m experiments.studies.concepts

Arrays are those that the objectives make; masks are computed from them.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from experiments.studies.patterns import (
    ATTENDED,
    INK,
    SCORED,
    make_batch,
    scored_targets,
)
from research.contract.batch import attention_mask

FOLDER = Path(__file__).parents[2] / "docs"
ARRAYS = ("position", "segment", "rank", "reach")
WORDS = ("the", "page", "can", "be", "read", "again")
SIX = [0, 1, 2, 3, 4, 5]
MASKS = {
    "causal": (SIX, SIX, [1] * 6),
    "bidirectional": ([0] * 6, [0] * 6, [1] * 6),
    "a prefix of three": ([0, 0, 0, 1, 2, 3], [0, 0, 0, 1, 2, 3], [1] * 6),
    "causal, two documents": (SIX, SIX, [1, 1, 1, 2, 2, 2]),
}
"""Title -> rank, reach and segment of each word."""


def draw_batch(name: str, axis) -> None:
    """The arrays of one row: a column a position, a line an array."""
    batch, spelling = make_batch(name, seed=3)
    width = int((batch["segment"][0] > 0).sum())
    targets = scored_targets(batch, spelling)
    token = [spelling[each] for each in batch["token"][0, :width]]
    lines = {"token": token}
    lines |= {array: batch[array][0, :width].tolist() for array in ARRAYS}
    lines |= {"target": [targets.get(each, "") for each in range(width)]}
    for number, (title, values) in enumerate(lines.items()):
        axis.text(-0.7, -number, title, ha="right", va="center", fontsize=9, color=INK)
        for place, value in enumerate(values):
            is_scored = place in targets and title in ("token", "target")
            colour = SCORED if is_scored else INK
            axis.text(
                *(place, -number, value),
                **{"ha": "center", "va": "center", "fontsize": 8, "color": colour},
            )
    axis.set_xlim(-2.2, width - 0.5)
    axis.set_ylim(0.5 - len(lines), 0.6)
    axis.axis("off")


def draw_mask(title: str, rank: list, reach: list, segment: list, axis) -> None:
    """The mask of rank and reach: queries downwards, keys to the right."""
    arrays = {"rank": rank, "reach": reach, "segment": segment}
    group = {name: np.array([values], np.int32) for name, values in arrays.items()}
    axis.pcolormesh(
        attention_mask(group)[0],
        cmap=ListedColormap(["white", ATTENDED]),
        vmin=0,
        vmax=1,
        edgecolors="#dddddd",
        linewidth=0.5,
    )
    centres = np.arange(len(WORDS)) + 0.5
    keys = [f"{word} {value}" for word, value in zip(WORDS, rank, strict=True)]
    queries = [f"{word} {value}" for word, value in zip(WORDS, reach, strict=True)]
    axis.set_xticks(centres, keys, rotation=90, fontsize=8)
    axis.set_yticks(centres, queries, fontsize=8)
    axis.set_xlabel("keys and their rank", fontsize=8, color=INK)
    axis.set_ylabel("queries and their reach", fontsize=8, color=INK)
    axis.set_title(title, fontsize=10, color=INK)
    axis.tick_params(length=0, colors=INK)
    axis.set_aspect("equal")
    axis.invert_yaxis()


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "palimpsest", "svg.fonttype": "none"})
    figure, axes = plt.subplots(2, 1, figsize=(9, 3.6))
    for axis, name in zip(axes, ("mlm", "lm"), strict=True):
        draw_batch(name, axis)
        axis.set_title(name, fontsize=10, color=INK, loc="left")
    _save(figure, "batch.svg")
    figure, axes = plt.subplots(2, len(MASKS) // 2, figsize=(7, 7))
    for axis, (title, arrays) in zip(axes.flat, MASKS.items(), strict=True):
        draw_mask(title, *arrays, axis)
    _save(figure, "rank_and_reach.svg")


def _save(figure, name: str) -> None:
    figure.tight_layout()
    figure.savefig(FOLDER / name, metadata={"Date": None})
    print(FOLDER / name)


if __name__ == "__main__":
    main()
