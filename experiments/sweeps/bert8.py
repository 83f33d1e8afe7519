"""BERT, table 8 (Devlin et al. 2019): what a chosen token becomes.

    palimpsest sweep --sweep=experiments/sweeps/bert8.py --tasks=tasks.toml \\
        --workdir=runs/bert8

Question: of the 15 % chosen tokens, which fraction should become the mask token, stay,
or become a random token? Rows are named MASK SAME RND, in per cent.

"NER by features" tunes no parameter of the network: a BiLSTM of two layers reads the
states of its last four blocks (Devlin et al. 2019, section 5.3). Its task is named so
in the file of tasks, beside "NER", with the same files.

Departs: features are of rows of data.length, not of documents; the BiLSTM has
model.width units a direction, and a learning rate that is not the paper's, who gives
none.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    return finetuning.sweep("bert8", scale, tasks, paper_mask_rate=True)
