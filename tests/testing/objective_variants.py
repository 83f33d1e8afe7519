"""Variants of the fields of objectives that the contract and the laws are tested on."""

from typing import Any

from research.objectives.diffusion import schedules
from research.objectives.images import readers
from research.objectives.tasks.heads import HEADS, SPANS, WORDS

TABLES = {"model": {"network": "tables", "tie_embeddings": False}}

POLARITY = {"positive": "entity", "negative": "phrase"}
TOWERS = {"width": 64, "model": {"network": "two_towers"}}
IMAGES = {"images": "random", "patch": 4}
ENTITIES = {"entities": "random"}
KAR = {"model": {"network": "kar", "norm_placement": "post"}}
ONE_LAYER = {"model": {"layers": 1}}
NARROW = {"width": 32, "embedding_width": 12, "filter_widths": [36]}
TEACHER = {"teacher_model": {"width": 32, "heads": 2, "token_types": 8}}
ALL_TERMS = dict.fromkeys(("cosine", "hidden", "attention", "relation"), 1.0)

GPT_BERT = {
    **{"position": "disentangled", "layer_mixing": "sublayers"},
    **{"norm_scale": False, "sublayer_norm": True, "attention_gate": True},
    **{"embedding_norm": "always", "activation": "geglu", "feedforward_bias": False},
}
MASKED = {"objective": "mlm", "predict_at": "previous", "unit": "tile"}
MASKED |= {"format": "shifted", "rounding": "random"}
MASKED |= {"draw_unit": "span", "first_rate": 0.3, "rate_steps": 100}

VL_BERT = {
    **IMAGES,
    **{"regions": "boxes", "region_rate": 0.3, "match": "none", "unit": "word"},
    **{"box": "sinusoids", "text_reads": "picture"},
    "model": {"feature_layers": "relu", "norm_placement": "post"},
}
LXMERT = {
    **IMAGES,
    **{"regions": "boxes", "region_rate": 0.3, "match": "joint", "box": "edges"},
    **{"region_mask_fraction": 0.7, "region_random_fraction": 0.2},
    **{"classified": "all", "region_coef": 2.0, "region_classes": "class"},
    **{"region_regression": "smooth_l1", "answers": "label"},
    "model": {
        **{"network": "two_streams", "norm_placement": "post", "image_layers": 2},
        "cross": "shared",
    },
}
NO_TOKENS = LXMERT | {"model": {**LXMERT["model"], "image_embedding": "mean"}}
"""Its regions read no tokens, by whose embeddings the laws see what a state reads."""


def _own_heads(reads: str) -> list[str]:
    """The heads that read nothing else."""
    return [name for name, head in HEADS.items() if head.reads == (reads,)]


