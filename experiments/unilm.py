"""UniLM (Dong et al. 2019): one network, four ways to see, one cloze.

python -m launch.train --config=experiments/unilm.py:tiny --workdir=runs/unilm

Hidden are 15 % of the tokens, one choice in five a bigram or trigram; a row sees both
ways (1/3), as source and target (1/3), from left to right or from right to left (1/6
each). Segment ids tell the modes apart. Pairs that are seen both ways are also asked
whether they belong together.

Look at: valid/unilm with one mode alone (--config.objective.bidirectional=1 and the
others 0), which is lower the more a mode sees.

Departs: it starts afresh, where the paper goes on from BERT-large (whose table of kinds
has two rows, not six), and so should be given more than its rate of 3e-5. A batch of
330 is divided by 2, 3, 5, 6, 10, 11, ... devices.
"""

from experiments import base

SIZES = ("tiny", "small", "large")
SLICES = {
    "large": ("v5e:4x4", {"mesh.fsdp": 2, "mesh.tensor": 8, "train.accumulate": 15})
}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "wordpiece"
    config.objective.name = "unilm"
    config.model.update(token_types=6, norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(name="adamw", beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.bias_correction = False
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 28_996
        config.train.update(steps=770_000, batch=330)
        config.optimizer.update(learning_rate=3e-5, warmup_steps=40_000)
    return config
