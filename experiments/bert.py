"""BERT (Devlin et al. 2019): hidden tokens, and whether two segments belong together.

python -m launch.train --config=experiments/bert.py:tiny --workdir=runs/bert

Hidden are 15 % of the tokens of two segments, 80 % as the mask token, 10 % as any entry
of the vocabulary, 10 % as they are; in half of the pairs the second segment is of
another document. Each pair has ten noises, which come in turn (static masking).

Look at: valid/nsp_accuracy, which is above one half long before valid/mlm moves far;
--config.objective.sentence=none is the paper's ablation, which keeps the pairs.

Departs: pairs are packed once, not once a noise; all steps have one length (released:
90 % at 128, then 512); the vocabulary is cased where it is trained here.
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.update(vocabulary="wordpiece", dupe_factor=10)
    config.objective.update(name="mlm", format="segment_pair", sentence="nsp")
    config.objective.update(draw="all")
    config.model.update(token_types=2, norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.bias_correction = False
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
