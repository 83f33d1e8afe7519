"""BART (Lewis et al. 2020): the clean text from one with holes and mixed sentences.

python -m launch.train --config=experiments/bart.py:tiny --workdir=runs/bart

All sentences of a passage change places; 30 % of its words are in spans with lengths
from Poisson(3), each of which is one mask, and empty spans add a mask. The decoder
starts with eos and writes the whole text.

Look at: the six rows of Table 1, one --config.objective.mask, delete, infill, rotate or
permute at a time. The command of fairseq's issue 1899 has random=0.1 and poisson=3.5.

Departs: the optimizer is not in the paper, it is that command's (Adam to 4e-4); the
batch of base is not printed either. The last 10 % of the large run keep their dropout.
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {
    "large": ("v5e:16x16", {"mesh.fsdp": 16, "mesh.tensor": 4, "train.accumulate": 5})
}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "bytebpe"
    config.objective.update(name="bart", infill=0.3, permute=1.0, poisson=3.0)
    config.objective.update(text="passage")
    config.model.update(norm_placement="post", norm_epsilon=1e-5, dropout=0.1)
    config.optimizer.update(name="adamw", schedule="linear", weight_decay=0.01)
    config.optimizer.update(beta1=0.9, beta2=0.999, epsilon=1e-6, clip_norm=0.1)
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=50_265, sentinels=0)
        config.model.layers //= 2  # of each side: 6 and 12
        config.optimizer.update(learning_rate=4e-4, warmup_steps=10_000)
        config.train.update(steps=1_000_000)
    if size == "large":
        config.train.update(steps=500_000, batch=8000)
    return config
