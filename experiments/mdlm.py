"""MDLM (Sahoo et al. 2024): masked diffusion, with mask rates from 0 to 1.

palimpsest train --config=experiments/mdlm.py:tiny --workdir=runs/mdlm

Each row has a mask rate t, spread evenly over a batch; its masked tokens are predicted
from all others, with losses weighted by 1 / t, so that the mean is a bound on -log p.

Look at: valid/diffusion, the bound per token with exact counts, against valid/lm of
experiments/gpt2.py; --config.objective.probability=t, which is the bound and not .999
of it; palimpsest score, which gives the Monte Carlo error of the figure.

Schedules of babylm-diffusion: --config.objective.schedule=cosine, or bimodal with
--config.objective.derivative_power=0.1; its rates by frequency
--config.objective.frequency_power=0.02.

Departs (docs/fidelity.md has the values): model.init; model.bias; mask of the first
token; logit of the mask token; conditioning on time.
"""

from research.config import base

SIZES = ("tiny", "small", "base")


def use_dit_settings(config, size: str):
    """Sets the network and optimizer that MDLM and block diffusion share."""
    config.data.vocabulary = "bytebpe"
    config.model.update(position="rotary", norm_epsilon=1e-5, activation="gelu_tanh")
    config.model.update(tie_embeddings=False, output_head="bias")
    config.model.update(dropout=0.1, embedding_dropout=0.0, attention_dropout=0.0)
    config.optimizer.update(name="adamw", beta2=0.999, epsilon=1e-8, weight_decay=0.0)
    config.optimizer.schedule = "constant"
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=50_257, length=1024)
        config.model.max_length = 1024
        config.train.update(steps=1_000_000, batch=512)
        config.optimizer.update(learning_rate=3e-4, warmup_steps=2500)
        config.optimizer.ema_decay = 0.9999


def get_config(size: str = "small"):
    config = base.get_config(size)
    use_dit_settings(config, size)
    config.objective.update(name="masked_diffusion", probability="scaled")
    config.objective.strata = config.train.batch
    return config
