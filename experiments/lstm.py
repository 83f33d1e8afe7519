"""An LSTM language model (Zaremba et al. 2014): each token from those before.

palimpsest train --config=experiments/lstm.py:tiny --workdir=runs/lstm

Rows of a batch are contiguous streams: a row begins with the final state of the row
before, without gradient through it (truncated backpropagation through time).

Look at: valid/lm with --config.objective.mem_len=0, which is higher the shorter a row;
and with --config.model.network=transformer --config.model.position=relative
--config.objective.mem_len=128, which reads mems in place of the state.

Departs: layers, width and dropout are chosen for the text at hand, a state begins with
zeros where a stream does, and the optimizer is AdamW.
"""

from research.config import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.model.network = "lstm"
    config.model.update(layers=2, width=64 if size == "tiny" else 512, dropout=0.1)
    config.objective.update(name="lm", mem_len=1)
    return config
