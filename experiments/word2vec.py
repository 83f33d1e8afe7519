"""word2vec (Mikolov et al. 2013a, 2013b): word vectors from the words around them.

palimpsest train --config=experiments/word2vec.py:tiny --workdir=runs/word2vec

Skip-gram, where the contexts of a word share its negatives; at base CBOW, as in the
released tool's demo-word.sh, whose text is text8 (17 M words). One pass over a text of
N words is N / (data.length x train.batch) steps. `palimpsest vectors` writes the
vectors, and computes neighbours, analogies and similarities.

A step sums the gradients of thousands of pairs, with which the tool's own rate diverges
for frequent words. AdaGrad does not diverge; with `initial_sum`, rare words learn at
about the tool's rate at base, and at four times that at other sizes. The fewer pairs a
step sums, the closer the vectors are to the tool's (docs/word_vectors.md).

Look at: valid/skipgram, which begins at (negatives + 1) log 2, as outputs are 0.

Departs (docs/fidelity.md has the values): optimizer.name; train.batch; sigmoid; words
of a sentence.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
RATE, PEAK = 0.05, 0.4
"""The tool's rate of one prediction, and the largest step of an entry of a vector."""
SMALL_RATE, SMALL_PEAK = 0.2, 0.8
"""The best of four pairs on 2.8 M words (docs/word_vectors.md), with 64 rows a step."""


def initial_sum(predictions: float, rate: float = RATE, peak: float = PEAK) -> float:
    """Where AdaGrad's sums begin, for steps that average so many predictions (pairs or
    centres)."""
    return (peak / (rate * predictions)) ** 2


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", separator="lines")
    model.update(network="tables", tie_embeddings=False, output_head="table")
    model.update(layers=1, width=100, table_init="word2vec")
    optim.update(name="adagrad", warmup_steps=0, clip_norm=0.0)
    optim.final_fraction = 1e-4
    config.objective.update(name="skipgram", negatives_of="centre")
    predictions = 1_800
    if size == "small":
        data.update(length=256, vocabulary_size=30_000)
        config.train.update(steps=12_000, batch=16, eval_every=4000, log_every=200)
        predictions = 16_500
    if size == "base":
        data.update(length=1000, vocabulary_size=71_295, sentinels=0)
        model.width = 200
        del config.objective.negatives_of
        config.objective.update(name="cbow", window=8, negatives=25, subsample=1e-4)
        config.train.update(steps=15_942, batch=16)
        predictions = 8_000
    rate, peak = (RATE, PEAK) if size == "base" else (SMALL_RATE, SMALL_PEAK)
    optim.learning_rate = peak
    optim.initial_sum = initial_sum(predictions, rate, peak)
    return config
