"""T5, table 2 (Raffel et al. 2020): architectures by objectives.

    palimpsest sweep --sweep=experiments/sweeps/t5_2.py --tasks=tasks.toml \\
        --workdir=runs/t5_2

Question: an encoder and a decoder, a decoder alone or a prefix LM, with denoising or
with a language model's loss? Every stack has equally many layers.

Departs: tasks are classified by the state of the decoder at the last token, as BART's
are, not written as text, and there are none that need a text to be written (as in all
sweeps of T5's tables); stacks that are one are tuned as classifiers of one stack. Rows
with half of the layers are left out, and the shared encoder and decoder with a language
model's loss. "decoder, LM" has no loss of log(Z), of which the other rows have 1e-4.
"""

from launch.sweeps import finetuning

BASELINE = {"train.steps": 524_288, "train.batch": 128}
"""The paper's budget for its baseline, which is that of all its tables."""


def with_budget(name, scale, tasks, more=lambda row, base: {}):
    """The sweep of one of T5's tables, with the paper's budget at scale "paper"."""

    def keys(row, base):
        return more(row, base) | (BASELINE if scale == "paper" else {})

    return finetuning.sweep(name, scale, tasks, keys=keys)


def sweep(scale, tasks):
    t5 = finetuning.pretraining("", ("experiments/t5.py", {}), scale)

    def keys(row, base):
        return finetuning.like(t5, base) if row == "decoder, LM" else {}

    return with_budget("t5-2", scale, tasks, keys)
