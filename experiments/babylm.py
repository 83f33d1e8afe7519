"""The BabyLM Challenge's tracks: ten epochs of 10 or 100 million words.

    palimpsest train --config=experiments/babylm.py --workdir=runs/lm \\
        --config.data.train='corpus/*.txt' --config.data.valid='dev/*.txt'
    palimpsest babylm --workdir=runs/lm --data=evaluation_data --to=results

Causal by default; docs/howto/babylm.md has the commands for masked LM and GPT-BERT, and
all steps from the corpus to the file that is submitted. Words are counted by the rules:
checkpoints are saved at the track's numbers of words, and a run of more than ten times
its words is rejected, with the number of steps that is allowed.

Sizes: tiny is Strict-Small in two hours of one CPU core, small in a day of two cores,
base on an accelerator; large is Strict on one. Each document begins with bos, as the
sentences of the tasks do.
"""

from research.config import base
from research.evaluation.babylm.rules import MILLION, TRACKS, checkpoint_words

SIZES = ("tiny", "small", "base", "large")
PUBLISHED_SIZES = ()  # all are ours


def get_config(size: str = "small"):
    config = base.get_config()
    most = TRACKS["strict" if size == "large" else "strict_small"] * MILLION
    config.train.update(checkpoint_words=checkpoint_words(most), max_words=most)
    config.train.update(eval_every=0, checkpoint_every=500)
    config.data.update(vocabulary="bpe", vocabulary_size=8192, sentinels=0, length=128)
    config.objective.update(name="lm", documents="apart")
    config.model.update(position="rotary", norm_placement="pre", dropout=0.1)
    config.optimizer.update(name="adamw", beta2=0.98, weight_decay=0.1)
    config.optimizer.update(schedule="cosine", warmup_steps=500)
    if size == "tiny":
        config.data.vocabulary_size = 4096
        config.model.update(layers=4, width=192, heads=6, feedforward=768, dropout=0.0)
        config.train.update(steps=22_000, batch=32)
        config.optimizer.learning_rate = 2e-3
    elif size == "small":
        config.model.update(layers=4, width=256, heads=4, feedforward=1024)
        config.train.update(steps=19_000, batch=64)
        config.optimizer.learning_rate = 2e-3
    elif size == "base":
        config.model.update(layers=12, width=384, heads=6, feedforward=1536)
        config.train.update(steps=4_000, batch=256)
        config.optimizer.learning_rate = 1e-3
    else:
        config.data.update(vocabulary_size=16_384, length=512)
        config.model.update(layers=12, width=768, heads=12, feedforward=3072)
        config.train.update(steps=10_000, batch=256)
        config.optimizer.learning_rate = 7e-4
    return config
