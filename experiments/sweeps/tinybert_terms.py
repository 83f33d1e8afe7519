"""TinyBERT, table 3 (Jiao et al. 2020): the terms of its general distillation.

    palimpsest sweep --sweep=experiments/sweeps/tinybert_terms.py \\
        --tasks=tasks.toml --workdir=runs/tinybert_terms

Question: what do the losses of embeddings, of states and of attention bring? A BERT is
pretrained for each seed first, which is the teacher of that seed's rows. Below "paper"
a student is as wide as the teacher, and has half of its layers.

Departs: the paper leaves a term out of distillation on tasks, too; here tasks are tuned
by their labels. "no hidden loss" has none of embeddings either, which is a term of its
own in the paper.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    def keys(row, base):
        own = finetuning.taught_by(("experiments/bert.py", {}), scale)
        return own if scale == "paper" else own | {"model.layers": _half(own)}

    return finetuning.sweep("tinybert-terms", scale, tasks, keys=keys)


def _half(keys):
    return keys["objective.teacher_model"]["layers"] // 2
