"""ELECTRA (Clark et al. 2020): detects the tokens that a small generator replaced.

palimpsest train --config=experiments/electra.py:tiny --workdir=runs/electra

15 % of the tokens (large: 25 %) are chosen, and 85 % of these become the mask token. A
generator with a quarter to a third of the width samples tokens at these positions, and
the discriminator predicts for every token whether it is the original. Positions are
drawn with replacement, so that fewer are chosen (large: 22 %). A row is one or two
segments of a document; short later sentences go to the first of them. electra_small is
the paper's small model.

Look at: objective.task with chosen (15 %), replace_mlm and all_tokens (both with
objective.coef=1), the paper's table 5; objective.generator_size, figure 3;
objective.tie, section 3.2 (all with objective.generator_size=1).

Departs (docs/fidelity.md has the values): clipping.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "electra_small", "base", "large")
PUBLISHED = {  # rate, generator_size, batch, steps, learning_rate
    "electra_small": (0.15, 1 / 4, 128, 1_000_000, 5e-4),
    "base": (0.15, 1 / 3, 256, 766_000, 2e-4),
    "large": (0.25, 1 / 4, 2048, 400_000, 2e-4),
}


def get_config(size: str = "small"):
    config = base.get_config("base" if size == "electra_small" else size)
    bert.use_bert_settings(config)
    config.optimizer.warmup = "factor"
    config.objective.update(name="electra", format="segment_pair")
    config.objective.positions = "repeated"
    config.model.update(token_types=2, init="electra")
    if size == "electra_small":
        config.data.length = 128
        config.model.update(width=256, heads=4, feedforward=1024, embedding_width=128)
    if size in PUBLISHED:
        rate, generator_size, batch, steps, learning_rate = PUBLISHED[size]
        config.objective.update(rate=rate, generator_size=generator_size)
        config.data.vocabulary_size = 30_522
        config.train.update(steps=steps, batch=batch)
        config.optimizer.update(learning_rate=learning_rate, warmup_steps=10_000)
    return config
