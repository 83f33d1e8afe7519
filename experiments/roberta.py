"""RoBERTa (Liu et al. 2019): BERT without pairs, on more text, with dynamic masking.

palimpsest train --config=experiments/roberta.py:tiny --workdir=runs/roberta

Of a row's n tokens floor(0.15 n + u) are masked, u uniform, 80/10/10, drawn again each
time a text recurs; special tokens count and are masked like others (fairseq,
mask_tokens_dataset.py). A row is whole sentences up to its length, across documents,
with a separator between them; there are no segments and no sentence loss.

Look at: the paper's Tables 1 and 2: data.dupe_factor=10 (static masking),
objective.format with doc_sentences, segment_pair, sentence_pair, and
objective.sentence_task=nsp.

Departs (docs/fidelity.md has the values): random tokens; end of a line; rate of the
second step, in parts of peak / warm-up.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:16x16", {"mesh.fsdp": 16})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "bytebpe"
    config.objective.update(name="mlm", format="full_sentences", rounding="random")
    config.objective.candidates = "all"
    config.model.update(norm_placement="post", norm_epsilon=1e-5, dropout=0.1)
    config.model.head_dropout = 0.0  # fairseq's pooler_dropout
    config.optimizer.update(beta2=0.98, epsilon=1e-6, weight_decay=0.01, clip_norm=0.0)
    config.optimizer.epsilon_place = "before"
    config.optimizer.decay_params = "all"
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 50_265
        config.train.update(steps=500_000, batch=8192)
        rate, warmup = (4e-4, 30_000) if size == "large" else (6e-4, 24_000)
        config.optimizer.update(learning_rate=rate, warmup_steps=warmup)
    return config
