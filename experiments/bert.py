"""BERT (Devlin et al. 2019): masked tokens, and next sentence prediction.

palimpsest train --config=experiments/bert.py:tiny --workdir=runs/bert

15 % of the tokens of two segments are chosen; of these 80 % become the mask token, 10 %
any entry of the vocabulary, 10 % are kept. In half of the pairs the second segment is
from another document. Each text has ten copies, used in turn: each is packed into pairs
separately, and masked once (static masking).
Nine tenths of the steps of base and large have rows of 128 tokens, the others of 512.

Look at: valid/nsp_accuracy, which exceeds one half long before valid/mlm falls much;
--config.objective.sentence_task=none, the paper's ablation, which keeps the pairs.

GELU uses erf, as the first release (fe35475 of google-research/bert, October 2018) and
the paper's models; since February 2019 (bee6030) its modeling.py uses tanh.

Departs (docs/fidelity.md has the values): clipping; order of the copies.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")


def use_bert_settings(config):
    """Sets BERT's vocabulary, network and optimizer, which many papers share."""
    config.data.update(vocabulary="wordpiece", normalizer="uncased")
    config.model.update(norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.update(bias_correction=False, decay_from="start")


def get_config(size: str = "small"):
    config = base.get_config(size)
    use_bert_settings(config)
    config.data.update(dupe_factor=10, pairs="each_copy")
    config.objective.update(name="mlm", format="segment_pair", sentence_task="nsp")
    config.objective.random_tokens = "all"
    config.model.token_types = 2
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=256)
        config.train.phases = [[0.9, {"data.length": 128}]]
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
