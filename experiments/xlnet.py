"""XLNet (Yang et al. 2019): a sixth of the tokens, in a random order, with mems.

palimpsest train --config=experiments/xlnet.py:tiny --workdir=runs/xlnet

Targets are spans of 1 to 5 tokens, predicted from the tokens that precede them in a
random order, drawn for each half of a row. A row is a reused half, two segments and the
class token; half of the rows are backward; mems are those of the 3/4 of a row before
it.

Look at: valid/plm with --config.objective.mem_len=0, or max_span=0, or
direction=forward: rows 5 to 7 of the paper's table 6.

Base follows BERT-base, as in table 6. Large has the paper's batch of 8192 (the README's
command: 2048).

Departs (docs/fidelity.md has the values): clipping; end of a document; sentence that
fills a backward row; second segment of a nonadjacent pair; dropout of relative
positions.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:8x8", {"mesh.fsdp": 8})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="plm", format="pair", direction="both")
    config.objective.mem_len = config.data.length * 3 // 4
    config.model.update(
        position="relative", token_type_encoding="relative", token_types=3
    )
    config.model.update(
        norm_placement="post", embedding_norm="never", norm_epsilon=1e-12
    )
    config.model.update(activation="gelu_tanh", output_head="bias", dropout=0.1)
    config.model.update(position_dropout=-1, feedforward_dropout=-1, output_dropout=-1)
    config.optimizer.update(name="adamw", beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.update(bias_correction=False, decay_params="query_biases")
    config.optimizer.update(warmup="from_zero", final_fraction=1e-3)
    if size == "base":
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    if size == "large":
        config.train.update(steps=500_000, batch=8192)
        config.optimizer.update(learning_rate=4e-4, warmup_steps=40_000)
    return config
