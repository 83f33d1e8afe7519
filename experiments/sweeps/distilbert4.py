"""DistilBERT, table 4 (Sanh et al. 2019): the terms of its loss, and its start.

    palimpsest sweep --sweep=experiments/sweeps/distilbert4.py \\
        --tasks=tasks.toml --workdir=runs/distilbert4

Question: what do the teacher's tokens, its states and the answers bring, and the start
from every other layer of the teacher? A BERT is pretrained for each seed first, which
is the teacher of that seed's rows.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    def keys(row, base):
        own = finetuning.taught_by(("experiments/bert.py", {}), scale)
        own["model.layers"] = base["model.layers"]
        own["model.token_types"] = 0
        if scale != "paper":  # there the layers are those of the experiment
            kept = [*range(1, own["objective.teacher_model"]["layers"], 2)]
            own |= {"model.layers": len(kept), "train.init_layers": kept}
        if row == "random start":
            return own | {"train.init_layers": []}
        return own | {finetuning.INIT_FROM: own[finetuning.TEACHER]}

    return finetuning.sweep("distilbert4", scale, tasks, keys=keys)
