"""UniLM (Dong et al. 2019): one cloze in one network, under four attention masks.

palimpsest train --config=experiments/unilm.py:tiny --workdir=runs/unilm

15 % of the tokens are masked, one choice in five a bigram or trigram. A row is
bidirectional (1/3), source and target (1/3), left-to-right or right-to-left (1/6 each);
token types tell the modes apart. Bidirectional pairs also have next sentence
prediction, and they alone are pairs of two documents.

Look at: valid/unilm with only one mode (--config.objective.bidirectional=1 and the
others 0), which is lower the more a mode attends to.

A batch of 330 is divisible by 2, 3, 5, 6, 10, 11, ... devices. The pretraining code is
not released; the fine-tuning code (unilm-v1, seq2seq_loader.py) has its masking.

Departs (docs/fidelity.md has the values): model.init; optimizer.learning_rate;
clipping; initial parameters; tokens that 15 % are taken of.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "large")
SLICES = {
    "large": ("v5e:4x4", {"mesh.fsdp": 2, "mesh.tensor": 8, "train.accumulate": 15})
}


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.data.update(normalizer="none", pairs="each_copy")
    config.optimizer.update(decay_from="warmup", warmup="from_zero")
    config.objective.update(name="unilm", random_tokens="all", surplus="random")
    config.objective.other_documents = "bidirectional"
    config.objective.last_separators = "forward"
    config.model.update(token_types=6, norm_epsilon=1e-5)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 28_996
        config.train.update(steps=770_000, batch=330)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=40_000)
    return config
