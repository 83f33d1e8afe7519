"""Gisserot-Boukhlef et al. 2025: causal language modelling first, then masked.

    palimpsest sweep --sweep=experiments/sweeps/gisserot2025.py \\
        --tasks=tasks.toml --workdir=runs/gisserot2025

Question: at a fixed number of steps, is an encoder better that is trained as a language
model for the first 10 of 42 thousand? Its network, shape, text and tasks are those of
weller2025.py, which asks the same of longer training. All are fine-tuned as encoders.

Departs: sizes are the scale's, with erf-GELU in place of SwiGLU's two products, and
layer norms; AdamW has the experiments' own decay and betas; the second stage warms up
again. SC is the mean of those of its tasks that are run, TC and QA one task each.
"""

from launch.sweeps import finetuning
from launch.sweeps.published import read_published

NAME, STAGED, FIRST = "gisserot2025", "CLM 10K, MLM 32K", "CLM 42K"
STEPS, FIRST_STEPS, DECAY_STEPS = 42, 10, 2
"""Thousands: of a row, of the first stage, and of the linear decay at the end."""


def sweep(scale, tasks):
    first = read_published(NAME).arms[FIRST]
    experiment, origin = finetuning.pretraining(FIRST, first, scale)

    def keys(row, base):
        steps, warmup = base["train.steps"], base["optimizer.warmup_steps"]
        decay = steps * DECAY_STEPS / STEPS
        if row != STAGED:  # the fraction is of the steps after the warm-up
            return {"optimizer.decay_fraction": decay / (steps - warmup)}
        before = round(steps * FIRST_STEPS / STEPS)
        constant = {"train.steps": before, "optimizer.schedule": "constant"}
        return {
            finetuning.INIT_FROM: (experiment, origin | constant),
            "train.steps": steps - before,
            "optimizer.decay_fraction": decay / (steps - before - warmup),
        }

    tuning = {"objective.format": "bert"}
    return finetuning.sweep(NAME, scale, tasks, keys=keys, tuning=tuning)
