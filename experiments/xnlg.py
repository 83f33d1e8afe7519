"""XNLG (Chi et al. 2020): a decoder for an encoder of several languages.

    python -m launch.train --config=experiments/xnlg.py:tiny --workdir=runs/xnlg \\
        --config.train.init_from=runs/xlm --config.model.layers=2 \\
        --config.model.decoder_layers=1 --config.model.shared_embeddings=False \\
        --config.data.mixture='{"1.tsv": 1, "2-en.txt": 1, "2-fr.txt": 1}' \\
        --config.objective.languages='0:1 0 1'

is the second stage; the first is experiments/xlm.py. The encoder has the first layers
of that network, as many as model.layers says, and is frozen, but for its dropout; the
decoder starts from them, too, and learns to translate, in both directions, and to
restore text from noise: pieces are moved, dropped and masked, in this order. Then a
task in one language, of documents with two paragraphs, tunes the encoder's layers
alone, so that the decoder keeps its other languages (zero-shot):

    --config.train.init_from=runs/xnlg --config.objective.languages=0:0 \\
    --config.objective.order=given --config.optimizer.frozen=\\
    token,encoder_embeddings,decoder,decoder_embeddings,decoder_token,output

Look at: valid/xae beside a run without --config.train.init_from.
"""

from experiments import base

SIZES = ("tiny", "small")


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
    return config
