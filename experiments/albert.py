"""ALBERT (Lan et al. 2020): one block for all layers, n-grams, the order of sentences.

python -m launch.train --config=experiments/albert.py:tiny --workdir=runs/albert

Hidden are n-grams of whole words, n = 1, 2 or 3 with p(n) ~ 1/n, 80/10/10 token by
token; and whether two adjacent segments were swapped. Tokens have a narrow table, and
all layers the same parameters.

Look at: model.embedding_width=0 and model.shared_layers=False, the paper's Tables 3 and 4;
objective.sentence=none, nsp or sop_released. The last is the released code, in which a
pair of two documents, read for want of a second sentence, counts as swapped.

Departs: the released version 1 has dropout, version 2 none; this is version 1.
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:16x16", {"mesh.fsdp": 16})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="mlm", unit="ngram", draw="all")
    config.objective.update(format="segment_pair", sentence="sop")
    config.model.update(shared_layers=True, embedding_width=config.model.width // 2)
    config.model.update(token_types=2, norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(name="lamb", beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.update(learning_rate=1e-2, bias_correction=False)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_000
        config.model.embedding_width = 128
        config.train.update(steps=125_000, batch=4096)
        config.optimizer.update(learning_rate=1.76e-3, warmup_steps=3125)
    return config
