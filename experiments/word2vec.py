"""word2vec (Mikolov et al. 2013a, 2013b): vectors of words from the words around them.

python -m launch.train --config=experiments/word2vec.py:tiny --workdir=runs/word2vec

The released tool by its own defaults, and at base by its demo-word.sh, whose text is
text8 (17 M words). Skip-gram is --config.objective.name=skipgram. One pass of a text of
N words is N / (data.length x train.batch) steps. `launch.vectors` writes the vectors,
and asks them for neighbours, analogies and similarities.

Look at: valid/cbow, which begins at (negatives + 1) log 2, where all vectors are 0.

Departs (docs/fidelity.md has the values): optimizer.name; train.batch; sigmoid.
"""

from experiments import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", separator="lines")
    model.update(network="tables", tie_embeddings=False, output_head="table")
    model.update(layers=1, width=100, table_init="word2vec")
    optim.update(name="adagrad", learning_rate=0.05, warmup_steps=0, clip_norm=0.0)
    optim.final_fraction = 1e-4
    config.objective.update(name="cbow")
    if size == "small":
        data.update(length=256, vocabulary_size=30_000)
        config.train.update(steps=3000, batch=64, eval_every=1000, log_every=50)
    if size == "base":
        data.update(length=1000, vocabulary_size=71_295, sentinels=0)
        model.width = 200
        config.objective.update(window=8, negatives=25, subsample=1e-4)
        config.train.update(steps=15_942, batch=16)
    return config
