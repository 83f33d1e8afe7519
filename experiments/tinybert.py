"""TinyBERT (Jiao et al. 2020): a thin BERT learns a teacher's states and attention.

    palimpsest train --config=experiments/bert.py:tiny --workdir=runs/bert
    palimpsest train --config=experiments/tinybert.py:tiny \
        --workdir=runs/tinybert --config.objective.teacher=runs/bert

This is general distillation, the first stage. Nothing is predicted: each layer of the
student learns the attention logits and states of every third layer of the teacher, and
its embeddings those of the teacher, through one dense layer to the teacher's width. The
next stages are the same on a task, then the teacher's classes:

    palimpsest train --config=experiments/finetune.py --workdir=runs/teacher \
        --config.train.init_from=runs/bert
    palimpsest train --config=experiments/finetune.py --workdir=runs/layers \
        --config.train.init_from=runs/tinybert --config.objective.name=distill \
        --config.objective.base_objective=sequence_classification \
        --config.objective.teacher=runs/teacher --config.objective.soft=0 \
        --config.objective.hard=0 --config.objective.hidden=1 \
        --config.objective.attention=1 --config.optimizer.learning_rate=5e-5 \
        --config.optimizer.schedule=constant --config.optimizer.warmup_steps=0
    palimpsest train --config=experiments/finetune.py --workdir=runs/student \
        --config.train.init_from=runs/layers --config.objective.name=distill \
        --config.objective.base_objective=sequence_classification \
        --config.objective.teacher=runs/teacher --config.objective.hard=0 \
        --config.objective.soft=0.5 --config.optimizer.learning_rate=3e-5 \
        --config.optimizer.decay_from=warmup --config.optimizer.warmup=from_zero \
        --config.train.best_metric=accuracy

objective.soft is 1 / classes, since the released loss is a mean over classes, too. Both
of these read, as data.train, the task's text and copies of it, in which
palimpsest augment has replaced words (docs/smaller.md):

    palimpsest augment --workdir=runs/bert --vectors=glove.6B.50d.txt \
        --texts=train.tsv --fields=sentence --passes=20 --to=augmented.tsv

Look at: valid/hidden and valid/attention; the accuracy on a task beside that of the
same network trained as experiments/bert.py, and beside that of the second stage alone.

The released text has no masks, as its authors say, but for one chosen token a row: its
code rounds the number up to 1.

Departs (docs/fidelity.md has the values): attention of padding; states of padding;
dropout of the teacher; clipping; steps of the stages on a task.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")
THIN = {
    "tiny": {"layers": 1, "width": 32, "feedforward": 64},
    "small": {"layers": 2, "width": 128, "feedforward": 512},
    "base": {"layers": 4, "width": 312, "feedforward": 1200},
}


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    teacher = bert.get_config(size).model.to_dict()
    pairs = {"format": "segment_pair", "sentence_task": "nsp"}
    one_mask = {"rate": 0.001, "random_tokens": "all"}
    config.objective.update(name="distill", teacher_model=teacher)
    config.objective.update(base=pairs | one_mask, hard=0.0, soft=0.0)
    config.objective.update(hidden=1.0, attention=1.0)
    config.data.update(dupe_factor=3, pairs="each_copy")
    config.model.update(token_types=2, **THIN[size])
    config.model.init = "normal"
    config.optimizer.update(decay_from="warmup", warmup="from_zero")
    if size in base.PUBLISHED:
        config.data.update(length=128, vocabulary_size=30_522)
        config.train.update(steps=300_000, batch=256)
        config.optimizer.learning_rate = 5e-5
        config.optimizer.warmup_steps = config.train.steps // 10
    return config
