"""Fill in the middle (Bavarian et al. 2022): in half of the texts the middle is last.

python -m launch.train --config=experiments/fim.py:tiny --workdir=runs/fim

A text is cut at two uniform positions and read as prefix, suffix, middle; each token
is predicted from those before it.

Look at: valid/loss at objective.rate=0 and 0.5; the paper finds that left-to-right
modelling does not get worse.

Departs: the text that is cut is a window of the stream, not a document, which it is
with data.packing=best_fit.
"""

from research.config import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.name = "fim"
    config.model.position = "rotary"
    config.optimizer.update(beta2=0.95, weight_decay=0.1, schedule="cosine")
    config.optimizer.final_fraction = 0.1
    return config
