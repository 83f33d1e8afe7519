"""The optimizer of each published system is that of its paper and official code.

StructBERT, WKLM, InfoWord, BERT-wwm, ERNIE 2.0 and UL2 have no official code for
pretraining: their values are the papers', and BERT's or T5's where these are silent.
UniLM continues from BERT, which ours does not.
"""

from pathlib import Path

import pytest

from launch.config import load_config

FOLDER = Path(__file__).parents[1] / "experiments"

BERT = """name=adamw beta1=0.9 beta2=0.999 epsilon=1e-6 bias_correction=false
    weight_decay=0.01 decay_params=matrices clip_norm=1.0 layer_decay=1.0
    schedule=linear warmup=linear decay_from=start final_fraction=0.0"""
"""google-research/bert, optimization.py: create_optimizer, AdamWeightDecayOptimizer."""
FAIRSEQ = """name=adamw beta1=0.9 bias_correction=true epsilon_place=before
    decay_params=all layer_decay=1.0 schedule=linear warmup=linear
    decay_from=warmup final_fraction=0.0"""
"""fairseq: optim/adam.py, optim/lr_scheduler/polynomial_decay_schedule.py."""
ROBERTA = f"{FAIRSEQ} beta2=0.98 epsilon=1e-6 weight_decay=0.01 clip_norm=0.0"
"""Liu et al. 2019, table 9; fairseq, examples/roberta/config/pretraining/base.yaml."""
XLM = """name=adam beta1=0.9 beta2=0.98 epsilon=1e-8 bias_correction=true
    epsilon_place=before schedule=rsqrt warmup=linear
    warmup_steps=4000 learning_rate=1e-4 clip_norm=5"""
"""facebookresearch/XLM and microsoft/MASS: adam_inverse_sqrt of the README's command
(of XLM, that for the 15 languages of XNLI), the 4,000 steps of warm-up of its class,
clip_grad_norm of train.py."""
GPT = """name=adamw beta1=0.9 beta2=0.999 epsilon=1e-8 bias_correction=true
    epsilon_place=before weight_decay=0.01 decay_params=matrices clip_norm=1.0
    schedule=cosine decay_from=start final_fraction=0.0 learning_rate=2.5e-4
    warmup_steps=2000"""
"""Radford et al. 2018, section 4.1; openai/finetune-transformer-lm, opt.py."""
TRANSFORMER_XL = """name=adam beta1=0.9 beta2=0.999 epsilon=1e-8 bias_correction=true
    epsilon_place=before clip_norm=0.25 schedule=cosine
    decay_from=start final_fraction=0 learning_rate=2.5e-4"""
"""kimiyoung/transformer-xl, pytorch/train.py (CosineAnnealingLR, clip, lr)."""
T5 = """name=adafactor schedule=rsqrt warmup=constant warmup_steps=10000
    learning_rate=0.01 weight_decay=0 clip_norm=0"""
"""Raffel et al. 2020, section 3.1.2; t5/models/gin, rsqrt_no_ramp_down.gin."""
ELECTRA = f"{BERT} warmup=factor warmup_steps=10000"
"""google-research/electra, model/optimization.py; Clark et al. 2020, tables 6 and 7."""

OFFICIAL = {
    # its flags in run_pretraining.py; optimization.py, lamb_optimizer
    "albert:base": f"""{BERT} name=lamb learning_rate=0.00176 warmup_steps=3125
        train.steps=125000 train.batch=4096""",
    # the command of fairseq's issue 1899, which names neither epsilon nor betas
    "bart:large": f"""{FAIRSEQ} beta2=0.999 epsilon=1e-8 weight_decay=0.01 clip_norm=0.1
        learning_rate=4e-4 warmup_steps=10000 train.steps=500000 train.batch=8000""",
    # Devlin et al. 2019, appendix A.2
    "bert:base": f"""{BERT} learning_rate=1e-4 warmup_steps=10000 train.steps=1000000
        train.batch=256""",
    "electra:electra_small": f"""{ELECTRA} learning_rate=5e-4 train.steps=1000000
        train.batch=128""",
    "electra:base": f"{ELECTRA} learning_rate=2e-4 train.steps=766000 train.batch=256",
    "electra:large": f"""{ELECTRA} learning_rate=2e-4 train.steps=400000
        train.batch=2048""",
    # PaddlePaddle/ERNIE: optimization.py, ERNIE/pretrain_args.py, script/pretrain.sh
    "ernie:base": f"""{BERT} epsilon=1e-8 bias_correction=true epsilon_place=before
        learning_rate=1e-4
        warmup_steps=5000 train.steps=1000000""",
    "gpt:base": f"{GPT} train.batch=64",
    "gpt2:base": f"{GPT} train.batch=512",
    "mass:base": XLM,
    "mbert:base": f"{BERT} learning_rate=1e-4 warmup_steps=10000",
    "roberta:base": f"""{ROBERTA} learning_rate=6e-4 warmup_steps=24000
        train.steps=500000 train.batch=8192""",
    "roberta:large": f"""{ROBERTA} learning_rate=4e-4 warmup_steps=30000
        train.steps=500000 train.batch=8192""",
    # facebookresearch/SpanBERT, pretraining/README.md and its own fairseq, whose decay
    # counts from step 0, and whose clip_norm of 1 never binds (the trainer divides the
    # gradient by its masked tokens twice); Joshi et al. 2020, section 4, for the decay
    "spanbert:large": f"""{FAIRSEQ} decay_from=start beta2=0.999 epsilon=1e-8
        weight_decay=0.1 clip_norm=0.0 learning_rate=1e-4 warmup_steps=10000
        train.steps=2400000 train.batch=256""",
    "t5:base": f"{T5} train.steps=1000000 train.batch=2048",
    # pytorch/run_wt103_base.sh and run_wt103_large.sh
    "transformer_xl:base": f"""{TRANSFORMER_XL} warmup_steps=0 train.steps=200000
        train.batch=60""",
    "transformer_xl:large": f"""{TRANSFORMER_XL} warmup_steps=16000 train.steps=4000000
        train.batch=128""",
    "xlm:base": f"{XLM} train.batch=1024",
    "xlmr:large": f"{ROBERTA} train.steps=1500000 train.batch=8192",
    # Yang et al. 2019, table 8; zihangdai/xlnet: model_utils.py, train.py
    "xlnet:large": f"""{BERT} decay_from=warmup warmup=from_zero
        decay_params=query_biases
        final_fraction=0.001 learning_rate=4e-4 warmup_steps=40000 train.steps=500000
        train.batch=8192""",
}


@pytest.mark.parametrize("spec", OFFICIAL)
def test_it_is_the_official_optimizer(spec):
    name, size = spec.split(":")
    path = f"{FOLDER / name}.py:{size}"
    pairs = dict(pair.split("=") for pair in OFFICIAL[spec].split())
    official = {k if "." in k else f"optimizer.{k}": v for k, v in pairs.items()}
    ours, expected = load_config(path).flat, load_config(path, official).flat
    assert ours == expected
