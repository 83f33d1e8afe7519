"""T5, BART and those like them beside our parameters.

Keys are those of Hugging Face's modeling files (transformers 5, models/*/modeling_*).
"""

import dataclasses

import numpy as np

from research.contract.errors import UserError
from research.interop.huggingface.family import ACTIVATION_NAMES, Family, Key
from research.interop.huggingface.rows import (
    AFTER_TWO,
    TRANSPOSED,
    VOCAB,
    VOCAB_OF_ROW,
    dense,
    layers,
    norm,
    row,
)

NUM_LAYERS = Key(
    "num_decoder_layers",
    "decoder_layers",
    default=0,
    source=lambda options: options.decoder_layers or options.layers,
)


def _t5_attention(key, path):
    names = {"q": "query", "k": "key", "v": "value", "o": "out"}
    rows = [dense(f"{key}.{a}", f"{path}/{b}", bias=False) for a, b in names.items()]
    return sum(rows, ())


def _t5_stack(stack, cross, path=""):
    path = path or stack
    feedforward = f"layer.{1 + cross}.DenseReluDense"
    rows = [
        *_t5_attention("layer.0.SelfAttention", "attention"),
        *norm("layer.0.layer_norm", "attention_norm", bias=False),
        row(
            f"{feedforward}.wi_0.weight",
            "feedforward/in/kernel",
            TRANSPOSED,
            needs="feedforward/gate/kernel",
        ),
        *dense(f"{feedforward}.wi", "feedforward/in", bias=False),
        *dense(f"{feedforward}.wi_1", "feedforward/gate", bias=False),
        *dense(f"{feedforward}.wo", "feedforward/out", bias=False),
        *norm(f"layer.{1 + cross}.layer_norm", "feedforward_norm", bias=False),
    ]
    if cross:
        rows += _t5_attention("layer.1.EncDecAttention", "cross")
        rows += norm("layer.1.layer_norm", "cross_norm", bias=False)
    first = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return (
        *layers(f"{stack}.block.{{n}}.", path, rows),
        row(first, f"{path}/relative"),
        *norm(f"{stack}.final_layer_norm", f"{path}/norm", bias=False),
    )


def _decide_t5(config, tensors):
    """Whether the output table is the token table: the file decides.

    transformers 5 says in every config that it is, and keeps in
    `scale_decoder_outputs` what the config of its origin said: only a table that was
    tied has features scaled by 1 / sqrt(width), as here.
    """
    head, table = "lm_head.weight", "shared.weight"
    differs = head in tensors and not np.array_equal(tensors[head], tensors[table])
    scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings"))
    if differs and scaled is True:
        raise UserError(
            f"{head} differs from {table}, but config.json says that outputs are "
            "scaled as those of a tied table"
        )
    tied = not differs and scaled is not False
    return {"tie_embeddings": tied, "output_rows": _t5_rows(config)}


def _t5_rows(config):
    return "table" if config["vocab_size"] % 128 == 0 else "vocabulary"


T5 = Family(
    "t5",
    (),
    keys=(
        Key("d_model", "width"),
        Key("num_layers", "layers"),
        NUM_LAYERS,
        Key("num_heads", "heads"),
        Key("d_kv", "head_width", default=64, source=lambda options: options.key_width),
        Key("d_ff", "feedforward"),
        Key(
            "feed_forward_proj",
            "activation",
            {"relu": "relu", "gated-gelu": "geglu", "gated-silu": "swiglu"},
            "relu",
        ),
        Key("layer_norm_epsilon", "norm_epsilon", default=1e-6),
        Key("dropout_rate", "dropout", default=0.1, place="residual"),
        Key("tie_word_embeddings", "tie_embeddings", default=True),
        Key(
            "scale_decoder_outputs",
            "tie_embeddings",
            default=True,
            source=lambda options: options.tie_embeddings,
        ),
    ),
    options={
        "norm": "rmsnorm",
        "norm_placement": "pre",
        "position": "t5",
        "bias": False,
        "init": "t5",
        "feedforward_dropout": -1.0,
        "output_dropout": -1.0,
    },
    constants={
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
    },
    extra={"is_encoder_decoder": True},
    body=(
        row("shared.weight", "token/embedding", VOCAB),
        *_t5_stack("encoder", cross=False),
        *_t5_stack("decoder", cross=True),
    ),
    heads={
        "readout": (
            row("lm_head.weight", "output/embedding", VOCAB, instead="shared.weight"),
        )
    },
    architectures=(("T5ForConditionalGeneration", ("readout",)),),
    copies={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    decide=_decide_t5,
    has_bare_start=True,
    sentinels=100,
    decoder_trained_by=("dae", {}),
)


def _bart_attention(key, path):
    names = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "out"}
    return sum((dense(f"{key}.{a}", f"{path}/{b}") for a, b in names.items()), ())


TIED = ("tie_word_embeddings", "scale_decoder_outputs")

MT5 = dataclasses.replace(
    T5,
    model_type="mt5",
    sentinels=0,
    keys=tuple(each for each in T5.keys if each.key not in TIED),
    architectures=(("MT5ForConditionalGeneration", ("readout",)),),
    # Its outputs have no scale (modeling_mt5.py), as with a table of their own.
    decide=lambda config, tensors: {
        "tie_embeddings": False,
        "output_rows": _t5_rows(config),
    },
)


