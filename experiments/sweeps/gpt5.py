"""GPT, table 5 (Radford et al. 2018): pretraining, and the auxiliary loss of tuning.

    palimpsest sweep --sweep=experiments/sweeps/gpt5.py --tasks=tasks.toml \\
        --workdir=runs/gpt5

Question: what does pretraining bring, and a language model's loss on the task's text?
All rows share one pretraining for each seed.

Departs: the row with an LSTM is left out. MRPC, QQP and STS-B are read in one order.
Probes of scale quick have no auxiliary loss: there the first two rows are one.
"""

from launch.sweeps import benchmarks, finetuning

AUXILIARY = {"objective.lm_coef": 0.5}


def sweep(scale, tasks):
    arm = ("experiments/gpt.py", {})
    for seed in range(finetuning.REPEATS[scale].pretraining_seeds):
        start = finetuning.pretraining("", arm, scale, seed=seed)
        yield (*start, ("full", "pretraining"))
        for name, task in finetuning.table_tasks("gpt5", tasks, scale).items():
            own = benchmarks.KEYS.get(name, {})
            for experiment, keys in finetuning.tunings(start, task, scale, own):
                more = {} if name in benchmarks.PROBE_TASKS else AUXILIARY
                if more:
                    yield experiment, keys, ("no auxiliary LM", name)
                yield experiment, keys | more, ("full", name)
                keys = {k: v for k, v in keys.items() if k != "train.init_from"}
                yield experiment, keys | more, ("no pretraining", name)
