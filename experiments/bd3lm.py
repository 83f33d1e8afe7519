"""BD3-LM (Arriola et al. 2025): block diffusion, left to right in blocks of tokens.

palimpsest train --config=experiments/bd3lm.py:tiny --workdir=runs/bd3lm

A row is read twice, clean and noised; a noised block attends to itself and to the clean
blocks before it. Each block has its own mask rate t.

Look at: valid/diffusion with --config.objective.block_size=1, which is the loss of a
language model (with min_t=1, max_t=1 and count=independent), 4 (its interval of rates
is .45 to .95), 16 and data.length, which is MDLM's. Restricting rates to an interval
lowers the variance of the gradient; evaluations use the bound over all rates. The
published models start from MDLM's: --config.train.init_from=RUN, for 150,000 steps.

Departs (docs/fidelity.md has the values): model.init; model.bias; objective.min_t;
objective.max_t; logit of the mask token.
"""

from experiments import mdlm
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    mdlm.use_dit_settings(config, size)
    config.objective.update(name="masked_diffusion", block_size=16)
    config.objective.update(min_t=0.3, max_t=0.8, count="inside")
    config.objective.strata = config.train.batch
    return config
