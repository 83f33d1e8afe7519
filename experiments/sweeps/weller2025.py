"""Weller et al. 2025 (Ettin), table 9: encoders made of decoders, and the reverse.

    palimpsest sweep --sweep=experiments/sweeps/weller2025.py \\
        --tasks=tasks.toml --workdir=runs/weller2025

Question: is a trained decoder that goes on as an encoder, by 1/40 more steps, as good
as an encoder? Network, shape, text and tasks are those of gisserot2025.py. Decoders are
fine-tuned as in GPT.

Departs: sizes are the scale's, with erf-GELU in place of GeGLU, biases, and full in
place of local attention; no phase has a longer context or another mixture of text, and
none masks less; AdamW in place of StableAdamW, with a linear decay in the first
training.
"""

from launch.sweeps import finetuning
from launch.sweeps.published import read_published

NAME = "weller2025"
ORIGINS = {"encoder from decoder": "decoder", "decoder from encoder": "encoder"}
MORE, WARMUP, DECAY = 50 / 2000, 3 / 50, 10 / (50 - 3)
"""Further tokens over those before, of them those of warm-up, and of the rest those of
decay (pretraining/configs/cross-train of JHU-CLSP/ettin-encoder-vs-decoder)."""


def sweep(scale, tasks):
    arms = read_published(NAME).arms

    def keys(row, base):
        if row not in ORIGINS:
            return {}
        origin = ORIGINS[row]
        steps = max(2, round(MORE * base["train.steps"]))
        return {
            finetuning.INIT_FROM: finetuning.pretraining(origin, arms[origin], scale),
            "train.steps": steps,
            "optimizer.warmup_steps": round(WARMUP * steps),
            "optimizer.decay_fraction": DECAY,
        }

    return finetuning.sweep(NAME, scale, tasks, keys=keys)
