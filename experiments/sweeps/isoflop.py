"""Networks of several sizes at equal FLOPs: which size is best for which budget?

    palimpsest sweep --sweep=experiments/sweeps/isoflop.py --scale=quick \\
        --workdir=runs/isoflop --config.data.corpus='corpus/*.txt'
    palimpsest report --table=experiments/tables/isoflop.py --workdir=runs/isoflop

Question: how does the best number of parameters grow with the budget (Hoffmann et al.
2022, section 3.2: to the power .49; Kaplan et al. 2020: .73)? LM, budgets of an eighth,
a quarter and a half of what the scale's network takes for its steps, two layers, one
seed.
"""

from collections.abc import Iterator

from experiments.sweeps.objectives import SCALES, pretraining
from launch.sweeps import budgets

FRACTIONS = (0.125, 0.25, 0.5)
WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192)
HEAD_WIDTH = 16


def sweep(scale: str) -> Iterator[tuple]:
    experiment, keys = pretraining("lm", SCALES[scale])
    total = keys["train.steps"] * budgets.step_flops(experiment, keys)
    for fraction in FRACTIONS:
        for width in WIDTHS:
            own = keys | {"model.width": width, "model.heads": width // HEAD_WIDTH}
            own |= {"model.feedforward": 4 * width, "train.eval_every": 0, "seed": 0}
            steps = budgets.steps_for_flops(experiment, own, fraction * total)
            own |= {"train.steps": steps, "train.checkpoint_every": steps}
            own |= {"optimizer.warmup_steps": steps // 20}
            row = f"{fraction * total:.2g} FLOPs, width {width}"
            yield experiment, own, (row, "pretraining")
