"""BART, table 1 (Lewis et al. 2020): eleven objectives in one code base.

    palimpsest sweep --sweep=experiments/sweeps/bart1.py --tasks=tasks.toml \\
        --workdir=runs/bart1
    palimpsest report --table=experiments/tables/bart1.toml --workdir=runs/bart1

Question: which objective's encoder understands best, at equal text, steps, batch, width
and optimizer? All rows have BART's network, vocabulary and optimizer; encoders and
decoders have half of the layers each. Permuted LM has single tokens as targets, and no
reused part (section 4.1).

Departs: rates of single noises are not printed: 0.3 here, as of infilling. Masked LM,
LM and permuted LM read contiguous text, BART's rows whole sentences, and masked seq2seq
those of one document.
Multitask masked LM is UniLM's, whose bidirectional rows are pairs with next sentence
prediction. Learning rates are one for all, where the authors tuned one for each row.
Questions are answered by rows of one stack that reads both sides alone. Text is scored
by its perplexity: BART's rows and masked seq2seq write it by their decoder, the others
after the input as a prefix, as in the paper; the language model, too, reads the prefix
from both sides.
"""

from launch.sweeps import finetuning

DECODERS = ("Masked seq2seq", "BART")
"""How rows begin whose network has an encoder and a decoder."""


def sweep(scale, tasks):
    bart = finetuning.pretraining("", ("experiments/bart.py", {}), scale, size="")

    def keys(row, base):
        own = finetuning.like(bart, base)
        if row.startswith(DECODERS):
            own["model.layers"] = max(1, base["model.layers"] // 2)
        return own

    return finetuning.sweep("bart1", scale, tasks, keys=keys, size="")
