"""Decoders with rotary positions (Llama, Mistral, Qwen, Gemma, GPT-NeoX).

Keys are those of Hugging Face's modeling files (transformers 5, models/*/modeling_*).
"""

from research.contract.errors import UserError
from research.interop.huggingface.families.decoders import decide_tie, lm_head
from research.interop.huggingface.family import ACTIVATION_NAMES, Family, Key, object_at
from research.interop.huggingface.rows import (
    ONE_LESS,
    QKV_OF_HEADS,
    SAME,
    VOCAB,
    Row,
    dense,
    layers,
    norm,
    row,
)


def _rope(config):
    """The keys of rotary positions, where transformers 5 and 4 keep them."""
    return {**object_at(config, "rope_scaling"), **object_at(config, "rope_parameters")}


LLAMA3 = (
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
)
"""Keys of Llama 3's scaling, in the order of `model.rope_scaling`."""


def _read_rope_scaling(config):
    rope = _rope(config)
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type not in ("default", "llama3"):
        raise UserError(
            f"config.json: rope_type is {rope_type!r}; only 'default' and 'llama3' are "
            "known here"
        )
    if rope_type == "default":
        return ()
    if missing := [key for key in LLAMA3 if key not in rope]:
        raise UserError(f"config.json: rope_type llama3 has no {missing[0]}")
    return tuple(rope[key] for key in LLAMA3)


def _write_rope_scaling(options):
    values = options.rope_scaling
    if not values:
        return None
    return {"rope_type": "llama3", **dict(zip(LLAMA3, values, strict=True))}


def _read_window(config, default=0):
    """`sliding_window` counts the query itself (masking_utils.py)."""
    width = config.get("sliding_window", default)
    width = 0 if width is None else width
    if type(width) is not int or width < 0 or width == 1:
        raise UserError(
            f"config.json: sliding_window is {width!r}; it must be 2 or more, or null"
        )
    return max(0, width - 1)


LLAMA_BLOCK = (
    *dense("self_attn.q_proj", "attention/query", bias=False),
    *dense("self_attn.k_proj", "attention/key", bias=False),
    *dense("self_attn.v_proj", "attention/value", bias=False),
    *dense("self_attn.o_proj", "attention/out", bias=False),
    *norm("input_layernorm", "attention_norm", bias=False),
    *dense("mlp.gate_proj", "feedforward/in", bias=False),
    *dense("mlp.up_proj", "feedforward/gate", bias=False),
    *dense("mlp.down_proj", "feedforward/out", bias=False),
    *norm("post_attention_layernorm", "feedforward_norm", bias=False),
)


LLAMA_QKV_BIASES = tuple(
    row(f"self_attn.{a}_proj.bias", f"attention/{b}/bias")
    for a, b in (("q", "query"), ("k", "key"), ("v", "value"))
)
LLAMA_QK_NORMS = (
    *norm("self_attn.q_norm", "attention/query_norm", bias=False),
    *norm("self_attn.k_norm", "attention/key_norm", bias=False),
)


ROPE_SCALING = Key(
    "rope_scaling",
    "rope_scaling",
    parse=_read_rope_scaling,
    source=_write_rope_scaling,
)


def _llama_keys(tied=False, head_width=0, activations=None):
    """The keys of Llama's config, with defaults of others."""
    return (
        Key("hidden_size", "width"),
        Key("num_hidden_layers", "layers"),
        Key("num_attention_heads", "heads"),
        Key(
            "num_key_value_heads",
            "num_kv_heads",
            default=0,
            source=lambda options: options.num_kv_heads or options.heads,
        ),
        Key(
            "head_dim",
            "head_width",
            default=head_width,
            source=lambda options: options.key_width,
        ),
        Key("intermediate_size", "feedforward"),
        Key("max_position_embeddings", "max_length", default=2048),
        Key("rms_norm_eps", "norm_epsilon", default=1e-6),
        Key(
            "rope_theta",
            "rope_theta",
            default=lambda config: _rope(config).get("rope_theta", 10_000.0),
        ),
        ROPE_SCALING,
        Key(
            "hidden_act",
            "activation",
            activations or {"silu": "swiglu"},
            "geglu" if activations else "swiglu",
        ),
        Key("attention_dropout", "attention_dropout", default=0.0, place="attention"),
        Key("tie_word_embeddings", "tie_embeddings", default=tied),
    )


LLAMA_OPTIONS = {
    "norm": "rmsnorm",
    "norm_placement": "pre",
    "position": "rotary",
    "bias": False,
    "dropout": 0.0,
}


