"""Encoders of masked tokens (BERT, RoBERTa, MPNet, ...) beside our parameters.

Keys are those of Hugging Face's modeling files (transformers 5, models/*/modeling_*).
"""

import dataclasses

import numpy as np

from research.contract.errors import UserError
from research.interop.huggingface.family import ACTIVATION_NAMES, Family, Key
from research.interop.huggingface.rows import (
    AFTER_PAD,
    TRANSPOSED,
    VOCAB,
    Change,
    dense,
    layers,
    norm,
    row,
)

KEYS = (
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "layers"),
    Key("num_attention_heads", "heads"),
    Key("intermediate_size", "feedforward"),
    Key("hidden_act", "activation", ACTIVATION_NAMES, "gelu"),
    Key(
        "type_vocab_size",
        "token_types",
        default=2,
        source=lambda options: max(1, options.token_types),
    ),
    Key("max_position_embeddings", "max_length", default=512),
    Key("layer_norm_eps", "norm_epsilon", default=1e-12),
    Key("hidden_dropout_prob", "dropout", default=0.1, place="residual"),
    Key(
        "attention_probs_dropout_prob",
        "attention_dropout",
        default=0.1,
        place="attention",
    ),
)
CLASSIFIER_DROPOUT = Key(
    "classifier_dropout", "head_dropout", default=-1.0, place="head"
)
EMBEDDING_SIZE = Key(
    "embedding_size", "embedding_width", source=lambda options: options.table_width
)
OPTIONS = {"norm_placement": "post", "position": "learned"}
CONSTANTS = {
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}

BLOCK = (
    *dense("attention.self.query", "attention/query"),
    *dense("attention.self.key", "attention/key"),
    *dense("attention.self.value", "attention/value"),
    *dense("attention.output.dense", "attention/out"),
    *norm("attention.output.LayerNorm", "attention_norm"),
    *dense("intermediate.dense", "feedforward/in"),
    *dense("output.dense", "feedforward/out"),
    *norm("output.LayerNorm", "feedforward_norm"),
)
ALBERT_BLOCK = (
    *dense("attention.query", "attention/query"),
    *dense("attention.key", "attention/key"),
    *dense("attention.value", "attention/value"),
    *dense("attention.dense", "attention/out"),
    *norm("attention.LayerNorm", "attention_norm"),
    *dense("ffn", "feedforward/in"),
    *dense("ffn_output", "feedforward/out"),
    *norm("full_layer_layer_norm", "feedforward_norm"),
)


def _embeddings(prefix, positions=None, *, token_types=True):
    positions = {} if positions is None else {"change": positions}
    name = f"{prefix}embeddings"
    types = row(
        f"{name}.token_type_embeddings.weight",
        "embeddings/token_type",
        neutral=lambda sizes: np.zeros((1, sizes.table_width)),
    )
    return (
        row(f"{name}.word_embeddings.weight", "token/embedding", VOCAB),
        row(f"{name}.position_embeddings.weight", "embeddings/position", **positions),
        *([types] if token_types else []),
        *norm(f"{name}.LayerNorm", "embeddings/norm"),
    )


def _bert_body(prefix, positions=None):
    block = layers(f"{prefix}encoder.layer.{{n}}.", "stack", BLOCK)
    return (*_embeddings(prefix, positions), *block)


def _readout(dense_key, norm_key, bias_key):
    return (
        *dense(dense_key, "output/dense"),
        *norm(norm_key, "output/norm"),
        row(bias_key, "output/bias", VOCAB),
    )


def _pooled(pooler, out, head):
    return (*dense(pooler, "pooler"), *dense(out, f"{head}/out"))


TOKEN_HEADS = {
    "tag": dense("classifier", "head_tag/out"),
    "span": dense("qa_outputs", "head_span/out"),
}
"""Heads that read the state of each token; so they are in all of these families."""


def tasks(name):
    """The classes of heads for tasks."""
    return (
        (f"{name}ForSequenceClassification", ("label",)),
        (f"{name}ForTokenClassification", ("tag",)),
        (f"{name}ForQuestionAnswering", ("span",)),
        (f"{name}ForMultipleChoice", ("choice",)),
    )


