r"""Sentence vectors: SimCSE (Gao et al. 2021), and tuning on pairs and triples.

    palimpsest train --config=experiments/simcse.py --workdir=runs/simcse \
        --config.train.init_from=runs/mlm --config.data.corpus=sentences.txt \
        --config.data.format=lines
    palimpsest similarity --workdir=runs/simcse --data=sts/test.csv \
        --fields=sentence1,sentence2 --label=score

Without labels a sentence is its own positive, with other dropout. With
--config.objective.texts=2 data.fields names two columns, such as a question and its
answer, and with 3 a hard negative besides (NLI: premise, entailment, contradiction);
then --config.objective.head=none, and --config.objective.pool=mean
objective.widths=[256,128,64] as sentence-transformers tunes. A published encoder is
--config.train.init_from=hf:DIR.

Look at: train/contrast_accuracy; larger batches have more negatives (train.batch), even
if train.accumulate splits them. Few steps are needed: the best checkpoint on STS-B
comes early. --config.objective.similarity=sts/dev.csv measures it at each evaluation
(valid/spearman), and --config.train.best_metric=spearman keeps the best.

The published settings of BERT-base: batch 64, rate 3e-5, 32 tokens, one epoch of a
million sentences of Wikipedia, temperature .05.
"""

from ml_collections import ConfigDict

from research.config import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.objective.name = "sentence_vectors"
    config.objective.head = "tanh"
    config.data.corpus = "docstrings"
    config.data.length = 32
    config.model.dropout = 0.1
    config.train.steps = 500
    config.train.batch = 64
    config.train.eval_every = 125
    config.optimizer.learning_rate = 3e-5
    config.optimizer.warmup_steps = 0
    config.optimizer.weight_decay = 0.0
    config.optimizer.beta2 = 0.999
    return config
