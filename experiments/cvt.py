"""CVT (Clark et al. 2018): a tagger that also learns from texts without tags.

    palimpsest train --config=experiments/cvt.py:tiny --workdir=runs/cvt \\
        --config.data.mixture='{"train.conll": 1, "texts.jsonl": 1}' \\
        --config.data.held_out=0 --config.data.valid=dev.conll

Two LSTMs, one per direction, and layers above that read both. Batches of sentences with
and without tags alternate; in the latter, the tagger's own predictions are the targets
of students with a restricted view. Without --config.data.mixture and with
--config.data.train=train.conll --config.objective.labelled_fraction=0.1 the sentences
are from one file, a tenth of which keep their tags. Base has the values of the released
code.

Look at: valid/accuracy, with and without --config.objective.consistency=0.

Departs (docs/fidelity.md has the values): data.length; data.vocabulary_size;
model.init; precision of the teacher; words of the table; initial word vectors; factor
of word vectors; input of the first layer; characters of words; initial LSTM; sentences
of a batch; moving average of the parameters; dropout of the first layer's states.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 4})}


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
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
    if size == "small":
        data.vocabulary_size = 20_000
        model.update(width=128, cell_width=256, joined_cell_width=128)
        return config
    data.update(length=128, vocabulary_size=400_000)
    model.update(width=512, cell_width=1024, joined_cell_width=512)
    model.update(embedding_width=300)
    optim.update(name="sgd", beta1=0.9, learning_rate=0.5, ema_decay=0.998)
    optim.update(schedule="inverse", step_decay=0.005, step_power=0.5, clip_norm=1.0)
    optim.update(warmup="factor", warmup_steps=5000, decay_from="start")
    config.train.update(batch=64, steps=200_000, eval_every=500)
    return config
