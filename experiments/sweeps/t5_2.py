"""T5, table 2 (Raffel et al. 2020): architectures by objectives.

    python -m launch.sweep --sweep=experiments/sweeps/t5_2.py --tasks=tasks.toml \\
        --workdir=runs/t5_2

Question: an encoder and a decoder, a decoder alone or a prefix LM, with denoising or
with a language model's loss? Every stack has equally many layers.

Departs: `paper_tables/t5_text.py` says how tasks are tuned on; stacks that are one are
tuned as classifiers of one stack. Rows with half of the layers are left out.
"""

from experiments.paper_tables import finetuning, t5_text


def sweep(scale, tasks):
    t5 = finetuning.pretraining("", ("experiments/t5.py", {}), scale)

    def keys(row, base):
        return finetuning.like(t5, base) if row == "decoder, LM" else {}

    return t5_text.sweep("t5-2", scale, tasks, keys)
