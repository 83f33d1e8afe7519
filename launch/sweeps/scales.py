"""Scales: config keys for the text, network and budget of trials."""

from typing import Any, NamedTuple


class Scale(NamedTuple):
    """Config keys of one scale."""

    shape: dict[str, Any]  # keys of text and model, the same in every trial
    pretraining: dict[str, Any]
    tuning: dict[str, Any]
    num_seeds: int  # fine-tuning seeds, which cycle through those of pretraining
    pretraining_seeds: int = 1


SCALES = {
    "smoke": Scale(  # two to six minutes a pretraining on a CPU core
        shape={
            "data.length": 64,
            "data.vocabulary_size": 2048,
            "model.layers": 2,
            "model.width": 128,
            "model.heads": 4,
            "model.feedforward": 512,
        },
        pretraining={
            "train.batch": 32,
            "train.steps": 1500,
            "train.eval_every": 300,
            "train.checkpoint_every": 300,
            "optimizer.learning_rate": 1e-3,
            "optimizer.warmup_steps": 75,
        },
        tuning={
            "train.batch": 16,
            "train.steps": 400,
            "train.eval_every": 0,
            "train.checkpoint_every": 0,
            "optimizer.learning_rate": 1e-3,
            "optimizer.warmup_steps": 20,
        },
        num_seeds=3,
    ),
    "small": Scale(  # three hours on one accelerator
        shape={
            "data.length": 128,
            "data.vocabulary_size": 16384,
            "model.layers": 8,
            "model.width": 512,
            "model.heads": 8,
            "model.feedforward": 2048,
            "model.dtype": "bfloat16",
        },
        pretraining={
            "train.batch": 256,
            "train.steps": 5000,
            "train.eval_every": 500,
            "train.checkpoint_every": 500,
            "optimizer.learning_rate": 1e-3,
            "optimizer.warmup_steps": 500,
        },
        tuning={
            "train.batch": 32,
            "train.steps": 600,
            "train.eval_every": 0,
            "train.checkpoint_every": 0,
            "optimizer.learning_rate": 1e-4,
            "optimizer.warmup_steps": 60,
        },
        num_seeds=3,
        pretraining_seeds=3,
    ),
    "paper": Scale(  # BERT's base size and budget, on a pod
        shape={
            "data.length": 512,
            "data.vocabulary_size": 32768,
            "model.layers": 12,
            "model.width": 768,
            "model.heads": 12,
            "model.feedforward": 3072,
            "model.dropout": 0.1,
            "model.dtype": "bfloat16",
            "model.remat": "dots",
        },
        pretraining={
            "train.batch": 256,
            "train.steps": 1_000_000,
            "train.eval_every": 10_000,
            "train.checkpoint_every": 5_000,
            "optimizer.learning_rate": 1e-4,
            "optimizer.warmup_steps": 10_000,
        },
        tuning={
            "train.batch": 32,
            "train.steps": 1000,
            "train.eval_every": 0,
            "train.checkpoint_every": 0,
            "optimizer.learning_rate": 3e-5,
            "optimizer.warmup_steps": 100,
        },
        num_seeds=3,
        pretraining_seeds=3,
    ),
}
