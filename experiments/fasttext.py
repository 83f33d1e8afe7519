"""fastText (Bojanowski et al. 2017): word vectors from those of character n-grams.

palimpsest train --config=experiments/fasttext.py:tiny --workdir=runs/fasttext

Skip-gram as in experiments/word2vec.py, but the vector of a word is the mean of its own
vector and those of its n-grams of three to six characters. So words that are not in the
text also have vectors, which `palimpsest vectors` and `open_run` return. Base has the
released tool's defaults, for text8 (17 M words); one pass over a text of N words is
N / (data.length x train.batch) steps.

N-grams occur in many words, so a step sums more gradients for them than for words:
small's steps have a quarter of skip-gram's rows, which brings its vectors closer to
those of gensim's FastText, though still behind (docs/word_vectors.md). tiny and base
have not been compared.

Look at: valid/skipgram, which begins at (negatives + 1) log 2, and the neighbours of
a word that is not in the text: `palimpsest vectors --nearest=unreadably`.

Departs (docs/fidelity.md has the values): optimizer.name; optimizer.learning_rate;
train.batch; data.separator; sigmoid; N of subsampling; what predicts a word.
"""

from experiments import word2vec
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", separator="lines")
    model.update(network="tables", tie_embeddings=False, output_head="table")
    model.update(layers=1, width=100, table_init="fasttext", buckets=2_000_000)
    optim.update(name="adagrad", warmup_steps=0, clip_norm=0.0)
    optim.learning_rate = word2vec.PEAK
    config.objective.update(name="skipgram", subsample=1e-4, power=0.5)
    config.objective.update(equal_negatives="redraw", negatives_of="centre")
    predictions = 1_800
    if size == "small":
        data.update(length=256, vocabulary_size=30_000)
        config.train.update(steps=12_000, batch=4, eval_every=4000, log_every=200)
        predictions = 3_600
    if size == "base":
        data.update(length=1024, vocabulary_size=71_295, sentinels=0)
        config.objective.negatives_of = "pair"
        config.train.update(steps=5_190, batch=16)
        predictions = 58_000
    optim.initial_sum = word2vec.initial_sum(predictions)
    return config
