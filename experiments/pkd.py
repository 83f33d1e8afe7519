"""PKD (Sun et al. 2019): half of BERT learns a task from a fine-tuned BERT's layers.

    palimpsest train --config=experiments/bert.py:tiny --workdir=runs/bert
    palimpsest train --config=experiments/finetune.py --workdir=runs/teacher \
        --config.train.init_from=runs/bert
    palimpsest train --config=experiments/pkd.py:tiny --workdir=runs/pkd \
        --config.train.init_from=runs/bert --config.objective.teacher=runs/teacher

The student starts from the first layers of pretrained BERT, not of the teacher. Besides
labels and the teacher's classes at temperature 10, the first token's state in each
layer but the last matches that in every second layer of the teacher, both of length 1
(PKD-skip; PKD-last learns those before the last: objective.layer_map=[6,7,8,9,10,-1]).
base is RTE, of the released code; its files are --config.data.train and data.valid.

Look at: valid/accuracy against that without the teacher's layers, objective.hidden=0,
and without a teacher, experiments/finetune.py with train.init_layers.

The loss is .3 labels + .7 KL + 500 of states. In the released code the KL is a mean
over rows and classes, and the loss of states one over rows, layers and elements; here
they are summed over classes and over layers, so that factors are .7 / 2 classes and
500 / 5 layers.

Departs (docs/fidelity.md has the values): clipping; order of texts.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {})}
LAYER_MAPS = {"tiny": [1], "small": [1, -1], "base": [1, 3, 5, 7, 9, -1]}
NUM_CLASSES = 2
ALPHA, BETA = 0.7, 500.0


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    layer_map = LAYER_MAPS[size]
    num_learning = sum(layer >= 0 for layer in layer_map)
    teacher = bert.get_config(size).model.to_dict()
    config.data.corpus = "docstrings"
    config.objective.update(name="distill", teacher_model=teacher)
    config.objective.base_objective = "sequence_classification"
    config.objective.update(hard=1 - ALPHA, soft=ALPHA / NUM_CLASSES, temperature=10.0)
    config.objective.update(hidden=BETA / num_learning, layer_map=layer_map)
    config.objective.update(hidden_at="first", hidden_error="normalized")
    config.objective.update(hidden_from="blocks", projection="none")
    config.model.update(layers=len(layer_map), token_types=2)
    config.train.init_layers = [*range(len(layer_map))]
    config.optimizer.update(decay_from="warmup", warmup="from_zero")
    if size in base.PUBLISHED:
        config.data.update(length=128, vocabulary_size=30_522)
        config.train.update(steps=308, batch=32)
        config.optimizer.update(learning_rate=1e-5, warmup_steps=31)
    return config
