"""T5 (Raffel et al. 2020): text to text, with sentinels for hidden spans.

palimpsest train --config=experiments/t5.py:tiny --workdir=runs/t5

15 % of the tokens are hidden in spans of 3 on average, which the decoder writes. The
model is v1.0: RMS norms, no biases, 32 relative position buckets per stack, unscaled
logits, and one token table, all 32,128 rows of which are in the softmax. Adafactor
scales each parameter's update by the parameter's own size; its learning rate is
1 / sqrt(step) from step 10,000 on.

Look at: rows of the paper's Table 2: --config.objective.layout=decoder or prefix,
--config.model.shared_stacks=true, --config.model.layers halved, and noise_mask=prefix
with replacement=drop and rate=0.5 for its "LM" (experiments/lm.py for the decoder's);
rows of Tables 4 to 7, which differ only in --config.objective.noise_mask, replacement,
target, rate and mean_span. Their baseline
is noise_mask=iid at train.steps=524288 and train.batch=128; base and large are the
published models' 1M steps of 2,048 rows.

Departs (docs/fidelity.md has the values): dropout over positions; initial kernels of
the feed-forward layer; initial relative biases; denominator of the loss; text of a row;
tasks.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:16x16", {"mesh.fsdp": 16})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.separator = "none"
    config.objective.update(name="dae", rate=0.15, mean_span=3.0, z_loss=1e-4)
    config.model.update(norm="rmsnorm", norm_epsilon=1e-6, position="t5", init="t5")
    config.model.update(activation="relu", bias=False, output_rows="table")
    config.model.update(dropout=0.1, feedforward_dropout=-1, output_dropout=-1)
    config.optimizer.update(name="adafactor", schedule="rsqrt", learning_rate=1e-2)
    config.optimizer.update(warmup="constant", weight_decay=0.0, clip_norm=0.0)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 32_100
        config.optimizer.warmup_steps = 10_000
        config.train.update(steps=1_000_000, batch=2048)
    if size == "large":
        config.model.remat = "full"  # with "dots" libtpu 0.0.42 overflows its stack
    return config
