"""GPT, table 5 (Radford et al. 2018): pretraining, and the auxiliary loss of tuning.

    palimpsest sweep --sweep=experiments/sweeps/gpt5.py --tasks=tasks.toml \\
        --workdir=runs/gpt5

Question: what does pretraining bring, and a language model's loss on the task's text?
All rows share one pretraining for each seed.

Departs: MRPC, QQP and STS-B are read in one order. The LSTM, of one layer of 2048 units
beside the network's 768, has token vectors of as many values. Probes of scale quick
have no auxiliary loss: there the first two rows are one.
"""

from launch.sweeps import benchmarks, finetuning
from launch.sweeps.published import read_published

AUXILIARY = {"objective.lm_coef": 0.5}


def sweep(scale, tasks):
    chosen, arms = finetuning.table_tasks("gpt5", tasks, scale), read_published("gpt5")
    for row in ("full", "LSTM"):
        for seed in range(finetuning.REPEATS[scale].pretraining_seeds):
            start = finetuning.pretraining(
                row, arms.arms[row], scale, seed=seed, keys=_keys
            )
            yield (*start, (row, "pretraining"))
            for name, task in chosen.items():
                own = benchmarks.KEYS.get(name, {})
                more = {} if name in benchmarks.PROBE_TASKS else AUXILIARY
                for experiment, keys in finetuning.tunings(start, task, scale, own):
                    yield experiment, keys | more, (row, name)
                    if row == "LSTM":
                        continue
                    if more:
                        yield experiment, keys, ("no auxiliary LM", name)
                    keys = {k: v for k, v in keys.items() if k != "train.init_from"}
                    yield experiment, keys | more, ("no pretraining", name)


def _keys(row, base):
    return {"model.width": base["model.width"] * 2048 // 768} if row == "LSTM" else {}
