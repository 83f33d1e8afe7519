"""Multi-token prediction (Gloeckle et al. 2024): each position predicts four tokens.

palimpsest train --config=experiments/mtp.py:tiny --workdir=runs/mtp

The next token is predicted by the last layer; each of three further tokens has its own
block with the same input. All share the readout, and their losses are added.

Look at: valid/lm, the loss of the next token, against that of experiments/lm.py (the
paper gains from about a billion parameters up, and loses below); valid/next2_accuracy,
the accuracy of drafts in palimpsest generate --method=speculative, which writes the
text of greedy decoding in fewer passes.

DeepSeek-V3's blocks: --config.objective.heads=sequential, num_future=1,
future_coef=0.3. Without parameters: heads=none, future_coef=0.5, decay=0.5.

Sizes are ours: the paper's trunk has one layer less per further block, and its code
does not train.
"""

from research.config import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="multi_token", num_future=3)
    config.data.vocabulary = "bytebpe"
    config.model.update(position="rotary", norm="rmsnorm", activation="swiglu")
    config.model.update(bias=False, tie_embeddings=False, norm_epsilon=1e-5)
    config.optimizer.update(name="adamw", beta2=0.95, epsilon=1e-8, weight_decay=0.1)
    config.optimizer.update(schedule="cosine", final_fraction=0.1)
    return config
