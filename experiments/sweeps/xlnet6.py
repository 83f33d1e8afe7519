"""XLNet, table 6 (Yang et al. 2019): what each part of XLNet brings.

    palimpsest sweep --sweep=experiments/sweeps/xlnet6.py --tasks=tasks.toml \\
        --workdir=runs/xlnet6

Question: which of memory, spans as targets and rows in both directions does XLNet need?
K is the number of tokens of which one is predicted.

Departs: the rows "DAE + Transformer-XL" (mems are not there with masked tokens) and
"+ next sentence" are left out.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    def keys(row, base):
        if row in ("- memory", "BERT-base"):
            return {}
        return {"objective.mem_len": base["data.length"] * 3 // 4}

    return finetuning.sweep("xlnet6", scale, tasks, keys=keys)
