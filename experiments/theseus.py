"""BERT-of-Theseus (Xu et al. 2020): half the layers gradually replace a tuned BERT's.

    palimpsest train --config=experiments/bert.py:tiny --workdir=runs/bert
    palimpsest train --config=experiments/finetune.py --workdir=runs/teacher \
        --config.train.init_from=runs/bert
    palimpsest train --config=experiments/theseus.py:tiny --workdir=runs/theseus \
        --config.train.init_from=runs/teacher --config.objective.teacher=runs/teacher

Each step runs the teacher, in which each module of two layers is replaced by a layer of
the student with a probability that rises from .3 to 1 within 1,167 steps. After that
only the student runs. It starts from the teacher's first layers. Only its layers are
trained, and only on the labels. base is MRPC, whose files are
--config.data.train and data.valid.

Look at: valid/accuracy of the student, against a student that is tuned from the same
layers, experiments/finetune.py with train.init_layers; and a constant rate followed by
tuning, objective.replacing_rate=[[0,0.5],[2499,0.5],[2500,1]].

Departs (docs/fidelity.md has the values): clipping.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {})}
START, SLOPE, LAST = 0.3, 0.0006, 1167


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    teacher = bert.get_config(size).model.to_dict()
    num_layers = teacher["layers"] // 2
    config.data.corpus = "docstrings"
    config.objective.update(name="theseus", teacher_model=teacher)
    config.objective.base_objective = "sequence_classification"
    rate = [[0, START], [LAST, START + SLOPE * LAST]]  # above 1 it is 1
    config.objective.replacing_rate = rate
    config.model.update(layers=num_layers, token_types=2)
    config.train.init_layers = [*range(num_layers)]
    config.optimizer.update(frozen="token,embeddings,pooler,head_label")
    config.optimizer.update(epsilon=1e-8, weight_decay=0.0, bias_correction=True)
    config.optimizer.update(clip_norm=1.0, decay_from="warmup")
    config.optimizer.epsilon_place = "before"
    if size in base.PUBLISHED:
        config.data.update(length=128, vocabulary_size=30_522)
        config.train.update(steps=1725, batch=32)
        config.optimizer.update(learning_rate=2e-5, warmup_steps=0)
    return config
