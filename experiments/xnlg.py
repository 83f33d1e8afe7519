"""XNLG (Chi et al. 2020): a decoder for an encoder of several languages.

    palimpsest train --config=experiments/xnlg.py:tiny --workdir=runs/xnlg \\
        --config.train.init_from=runs/xlm --config.model.layers=2 \\
        --config.model.decoder_layers=1 --config.model.shared_embeddings=False \\
        --config.data.mixture='{"1.tsv": 1, "2-en.txt": 1, "2-fr.txt": 1}' \\
        --config.objective.languages='0:1 0 1'

is the second stage; the first is experiments/xlm.py. The encoder has the first
model.layers layers of that network and is frozen, except for its dropout; the decoder
starts from them, too, and learns to translate, in both directions, and to restore text
from noise: pieces are moved, dropped and masked, in this order. Then a task in one
language tunes only the encoder's layers, so that the decoder keeps its other languages,
in which it then writes (zero-shot):

    palimpsest train --config=experiments/finetune.py --workdir=runs/task \\
        --config.train.init_from=runs/xnlg --config.data.train=train.jsonl \\
        --config.data.valid=valid.jsonl --config.data.fields=text,summary \\
        --config.objective.name=sequence_to_sequence --config.objective.format=xlm \\
        --config.objective.languages=0 --config.optimizer.frozen='token,
        encoder_embeddings,decoder,decoder_embeddings,decoder_token,output'
    palimpsest generate --workdir=runs/task --languages=1 "A text."

Look at: valid/xae against a run without --config.train.init_from; and in which language
a tuned network writes (experiments/studies/output_language.py). Size and optimizer are
those of the released command for English, French and Chinese, with the 15
languages of its XLM.

Departs (docs/fidelity.md has the values): rate of the first step, in parts of peak /
warm-up; initial parameters; directions of a batch of pairs; pairs with more than 100
tokens on a side; rows of pairs in a batch.
"""

from research.config import base

SIZES = ("tiny", "small", "base")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 2})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.update(vocabulary="bpe", normalizer="uncased", mixing="batches")
    config.objective.name = "xnlg"
    config.model.update(norm_placement="post", norm_epsilon=1e-12, dropout=0.1)
    config.model.update(init="xlm", shared_embeddings=False, output_head="bias")
    config.model.token_types = 2
    config.optimizer.update(name="adam", schedule="rsqrt", clip_norm=5.0)
    config.optimizer.update(beta1=0.9, beta2=0.98, epsilon=1e-8)
    config.optimizer.epsilon_place = "before"
    config.optimizer.frozen = "encoder,encoder_embeddings,token"
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=95_000, length=102, sentinels=0)
        config.model.update(layers=10, decoder_layers=6, token_types=15)
        config.model.update(width=1024, heads=8, feedforward=4096)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=4000)
        config.train.update(steps=23_000, batch=64)
    return config
