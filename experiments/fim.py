"""Fill in the middle (Bavarian et al. 2022): half of the texts have their middle last.

palimpsest train --config=experiments/fim.py:tiny --workdir=runs/fim

Each document of a row is cut between two of its characters ("context level"), and read
as prefix, suffix, middle, or, as often, as suffix, prefix, middle; each token is
predicted from those before it.

Look at: valid/loss at objective.rate=0 and 0.5; the paper finds that left-to-right
modelling does not get worse.

Departs: of a part that a cut has divided only the word of the cut is tokenized anew;
sentinels are no targets.
"""

from research.config import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="fim", spm_rate=0.5)
    config.objective.update(cut="character", text_unit="document")
    config.model.position = "rotary"
    config.optimizer.update(beta2=0.95, weight_decay=0.1, schedule="cosine")
    config.optimizer.final_fraction = 0.1
    return config
