"""Draws docs/reads.svg: which words the state of each word depends on, by network.

    python -m experiments.studies.reads

The networks are the experiments' own, at size tiny, with random parameters, and of
width 16 where they allow it. One is measured for all that a panel names; ELMo's reads a
table of words, not characters. Each word of a text is replaced in turn. Squares mark
the states that change.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from experiments.studies.patterns import ATTENDED, INK, TEXT, vocab_info
from launch.config import load_config
from research import networks

WORDS = TEXT.split()[:9]
FORWARD, BACKWARD, BOTH = ATTENDED, "#f0cfc2", "#b9a7cf"
OF_WORDS = {"model.input": "table", "model.tie_embeddings": True}
PANELS = {
    "word2vec, GloVe: tables": ("word2vec", {}, "self"),
    "NNLM": ("nnlm", {}, "causal"),
    "TextCNN, filters of 3 words": ("textcnn", {"model.filter_widths": [3]}, "full"),
    "AWD-LSTM, ULMFiT, GPT": ("awd_lstm", {}, "causal"),
    "ELMo: each direction": ("elmo", OF_WORDS, "full"),
    "CoVe, CVT: joined layers": ("elmo", OF_WORDS | {"model.joined_layers": 1}, "full"),
    "BERT": ("bert", {}, "full"),
}
"""Title -> experiment, overrides and pattern."""


def reads(experiment: str, overrides: dict[str, Any], pattern: str) -> np.ndarray:
    """bool [2, L, L]: whether the first and the last half of the state of a word (row)
    depend on each word (column)."""
    keys = {"model.width": 16} if experiment != "textcnn" else {}
    config = load_config(f"experiments/{experiment}.py:tiny", {**keys, **overrides})
    vocab, length = vocab_info(len(TEXT.split())), len(WORDS)
    options = config.model
    network = networks.build(options, networks.Needs(pattern=pattern), vocab)
    first = vocab.ordinary_ids[0]
    texts = np.tile(first + np.arange(length), (length + 1, 1))
    texts[np.arange(length), np.arange(length)] = (
        first + length
    )  # the last is unchanged
    one = jnp.ones_like(texts)
    order = jnp.broadcast_to(jnp.arange(length), texts.shape)
    causal = pattern == "causal"
    group = {
        "token": jnp.asarray(texts),
        "segment": one,
        "position": order,
        "token_type": 0 * one,
        "rank": order if causal else 0 * one,
        "reach": order if causal else 0 * one,
    }

    def states(net):
        return net.states(group)

    params = jax.jit(lambda key: networks.init(network, states, key))(jax.random.key(0))
    found = jax.jit(lambda params: networks.apply(network, params, states))(params)
    halves = np.stack(np.split(np.asarray(found, np.float32), 2, axis=-1))
    changed = np.abs(halves[:, :-1] - halves[:, -1:]).max(axis=-1) > 0
    return changed.swapaxes(1, 2)


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "palimpsest", "svg.fonttype": "none"})
    figure, axes = plt.subplots(2, 4, figsize=(12, 6.4))
    colours = ListedColormap(["white", FORWARD, BACKWARD, BOTH])
    for axis, (title, panel) in zip(axes.flat, PANELS.items(), strict=False):
        first, last = reads(*panel)
        split = not np.array_equal(first, last)
        shown = first + 2 * last if split else first | last
        axis.pcolormesh(
            shown.astype(int), cmap=colours, vmin=0, vmax=3, edgecolors="white"
        )
        axis.set_title(title, fontsize=10, color=INK)
        centres = np.arange(len(WORDS)) + 0.5
        axis.set_xticks(centres, WORDS, rotation=90, fontsize=8)
        axis.set_yticks(centres, WORDS, fontsize=8)
        axis.tick_params(length=0, colors=INK)
        axis.invert_yaxis()
        axis.set_aspect("equal")
        for spine in axis.spines.values():
            spine.set_linewidth(0.4)
    legend = axes.flat[-1]
    legend.axis("off")
    named = {
        FORWARD: "the state of the word at the left\nreads the word below",
        BACKWARD: "only its half that reads from\nthe end does",
        BOTH: "both halves of it do",
    }
    patches = [Patch(color=colour, label=text) for colour, text in named.items()]
    legend.legend(handles=patches, loc="center left", frameon=False, fontsize=9)
    figure.tight_layout()
    path = Path(__file__).parents[2] / "docs" / "reads.svg"
    figure.savefig(path, metadata={"Date": None})
    print(path)


if __name__ == "__main__":
    main()
