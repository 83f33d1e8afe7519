"""CoVe (McCann et al. 2017): a translation encoder whose states are features for tasks.

    palimpsest train --config=experiments/cove.py --workdir=runs/cove \\
        --config.data.train='train.*' --config.data.valid='val.*' \\
        --config.data.fields=en,de --config.objective.vectors=glove.6B.50d.txt \\
        --config.objective.vectors_width=50

A bidirectional LSTM of two layers encodes the given word vectors; an LSTM decoder with
attention to its states writes the translation. Later a task reads the encoder's last
states next to the same vectors, [GloVe; CoVe], without tuning them; its words may
differ:

    palimpsest train --config=experiments/finetune.py --workdir=runs/chunks \\
        --config.train.init_from=runs/cove --config.train.init_scope=encoder \\
        --config.optimizer.frozen=network --config.data.vocabulary=words \\
        --config.data.normalizer=lower --config.objective.name=token_classification \\
        --config.objective.features=vectors_last --config.objective.lstm_layers=1 \\
        --config.objective.vectors=glove.6B.50d.txt \\
        --config.objective.vectors_width=50 \\
        --config.data.train=train.txt --config.data.valid=dev.txt

Base has the paper's sizes for its largest text (WMT 2017), with GloVe's 300 dimensions;
vectors are random if objective.vectors names no file. Words are separated by white
space, so punctuation must be split off beforehand.

Look at: valid/target, compared with --config.objective.vectors=random.

Departs (docs/fidelity.md has the values): objective.vectors; data.vocabulary_size;
model.init; optimizer.learning_rate; optimizer.schedule; optimizer.clip_norm;
train.steps; end of the encoder's text; decoder's first token; words without a vector;
dropout of the decoder's inputs; initial LSTM; classifier of the paper; pairs of longer
texts; padding in the decoder's attention.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 4})}


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", normalizer="lower", sentinels=0)
    config.objective.update(name="sequence_to_sequence", beams=1)
    config.objective.update(vectors="random", vectors_width=50)
    model.update(network="lstm", layers=1, joined_layers=1, input="vectors")
    model.update(cell="pytorch", tie_embeddings=False, output_head="bias")
    model.update(table_range=0.1, dropout=0.2, output_dropout=-1.0)
    if size == "tiny":
        config.objective.target_length = 32
        model.width = 32
        return config
    if size == "small":
        data.update(length=40, vocabulary_size=10_000)
        config.objective.target_length = 40
        model.width = 128
        config.train.update(batch=16, steps=2000)
        optim.learning_rate = 3e-3
        return config
    data.update(length=76, vocabulary_size=100_000)
    config.objective.update(target_length=76, vectors_width=300, beams=5)
    model.width = 300
    optim.update(name="sgd", beta1=0.0, learning_rate=25.0, clip_norm=0.2)
    optim.update(schedule="linear", warmup_steps=0)
    config.train.update(batch=64, steps=1_093_750)
    return config
