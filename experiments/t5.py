"""T5 (Raffel et al. 2020): text in, text out, by spans that become sentinels.

python -m launch.train --config=experiments/t5.py:tiny --workdir=runs/t5

Hidden are 15 % of the tokens in spans of 3 on average, which the decoder spells out.
The model is v1.0: norms by scale alone, no biases, 32 relative positions for a stack,
logits without a scale, one table. AdaFactor moves each parameter by its own size; its
rate is 1 / sqrt(step) from step 10,000 on.

Look at: rows of the paper's Tables 4 to 7, which differ in --config.objective.choose,
fill, target, rate and span alone. Their baseline is choose=iid at train.steps=524288
and train.batch=128; base and large are the published models' 1M steps of 2,048 rows.

Departs: one corpus in place of the multi-task mixture of the published models.
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:16x16", {"mesh.fsdp": 16})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.separator = "none"
    config.objective.update(name="dae", rate=0.15, span=3.0, z=1e-4)
    config.model.update(norm="rmsnorm", norm_epsilon=1e-6, position="t5", init="t5")
    config.model.update(activation="relu", bias=False, dropout=0.1)
    config.optimizer.update(name="adafactor", schedule="rsqrt", learning_rate=1e-2)
    config.optimizer.update(warmup="constant", weight_decay=0.0, clip_norm=0.0)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 32_100
        config.optimizer.warmup_steps = 10_000
        config.train.update(steps=1_000_000, batch=2048)
    if size == "large":
        config.model.remat = "full"  # with "dots" libtpu 0.0.42 overflows its stack
    return config
