"""XLM-R on XNLI, trained in English: what its other languages gain from pretraining.

    palimpsest sweep --sweep=experiments/sweeps/xnli.py --tasks=tasks.toml \\
        --config.data.mixture='{"en/*.jsonl": 1, "de/*.jsonl": 1}' --workdir=runs/xnli

Each task of --tasks is named XNLI and a language, as in "XNLI de", and has the same
training set; it is tuned anew for each, by the same steps.

Departs: tasks are tuned for the same number of steps, not of epochs.
"""

from launch.sweeps import finetuning
from launch.sweeps.scales import SCALES


def sweep(scale, tasks):
    chosen = finetuning.own_tasks("xnli", tasks)
    for seed in range(SCALES[scale].pretraining_seeds):
        arm = "experiments/xlmr.py", {}
        start = finetuning.pretraining("xlmr", arm, scale, seed=seed)
        yield from finetuning.with_baseline(
            "xlmr", start, chosen, scale, {}, fresh=finetuning.NO_PRETRAINING
        )
