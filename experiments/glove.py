"""GloVe (Pennington et al. 2014): word vectors from co-occurrence counts.

palimpsest train --config=experiments/glove.py:tiny --workdir=runs/glove

It is trained on a file of word pairs, not on text; this command counts them:

    palimpsest cooccurrences --texts=texts.txt --to=pairs.cooccurrences

with --config.data.train=pairs.cooccurrences and --config.data.valid the same, since all
pairs are learned, and --config.data.vocabulary_size their words and special entries.
One pass over C pairs is 2 C / (data.length x train.batch) steps. `palimpsest vectors`
writes the sum of both vectors of each word.

Base is the model of the released code's demo.sh, whose text is text8: its 71,290 words
that occur five times or more form 60,666,468 pairs, which are read 15 times.

Look at: valid/glove, the mean of f(X) times half the squared error, which the released
code prints, too: on text8 0.071 after its first pass and 0.036 after 15.

Departs (docs/fidelity.md has the values): optimizer.initial_sum;
optimizer.sum_includes; optimizer.epsilon; train.batch; gradient of an entry; rate of
biases; order of cells.
"""

from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", separator="none")
    model.update(network="tables", tie_embeddings=False, output_head="bias")
    model.update(layers=1, width=50, table_init="glove")
    optim.update(name="adagrad", learning_rate=0.05, warmup_steps=0, clip_norm=0.0)
    optim.update(schedule="constant")
    config.objective.update(name="glove", x_max=10.0)
    if size == "small":
        data.update(length=1024, vocabulary_size=20_000)
        config.train.update(steps=3000, batch=64, eval_every=1000, log_every=50)
    if size == "base":
        data.update(length=1024, vocabulary_size=71_295, sentinels=0)
        config.train.update(steps=27_771, batch=64)
    return config
