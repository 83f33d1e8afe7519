"""ELMo (Peters et al. 2018): two LSTMs, whose layers are features for other networks.

palimpsest train --config=experiments/elmo.py:tiny --workdir=runs/elmo

Convolutions over the bytes of a word, an LSTM with projections for each direction, and
one softmax over words for both, which is sampled in training. Later a task learns a
weighted mix of the layers, without tuning them:

    palimpsest train --config=experiments/finetune.py --workdir=runs/chunks \
        --config.train.init_from=runs/elmo --config.optimizer.frozen=network \
        --config.objective.name=token_classification --config.objective.features=mix \
        --config.objective.lstm_layers=1 --config.data.train=train.txt \
        --config.data.valid=dev.txt

Base is the published model, with 93.6 M parameters without its softmax.

Look at: valid/forward/lm and valid/backward/lm, and softmax(features/layers) of the
task.

Departs (docs/fidelity.md has the values): data.length; train.batch;
optimizer.epsilon; model.init; state of a row; initial LSTM; words that are drawn;
spelling of special entries; characters of unknown words; input after the end of a
sentence.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 4})}
"""A batch has 60 rows, which four chips divide."""


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(vocabulary="words", separator="lines", sentinels=0)
    model.update(network="lstm", input="characters", tie_embeddings=False)
    model.update(output_head="bias", layers=2, residual=True)
    model.update(cell_clip=3.0, projection_clip=3.0, dropout=0.1, output_dropout=-1.0)
    config.objective.update(name="lm", direction="both")
    if size == "tiny":
        model.update(width=32, cell_width=64, character_filters=[16, 16, 32])
        return config
    optim.update(name="adagrad", learning_rate=0.2, initial_sum=1 / 400)
    optim.update(schedule="constant", warmup_steps=0, clip_norm=0.5)
    if size == "small":
        data.vocabulary_size = 20_000
        model.update(width=128, cell_width=512, character_filters=[32, 32, 64, 128])
        model.highways = 1
        config.objective.sampled_words = 1024
        return config
    data.update(length=128, vocabulary_size=793_474)
    model.update(width=512, cell_width=4096)
    config.objective.sampled_words = 8192
    config.train.update(batch=60, steps=1_000_840)
    return config
