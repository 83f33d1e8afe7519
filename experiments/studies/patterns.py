"""Draws docs/patterns.svg: inputs, attention masks and targets of four objectives.

    python -m experiments.studies.patterns

Every token and square is read from the arrays that the objectives make.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from research import objectives
from research.contract.batch import (
    NEVER,
    WORD,
    Example,
    VocabInfo,
    attention_mask,
    input_group,
)
from research.data import counter_rng

TEXT = "the page was scraped off and can be read again by whoever holds it to light"
SPECIALS = ("·", "<s>", "</s>", "▁▁", "?", "<x>", "<y>", "<z>")
LENGTH = 12
INK, ATTENDED, SCORED = "#222222", "#c9d6e8", "#d1495b"
OBJECTIVES = {
    "lm": {},
    "mlm": {"rate": 0.25},
    "plm": {"num_permutations": 1, "tokens_per_target": 4},
    "dae": {"rate": 0.25, "mean_span": 2.0},
}


def vocab_info(num_words: int) -> VocabInfo:
    """A vocabulary of SPECIALS and the words of the text."""
    num_specials = len(SPECIALS)
    size = num_specials + num_words
    return VocabInfo(
        size=size,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        mask_id=3,
        unk_id=4,
        sentinel_ids=(5, 6, 7),
        is_special=np.arange(size) < num_specials,
        ordinary_ids=np.arange(num_specials, size, dtype=np.int32),
    )


def make_batch(name: str, seed: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """A batch of one example, and the spelling of each token id."""
    words = TEXT.split()
    spelling = [*SPECIALS, *words]
    objective = objectives.make_objective(name, **OBJECTIVES[name])
    width = objective.text_spec(LENGTH).length
    token = np.arange(len(SPECIALS), len(spelling), dtype=np.int32)[None, :width]
    length = np.array([token.shape[1]], np.int32)
    zero = np.zeros(1, np.int64)
    example = Example(
        token=token,
        flags=np.full(token.shape, WORD, np.uint8),
        length=length,
        label=np.full(1, -1, np.int32),
        first_length=length,
        corpus=np.zeros(1, np.int32),
        step=zero,
        document=zero,
        number=zero,
    )
    key = counter_rng.row_key(seed, zero, zero)
    return objective.corrupt(example, key, vocab_info(len(words)), LENGTH), spelling


def draw_panel(
    axis, group: dict, targets: dict[int, str], spelling: list[str], title: str
):
    """One attention mask, queries downwards; targets are written at its right."""
    group = {name: array[:, group["segment"][0] > 0] for name, array in group.items()}
    token = [spelling[i] for i in group["token"][0]]
    colours = ListedColormap(["white", ATTENDED])
    axis.pcolormesh(
        attention_mask(group)[0],
        cmap=colours,
        vmin=0,
        vmax=1,
        edgecolors="white",
        linewidth=0.3,
    )
    axis.set_title(title, fontsize=10, color=INK)
    is_query = group["rank"][0] == NEVER
    centres = np.arange(len(token)) + 0.5
    axis.set_xticks(centres, token, rotation=90, fontsize=7)
    axis.set_yticks(centres, token, fontsize=7)
    for position, word in targets.items():
        axis.text(
            len(token) + 0.3,
            position + 0.5,
            word,
            color=SCORED,
            fontsize=7,
            va="center",
        )
    if is_query.any():
        axis.axhline(np.argmax(is_query), color=INK, linewidth=0.6)
    axis.tick_params(length=0, colors=INK)
    axis.set_xlim(0, len(token))
    for spine in axis.spines.values():
        spine.set_linewidth(0.4)


def scored_targets(batch: dict, spelling: list[str]) -> dict[int, str]:
    """Scored position -> the token to predict there."""
    target, weight = batch["target"][0], batch["weight"][0]
    scored = batch["scored"][0] if "scored" in batch else np.arange(len(target))
    return {
        int(position): spelling[token]
        for position, token, token_weight in zip(scored, target, weight, strict=True)
        if token_weight
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
        batch, spelling = make_batch(name, seed=3)
        targets = scored_targets(batch, spelling)
        draw_panel(axis, input_group(batch), targets, spelling, title)
    batch, spelling = make_batch("dae", seed=5)
    encoder, decoder = (
        input_group(batch, prefix) for prefix in ("encoder_", "decoder_")
    )
    targets = scored_targets(batch, spelling)
    draw_panel(axes[3], encoder, {}, spelling, "dae: encoder")
    draw_panel(axes[4], decoder, targets, spelling, "dae: decoder")
    figure.tight_layout()
    path = Path(__file__).parents[2] / "docs" / "patterns.svg"
    figure.savefig(path, metadata={"Date": None})
    print(path)


if __name__ == "__main__":
    main()
