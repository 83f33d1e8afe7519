"""Draws docs/patterns.svg: what five objectives hide of one text, and who sees whom.

    python -m docs.patterns

Every square and token is read off the arrays that the objectives make.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from research import objectives
from research.batch import NEVER, WORD, Example, VocabInfo, attention_mask, input_group
from research.data import counter_rng

TEXT = "the page was scraped off and can be read again by whoever holds it to light"
SPECIALS = ("·", "<s>", "</s>", "▁▁", "?", "<x>", "<y>", "<z>")
INK, SEEN, SCORED = "#222222", "#c9d6e8", "#d1495b"
PANELS = {
    "lm": ("lm", {}),
    "mlm": ("mlm", {"rate": 0.25}),
    "plm": ("plm", {"num_permutations": 1, "tokens_per_target": 4}),
    "dae": ("dae", {"rate": 0.25, "mean_span": 2.0}),
}


def vocab(words: list[str]) -> VocabInfo:
    """A vocabulary of the text's own words."""
    size, first = len(SPECIALS) + len(words), len(SPECIALS)
    special = np.arange(size) < first
    return VocabInfo(
        size, 0, 1, 2, 3, 4, (5, 6, 7), special, np.arange(first, size, dtype=np.int32)
    )


def rows(name: str, fields: dict, seed: int) -> tuple[dict, list[str]]:
    """One example of an objective at length 12, and the vocabulary's spelling."""
    words = TEXT.split()
    spelling = [*SPECIALS, *words]
    objective = objectives.make_objective(name, **fields)
    width = objective.text_spec(12).length
    token = np.arange(len(SPECIALS), len(spelling), dtype=np.int32)[None, :width]
    flags = np.full(token.shape, WORD, np.uint8)
    length = np.array([token.shape[1]], np.int32)
    example = Example(token, flags, length, length * 0 - 1)
    key = counter_rng.row_key(seed, np.zeros(1, np.int64), np.zeros(1, np.int64))
    return objective.corrupt(example, key, vocab(words), 12), spelling


def panel(axis, group: dict, scored: dict[int, str], spelling: list[str], title: str):
    """One square of who sees whom; the targets stand at its right."""
    group = {name: array[:, group["segment"][0] > 0] for name, array in group.items()}
    seen = attention_mask(group)[0]
    token = [spelling[i] for i in group["token"][0]]
    colours = ListedColormap(["white", SEEN])
    axis.pcolormesh(
        seen, cmap=colours, vmin=0, vmax=1, edgecolors="white", linewidth=0.3
    )
    axis.set_title(title, fontsize=10, color=INK)
    queries = group["rank"][0] == NEVER
    places = np.arange(len(token)) + 0.5
    axis.set_xticks(places, token, rotation=90, fontsize=7)
    axis.set_yticks(places, token, fontsize=7)
    for place, word in scored.items():
        axis.text(
            len(token) + 0.3, place + 0.5, word, color=SCORED, fontsize=7, va="center"
        )
    if queries.any():
        axis.axhline(np.argmax(queries), color=INK, linewidth=0.6)
    axis.tick_params(length=0, colors=INK)
    axis.set_xlim(0, len(token))
    for spine in axis.spines.values():
        spine.set_linewidth(0.4)


def targets(batch: dict, spelling: list[str]) -> dict[int, str]:
    """Scored place -> the answer there."""
    target, weight = batch["target"][0], batch["weight"][0]
    scored = batch["scored"][0] if "scored" in batch else np.arange(len(target))
    return {
        int(place): spelling[answer]
        for place, answer, counts in zip(scored, target, weight, strict=True)
        if counts
    }


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "palimpsest", "svg.fonttype": "none"})
    figure, axes = plt.subplots(1, 5, figsize=(15, 3.3))
    titles = {
        "lm": "lm: the next token",
        "mlm": "mlm, and electra's generator",
        "plm": "plm: in a random order",
    }
    for axis, (name, title) in zip(axes, titles.items(), strict=False):
        batch, spelling = rows(*PANELS[name], seed=3)
        panel(axis, input_group(batch), targets(batch, spelling), spelling, title)
    batch, spelling = rows(*PANELS["dae"], seed=5)
    panel(axes[3], input_group(batch, "encoder_"), {}, spelling, "dae: encoder")
    panel(
        axes[4],
        input_group(batch, "decoder_"),
        targets(batch, spelling),
        spelling,
        "dae: decoder",
    )
    figure.tight_layout()
    path = Path(__file__).with_name("patterns.svg")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