BERT = Family(
    "bert",
    ("full",),
    prefix="bert.",
    keys=(*KEYS, CLASSIFIER_DROPOUT),
    options=OPTIONS,
    constants=CONSTANTS,
    readout=("transform",),
    body=_bert_body("bert."),
    heads={
        "readout": _readout(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.bias",
        ),
        "nsp": _pooled("bert.pooler.dense", "cls.seq_relationship", "head_nsp"),
        "label": _pooled("bert.pooler.dense", "classifier", "head_label"),
        "choice": _pooled("bert.pooler.dense", "classifier", "head_choice"),
        **TOKEN_HEADS,
    },
    architectures=(
        ("BertForPreTraining", ("readout", "nsp")),
        ("BertForMaskedLM", ("readout",)),
        *tasks("Bert"),
        ("BertModel", ()),
    ),
    copies={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)


def _roberta(model_type, name, tokenizer_types=(), tokenizer=""):
    return Family(
        model_type,
        ("full",),
        prefix="roberta.",
        keys=(*KEYS, CLASSIFIER_DROPOUT),
        options=OPTIONS,
        constants=CONSTANTS,
        readout=("transform",),
        readout_activation="gelu",  # modeling_roberta.py, RobertaLMHead
        body=_bert_body("roberta.", AFTER_PAD),
        heads={
            "readout": _readout("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
            "label": _pooled("classifier.dense", "classifier.out_proj", "head_label"),
            "choice": _pooled("roberta.pooler.dense", "classifier", "head_choice"),
            **TOKEN_HEADS,
        },
        architectures=(
            (f"{name}ForMaskedLM", ("readout",)),
            *tasks(name),
            (f"{name}Model", ()),
        ),
        copies={
            "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        pad_id=1,
        after_pad=True,
        tokenizer=tokenizer,
        tokenizer_types=tokenizer_types,
    )


ROBERTA = _roberta("roberta", "Roberta", ("bytebpe",))
XLM_ROBERTA = _roberta("xlm-roberta", "XLMRoberta", ("unigram", "bpe"))
CAMEMBERT = _roberta("camembert", "Camembert", tokenizer="tokenizer.json")

MAPPING = "albert.encoder.embedding_hidden_mapping_in"
"""Hugging Face's has it whatever the widths, ours where they differ
(modeling_albert.py, AlbertTransformer)."""


def _check_mapping(config, tensors):
    """No options.

    Raises:
      UserError: a mapping between equal widths is not the identity.
    """
    if config["embedding_size"] != config["hidden_size"]:
        return {}
    for end, identity in (("weight", np.eye), ("bias", np.zeros)):
        found = tensors.get(f"{MAPPING}.{end}")
        if found is not None and not np.array_equal(found, identity(len(found))):
            raise UserError(
                f"embedding_size is hidden_size, so {MAPPING}.{end} must be the "
                "identity: a network here has no layer between equal widths"
            )
    return {}


ALBERT_DEFAULTS = {
    "hidden_act": "gelu_tanh",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
"""What a config without the key means, where that is not as in the other families
(configuration_albert.py)."""

ALBERT = Family(
    "albert",
    ("full",),
    prefix="albert.",
    keys=(
        *(
            dataclasses.replace(key, default=ALBERT_DEFAULTS.get(key.key, key.default))
            for key in KEYS
        ),
        EMBEDDING_SIZE,
        Key("classifier_dropout_prob", "head_dropout", default=0.1, place="head"),
    ),
    options=OPTIONS | {"shared_layers": True},
    constants=CONSTANTS | {"num_hidden_groups": 1, "inner_group_num": 1},
    readout=("transform",),
    body=(
        *_embeddings("albert."),
        row(
            f"{MAPPING}.weight",
            "stack/project/kernel",
            TRANSPOSED,
            neutral=lambda sizes: np.eye(sizes.table_width),
        ),
        row(
            f"{MAPPING}.bias",
            "stack/project/bias",
            neutral=lambda sizes: np.zeros(sizes.table_width),
        ),
        *layers(
            "albert.encoder.albert_layer_groups.0.albert_layers.0.",
            "stack",
            ALBERT_BLOCK,
        ),
    ),
    heads={
        "readout": _readout(
            "predictions.dense", "predictions.LayerNorm", "predictions.bias"
        ),
        "sop": _pooled("albert.pooler", "sop_classifier.classifier", "head_sop"),
        "sop_released": _pooled(
            "albert.pooler", "sop_classifier.classifier", "head_sop_released"
        ),
        "label": _pooled("albert.pooler", "classifier", "head_label"),
        "choice": _pooled("albert.pooler", "classifier", "head_choice"),
        **TOKEN_HEADS,
    },
    architectures=(
        ("AlbertForPreTraining", ("readout", "sop")),
        ("AlbertForPreTraining", ("readout", "sop_released")),
        ("AlbertForMaskedLM", ("readout",)),
        *tasks("Albert"),
        ("AlbertModel", ()),
    ),
    decide=_check_mapping,
    copies={
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
)

ELECTRA = Family(
    "electra",
    ("full",),
    note="ForPreTraining is the discriminator, ForMaskedLM the generator",
    prefix="electra.",
    keys=(*KEYS, EMBEDDING_SIZE, CLASSIFIER_DROPOUT),
    options=OPTIONS,
    constants=CONSTANTS,
    readout=("transform",),
    readout_activation="gelu",  # modeling_electra.py, ElectraGeneratorPredictions
    head_activation="gelu",  # ElectraClassificationHead
    body=(
        *_bert_body("electra."),
        *dense("electra.embeddings_project", "stack/project"),
    ),
    heads={
        "readout": _readout(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
        ),
        "replaced": (
            *dense("discriminator_predictions.dense", "head_replaced/dense"),
            *dense("discriminator_predictions.dense_prediction", "head_replaced/out"),
        ),
        "label": (
            *dense("classifier.dense", "head_label/dense"),
            *dense("classifier.out_proj", "head_label/out"),
        ),
        "choice": (
            *dense("sequence_summary.summary", "head_choice/dense"),
            *dense("classifier", "head_choice/out"),
        ),
        **TOKEN_HEADS,
    },
    architectures=(
        ("ElectraForPreTraining", ("replaced",)),
        ("ElectraForMaskedLM", ("readout",)),
        *tasks("Electra"),
        ("ElectraModel", ()),
    ),
    copies={
        "generator_lm_head.weight": "electra.embeddings.word_embeddings.weight",
    },
)

DISTILBERT = Family(
    "distilbert",
    ("full",),
    prefix="distilbert.",
    keys=(
        Key("dim", "width"),
        Key("n_layers", "layers"),
        Key("n_heads", "heads"),
        Key("hidden_dim", "feedforward"),
        Key("activation", "activation", ACTIVATION_NAMES, "gelu"),
        Key("max_position_embeddings", "max_length", default=512),
        Key("dropout", "dropout", default=0.1, place="residual"),
        Key("attention_dropout", "attention_dropout", default=0.1, place="attention"),
        Key("seq_classif_dropout", "head_dropout", default=0.2, place="head"),
    ),
    options=OPTIONS | {"norm_epsilon": 1e-12},
    constants={"tie_word_embeddings": True},
    readout=("transform",),
    head_activation="relu",  # modeling_distilbert.py, ForSequenceClassification
    body=(
        *_embeddings("distilbert.", token_types=False),
        *layers(
            "distilbert.transformer.layer.{n}.",
            "stack",
            (
                *dense("attention.q_lin", "attention/query"),
                *dense("attention.k_lin", "attention/key"),
                *dense("attention.v_lin", "attention/value"),
                *dense("attention.out_lin", "attention/out"),
                *norm("sa_layer_norm", "attention_norm"),
                *dense("ffn.lin1", "feedforward/in"),
                *dense("ffn.lin2", "feedforward/out"),
                *norm("output_layer_norm", "feedforward_norm"),
            ),
        ),
    ),
    heads={
        "readout": _readout(
            "vocab_transform", "vocab_layer_norm", "vocab_projector.bias"
        ),
        "label": (
            *dense("pre_classifier", "head_label/dense"),
            *dense("classifier", "head_label/out"),
        ),
        "choice": (
            *dense("pre_classifier", "head_choice/dense"),
            *dense("classifier", "head_choice/out"),
        ),
        **TOKEN_HEADS,
    },
    architectures=(
        ("DistilBertForMaskedLM", ("readout",)),
        *tasks("DistilBert"),
        ("DistilBertModel", ()),
    ),
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)

MPNET = Family(
    "mpnet",
    ("full",),
    note="exported only with the padding id 1, by which its code counts positions",
    prefix="mpnet.",
    keys=tuple(key for key in KEYS if key.option != "token_types"),
    options=OPTIONS | {"position_bias": "t5"},
    constants={"relative_attention_num_buckets": 32, "tie_word_embeddings": True},
    readout=("transform",),
    readout_activation="gelu",  # modeling_mpnet.py, MPNetLMHead
    body=(
        *_embeddings("mpnet.", AFTER_PAD, token_types=False),
        row("mpnet.encoder.relative_attention_bias.weight", "stack/relative"),
        *layers(
            "mpnet.encoder.layer.{n}.",
            "stack",
            (
                *dense("attention.attn.q", "attention/query"),
                *dense("attention.attn.k", "attention/key"),
                *dense("attention.attn.v", "attention/value"),
                *dense("attention.attn.o", "attention/out"),
                *norm("attention.LayerNorm", "attention_norm"),
                *dense("intermediate.dense", "feedforward/in"),
                *dense("output.dense", "feedforward/out"),
                *norm("output.LayerNorm", "feedforward_norm"),
            ),
        ),
    ),
    heads={
        "readout": _readout("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
        "label": _pooled("classifier.dense", "classifier.out_proj", "head_label"),
        "choice": _pooled("mpnet.pooler.dense", "classifier", "head_choice"),
        **TOKEN_HEADS,
    },
    architectures=(
        ("MPNetForMaskedLM", ("readout",)),
        *tasks("MPNet"),
        ("MPNetModel", ()),
    ),
    copies={
        "lm_head.decoder.weight": "mpnet.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    pad_id=1,
    has_own_pad=True,  # modeling_mpnet.py, MPNetEmbeddings
    after_pad=True,
)


DEBERTA_DEFAULTS = {"layer_norm_eps": 1e-7}
"""As `ALBERT_DEFAULTS` (configuration_deberta_v2.py)."""
DEBERTA_HEADS = "cls.predictions", "lm_predictions.lm_head"
"""What keys of its readout begin with, and in the released files."""
DEBERTA_CONSTANTS = {
    "relative_attention": True,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "conv_kernel_size": 0,
    "pooler_hidden_act": "gelu",
}
"""Of DeBERTa V3, and of V2 but for the convolution that its two sizes have."""


def _check_deberta(config, tensors):
    """No options.

    Raises:
      UserError: it is another DeBERTa, which a config without a key may be.
    """
    defaults = {"relative_attention": False, "share_att_key": False}
    defaults |= {"norm_rel_ebd": "none", "position_biased_input": True}
    for name, value in defaults.items():
        if config.get(name, value) != (expected := DEBERTA_CONSTANTS[name]):
            raise UserError(
                f"config.json: {name} is {config.get(name, value)!r}; only "
                f"{expected!r} is known here"
            )
    if config.get("embedding_size", config["hidden_size"]) != config["hidden_size"]:
        raise UserError("config.json: embedding_size must be hidden_size")
    terms = config.get("pos_att_type") or ()
    terms = terms.split("|") if isinstance(terms, str) else terms
    if {each.strip() for each in terms} != {"c2p", "p2c"}:
        raise UserError(
            f"config.json: pos_att_type is {terms!r}; only c2p and p2c are known here"
        )
    return {}


def _read_largest_distance(config):
    most = config.get("max_relative_positions", -1)
    return most if most >= 1 else config.get("max_position_embeddings", 512)


DISTANCES = Change(
    lambda x, sizes: x[1:], lambda x, sizes: np.concatenate([x[:1], x], axis=0)
)
"""A table of distances has a row before those of the buckets, which only queries read
that are further before a key than the largest distance. Here these read the first
bucket's, of which it is written as a copy."""

DEBERTA_V2 = Family(
    "deberta-v2",
    ("full",),
    note="V3 and V2, without V2's convolution (conv_kernel_size)",
    prefix="deberta.",
    keys=(
        *(
            dataclasses.replace(key, default=DEBERTA_DEFAULTS.get(key.key, key.default))
            for key in KEYS
            if key.option != "token_types"
        ),
        Key("type_vocab_size", "token_types", default=0),
        Key("position_buckets", "distance_buckets"),
        Key("max_relative_positions", "largest_distance", parse=_read_largest_distance),
        Key("cls_dropout", "head_dropout", default=-1.0, place="head"),
    ),
    options={
        "norm_placement": "post",
        "position": "disentangled",
    },
    constants=DEBERTA_CONSTANTS | {"tie_word_embeddings": True},
    extra={"pos_att_type": ["p2c", "c2p"]},
    readout=("transform",),
    head_activation="gelu",  # pooler_hidden_act
    body=(
        row("deberta.embeddings.word_embeddings.weight", "token/embedding", VOCAB),
        row("deberta.embeddings.token_type_embeddings.weight", "embeddings/token_type"),
        *norm("deberta.embeddings.LayerNorm", "embeddings/norm"),
        row("deberta.embeddings.position_embeddings.weight", "stack/mask_position"),
        row("deberta.encoder.rel_embeddings.weight", "stack/distance", DISTANCES),
        *norm("deberta.encoder.LayerNorm", "stack/distance_norm"),
        *layers(
            "deberta.encoder.layer.{n}.",
            "stack",
            (
                *dense("attention.self.query_proj", "attention/query"),
                *dense("attention.self.key_proj", "attention/key"),
                *dense("attention.self.value_proj", "attention/value"),
                *BLOCK[6:],
            ),
        ),
    ),
    heads={
        "readout": tuple(
            r._replace(instead=r.key.replace("transform.", "").replace(*DEBERTA_HEADS))
            for r in _readout(
                "cls.predictions.transform.dense",
                "cls.predictions.transform.LayerNorm",
                "cls.predictions.bias",
            )
        ),
        "label": (
            *dense("pooler.dense", "head_label/dense"),
            *dense("classifier", "head_label/out"),
        ),
        "choice": (
            *dense("pooler.dense", "head_choice/dense"),
            *dense("classifier", "head_choice/out"),
        ),
        **TOKEN_HEADS,
    },
    architectures=(
        ("DebertaV2ForMaskedLM", ("readout",)),
        *tasks("DebertaV2"),
        ("DebertaV2Model", ()),
    ),
    decide=_check_deberta,
    copies={
        "cls.predictions.decoder.weight": "deberta.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)
