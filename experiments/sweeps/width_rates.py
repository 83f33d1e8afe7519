"""The best learning rate at three widths, with the rates of muP and without.

    palimpsest sweep --sweep=experiments/sweeps/width_rates.py --scale=quick \\
        --workdir=runs/widths --config.data.corpus='corpus/*.txt'
    palimpsest report --table=experiments/tables/width_rates.py --workdir=runs/widths

Question: does the rate that is best at a width of 64 fit others if
`optimizer.base_width` scales initial values and rates (Yang et al. 2022)? LM of two
layers with an output table of its own, a third of a million tokens at quick, one seed.
"""

from collections.abc import Iterator

from experiments.sweeps.objectives import SCALES, pretraining

BASE, WIDTHS, HEAD_WIDTH = 64, (64, 128, 256), 32
RATES = tuple(5e-4 * 2**n for n in range(6))
WITH, WITHOUT = "with muP", "without"


def sweep(scale: str) -> Iterator[tuple]:
    experiment, keys = pretraining("lm", SCALES[scale])
    steps = keys["train.steps"] // 6
    keys |= {"train.steps": steps, "optimizer.warmup_steps": steps // 20}
    keys |= {"train.eval_every": 0, "train.checkpoint_every": steps}
    keys |= {"model.tie_embeddings": False, "seed": 0}
    for width in WIDTHS:
        shape = {"model.width": width, "model.heads": width // HEAD_WIDTH}
        shape |= {"model.feedforward": 4 * width}
        for name, base_width in ((WITH, BASE), (WITHOUT, 0)):
            for rate in RATES:
                own = (
                    shape
                    | {"optimizer.base_width": base_width}
                    | {"optimizer.learning_rate": rate}
                )
                yield experiment, keys | own, (f"{width}, {name}", "pretraining")
