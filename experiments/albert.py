"""ALBERT (Lan et al. 2020): shared layers, masked n-grams, sentence order prediction.

palimpsest train --config=experiments/albert.py:tiny --workdir=runs/albert

N-grams of whole words are masked, n = 1, 2 or 3 with p(n) ~ 1/n, 80/10/10 token by
token, at most 20 tokens in a row of 512 (README's command). Each text has 40 copies,
each packed into pairs separately and masked once. A classifier predicts whether two
adjacent segments were swapped; a pair from two documents, which occurs if only one
sentence was left, counts as swapped (create_pretraining_data.py). The token table is
narrow, and all layers share their parameters.

Look at: model.embedding_width=0 and model.shared_layers=False, the paper's Tables 3 and
4; objective.sentence_task=none, nsp or sop. The last is the paper's definition, which
leaves pairs from two documents without a label.

GELU is the tanh approximation of the released modeling.py.

The released version 1 has dropout, version 2 none; this is version 1.

Departs (docs/fidelity.md has the values): model.dropout; clipping; n-grams;
compatibility characters; order of the copies.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:16x16", {"mesh.fsdp": 16})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.data.vocabulary = "unigram"
    config.objective.update(name="mlm", unit="ngram", random_tokens="all")
    config.objective.update(format="segment_pair", sentence_task="sop_released")
    config.data.update(dupe_factor=40, pairs="each_copy")
    config.model.update(shared_layers=True, embedding_width=config.model.width // 2)
    config.model.update(token_types=2, activation="gelu_tanh")
    config.optimizer.update(name="lamb", learning_rate=1e-2)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_000
        config.objective.max_predictions = 20
        config.model.embedding_width = 128
        config.train.update(steps=125_000, batch=4096)
        config.optimizer.update(learning_rate=1.76e-3, warmup_steps=3125)
    return config
