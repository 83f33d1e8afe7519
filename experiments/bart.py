"""BART (Lewis et al. 2020): denoising of infilled text with permuted sentences.

palimpsest train --config=experiments/bart.py:tiny --workdir=runs/bart

All sentences of a passage are permuted; 30 % of its words are in spans with lengths
from Poisson(3), each replaced by one mask, and empty spans insert a mask. The decoder
starts with eos and writes the whole text. The last tenth of the steps of the large run
has no dropout (section 5.1).

Look at: the six rows of Table 1, one of --config.objective.mask_rate, delete_rate,
infill_rate, rotate_rate or permute_rate at a time. The command of fairseq's issue 1899
has random_fraction=0.1 and poisson_lambda=3.5.

The paper does not give the optimizer; that command's is used.

Departs (docs/fidelity.md has the values): objective.poisson_lambda;
objective.random_fraction; end of a sentence; random tokens; end of a line; rate of the
second step, in parts of peak / warm-up.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {
    "large": ("v5e:16x16", {"mesh.fsdp": 16, "mesh.tensor": 4, "train.accumulate": 5})
}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "bytebpe"
    config.objective.update(name="bart", infill_rate=0.3, permute_rate=1.0)
    config.objective.update(poisson_lambda=3.0, text_unit="passage")
    config.model.update(norm_placement="post", norm_epsilon=1e-5, dropout=0.1)
    config.model.head_dropout = 0.0  # fairseq's pooler_dropout
    config.optimizer.update(name="adamw", schedule="linear", epsilon_place="before")
    config.optimizer.update(beta2=0.999, epsilon=1e-8, weight_decay=0.01, clip_norm=0.1)
    config.optimizer.decay_params = "all"
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=50_265, sentinels=0)
        config.model.layers //= 2  # of each side: 6 and 12
        config.model.max_length = 1024
        config.optimizer.update(learning_rate=4e-4, warmup_steps=10_000)
        config.train.update(steps=1_000_000)
    if size == "large":
        config.train.update(steps=500_000, batch=8000)
        config.train.phases = [[0.9, {}], [1.0, {"model.dropout": 0.0}]]
    return config
