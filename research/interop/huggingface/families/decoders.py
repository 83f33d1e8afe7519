"""GPT, GPT-2 and XLNet beside our parameters.

Keys are those of Hugging Face's modeling files (transformers 5, models/*/modeling_*).
"""

import numpy as np

from research.interop.huggingface.family import ACTIVATION_NAMES, Family, Key
from research.interop.huggingface.rows import (
    HEADS,
    HEADS_OUT,
    ROW,
    VOCAB,
    Row,
    dense,
    layers,
    norm,
    row,
)

GPT_KEYS = (
    Key("n_embd", "width"),
    Key("n_layer", "layers"),
    Key("n_head", "heads"),
    Key("n_positions", "max_length", default=512),
    Key("layer_norm_epsilon", "norm_epsilon", default=1e-5),
    Key("resid_pdrop", "dropout", default=0.1, place="residual"),
    Key("embd_pdrop", "embedding_dropout", default=0.1, place="embedding"),
    Key("attn_pdrop", "attention_dropout", default=0.1, place="attention"),
)


def _conv(key, *paths):
    """The rows of Conv1D, whose weight is [in, out] as ours."""
    return (
        Row(f"{key}.weight", tuple(f"{path}/kernel" for path in paths)),
        Row(f"{key}.bias", tuple(f"{path}/bias" for path in paths)),
    )


GPT_BLOCK = (
    *_conv("attn.c_attn", "attention/query", "attention/key", "attention/value"),
    *_conv("attn.c_proj", "attention/out"),
    *_conv("mlp.c_fc", "feedforward/in"),
    *_conv("mlp.c_proj", "feedforward/out"),
)
GPT_LAYERS = layers(
    "transformer.h.{n}.",
    "stack",
    (*GPT_BLOCK, *norm("ln_1", "attention_norm"), *norm("ln_2", "feedforward_norm")),
)


def decide_tie(config, tensors, default, table):
    """Whether the output table is the token table: the file's own, then the config."""
    key = "lm_head.weight"
    if not config.get("tie_word_embeddings", default):
        return {"tie_embeddings": False}
    differs = key in tensors and not np.array_equal(tensors[key], tensors[table])
    return {"tie_embeddings": not differs}


def lm_head(table):
    """The row of an output table that may be the token table."""
    return (row("lm_head.weight", "output/embedding", VOCAB, instead=table),)


GPT = Family(
    "openai-gpt",
    ("causal",),
    prefix="transformer.",
    keys=(
        *GPT_KEYS,
        Key(
            "feedforward",
            "feedforward",
            default=lambda config: 4 * config["n_embd"],
            source=lambda options: None,
        ),
        # Its "gelu" is by tanh (modeling_openai.py, ACT_FNS).
        Key("afn", "activation", {"gelu": "gelu_tanh", "relu": "relu"}, "gelu_tanh"),
    ),
    options={
        "norm_placement": "post",
        "embedding_norm": "never",
        "position": "learned",
    },
    constants={"tie_word_embeddings": True},
    body=(
        row("transformer.tokens_embed.weight", "token/embedding", VOCAB),
        row("transformer.positions_embed.weight", "embeddings/position"),
        *GPT_LAYERS,
    ),
    heads={"readout": ()},
    architectures=(("OpenAIGPTLMHeadModel", ("readout",)),),
    copies={"lm_head.weight": "transformer.tokens_embed.weight"},
)

GPT2 = Family(
    "gpt2",
    ("causal",),
    prefix="transformer.",
    keys=(
        *GPT_KEYS,
        Key("n_inner", "feedforward", default=lambda config: 4 * config["n_embd"]),
        Key("activation_function", "activation", ACTIVATION_NAMES, "gelu_tanh"),
        Key("tie_word_embeddings", "tie_embeddings", default=True),
    ),
    options={"norm_placement": "pre", "position": "learned"},
    constants={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    },
    body=(
        row("transformer.wte.weight", "token/embedding", VOCAB),
        row("transformer.wpe.weight", "embeddings/position"),
        *GPT_LAYERS,
        *norm("transformer.ln_f", "stack/norm"),
    ),
    heads={
        "readout": lm_head("transformer.wte.weight"),
        "tag": dense("classifier", "head_tag/out"),
        "label": dense("score", "head_label/out", bias=False),
    },
    architectures=(
        ("GPT2ForTokenClassification", ("tag",)),
        ("GPT2ForSequenceClassification", ("label",)),
        ("GPT2LMHeadModel", ("readout",)),
    ),
    types_are_tokens=True,
    copies={"lm_head.weight": "transformer.wte.weight"},
    decide=lambda config, tensors: decide_tie(
        config, tensors, True, "transformer.wte.weight"
    ),
)