VARIANTS: dict[str, list[dict[str, Any]]] = {
    "sentence_vectors": [
        # at .05 rows in another order already change gradients by 6e-6 of the largest
        {"texts": 3, "head": "tanh", "widths": (32, 8), "temperature": 1.0},
        {},
        {"texts": 2, "pool": "mean", "symmetric": True, "format": "roberta"},
    ],
    "mlm": [
        {},
        {"predict_at": "previous", "mask_fraction": 1.0, "random_fraction": 0.0},
        {"unit": "word", "only": "corrupt"},
        {"unit": "ngram", "format": "segment_pair", "sentence_task": "sop"},
        {"unit": "span", "draw_unit": "span", "rounding": "up", "boundary_targets": 4},
        {"unit": "span", "boundary_targets": 4, "packed": True},
        {"rate": 0.3, "rounding": "independent", "only": "corrupt", "packed": True},
        {
            "format": "sentence_pair",
            "sentence_task": "structural",
            "shuffle_rate": 0.2,
            "only": "corrupt",
        },
        {
            "unit": "lexicon",
            "entry_types": "phrase",
            "random_tokens": "all",
            "only": "corrupt",
        },
        {"unit": "word", "rounding": "independent", "only": "corrupt"},
        {"count_exponent": 0.7, "rounding": "up", "only": "corrupt"},
        {k: v for k, v in MASKED.items() if k != "objective"}
        | {"only": "corrupt", "packed": True},
        {
            "format": "full_sentences",
            "rounding": "random",
            "candidates": "all",
            "only": "corrupt",
        },
    ],
    "retromae": [{"unit": "token", "without": ("packing", "pattern")}],
    "tlm": [
        {},
        {"side": "one", "languages": "1:2", "only": "corrupt"},
        {"order": "random", "languages": "0:1 2:3", "only": "corrupt"},
        {"languages": "3", "predict": "next"},
        {"languages": "3", "predict": "next", "only": "corrupt", "packed": True},
    ],
    "sentences": [
        {},
        {"task": "distance", "only": "corrupt"},
        {"task": "reorder"},
    ],
    "tagging": [{}, {"task": "capital", "only": "corrupt"}],
    "lm": [
        {},
        {"prefix": "random", "documents": "apart"},
        {"packed": True},
        {"direction": "both", "prefix": "random", "only": "corrupt", "packed": True},
        {"direction": "backward"},
        {"direction": "both", "documents": "apart"},
        {"mem_len": 8, "model": {"position": "relative"}},
        {"direction": "both", "sampled_words": 40, "model": {"network": "lstm"}},
    ],
    "plm": [
        {},
        {"num_permutations": 1, "max_span": 0},
        {"packed": True},
        {"format": "pair", "direction": "both"},
        {
            "mem_len": 20,
            "model": {"position": "relative", "token_type_encoding": "relative"},
        },
    ],
    "electra": [
        {},
        {"task": "chosen", "format": "segment_pair", "positions": "repeated"},
        {"packed": True},
        {"task": "replace_mlm", "tie": "all", "generator_size": 1.0},
        {
            **{"tie": "gdes", "head": "class", "generator_depth": 0.5},
            "model": {"position": "disentangled", "mask_decoder": 2, "layers": 2},
        },
    ],
    "wklm": [{}, {"masks": "dropped", "head": "softmax", "text_unit": "pieces"}],
    "unilm": [
        {"model": {"token_types": 6}},
        {
            "other_documents": "bidirectional",
            "surplus": "random",
            "last_separators": "forward",
            "only": "corrupt",
        },
    ],
    "dae": [
        {},
        {"rate": 0.5},
        {"noise_mask": "iid", "mode": "X"},
        {"packed": True},
        {"noise_mask": "iid", "mode": "X", "only": "corrupt", "packed": True},
        {"noise_mask": "prefix", "replacement": "drop"},
        {"layout": "decoder"},
        {"layout": "prefix", "noise_mask": "prefix", "replacement": "drop"},
        {"layout": "prefix", "mode": "X", "only": "corrupt"},
        {
            "noise_mask": "iid",
            "replacement": "bert",
            "target": "whole",
            "only": "corrupt",
        },
        {
            "noise_mask": "all",
            "replacement": "shuffle",
            "target": "whole",
            "only": "corrupt",
        },
    ],
    "bart": [
        {},
        {
            "delete_rate": 0.2,
            "insert_rate": 0.1,
            "rotate_rate": 0.5,
            "random_fraction": 0.1,
        },
        {"mask_rate": 0.3, "infill_rate": 0.0, "unit": "token", "only": "corrupt"},
        {"insert_rate": 0.3, "only": "corrupt", "packed": True},
    ],
    "mass": [
        {},
        {"span_start": "edges", "decoder_start": "previous", "rate": 0.3},
        {"candidates": "all", "random_tokens": "all", "cross_attention": "unmasked"},
        {"text_unit": "sentence", "shortest": 3, "only": "corrupt"},
        {"cross_attention": "unmasked", "packed": True},
    ],
    "mix": [
        {},
        {
            "base_objective": "dae",
            "parts": {"a": {"rate": 0.5}, "b": {"mixing_rate": 2.0}},
        },
    ],
    "masked_diffusion": [
        {},
        {"block_size": 4},
        {"block_size": 1, "min_t": 1.0, "only": "corrupt"},
        {"block_size": 4, "count": "exact", "only": "corrupt", "packed": True},
        {"count": "exact", "short_rate": 0.3, "only": "corrupt"},
        {"min_t": 0.45, "max_t": 0.95, "count": "inside", "only": "corrupt"},
        *({"schedule": name, "only": "corrupt"} for name in schedules.FOLDER.names()),
        {
            **{"schedule": "bimodal", "derivative_power": 0.1, "only": "corrupt"},
            **{"high_mean": 0.6, "frequency_power": 0.02},
        },
    ],
    "multi_token": [
        {"num_future": 2},
        {"num_future": 2, "heads": "sequential", "documents": "apart"},
        {"heads": "none", "future_coef": 0.5, "decay": 0.5},
    ],
    "fim": [
        {},
        {"only": "corrupt", "packed": True},
        {"spm_rate": 0.5, "cut": "character", "text_unit": "document"},
    ],
    "hybrid": [
        {"model": GPT_BERT},
        {
            "parts": {
                "causal": {"objective": "lm", "documents": "apart", "z_loss": 0.1},
                "masked": {**MASKED, "z_loss": 0.1, "share": 15.0},
            },
            "only": "corrupt",
        },
    ],
    "joint": [{"parts": {"mlm": {"unit": "word"}, "next": {"objective": "lm"}}}],
    "sequence_classification": [
        {},
        {"format": "gpt", "lm_coef": 0.5},
        {"format": "bart"},
        {"format": "roberta", "only": "corrupt"},
        {"format": "xlnet", "head": "linear", "only": "corrupt"},
        {"format": "bart", "pool": "mean"},
        {"task": "multi"},
        {"task": "regression"},
        {
            **{"pool": "max", "head": "linear", "vectors": "random"},
            **{"vectors_width": 12, "model": {"network": "word_cnn", **NARROW}},
        },
        {"format": "gpt", "pool": "concat", "head": "relu", "only": "corrupt"},
    ],
    "sequence_to_sequence": [
        {"target_length": 12},
        {"target_length": 12, "layout": "prefix", "only": "corrupt"},
        {"target_length": 12, "layout": "decoder", "only": "corrupt"},
        {"target_length": 12, "format": "bart", "only": "corrupt"},
        {"target_length": 12, "format": "xlm", "languages": "1:0", "only": "corrupt"},
        {
            **{"target_length": 12, "vectors": "random", "vectors_width": 8},
            "model": {"network": "lstm", "layers": 1, "joined_layers": 1, "width": 16},
        },
    ],
    "token_classification": [
        {},
        *({"head": name} for name in _own_heads(WORDS)),
        {"format": "bart"},
        {"format": "gpt", "only": "corrupt"},
        {"format": "xlnet", "only": "corrupt"},
        {"vectors": "random", "vectors_width": 8},
    ],
    "question_answering": [
        {},
        {"format": "xlnet", "only": "corrupt"},
        {"format": "roberta", "stride": 4, "only": "corrupt"},
        *({"head": name, "only": "corrupt"} for name in _own_heads(SPANS)),
    ],
    "skipgram": [
        {"subsample": 0.0, "window": 3, "negatives_of": "centre", **TABLES},
        {"subsample": 0.0, "window": 2, "negatives": 2, **TABLES},
        {"subsample": 0.0, "window": 2, "output": "hierarchical", **TABLES},
        {
            **{"subsample": 0.0, "window": 2, "equal_negatives": "redraw"},
            **{"negatives_of": "centre", "model": TABLES["model"] | {"buckets": 30}},
        },
    ],
    "cbow": [
        {"subsample": 0.0, "window": 3, **TABLES},
        {
            **{"subsample": 0.0, "window": 2, "output": "hierarchical"},
            "model": {"tie_embeddings": False},
        },
    ],
    "kbert": [
        ONE_LAYER,
        {"base_objective": "sequence_classification", "positions": "flat", **ONE_LAYER},
        {"base_objective": "token_classification", "branch_text": "tail", **ONE_LAYER},
        {"base_objective": "wklm", "visible": "all", "only": "corrupt"},
        {"base_objective": "question_answering", "branches": 0, "only": "corrupt"},
    ],
    "sentilare": [
        POLARITY,
        {"base_objective": "sequence_classification", **POLARITY},
        {"base_objective": "question_answering", **POLARITY, "only": "corrupt"},
    ],
    "kepler": [{"description": 4, "model": {"init": "zero_residual"}}],
    "image_text": [
        {
            **IMAGES,
            **{"regions": "features", "region_rate": 0.3, "match": "joint"},
            **{"region_regression": "smooth_l1", "only": "corrupt"},
        },
        {**IMAGES, "alignment": 0.1, "unit": "word"},
        {
            **IMAGES,
            **{"regions": "boxes", "box": "corners", "region_rate": 0.3},
            "match": "joint",
        },
        {
            **IMAGES,
            **{"regions": "boxes", "region_rate": 0.3, "match": "joint"},
            **{"match_label": "replaced", "mismatched": "dropped", "only": "corrupt"},
        },
        {
            **IMAGES,
            **{"regions": "boxes", "region_rate": 0.3, "match": "joint"},
            **{"pool": "product", "match_label": "replaced"},
            "model": {"network": "two_streams", "norm_placement": "post"},
        },
        VL_BERT,
        LXMERT,
        {
            **IMAGES,
            **{"region_rate": 0.3, "region_classes": "none", "match": "none"},
            **{"region_regression": "l2", "only": "corrupt"},
        },
    ],
    "picture_classification": [
        {**IMAGES},
        *(
            {"images": "random", "regions": name, "box": "corners", "only": "corrupt"}
            | readers.FOLDER.part_class(name, "regions").example
            for name in readers.FOLDER.names()
        ),
    ],
    "picture_retrieval": [
        {**IMAGES},
        {**IMAGES, "pool": "product", "caption": "mean", "choices": 2},
    ],
    "clip": [
        {**IMAGES, **TOWERS, "temperature": 1.0, "without": ("packing",)},
        {**IMAGES, **TOWERS, "pool": "mean"},
    ],
    "ernie_thu": [
        {**ENTITIES, "model": {"network": "fusion", "norm_placement": "post"}},
        {"base_objective": "sequence_classification", **ENTITIES},
        {"base": {"format": "segment_pair", "sentence_task": "nsp"}, **ENTITIES},
        {"candidates": "batch", **ENTITIES},
    ],
    "knowbert": [
        {**ENTITIES, **KAR, "without": ("packing",)},
        {"base_objective": "sequence_classification", **ENTITIES, **KAR},
        {"link_loss": "softmax", **ENTITIES, **KAR},
    ],
    "transe": [
        {"normalize": "none", **TABLES},
        {"loss_type": "sigmoid", "norm": 2, "replaced": "uniform", "only": "corrupt"},
    ],
    "glove": [{"x_max": 4.0, **TABLES}],
    "distill": [
        {**ALL_TERMS, "relation_heads": 4, **TEACHER},
        {"base_objective": "dae", "soft_at": "text", **TEACHER},
        {"only": "corrupt", "packed": True},
    ],
    "theseus": [
        {
            "teacher_model": TEACHER["teacher_model"] | {"feedforward": 64},
            "without": ("pattern",),
        }
    ],
    "cvt": [
        {"labelled_fraction": 0.5, "model": {"network": "lstm", "joined_layers": 1}}
    ],
    "xnlg": [{}, {"languages": "1"}, {"languages": "0:1 2", "only": "corrupt"}],
    "multiple_choice": [{}, {"format": "gpt"}, {"format": "xlnet", "only": "corrupt"}],
}
"""Objective -> variants of its fields; other objectives are tested with defaults.

The key `model` holds options that the network needs with these fields; with `packed`
the rows are packed. A variant whose
key `only` is "corrupt" is tested on the host alone, since its network is that of
another variant, or (question_answering head=joint) the positions of a softmax differ
between rows, so that the untrained loss is no constant.
"""
