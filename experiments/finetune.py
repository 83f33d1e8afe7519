"""Fine-tuning on a task, as BERT was tuned (google-research/bert, run_classifier.py).

    palimpsest train --config=experiments/finetune.py --workdir=runs/sst2 \
        --config.train.init_from=runs/mlm \
        --config.data.train=sst2/train.tsv --config.data.valid=sst2/dev.tsv \
        --config.data.fields=sentence --config.data.label=label
    palimpsest evaluate --workdir=runs/sst2 --config.data.valid=other.tsv

A pair of texts is fields=sentence1,sentence2; other tasks are other objectives: STS-B:
--config.objective.task=regression --config.objective.label_scale=5; the first 128 and
last 382 tokens of long texts: objective.tail=382 data.length=512; long texts in chunks,
whose logits are averaged: objective.stride=512; words with tags:
objective.name=token_classification and CoNLL or CoNLL-U files, with a CRF:
objective.head=crf, or without tuning the network:
optimizer.frozen=token,embeddings,stack model.dropout=0 objective.features=concat
objective.lstm_layers=2; SQuAD: objective.name=question_answering, with the head of
XLNet and ELECTRA: objective.head=joint; a first text and choices:
objective.name=multiple_choice; an input and a target, as T5 and BART were tuned:
objective.name=sequence_to_sequence (with the parameters of experiments/t5.py and the
like). ELECTRA: --config.objective.head=linear --config.train.init_scope=discriminator.
By default the task is which module a docstring documents; a pooler that pretraining
trained (BERT, ALBERT) goes on.

Departs: 200 steps and a rate for networks of this size, in place of 3 epochs at 5e-5;
where a vocabulary keeps white space, the first of two texts ends with a line's end.
"""

from ml_collections import ConfigDict

from research.config import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.objective.name = "sequence_classification"
    config.data.corpus = "docstrings"
    config.model.dropout = 0.1
    config.train.steps = 200
    config.train.eval_every = 50
    config.optimizer.learning_rate = 3e-4
    config.optimizer.warmup_steps = 20
    config.optimizer.decay_from = "start"
    config.optimizer.bias_correction = False
    config.optimizer.beta2 = 0.999
    return config