XLNET_BLOCK = (
    row("rel_attn.q", "attention/query/kernel", HEADS),
    row("rel_attn.k", "attention/key/kernel", HEADS),
    row("rel_attn.v", "attention/value/kernel", HEADS),
    row("rel_attn.o", "attention/out/kernel", HEADS_OUT),
    row("rel_attn.r", "attention/relative/kernel", HEADS),
    row("rel_attn.r_w_bias", "attention/relative/content_bias", HEADS),
    row("rel_attn.r_r_bias", "attention/relative/position_bias", HEADS),
    row("rel_attn.r_s_bias", "attention/relative/segment_bias", HEADS),
    row("rel_attn.seg_embed", "attention/relative/segment", HEADS),
    *norm("rel_attn.layer_norm", "attention_norm"),
    *dense("ff.layer_1", "feedforward/in"),
    *dense("ff.layer_2", "feedforward/out"),
    *norm("ff.layer_norm", "feedforward_norm"),
)

XLNET = Family(
    "xlnet",
    ("general", "full"),
    prefix="transformer.",
    keys=(
        Key("d_model", "width"),
        Key("n_layer", "layers"),
        Key("n_head", "heads"),
        Key(
            "d_head",
            "head_width",
            default=0,
            source=lambda options: options.width // options.heads,
        ),
        Key("d_inner", "feedforward"),
        Key("ff_activation", "activation", ACTIVATION_NAMES, "gelu"),
        Key("layer_norm_eps", "norm_epsilon", default=1e-12),
        Key("dropout", "dropout", default=0.1, place="residual"),
        Key("summary_last_dropout", "head_dropout", default=0.1, place="head"),
    ),
    options={
        "norm_placement": "post",
        "embedding_norm": "never",
        "position": "relative",
        "token_type_encoding": "relative",
        "token_types": 3,
        "output_head": "bias",
        "position_dropout": -1.0,
        "feedforward_dropout": -1.0,
        "output_dropout": -1.0,
    },
    constants={
        "attn_type": "bi",
        "clamp_len": -1,
        "same_length": False,
        "untie_r": True,
        "tie_word_embeddings": True,
        "summary_type": "last",
        "summary_use_proj": True,
        "summary_activation": "tanh",
    },
    readout=("bias",),
    heads_divide_width=True,
    pad_id=5,
    body=(
        row(
            "transformer.mask_emb",
            "query_embedding/vector",
            ROW,
            neutral=lambda sizes: np.zeros((1, 1, sizes.table_width)),
        ),
        row("transformer.word_embedding.weight", "token/embedding", VOCAB),
        *layers("transformer.layer.{n}.", "stack", XLNET_BLOCK),
    ),
    heads={
        "readout": (row("lm_loss.bias", "output/bias", VOCAB),),
        "label": (
            *dense("sequence_summary.summary", "pooler"),
            *dense("logits_proj", "head_label/out"),
        ),
        "choice": (
            *dense("sequence_summary.summary", "pooler"),
            *dense("logits_proj", "head_choice/out"),
        ),
        "tag": dense("classifier", "head_tag/out"),
        "span": dense("qa_outputs", "head_span/out"),
    },
    architectures=(
        ("XLNetLMHeadModel", ("readout",)),
        ("XLNetForSequenceClassification", ("label",)),
        ("XLNetForTokenClassification", ("tag",)),
        ("XLNetForQuestionAnsweringSimple", ("span",)),
        ("XLNetForMultipleChoice", ("choice",)),
        ("XLNetModel", ()),
    ),
    copies={"lm_loss.weight": "transformer.word_embedding.weight"},
    reads_last=True,
    task_format="xlnet",
)
