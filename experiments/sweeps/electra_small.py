"""ELECTRA, table 1 (Clark et al. 2020): small models at equal FLOPs.

    palimpsest sweep --sweep=experiments/sweeps/electra_small.py \\
        --tasks=tasks.toml --workdir=runs/electra_small

Question: at equal FLOPs and of one shape, is a discriminator better than a masked
language model? BERT-small has the steps that ELECTRA-small's FLOPs come to, and as in
the paper (appendix, pre-training details) no next sentence prediction.

Departs: BERT-small's rows are still pairs, and half of them of two documents.
"""

from launch.sweeps import budgets, finetuning
from launch.sweeps.published import read_published

RATE = {"paper_mask_rate": True}


def sweep(scale, tasks):
    arms = read_published("electra-small").arms
    size = "electra_small"
    electra = finetuning.pretraining(
        "", arms["ELECTRA-small"], scale, keys=_narrow(scale), size=size, **RATE
    )
    steps = finetuning.flat_config(electra)["train.steps"]
    total = steps * budgets.step_flops(*electra)

    def keys(row, base):
        if row == "ELECTRA-small":
            return _narrow(scale)(row, base)
        own = finetuning.like(electra, base)
        experiment, keys = arms[row]
        arm = experiment, keys | own
        start = finetuning.pretraining(row, arm, scale, size="", **RATE)
        return own | {"train.steps": budgets.steps_for_flops(*start, total)}

    return finetuning.sweep("electra-small", scale, tasks, keys=keys, size=size, **RATE)


def _narrow(scale):
    """Embeddings of half the width, as the paper's small models have them."""

    def keys(row, base):
        if scale == "paper":
            return {}
        return {"model.embedding_width": base["model.width"] // 2}

    return keys
