r"""RetroMAE (Xiao et al. 2022): an encoder whose sentence vector restores its text.

    palimpsest train --config=experiments/retromae.py:base --workdir=runs/retromae \
        --config.train.init_from=hf:DIR

30 % of the words are masked for the encoder. A decoder of one layer predicts every
token from the encoder's state at bos; half of the tokens are hidden from each query, a
different half for each. The published run starts from BERT-base (init_from).

Look at: train/decoder and train/mlm; objective.decoder_rate, the paper's table 4;
similarity of vectors (--config.objective.name=sentence_vectors from this run).

Departs (docs/fidelity.md has the values): words hidden from a query.
"""

from ml_collections import ConfigDict

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small") -> ConfigDict:
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.objective.update(name="retromae", format="full_sentences")
    config.model.token_types = 2
    config.optimizer.update(decay_from="warmup", bias_correction=True, epsilon=1e-8)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=100_000)
    return config
