"""What the sweeps of T5's tables share: the paper's budget for its baseline.

Departs: tasks are classified by the state of the decoder at the last token, as BART's
are, not written as text; there are no tasks that need a text to be written.
"""

from experiments.paper_tables import finetuning

BASELINE = {"train.steps": 524_288, "train.batch": 128}


def sweep(name, scale, tasks, more=lambda row, base: {}):
    def keys(row, base):
        return more(row, base) | (BASELINE if scale == "paper" else {})

    return finetuning.sweep(name, scale, tasks, keys=keys)
