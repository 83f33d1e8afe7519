"""CVT (Clark et al. 2018): a tagger that learns from texts without tags, too.

    python -m launch.train --config=experiments/cvt.py:tiny --workdir=runs/cvt \\
        --config.data.mixture='{"train.conll": 1, "texts.jsonl": 1}' \\
        --config.data.held_out=0 --config.data.valid=dev.conll

Two LSTMs, one a direction, and layers upon them that read both. Batches of sentences
with tags and of sentences without alternate; of the latter the tagger's own predictions
are the targets of students, which see less. Without --config.data.mixture and with
--config.data.train=train.conll --config.objective.labelled_fraction=0.1 the sentences
are those of one file, of which a tenth keep their tags.

Look at: valid/accuracy, with and without --config.objective.consistency=0.
"""

from experiments import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
    data, model = config.data, config.model
    data.update(vocabulary="words", sentinels=0, mixing="batches")
    config.objective.name = "cvt"
    model.update(network="lstm", layers=1, joined_layers=1, input="both")
    model.update(highways=0, dropout=0.5, output_dropout=-1.0)
    config.objective.unlabelled_dropout = 0.2
    if size == "tiny":
        model.update(width=32, cell_width=64, joined_cell_width=32)
        model.update(character_filters=[0, 16, 16], character_width=8)
        return config
    model.update(character_filters=[0, 100, 100, 100], character_width=50)
    model.word_bytes = 22
    data.vocabulary_size = 20_000
    model.update(width=128, cell_width=256, joined_cell_width=128)
    return config
