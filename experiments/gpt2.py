"""GPT-2 (Radford et al. 2019): pre-norm, scaled residuals, bytes, joined documents.

palimpsest train --config=experiments/gpt2.py:tiny --workdir=runs/gpt2

Each token is predicted from those before it. A row holds consecutive documents with a
separator between them, which attend to each other; with
--config.objective.documents=apart they do not. Bytes are all of the text: line ends,
indentation and repeated spaces are tokens too, cut as in the released encoder.

Look at: valid/lm with documents apart, which cannot use the text before a document.

The paper gives neither its learning rate ("manually tuned") nor its number of steps;
the optimizer is GPT's, and 600,000 steps are those of open reproductions. Sizes are the
first two of four; "large" has 24 layers (345M).

Departs (docs/fidelity.md has the values): start of a row.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
# libtpu 0.0.42.1's compiler crashes on large with dropout of attention's probabilities.
COMPILED = {"mesh.fsdp": 16, "model.attention_dropout": 0.0}
SLICES = {"base": ("v5e:8x8", {"mesh.fsdp": 8}), "large": ("v5e:16x16", COMPILED)}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "bytebpe"
    config.objective.update(name="lm", documents="joined")
    config.model.update(init="gpt2", activation="gelu_tanh", norm_epsilon=1e-5)
    config.model.dropout = 0.1
    config.optimizer.update(name="adamw", beta2=0.999, epsilon=1e-8, weight_decay=0.01)
    config.optimizer.epsilon_place = "before"
    config.optimizer.update(schedule="cosine", decay_from="start")
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=50_257, length=1024)
        config.model.max_length = 1024
        config.train.update(steps=600_000, batch=512)
        config.optimizer.update(learning_rate=2.5e-4, warmup_steps=2000)
    return config
