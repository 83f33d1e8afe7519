"""Transformer-XL (Dai et al. 2019): a causal language model with mems.

palimpsest train --config=experiments/transformer_xl.py:tiny --workdir=runs/txl

Each token is predicted from those before it; a row also attends to the row before it,
by the layers' inputs of the step before. Rows of a batch are contiguous streams, also
in an evaluation.

Look at: valid/lm with --config.objective.mem_len=0, which is higher the shorter a row.

Base and large have the words of WikiText-103 with its adaptive softmax and input:
clusters from ids 20,000, 40,000 and 200,000 on, whose tables are narrower by 4 each in
large. The file has to be read as it is, a line after the other, so that the perplexity
is the paper's, by words and ends of lines:

    --config.data.train=wiki.train.tokens.txt --config.data.valid=wiki.valid.tokens.txt

An evaluation has the rows, mems and largest distance of the released script's, and each
position attends to as many. enwik8's bytes are --config.data.vocabulary=bytebpe
--config.data.vocabulary_size=261 --config.data.sentinels=0
--config.data.separator=none --config.model.cutoffs='[]'.

Departs (docs/fidelity.md has the values): initial scale of norms; rows of an
evaluation.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 2}), "large": ("v5e:8x8", {"mesh.fsdp": 8})}


def evaluation(length: int, mem_len: int, clamp_len: int) -> dict[str, int | bool]:
    """Keys of config.objective, of the released `eval` with these lengths."""
    limits = {"eval_clamp_len": clamp_len, "eval_same_length": True}
    return {"eval_length": length, "eval_mem_len": mem_len} | limits


def get_config(size: str = "small"):
    config = base.get_config(size)
    data, model, optim = config.data, config.model, config.optimizer
    data.separator = "lines"
    model.update(shared_relative_biases=True, norm_placement="post", output_head="bias")
    model.update(embedding_norm="never", scale_embeddings=True, feedforward_dropout=-1)
    model.update(position="relative", position_dropout=-1, attention_dropout=0.0)
    model.position_dropout_unit = "distance"
    model.update(dropout=0.1, output_dropout=-1, norm_epsilon=1e-5, activation="relu")
    optim.update(name="adam", schedule="cosine", epsilon=1e-8, epsilon_place="before")
    optim.update(beta2=0.999, clip_norm=0.25, decay_from="start")
    if size in base.PUBLISHED:
        data.update(vocabulary="words", vocabulary_size=267_735, sentinels=0)
        model.cutoffs = [20_000, 40_000, 200_000]
    if size == "base":
        data.length, config.train.steps, config.train.batch = 150, 200_000, 60
        model.update(layers=16, width=410, heads=10, feedforward=2100)
        optim.update(learning_rate=2.5e-4, warmup_steps=0)
        config.objective.update(evaluation(64, 640, 400))
    if size == "large":
        data.length, config.train.steps, config.train.batch = 384, 4_000_000, 128
        model.update(layers=18, dropout=0.2, attention_dropout=0.2, cutoff_divisor=4)
        optim.update(learning_rate=2.5e-4, warmup_steps=16_000)
        config.objective.update(evaluation(128, 1600, 1000))
    config.objective.update(name="lm", mem_len=data.length)
    return config
