"""K-BERT beside its controls: does the graph help, or the larger row?

    palimpsest sweep --sweep=experiments/sweeps/kbert.py --tasks=tasks.toml \\
        --config.data.corpus='zh/*.jsonl' --workdir=runs/kbert
    palimpsest report --table=experiments/tables/kbert.toml --workdir=runs/kbert

Each task of --tasks names its graph in data.lexicon, as in HowNet.spo.gz. A network
that is pretrained once for each seed is tuned on it in four ways, which differ in the
branches of its rows alone: none, those of the graph, those of a graph whose tails are
permuted (as long, and false), and those of the graph without soft positions and without
the visible matrix. Texts have the same room in all rows.

The paper has no such table; its users found the first row as good as the second.
"""

from launch.sweeps import finetuning
from launch.sweeps.scales import SCALES

ROWS = {
    "no graph": {"objective.branches": 0},
    "K-BERT": {},
    "shuffled graph": {"objective.graph": "shuffled"},
    "no visible matrix": {"objective.visible": "all", "objective.positions": "flat"},
}
SEEDS = 5


def sweep(scale, tasks):
    chosen = finetuning.own_tasks("kbert", tasks)
    for seed in range(max(SEEDS, SCALES[scale].pretraining_seeds)):
        start = finetuning.pretraining(
            "bert", ("experiments/bert.py", {}), scale, seed=seed, keys=_one_position
        )
        for name, task in chosen.items():
            for row, keys in ROWS.items():
                own = _tuned(start, task, scale) | keys
                yield finetuning.EXPERIMENT, own, (row, name)


def _one_position(row, base):
    """Learned positions at each scale, as the paper has them."""
    return {"model.position": "learned"}


def _tuned(start, task, scale):
    """The keys of a fine-tuning of K-BERT on a task."""
    own = {"data.vocabulary": start, finetuning.INIT_FROM: start, "data.mixture": {}}
    own |= finetuning.network_keys(start) | SCALES[scale].tuning
    keys = dict(task.keys)
    base = keys.pop("objective.name", "sequence_classification")
    fields = [key for key in keys if key.startswith("objective.")]
    of_base = {key.removeprefix("objective."): keys.pop(key) for key in fields}
    tree = {"objective.branch_text": "tail"} if base == "token_classification" else {}
    return (
        own
        | keys
        | {"objective.name": "kbert", "objective.base_objective": base}
        | {"objective.base": of_base, "seed": start[1]["seed"]}
        | tree
    )
