"""GloVe (Pennington et al. 2014): vectors of words from how often they meet.

python -m launch.train --config=experiments/glove.py:tiny --workdir=runs/glove

It learns a file of pairs, not a text; this one counts them:

    python -m launch.cooccurrences --texts=texts.txt --to=pairs.cooccurrences

with --config.data.train=pairs.cooccurrences and --config.data.valid the same, since all
pairs are learned. One pass over C pairs is 2 C / (data.length x train.batch) steps.
`launch.vectors` writes the sum of both vectors of each word.

Departs: a step takes the sum over a batch's cells, AdaGrad's sums begin with 0 (the
tool's with 1) and include the step's own gradient, and biases have the rate of vectors
(in the tool since its commit 5b4e03c another).
"""

from experiments import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
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
    return config
