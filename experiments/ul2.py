"""UL2 (Tay et al. 2023): a mixture of seven denoisers, each with a mode token.

palimpsest train --config=experiments/ul2.py:tiny --workdir=runs/ul2

R hides 15 % in spans of 3 or 8; X hides 50 % in spans of 3, 8 or 64, or 15 % in spans
of 64; S hides a suffix, a quarter of the text on average. Each denoiser has a seventh
of the rows, and its mode token is the first that the encoder reads. With
--config.objective.parts.s.mixing_rate=6 half of the rows belong to S.

Look at: what mixing costs each denoiser: the mixture against experiments/t5.py.

Base is the size of the paper's ablations, not its 20B model.

Departs (docs/fidelity.md has the values): data.vocabulary_size; lengths of spans;
length of a target.
"""

from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.separator = "none"
    rx = {"r": ((0.15, 3), (0.15, 8)), "x": ((0.5, 3), (0.5, 8), (0.15, 64), (0.5, 64))}
    parts = {"s": {"mode": "S", "noise_mask": "prefix", "rate": 0.25}}
    for mode, denoisers in rx.items():
        for n, (rate, span) in enumerate(denoisers):
            fields = {"mode": mode.upper(), "rate": rate, "mean_span": float(span)}
            parts[f"{mode}{n}"] = fields
    parts = {name: fields | {"mixing_rate": 1.0} for name, fields in parts.items()}
    config.objective.update(name="mix", base_objective="dae", parts=parts)
    config.model.update(norm="rmsnorm", position="t5", init="t5", tie_embeddings=False)
    config.model.update(activation="swiglu", bias=False)
    config.optimizer.update(name="adafactor", schedule="rsqrt", learning_rate=1e-2)
    config.optimizer.update(warmup="constant", weight_decay=0.0, clip_norm=0.0)
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=32_160, sentinels=160)
        config.optimizer.warmup_steps = 10_000
        config.train.update(steps=500_000, batch=128)
    return config
