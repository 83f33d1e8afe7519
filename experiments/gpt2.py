"""GPT-2 (Radford et al. 2019): pre-norm, scaled residuals, bytes, documents joined.

python -m launch.train --config=experiments/gpt2.py:tiny --workdir=runs/gpt2

Hidden is the future. Documents follow each other in a row, with a separator between
them, and see each other; --config.objective.documents=apart parts them.

Look at: valid/lm with documents apart, which loses what the text before a document
tells about it and gains nothing at the length of a document.

Departs: the optimizer is GPT's, since the paper gives neither its rate ("manually
tuned") nor its length; 600,000 steps are what open reproductions take. Sizes are the
first two of four; "large" is the one of 24 layers (345M).
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:8x8", {"mesh.fsdp": 8})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "bytebpe"
    config.objective.update(name="lm", documents="joined")
    config.model.update(init="gpt2", activation="gelu_tanh", norm_epsilon=1e-5)
    config.model.dropout = 0.1
    config.optimizer.update(name="adamw", beta2=0.999, epsilon=1e-8, weight_decay=0.01)
    config.optimizer.schedule = "cosine"
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=50_257, length=1024)
        config.model.max_length = 1024
        config.train.update(steps=600_000, batch=512)
        config.optimizer.update(learning_rate=2.5e-4, warmup_steps=2000)
    return config
