"""TextCNN (Kim 2014): a text's class from the strongest match of each filter in it.

    palimpsest train --config=experiments/textcnn.py:tiny --workdir=runs/textcnn
    palimpsest train --config=experiments/textcnn.py --workdir=runs/mr \
        --config.data.train=train.tsv --config.data.valid=dev.tsv \
        --config.data.fields=text --config.data.label=label

Filters of three, four and five words, of which the largest value in the text goes to
one layer. Its four variants:

    CNN-rand          as it is
    CNN-static        --config.objective.vectors=FILE --config.optimizer.frozen=token
    CNN-non-static    --config.objective.vectors=FILE
    CNN-multichannel  --config.objective.vectors=FILE --config.model.channels=two

each of the last three with --config.objective.vectors_width=W and
--config.model.embedding_width=W. FILE is of word vectors (GloVe's .txt, word2vec's
.bin, ...), a run of experiments/word2vec.py with the same data.vocabulary, or random.

Look at: eval_accuracy of rand and non-static: 76.1 and 81.5 % on movie reviews.

Departs (docs/fidelity.md has the values): objective.format; model.init; what dropout
leaves; windows of a text.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {"mesh.data": 2, "mesh.tensor": 2})}
"""A batch has 50 texts, which two chips divide."""


def get_config(size: str = "small"):
    config = base.get_config("small" if size == "base" else size)
    data, model, optim = config.data, config.model, config.optimizer
    data.update(corpus="docstrings", vocabulary="words", separator="lines")
    data.update(sentinels=0, normalizer="lower", length=64)
    model.update(network="word_cnn", layers=1, width=300, embedding_width=300)
    model.update(head_dropout=0.5, table_range=0.25)
    config.objective.update(name="sequence_classification", head="linear", pool="max")
    optim.update(name="adadelta", learning_rate=1.0, max_norm=3.0)
    optim.update(schedule="constant", warmup_steps=0, clip_norm=0.0)
    config.train.update(batch=50, steps=500, eval_every=100)
    if size == "tiny":
        model.update(width=48, embedding_width=32)
        config.train.update(batch=8, steps=20)
    if size == "base":
        data.vocabulary_size = 18_769
        config.train.steps = 4_325
    return config
