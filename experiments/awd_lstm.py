"""AWD-LSTM (Merity et al. 2018): a regularised LSTM language model of words.

palimpsest train --config=experiments/awd_lstm.py:tiny --workdir=runs/awd_lstm

Dropout is applied to entries of recurrent kernels, to words of the table, and to units
with one mask for all positions; squares of states and of their changes are penalised;
the token table is the output table; SGD averages its steps from `average_from` on. Rows
of a batch are contiguous streams, whose state carries over from batch to batch. Base is
the released command for the Penn Treebank, large that for WikiText-2.

Averaging begins at half of the steps. NT-ASGD begins it when evaluations stop
improving: a run that ends there, and one that continues from its best evaluation,

    palimpsest train --config=experiments/awd_lstm.py:tiny --workdir=runs/sgd \
        --config.optimizer.average_from=1 --config.train.best_metric=loss \
        --config.train.eval_every=50 --config.train.early_stopping_patience=5 \
        --config.train.early_stopping_rule=nonmonotonic
    palimpsest train --config=experiments/awd_lstm.py:tiny --workdir=runs/asgd \
        --config.optimizer.average_from=0 --config.train.init_from=runs/sgd

Look at: valid/lm, with and without --config.model.weight_dropout=0, late in a run.

Departs (docs/fidelity.md has the values): data.length; data.vocabulary_size;
optimizer.average_from; rate of a batch.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {
    "base": ("v5e:2x2", {"mesh.fsdp": 2}),
    "large": ("v5e:2x2", {"mesh.fsdp": 2}),
}
"""A batch has 20 or 80 rows, which four chips divide."""


def get_config(size: str = "small"):
    config = base.get_config(size if size in ("tiny", "small") else "small")
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", separator="lines", sentinels=0)
    model.update(network="lstm", cell="pytorch", layers=3, output_head="bias")
    model.update(table_range=0.1, dropout_mask="locked", word_dropout=0.1)
    model.update(embedding_dropout=0.4, hidden_dropout=0.25, output_dropout=0.4)
    model.update(weight_dropout=0.5)
    config.objective.update(name="lm", mem_len=1)
    config.objective.update(activation_penalty=2.0, temporal_penalty=1.0)
    optim.update(name="sgd", beta1=0.0, l2_penalty=1.2e-6, learning_rate=30.0)
    optim.update(schedule="constant", warmup_steps=0, clip_norm=0.25, average_from=0.5)
    if size in ("tiny", "small"):
        width = 32 if size == "tiny" else 200
        model.update(width=width, inner_width=2 * width)
        return config
    model.update(width=400, inner_width=1150)
    data.update(length=70, vocabulary_size=10_003)
    config.train.update(batch=20, steps=332_000)
    if size == "large":
        data.vocabulary_size = 33_281
        model.update(embedding_dropout=0.65, hidden_dropout=0.2)
        config.train.update(batch=80, steps=279_750)
    return config
