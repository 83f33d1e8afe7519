"""Encoders of masked tokens with rotary positions (ModernBERT).

Keys are those of Hugging Face's modeling files (transformers 5, models/*/modeling_*).
"""

from research.contract.errors import UserError
from research.interop.huggingface.families.encoders import tasks
from research.interop.huggingface.family import TASK_HEADS, Family, Key, object_at
from research.interop.huggingface.rows import (
    TRANSPOSED,
    VOCAB,
    Row,
    dense,
    layers,
    norm,
    row,
)


def _head(name):
    return (
        *dense("head.dense", f"head_{name}/dense", bias=False),
        *norm("head.norm", f"head_{name}/norm", bias=False),
        *dense("classifier", f"head_{name}/out"),
    )


FULL, SLIDING = "full_attention", "sliding_attention"
"""Types of ModernBERT's layers."""


def _read_every(config):
    """n, where layers 0, n, 2n, ... attend to all positions.

    The others have a window; 0: all have one; 1: none has.

    Raises:
      UserError: other layers do.
    """
    types = config.get("layer_types")
    if types is None:
        every = config.get("global_attn_every_n_layers", 3)
        if type(every) is not int or every < 1:
            raise UserError(
                f"config.json: global_attn_every_n_layers is {every!r}; it must be a "
                "whole number of at least 1"
            )
        return every
    full = [n for n, each in enumerate(types) if each == FULL]
    every = full[1] if len(full) > 1 else len(types) if full else 0
    expected = [
        FULL if every and n % every == 0 else SLIDING for n in range(len(types))
    ]
    if list(types) != expected or len(types) != config.get("num_hidden_layers"):
        raise UserError(
            f"config.json: layer_types is {types!r}; only {FULL} at each n-th of all "
            f"layers from the first on, and {SLIDING} between them, are known here"
        )
    return every


def _read_window(config):
    width = config.get("local_attention", 128)
    if type(width) is not int or width < 2:
        raise UserError(
            f"config.json: local_attention is {width!r}; it must be 2 or more"
        )
    return 0 if _read_every(config) == 1 else width // 2


def _rope_theta(config, layer_type, older, default):
    """The rotary base of a type of layers: transformers 5, then 4."""
    own = object_at(object_at(config, "rope_parameters"), layer_type)
    scaling = object_at(config, "rope_scaling")
    if own.get("rope_type", "default") != "default" or scaling:
        raise UserError("config.json: only the rope_type default is known here")
    return own.get("rope_theta", config.get(older, default))


def _read_local_theta(config):
    local = _rope_theta(config, SLIDING, "local_rope_theta", 10_000.0)
    return local if _read_window(config) else 0.0


# Keys as transformers 4 has them, which 5 reads, too.
MODERNBERT = Family(
    "modernbert",
    ("full",),
    note="windows and two rotary bases by layer; a folder of a task sets its head, and "
    "objective.pool=mean by its classifier_pooling",
    prefix="model.",
    keys=(
        Key("hidden_size", "width"),
        Key("num_hidden_layers", "layers"),
        Key("num_attention_heads", "heads"),
        Key("intermediate_size", "feedforward"),
        Key("max_position_embeddings", "max_length", default=8192),
        Key("norm_eps", "norm_epsilon", default=1e-5),
        Key(
            "local_attention",
            "window",
            parse=_read_window,
            source=lambda options: 2 * options.window or 128,
        ),
        Key(
            "global_attn_every_n_layers",
            "global_every",
            parse=lambda config: _read_every(config) if _read_every(config) > 1 else 0,
            source=lambda options: options.global_every if options.window else 1,
        ),
        Key(
            "global_rope_theta",
            "rope_theta",
            parse=lambda config: _rope_theta(
                config, FULL, "global_rope_theta", 160_000.0
            ),
        ),
        Key(
            "local_rope_theta",
            "rope_theta_local",
            parse=_read_local_theta,
            source=lambda options: options.rope_theta_local or options.rope_theta,
        ),
        Key("embedding_dropout", "embedding_dropout", default=0.0, place="embedding"),
        Key("mlp_dropout", "feedforward_dropout", default=0.0, place="feedforward"),
        Key("attention_dropout", "attention_dropout", default=0.0, place="attention"),
        Key("classifier_dropout", "head_dropout", default=0.0, place="head"),
    ),
    options={
        "norm_placement": "pre",
        "embedding_norm": "always",
        "first_attention_norm": False,
        "position": "rotary",
        "activation": "geglu_exact",
        "bias": False,
    },
    constants={
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "classifier_bias": False,
        "decoder_bias": True,
        "tie_word_embeddings": True,
    },
    readout=("transform",),
    body=(
        row("model.embeddings.tok_embeddings.weight", "token/embedding", VOCAB),
        *norm("model.embeddings.norm", "embeddings/norm", bias=False),
        *layers(
            "model.layers.{n}.",
            "stack",
            (
                Row(
                    "attn.Wqkv.weight",
                    tuple(
                        f"attention/{each}/kernel" for each in ("query", "key", "value")
                    ),
                    TRANSPOSED,
                ),
                *dense("attn.Wo", "attention/out", bias=False),
                row("attn_norm.weight", "attention_norm/scale", first=1),
                Row(
                    "mlp.Wi.weight",
                    ("feedforward/in/kernel", "feedforward/gate/kernel"),
                    TRANSPOSED,
                ),
                *dense("mlp.Wo", "feedforward/out", bias=False),
                *norm("mlp_norm", "feedforward_norm", bias=False),
            ),
        ),
        *norm("model.final_norm", "stack/norm", bias=False),
    ),
    heads={
        "readout": (
            *dense("head.dense", "output/dense", bias=False),
            *norm("head.norm", "output/norm", bias=False),
            row("decoder.bias", "output/bias", VOCAB),
        ),
        **{name: _head(name) for name in TASK_HEADS},
    },
    head_activation="gelu_norm",  # modeling_modernbert.py, ModernBertPredictionHead
    pools=("token", "mean"),
    has_class_ids=True,
    architectures=(
        ("ModernBertForMaskedLM", ("readout",)),
        *tasks("ModernBert"),
        ("ModernBertModel", ()),
    ),
    copies={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
    pad_id=50283,
)
