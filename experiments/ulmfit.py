"""ULMFiT (Howard and Ruder 2018): a language model fine-tuned to classify texts.

    palimpsest train --config=experiments/ulmfit.py:tiny --workdir=runs/ulmfit

is its third stage: a classifier on the last state, the maximum and the mean of all
states. Layers are unfrozen one after the other from the top, lower ones with lower
rates, on a slanted triangular schedule. The two stages before it, a language model of
general text and its tuning on the task's texts, are in experiments/sweeps/ulmfit.py,
with the runs that lack them; by hand, --config.train.init_from is a run of
experiments/awd_lstm.py.

Look at: accuracy without --config.train.init_from, and without stage two.

Departs (docs/fidelity.md has the values): data.length; objective.tail; train.steps;
objective.format; model.init; gradient of a long text; layers of the head; penalties of
states; L2 penalty.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 2})}
LAYER_FACTOR = 2.6
"""Of a layer's rate to that of the layer below it (section 3.2)."""
CUT, RATIO = 0.1, 32
"""Of slanted triangular rates (equation 3)."""


def slanted(steps: int) -> dict:
    """Keys of the optimizer: slanted triangular rates over this number of steps."""
    keys = {"schedule": "linear", "warmup": "slanted", "final_fraction": 1 / RATIO}
    return keys | {"warmup_steps": round(CUT * steps)}


def layer_rates(layers: int) -> list[float]:
    """Discriminative rates of a classifier, from its embeddings to its head."""
    return [LAYER_FACTOR**-above for above in range(layers + 1, -1, -1)]


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(corpus="docstrings", vocabulary="words", separator="lines")
    data.sentinels = 0
    model.update(network="lstm", cell="pytorch", layers=3, output_head="bias")
    model.update(table_range=0.1, dropout_mask="locked", word_dropout=0.05)
    model.update(embedding_dropout=0.4, hidden_dropout=0.3, weight_dropout=0.5)
    model.update(head_input_dropout=0.4, head_dropout=0.1)
    config.objective.update(name="sequence_classification", format="gpt")
    config.objective.update(pool="concat", head="relu", head_width=50)
    optim.update(name="adam", beta1=0.7, beta2=0.99, learning_rate=0.01, clip_norm=25.0)
    width, inner = {"tiny": (32, 64), "small": (128, 256)}.get(size, (400, 1150))
    model.update(width=width, inner_width=inner)
    epochs, in_epoch = 10, 50
    if size == "tiny":
        epochs, in_epoch = 20, 1
        config.train.update(batch=8, eval_every=0)
    if size == "base":
        data.update(length=512, vocabulary_size=30_003)
        config.objective.tail = 512
        config.train.batch = 64
        epochs, in_epoch = 50, 391
    config.train.steps = epochs * in_epoch
    optim.update(slanted(config.train.steps), layer_rates=layer_rates(model.layers))
    optim.unfreeze_every = in_epoch
    return config
