"""MiniLMv2 (Wang et al. 2021): a small BERT that learns relations between positions.

    palimpsest train --config=experiments/bert.py:tiny --workdir=runs/bert
    palimpsest train --config=experiments/minilm.py:tiny --workdir=runs/minilm \
        --config.objective.teacher=runs/bert

The last layer of the student learns, by KL, the similarities of queries at two
positions in one layer of the teacher, and the same for keys and values. The vectors of
all heads are joined and split into relation heads, so that the student may have any
width and number of heads. No token is masked or predicted.

MiniLM (Wang et al. 2020) learns attention and relations of values, of equal heads:
--config.objective.attention=1 --config.objective.attention_error=divergence
--config.objective.relations=value --config.objective.relation_heads=0.

Look at: valid/relation, and the accuracy on a task after experiments/finetune.py with
train.init_from=runs/minilm, against the network without pretraining. The layer of a
large teacher is not the last: 21 of 24 in the paper, objective.layer_map.

There is no released training code; values are from the paper and a reimplementation
(Bloomberg's), whose results are 0.9 below the paper's on five tasks of GLUE.

Departs (docs/fidelity.md has the values): objective.base.format; weight of a short row.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")
THIN = {
    "tiny": {"layers": 1, "width": 32, "feedforward": 128},
    "small": {"layers": 2, "width": 128, "feedforward": 512},
    "base": {"layers": 6, "width": 384, "feedforward": 1536},
}
RELATION_HEADS = {"tiny": 4, "small": 8, "base": 48}


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    teacher = bert.get_config(size).model.to_dict()
    no_masks = {"format": "doc_sentences", "mask_fraction": 0.0, "random_fraction": 0.0}
    config.objective.update(name="distill", teacher_model=teacher)
    config.objective.update(base=no_masks, hard=0.0, soft=0.0, relation=1.0)
    config.objective.relation_heads = RELATION_HEADS[size]
    config.model.update(token_types=2, **THIN[size])
    last = (config.model.layers - 1) * (-1,)
    config.objective.layer_map = (*last, teacher["layers"] - 1)
    config.model.init = "normal"
    config.optimizer.update(bias_correction=True, decay_from="warmup")
    config.optimizer.warmup = "from_zero"
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=400_000, batch=256)
        config.optimizer.update(learning_rate=6e-4, warmup_steps=4000)
    return config