def _llama(
    model_type, name, *, keys, block=LLAMA_BLOCK, tied=False, scale=SAME, **rest
):
    """A family with Llama's tensors; `scale` is the change of scales of norms."""
    table = "model.embed_tokens.weight"
    fields = {"options": LLAMA_OPTIONS} | rest
    body = (
        row(table, "token/embedding", VOCAB),
        *layers("model.layers.{n}.", "stack", block),
        *norm("model.norm", "stack/norm", bias=False),
    )
    return Family(
        model_type,
        ("causal",),
        prefix="model.",
        keys=keys,
        body=tuple(
            each._replace(change=scale) if each.paths[0].endswith("/scale") else each
            for each in body
        ),
        heads={
            "readout": lm_head(table),
            "label": dense("score", "head_label/out", bias=False),
        },
        architectures=(
            (f"{name}ForSequenceClassification", ("label",)),
            (f"{name}ForCausalLM", ("readout",)),
        ),
        copies={"lm_head.weight": table},
        decide=lambda config, tensors: decide_tie(config, tensors, tied, table),
        **fields,
    )


LLAMA = _llama(
    "llama",
    "Llama",
    keys=_llama_keys(),
    constants={"attention_bias": False, "mlp_bias": False, "pretraining_tp": 1},
    note="rotary angles as they are, or scaled as in Llama 3.1",
    heads_divide_width=True,  # configuration_llama.py, validate_architecture
)
MISTRAL = _llama(
    "mistral",
    "Mistral",
    keys=(
        *_llama_keys(),
        Key(
            "sliding_window",
            "window",
            parse=lambda config: _read_window(config, 4096),
            source=lambda options: options.window + 1 if options.window else None,
        ),
    ),
    extra={"sliding_window": None},
    note="with its sliding window, or none",
)
QWEN2 = _llama(
    "qwen2",
    "Qwen2",
    keys=_llama_keys(),
    block=LLAMA_BLOCK + LLAMA_QKV_BIASES,
    options=LLAMA_OPTIONS | {"qkv_bias": True},
    constants={"use_sliding_window": False},
)
QWEN3 = _llama(
    "qwen3",
    "Qwen3",
    keys=_llama_keys(head_width=128),
    block=LLAMA_BLOCK + LLAMA_QK_NORMS,
    options=LLAMA_OPTIONS | {"qk_norm": True},
    constants={"use_sliding_window": False, "attention_bias": False},
)
GEMMA = _llama(
    "gemma",
    "Gemma",
    # Its "gelu" is by tanh, as in its own code (configuration_gemma.py).
    keys=_llama_keys(True, 256, {"gelu_pytorch_tanh": "geglu", "gelu": "geglu"}),
    tied=True,
    options=LLAMA_OPTIONS | {"scale_embeddings": True},
    constants={"attention_bias": False, "use_bidirectional_attention": None},
    scale=ONE_LESS,  # modeling_gemma.py, GemmaRMSNorm
)

NEOX_BLOCK = (
    *(
        Row(
            f"attention.query_key_value.{key}",
            tuple(f"attention/{each}/{name}" for each in ("query", "key", "value")),
            QKV_OF_HEADS,
        )
        for key, name in (("weight", "kernel"), ("bias", "bias"))
    ),
    *dense("attention.dense", "attention/out"),
    *norm("input_layernorm", "attention_norm"),
    *dense("mlp.dense_h_to_4h", "feedforward/in"),
    *dense("mlp.dense_4h_to_h", "feedforward/out"),
    *norm("post_attention_layernorm", "feedforward_norm"),
)

GPT_NEOX = Family(
    "gpt_neox",
    ("causal",),
    prefix="gpt_neox.",
    keys=(
        Key("hidden_size", "width"),
        Key("num_hidden_layers", "layers"),
        Key("num_attention_heads", "heads"),
        Key("intermediate_size", "feedforward"),
        Key("hidden_act", "activation", ACTIVATION_NAMES, "gelu"),
        Key("max_position_embeddings", "max_length", default=2048),
        Key("layer_norm_eps", "norm_epsilon", default=1e-5),
        Key("use_parallel_residual", "parallel_residual", default=True),
        Key(
            "rotary_emb_base",
            "rope_theta",
            default=lambda config: _rope(config).get("rope_theta", 10_000.0),
        ),
        Key(
            "rotary_pct",
            "rotary_fraction",
            default=lambda config: _rope(config).get("partial_rotary_factor", 0.25),
        ),
        ROPE_SCALING,
        Key("hidden_dropout", "dropout", default=0.0, place="residual"),
        Key("attention_dropout", "attention_dropout", default=0.0, place="attention"),
        Key("classifier_dropout", "head_dropout", default=0.1, place="head"),
        Key("tie_word_embeddings", "tie_embeddings", default=False),
    ),
    options={"norm_placement": "pre", "position": "rotary"},
    constants={"attention_bias": True},
    body=(
        row("gpt_neox.embed_in.weight", "token/embedding", VOCAB),
        *layers("gpt_neox.layers.{n}.", "stack", NEOX_BLOCK),
        *norm("gpt_neox.final_layer_norm", "stack/norm"),
    ),
    heads={
        "readout": (
            row(
                "embed_out.weight",
                "output/embedding",
                VOCAB,
                instead="lm_head.weight",
            ),
        ),
        "tag": dense("classifier", "head_tag/out"),
    },
    architectures=(
        ("GPTNeoXForTokenClassification", ("tag",)),
        ("GPTNeoXForCausalLM", ("readout",)),
    ),
    copies={"embed_out.weight": "gpt_neox.embed_in.weight"},
)
