"""DistilBERT (Sanh et al. 2019): every other layer of BERT, taught by BERT itself.

    palimpsest train --config=experiments/bert.py:tiny --workdir=runs/bert
    palimpsest train --config=experiments/distilbert.py:tiny \
        --workdir=runs/distilbert --config.objective.teacher=runs/bert \
        --config.train.init_from=runs/bert --config.model.token_types=0

The student has half of the layers, and starts from six of the teacher's twelve. The
loss is 5 KL + 2 masked LM + 1 cosine: the KL to the teacher's distribution of tokens at
temperature 2, at all positions of the text, masked or not; masked LM at the masked
ones; and the cosine of the last states at all. Rare tokens are masked more often: the
tokens of a row are drawn in proportion to their count to the power of -0.7.

Look at: valid/mlm compared with a student without a teacher, objective.soft=0 and
objective.cosine=0; without train.init_from, which the paper finds worth more than any
term (table 4).

The factors are those of the command for one GPU in the released README. The command for
several has .33 for each, and train.py has .5, 0 and 0.

Departs (docs/fidelity.md has the values): objective.base.format; model.position;
drawing of masked tokens; tokens that 15 % are taken of.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:4x4", {"mesh.fsdp": 4, "train.accumulate": 10})}
LAYERS = {"tiny": [1], "small": [1, 3], "base": [0, 2, 4, 7, 9, 11]}


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    teacher = bert.get_config(size).model.to_dict()
    masked = {"format": "doc_sentences", "random_tokens": "all", "rounding": "up"}
    config.objective.update(name="distill", teacher_model=teacher)
    config.objective.update(base=masked | {"count_exponent": 0.7})
    config.objective.update(hard=2.0, soft=5.0, cosine=1.0)
    config.objective.update(temperature=2.0, soft_at="text")
    config.model.layers = len(LAYERS[size])
    config.train.init_layers = LAYERS[size]
    config.optimizer.update(beta2=0.98, bias_correction=True, weight_decay=0.0)
    config.optimizer.update(clip_norm=5.0)
    config.optimizer.update(decay_from="warmup", warmup="from_zero")
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=6300, batch=4000)
        config.optimizer.update(learning_rate=5e-4)
        config.optimizer.warmup_steps = config.train.steps // 20  # 5 %
    return config
