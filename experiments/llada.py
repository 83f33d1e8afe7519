"""LLaDA (Nie et al. 2025): masked diffusion at the size of a large language model.

palimpsest train --config=experiments/llada.py:tiny --workdir=runs/llada

Each row has a mask rate drawn uniformly; a hundredth of the rows is truncated to a
uniformly drawn length. The network is Llama's without its causal mask.

Look at: valid/diffusion, as with experiments/mdlm.py; palimpsest score, whose 128
draws of fixed counts are this paper's estimate of the likelihood.

Large is the 8B model: 2.3 T tokens by its batch are 438,690 steps.

Departs (docs/fidelity.md has the values): model.init; mask of the first token; rate of
the stable phase; rows that are cut.
"""

from research.config import base

SIZES = ("tiny", "small", "large")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="masked_diffusion", strata=1, short_rate=0.01)
    config.data.vocabulary = "bytebpe"
    config.model.update(position="rotary", rope_theta=500_000.0, norm="rmsnorm")
    config.model.update(norm_epsilon=1e-5, activation="swiglu", bias=False)
    config.model.update(tie_embeddings=False, output_head="table")
    config.optimizer.update(name="adamw", weight_decay=0.1, schedule="linear")
    config.optimizer.update(decay_fraction=0.13, final_fraction=0.025)
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=126_464, length=4096)
        config.model.update(layers=32, width=4096, heads=32, feedforward=12_288)
        config.model.max_length = 4096
        config.train.update(steps=438_690, batch=1280)
        config.optimizer.update(learning_rate=4e-4, warmup_steps=2000)
    return config
