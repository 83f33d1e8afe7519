"""ERNIE 2.0 (Sun et al. 2020): continual multi-task learning of six tasks.

    palimpsest train --config=experiments/ernie2.py:tiny --workdir=runs/ernie2 \
        --config.data.lexicon=phrases.tsv

Words, phrases and entities are masked throughout; at each sixth of the steps another
task joins, and all continue with equal weights: capital letters, words that recur in
the document, the order of a text's pieces, how far apart two segments are, and the
connective between two sentences. Phrases, entities and connectives are those of a
lexicon (lines of an entry, a tab and its type). Each task has token types of its own.
Tasks join at sixths of the size's own train.steps: with other steps, give the weights
of objective.parts, too.

Look at: train/masked/mlm when tasks join, and the tasks' accuracies compared with a run
with objective.parts.TASK.weight=0.17 from the start (multi-task learning).

In each step all tasks read a pair of segments; a task's fraction of the batches is its
weight here. A batch is 393,216 tokens.

Departs (docs/fidelity.md has the values): data.normalizer; model.token_types; tasks of
a step; stages; tasks that are left out; phrases and entities; warm-up.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:16x16", {"mesh.fsdp": 16})}
TASKS = {
    "masked": {"objective": "mlm", "unit": "lexicon", "entry_types": "phrase, entity"},
    **{key: {"objective": "tagging", "task": key} for key in ("capital", "document")},
    "order": {"objective": "sentences", "task": "reorder"},
    **{t: {"objective": "sentences", "task": t} for t in ("distance", "discourse")},
}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.model.update(norm_placement="post", dropout=0.1, token_types=2 * len(TASKS))
    config.model.update(norm_epsilon=1e-5, init="truncated")
    config.optimizer.update(schedule="rsqrt", beta2=0.98, epsilon=1e-8)
    if size in base.PUBLISHED:
        config.data.update(vocabulary="wordpiece", vocabulary_size=30_522)
        config.train.update(steps=200_000, batch=768)
        config.optimizer.update(learning_rate=5e-5, warmup_steps=4_000)
    starts = [n * config.train.steps // len(TASKS) for n in range(len(TASKS) + 1)]
    config.objective.update(name="joint", token_types=2, parts=TASKS)
    for n, part in enumerate(map(config.objective.parts.get, TASKS)):
        part.weight = [[starts[n] - 1, 0.0]] if n else []
        for m in range(n, len(TASKS)):  # each of the m + 1 tasks has an equal weight
            part.weight += [[s, 1 / (m + 1)] for s in (starts[m], starts[m + 1] - 1)]
    return config
