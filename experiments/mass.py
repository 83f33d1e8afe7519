"""MASS (Song et al. 2019): the decoder writes a span of half of the text.

palimpsest train --config=experiments/mass.py:tiny --workdir=runs/mass

A row is a sentence of five tokens or more. A span of half its tokens is masked for the
encoder (80 % masks, 10 % random, 10 % unchanged); the decoder reads only the span, at
its positions, and all of it is scored; it attends to the encoder's unmasked positions.
One span in five begins the text, one in five ends it with eos (released code,
trainer.py, EncDecTrainer). The two corpora of data.mixture are languages, one per
batch: token types, each with its own output layer of attention to the encoder
(released: attention_setting v1). Encoder and decoder have separate token tables; the
decoder's is also the softmax's, with a bias.

Look at: --config.objective.rate from 0.1 to 0.9 (the paper's Figure 5: half is best).

The released command has 3,000 tokens per device, about 110 sentences, on an unspecified
number of devices; base has those of one.

Departs (docs/fidelity.md has the values): rate of the first step, in parts of peak /
warm-up; clipping; first token of a sentence.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 2})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.update(vocabulary="bpe", mixing="batches")
    config.objective.update(name="mass", span_start="edges")
    config.objective.update(decoder_start="previous", text_unit="sentence", shortest=5)
    config.objective.update(candidates="all", random_tokens="all")
    config.objective.cross_attention = "unmasked"
    config.model.update(norm_placement="post", norm_epsilon=1e-12, dropout=0.1)
    config.model.update(init="xlm", shared_embeddings=False, output_head="bias")
    config.model.update(token_types=2, cross_output="token_type")
    config.optimizer.update(name="adam", schedule="rsqrt")
    config.optimizer.update(beta1=0.9, beta2=0.98, epsilon=1e-8, clip_norm=5.0)
    config.optimizer.epsilon_place = "before"
    if size in base.PUBLISHED:
        config.data.update(length=102, vocabulary_size=60_000, sentinels=0)
        config.model.update(layers=6, width=1024, heads=8, feedforward=4096)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=4000)
        config.train.update(steps=200_000, batch=108)
    return config
