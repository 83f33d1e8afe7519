"""Scales: config keys for the text, network and budget of trials."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Scale(NamedTuple):
    """Config keys of one scale."""

    shape: dict[str, Any]  # keys of text and model, the same in every trial
    pretraining: dict[str, Any]
    tuning: dict[str, Any]
    num_seeds: int  # fine-tuning seeds, which cycle through those of pretraining
    pretraining_seeds: int = 1
    post_norm: Mapping[str, Any] = {}  # for experiments with norms after blocks, which
    # with a short warm-up learn only the frequencies of tokens
    post_norm_tuning: Mapping[str, Any] = {}
    position: str = ""  # instead of a scheme that `learns_positions`; "": that one
    mask_rate: float = 0.0  # of objectives that predict masked tokens, in tables that
    # are not about it; 0: the experiment's
    probes: bool = False  # tables have the columns `benchmarks.PROBES` instead of the
    # paper's tasks, of which networks of this size learn too little


SMALLEST = {
    "data.length": 64,
    "data.vocabulary_size": 2048,
    "model.layers": 2,
    "model.width": 128,
    "model.heads": 4,
    "model.feedforward": 512,
}
"""The text and the network of the scales for CPUs."""

SHORT_TUNING = {
    "train.batch": 16,
    "train.steps": 400,
    "train.eval_every": 0,
    "train.checkpoint_every": 0,
    "optimizer.learning_rate": 1e-3,
    "optimizer.warmup_steps": 20,
}

_QUICK = Scale(  # 2 M tokens, three minutes a pretraining on a core of a CPU
    shape=SMALLEST | {"data.vocabulary": "unigram"},
    pretraining={
        "train.batch": 8,
        "train.steps": 4000,
        "train.eval_every": 1000,
        "train.checkpoint_every": 1000,
        "optimizer.name": "adamw",
        "optimizer.beta2": 0.98,
        "optimizer.weight_decay": 0.01,
        "optimizer.clip_norm": 1.0,
        "optimizer.schedule": "linear",
        "optimizer.warmup": "linear",
        "optimizer.learning_rate": 1e-3,
        "optimizer.warmup_steps": 200,
        "model.dropout": 0.0,
    },
    tuning=SHORT_TUNING,
    num_seeds=6,
    pretraining_seeds=6,
    # With norms after blocks masked LM has a loss of 5.40 after 2 M tokens, and of
    # 4.86 with them before.
    post_norm={"model.norm_placement": "pre"},
    position="rotary",
    mask_rate=0.4,
    probes=True,
)

SCALES = {
    "smoke": Scale(  # two to six minutes a pretraining on a CPU core
        shape=SMALLEST,
        pretraining={
            "train.batch": 32,
            "train.steps": 1500,
            "train.eval_every": 300,
            "train.checkpoint_every": 300,
            "optimizer.learning_rate": 1e-3,
            "optimizer.warmup_steps": 75,
        },
        tuning=SHORT_TUNING,
        num_seeds=3,
        # The entropy of frequencies is 6.2. valid/mlm is 5.7 for RoBERTa, or 5.9 with
        # 75 steps and a rate of 3e-4; for BART's network 6.0 with 75 steps and 1e-3.
        post_norm={"optimizer.warmup_steps": 500},
        # With 20 steps three of ALBERT's 18 runs and one of BERT's four predicted one
        # class; three of these four learnt with 100 steps.
        post_norm_tuning={"optimizer.warmup_steps": 100},
    ),
    "quick": _QUICK,
    "cpu": _QUICK._replace(  # 20 M tokens, ten to twenty minutes on a core of a CPU
        # At half of equal FLOPs masked LM has a loss of 3.66, and of 3.90 and 3.53 with
        # 4 layers of 192 and 2 of 128; LM at 60 % of them 4.20, 4.26 and 4.22.
        shape=_QUICK.shape
        | {
            "data.vocabulary_size": 4096,
            "model.layers": 3,
            "model.width": 160,
            "model.heads": 5,
            "model.feedforward": 640,
        },
        pretraining=_QUICK.pretraining
        | {
            "train.batch": 16,
            "train.steps": 20_000,
            "train.eval_every": 5000,
            "train.checkpoint_every": 5000,
            "optimizer.warmup_steps": 1000,
        },
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
        # Not measured; the warm-up of tuning is a tenth of its steps.
        post_norm={"optimizer.warmup_steps": 1500, "optimizer.learning_rate": 5e-4},
    ),
    "paper": Scale(  # BERT's base size and budget, on a pod
        shape={
            "data.length": 512,
            "data.vocabulary_size": 32768,
            "data.sentinels": 160,  # as UL2: half of 512 tokens in spans of 3 need 130
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
