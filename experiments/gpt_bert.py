"""GPT-BERT (Charpentier and Samuel 2024): masked next tokens and a causal LM in one.

palimpsest train --config=experiments/gpt_bert.py:tiny --workdir=runs/gpt_bert

One row in sixteen is for causal language modelling. In the others 30 % of the tokens,
at the end 15 %, are masked in spans of one to three, and predicted with bidirectional
attention from the state before them, as by a causal model; the network does not know
which kind a row is. Base is the network of Strict-Small (10 million words), large that
of Strict (100 million).

Look at: valid/masked/mlm and valid/causal/lm at other shares, as in
--config.objective.parts.causal.share=15 (causal-focus) or 0 (masked alone), and
palimpsest babylm --backend=mntp and --backend=causal of one run.

Departs (docs/fidelity.md has the values): data.vocabulary; train.phases; order of
masks over epochs; activation of the readout; trust ratio of joint projections; start of
the average; rows of a text.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
PUBLISHED = {  # vocabulary_size, width, heads, feedforward, steps, learning_rate
    "base": (8192, 384, 6, 1280, 7812, 1.41e-2),
    "large": (16_384, 768, 12, 2560, 15_625, 1e-2),
}


def use_ltg_network(model):
    """Sets the network of LTG-BERT, with GPT-BERT's gates and mixtures."""
    model.update(position="disentangled", layer_mixing="sublayers", init="small")
    model.update(norm_epsilon=1e-5, norm_scale=False, sublayer_norm=True)
    model.update(embedding_norm="always", attention_gate=True, activation="geglu")
    model.update(feedforward_bias=False, output_head="transform")
    model.update(dropout=0.1, position_dropout=0.1, readout_dropout=0.1)


def phases(rows: int, micro: int) -> list:
    """Ten of as many steps: batches grow from a quarter to all, rows from 128 to 512.

    Args:
      rows: of 128 tokens, of a step at the end.
      micro: the same, of a micro-batch.
    """
    found = []
    for tenth in range(10):
        length = 128 if tenth < 7 else 256 if tenth < 9 else 512
        growth = 0.25 + 0.75 * (tenth + 0.5) / 10
        batches = round(rows * growth / micro)
        batch = batches * micro * 128 // length
        changes = {"data.length": length, "train.batch": batch}
        found.append([(tenth + 1) / 10, changes | {"train.accumulate": batches}])
    return found


def get_config(size: str = "small"):
    config = base.get_config("base" if size in PUBLISHED else size)
    use_ltg_network(config.model)
    config.data.update(vocabulary="bytebpe", separator="none")
    config.optimizer.update(name="lamb", beta2=0.98, epsilon=1e-8, weight_decay=0.1)
    config.optimizer.update(schedule="cosine", warmup="from_zero", clip_norm=2.0)
    config.optimizer.update(final_fraction=0.1, ema_decay=0.999)
    if size in PUBLISHED:
        vocabulary_size, width, heads, feedforward, steps, rate = PUBLISHED[size]
        config.model.update(width=width, heads=heads, feedforward=feedforward)
        config.data.update(vocabulary_size=vocabulary_size, sentinels=0, length=512)
        config.train.update(steps=steps, batch=8192, phases=phases(32_768, 512))
        warmup = int(0.016 * steps)
        config.optimizer.update(warmup_steps=warmup, cooldown_steps=warmup)
        config.optimizer.learning_rate = rate
    elif size == "small":
        config.data.update(vocabulary_size=8192, sentinels=0, length=128)
        config.optimizer.update(learning_rate=1e-2, cooldown_steps=16)
    rows = {"share": 1.0, "z_loss": 1e-4}
    causal = rows | {"objective": "lm", "documents": "apart"}
    masked = rows | {"objective": "mlm", "format": "shifted", "predict_at": "previous"}
    masked |= {"unit": "tile", "draw_unit": "span", "rounding": "random", "share": 15.0}
    masked |= {"rate": 0.15, "first_rate": 0.3, "rate_steps": config.train.steps}
    config.objective.update(name="hybrid", parts={"causal": causal, "masked": masked})
    return config
