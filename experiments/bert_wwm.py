"""BERT-wwm (Cui et al. 2021): Chinese BERT whose hidden characters are whole words.

    python -m launch.train --config=experiments/bert_wwm.py:tiny --workdir=runs/wwm \
        --config.data.corpus=zh.jsonl --config.data.lexicon=words.tsv

Hidden are all characters of words, which are those of a lexicon, the longest first from
left to right (lines of a word, a tab and "word"); a character outside of them is a word
of its own. The rest is BERT: 80/10/10 character by character, and next sentences.

Look at: valid/mlm with objective.kinds="" (single characters, Google's Chinese BERT),
which has the easier task.

Departs: the paper segments by LTP, not by a lexicon. Base is its first half, 100K steps
at length 128; the second starts from it with --config.train.init_from, data.length=512
and train.batch=384. The paper itself starts from Chinese BERT.
"""

from experiments import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "wordpiece"
    config.objective.update(name="mlm", unit="word", kinds="word", draw="all")
    config.objective.update(format="segment_pair", sentence="nsp")
    config.model.update(token_types=2, norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(name="lamb", beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.update(learning_rate=1e-2, bias_correction=False)
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=21_128, length=128)
        config.train.update(steps=100_000, batch=2560)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