def _t5_encoder(family, name):
    """The encoder of a T5 alone."""
    return dataclasses.replace(
        family,
        patterns=("full",),
        keys=tuple(
            each
            for each in family.keys
            if each.key not in ("num_decoder_layers", *TIED)
        ),
        body=(
            row("shared.weight", "token/embedding", VOCAB),
            *_t5_stack("encoder", cross=False, path="stack"),
        ),
        heads={},
        architectures=((name, ()),),
        copies={"encoder.embed_tokens.weight": "shared.weight"},
        extra={"is_encoder_decoder": False},
        decide=lambda config, tensors: {"output_rows": _t5_rows(config)},
    )


T5_ENCODER = _t5_encoder(T5, "T5EncoderModel")
MT5_ENCODER = _t5_encoder(MT5, "MT5EncoderModel")


def _bart_stack(stack, cross):
    rows = [
        *_bart_attention("self_attn", "attention"),
        *norm("self_attn_layer_norm", "attention_norm"),
        *dense("fc1", "feedforward/in"),
        *dense("fc2", "feedforward/out"),
        *norm("final_layer_norm", "feedforward_norm"),
    ]
    if cross:
        rows += _bart_attention("encoder_attn", "cross")
        rows += norm("encoder_attn_layer_norm", "cross_norm")
    name, embeddings = f"model.{stack}", f"{stack}_embeddings"
    return (
        *layers(f"{name}.layers.{{n}}.", stack, rows),
        row(f"{name}.embed_positions.weight", f"{embeddings}/position", AFTER_TWO),
        *norm(f"{name}.layernorm_embedding", f"{embeddings}/norm"),
    )


def _decide_bart(config, tensors):
    """Whether there is an output bias, which published models have at 0 alone."""
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = (config[f"{s}_{name}"] for s in ("encoder", "decoder"))
        if encoder != decoder:
            raise UserError(
                f"config.json: encoder_{name} is {encoder}, but decoder_{name} "
                f"{decoder}; they must be the same here"
            )
    bias = tensors.get("final_logits_bias")
    return {"output_head": "auto" if bias is None or not bias.any() else "bias"}


BART = Family(
    "bart",
    (),
    prefix="model.",
    keys=(
        Key("d_model", "width"),
        Key("encoder_layers", "layers"),
        Key(
            "decoder_layers",
            "decoder_layers",
            source=lambda options: options.decoder_layers or options.layers,
        ),
        Key("encoder_attention_heads", "heads"),
        Key("decoder_attention_heads", "heads"),
        Key("encoder_ffn_dim", "feedforward"),
        Key("decoder_ffn_dim", "feedforward"),
        Key("activation_function", "activation", ACTIVATION_NAMES, "gelu"),
        Key("max_position_embeddings", "max_length", default=1024),
        Key("scale_embedding", "scale_embeddings", default=False),
        Key("dropout", "dropout", default=0.1, place="residual"),
        Key("attention_dropout", "attention_dropout", default=0.0, place="attention"),
        Key(
            "activation_dropout",
            "feedforward_dropout",
            default=0.0,
            place="feedforward",
        ),
        Key("classifier_dropout", "head_dropout", default=0.0, place="head"),
    ),
    options={
        "norm_placement": "post",
        "position": "learned",
        "norm_epsilon": 1e-5,
    },
    constants={"tie_word_embeddings": True},
    extra={"is_encoder_decoder": True, "forced_eos_token_id": None},
    readout=("table", "bias"),
    pad_id=1,
    body=(
        row("model.shared.weight", "token/embedding", VOCAB),
        *_bart_stack("encoder", cross=False),
        *_bart_stack("decoder", cross=True),
    ),
    heads={
        "label": (
            *dense("classification_head.dense", "pooler"),
            *dense("classification_head.out_proj", "head_label/out"),
        ),
        "readout": (
            row(
                "final_logits_bias",
                "output/bias",
                VOCAB_OF_ROW,
                neutral=lambda sizes: np.zeros((1, sizes.vocab)),
            ),
        ),
    },
    architectures=(
        ("BartForSequenceClassification", ("label",)),
        ("BartForConditionalGeneration", ("readout",)),
    ),
    copies={
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
        "lm_head.weight": "model.shared.weight",
    },
    decide=_decide_bart,
    decoder_trained_by=("bart", {}),
    task_format="bart",
)

MARIAN = dataclasses.replace(
    BART,
    model_type="marian",
    note="its source.spm and vocab.json are the vocabulary",
    options={
        "norm_placement": "post",
        "embedding_norm": "never",
        "position": "sinusoidal",
        "norm_epsilon": 1e-5,
    },
    constants={"tie_word_embeddings": True, "share_encoder_decoder_embeddings": True},
    body=tuple(r for r in BART.body if "_embeddings/" not in r.paths[0]),
    heads={"readout": BART.heads["readout"]},
    architectures=(("MarianMTModel", ("readout",)),),
    pad_id=58100,
    tokenizer="source.spm",
    decoder_trained_by=("sequence_to_sequence", {"target_length": 512}),
)
