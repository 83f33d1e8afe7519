"""TransE (Bordes et al. 2013): vectors of the entities and relations of a graph.

    palimpsest train --config=experiments/transe.py:tiny --workdir=runs/transe \
        --config.data.train=train.triples --config.data.valid=valid.triples \
        --config.data.lexicon=train.triples,valid.triples \
        --config.data.vocabulary_size=N

A line of a file is head<TAB>relation<TAB>tail; other suffixes need
--config.data.format=triples, which reads OpenKE's files, too. N counts all entities,
all relations and five special entries; the line that refuses another number says the
right one. One epoch of T triples is T / train.batch steps; data.length - 3 is the
number of negatives. With --config.data.test, which data.lexicon names too, the end has
ranks of that split.

`palimpsest vectors --workdir=runs/transe --to=vectors.txt` writes the vectors.

Look at: valid/mrr and valid/hits_10, of filtered ranks; ties have their mean.

At base the settings of OpenKE's example for FB15k-237, of which its README reports a
filtered hits@10 of 0.476. Its example for WN18RR (0.512) is

    --config.model.width=1024 --config.objective.normalize=none
    --config.objective.loss_type=sigmoid --config.objective.margin=6
    --config.data.length=67 --config.optimizer.name=adam
    --config.optimizer.learning_rate=2e-5 --config.train.batch=868
    --config.train.steps=300000

Departs (docs/fidelity.md has the values): rank of equal distances.
"""

from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", separator="none", sentinels=0)
    data.update(format="triples", length=28, vocabulary_size=14_783)
    model.update(network="tables", layers=1, width=100, table_init="xavier")
    model.update(tie_embeddings=True, output_head="table")
    optim.update(name="sgd", learning_rate=1.0, warmup_steps=0, clip_norm=0.0)
    optim.update(schedule="constant", beta1=0.0)
    config.objective.update(name="transe")
    if size == "small":
        config.train.update(steps=3000, batch=1024, eval_every=1000, log_every=50)
    if size == "base":
        model.width = 200
        config.train.update(steps=100_000, batch=2721, eval_every=10_000)
    return config
