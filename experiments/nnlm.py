"""NNLM (Bengio et al. 2003): each word from the vectors of the few words before it.

palimpsest train --config=experiments/nnlm.py:tiny --workdir=runs/nnlm

The first language model that learns word vectors: those of the last four words are
concatenated, and a hidden layer, at base also the vectors themselves, gives the logits.
Rows are contiguous streams, whose windows continue from batch to batch. Base is the
paper's best network without a mixture on the Brown corpus (table 1: n 5, h 50, m 60,
direct connections), whose test perplexity there is 268.

Look at: valid/lm with other values of --config.model.context (the paper: 2 and 4); and
against experiments/lstm.py, whose state has no such limit.

Departs (docs/fidelity.md has the values): data.vocabulary_size; train.batch;
optimizer.learning_rate; decay of biases.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 2})}
"""A batch has 8 rows, which four chips divide."""


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", separator="lines", sentinels=0)
    model.update(network="nnlm", context=4, layers=1, tie_embeddings=False)
    model.update(output_head="bias", width=64 if size == "tiny" else 256)
    model.embedding_width = 32 if size == "tiny" else 64
    config.objective.update(name="lm", mem_len=1)
    if size != "base":
        return config
    data.update(length=100, vocabulary_size=16_386)
    model.update(width=50, embedding_width=60, direct=True)
    optim.update(name="sgd", beta1=0.0, learning_rate=0.8, l2_penalty=1e-4)
    optim.update(schedule="inverse", step_decay=8e-6, warmup_steps=0, clip_norm=0.0)
    config.train.update(batch=8, steps=10_000)
    return config
