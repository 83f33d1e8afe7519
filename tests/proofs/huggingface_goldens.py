"""Makes tests/goldens/huggingface: `make goldens-hf`, in an environment with torch.

Each folder is a tiny model of Hugging Face with random parameters, saved by it, and
golden.safetensors: inputs, the logits and the loss of pretraining that Hugging Face
computes of them, and for some the parameters after one step of SGD. written.json of
some has what `generate` writes after twenty prompts. Nothing here imports this project,
so that only Hugging Face's code decides what is right.
"""

import json
import sys
import zlib
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

VOCAB, BATCH, LENGTH, WIDTH = 99, 4, 12, 16
LEARNING_RATE = 0.1
IGNORED = -100
FIRST_ORDINARY = 6
"""The first id that is no special one in any of the configs below."""

ENCODER = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}
GPT = {
    "vocab_size": VOCAB,
    "n_embd": WIDTH,
    "n_layer": 3,
    "n_head": 2,
    "n_positions": 20,
}
T5 = {
    "vocab_size": 128,
    "d_model": WIDTH,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
BART = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 20,
}
LLAMA = ENCODER | {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
}
XLNET = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "n_layer": 3,
    "n_head": 2,
    "d_inner": 24,
    "bi_data": True,
    "mem_len": 8,
}

SMALL = {"num_hidden_layers": 2}
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 0.5,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SHORT_T5 = T5 | {"num_layers": 2, "num_decoder_layers": 1}

MODERNBERT = {
    **ENCODER,
    **{"local_attention": 4, "global_attn_every_n_layers": 2},
    **{"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    **{"cls_token_id": 2, "sep_token_id": 3},
}
DEBERTA = ENCODER | {
    **{"relative_attention": True, "share_att_key": True, "position_buckets": 4},
    **{"pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"},
    **{"position_biased_input": False, "type_vocab_size": 0},
    "max_relative_positions": 20,
}
CASES = {  # name -> class, its config's keys, the inputs, whether SGD takes a step
    "bert": ("BertForPreTraining", ENCODER, "pairs", True),
    "bert-label": ("BertForSequenceClassification", ENCODER, "labels", False),
    "roberta": (
        "RobertaForMaskedLM",
        ENCODER | {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
        "masked",
        False,
    ),
    "roberta-label": (
        "RobertaForSequenceClassification",
        ENCODER | {"type_vocab_size": 1},
        "labels",
        False,
    ),
    "xlm-roberta": (
        "XLMRobertaForMaskedLM",
        ENCODER | {"type_vocab_size": 1},
        "masked",
        False,
    ),
    "albert": ("AlbertForPreTraining", ENCODER | {"embedding_size": 8}, "order", False),
    "electra-generator": (
        "ElectraForMaskedLM",
        ENCODER | {"embedding_size": 8},
        "masked",
        False,
    ),
    "electra-discriminator": (
        "ElectraForPreTraining",
        ENCODER | {"embedding_size": WIDTH},
        "replaced",
        False,
    ),
    "xlnet": ("XLNetLMHeadModel", XLNET, "permuted", True),
    "openai-gpt": ("OpenAIGPTLMHeadModel", GPT, "causal", False),
    "gpt2": ("GPT2LMHeadModel", GPT, "causal", True),
    "llama": ("LlamaForCausalLM", LLAMA, "causal", False),
    "llama-label": (
        "LlamaForSequenceClassification",
        LLAMA | {"pad_token_id": 0},
        "labels",
        False,
    ),
    "t5": ("T5ForConditionalGeneration", T5, "seq2seq", True),
    "t5-v1_1": (
        "T5ForConditionalGeneration",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        "seq2seq",
        False,
    ),
    "bart": ("BartForConditionalGeneration", BART, "seq2seq", False),
    "bart-label": (
        "BartForSequenceClassification",
        BART | {"num_labels": 2},
        "labels",
        False,
    ),
    "xlnet-label": ("XLNetForSequenceClassification", XLNET, "labels", False),
    "bert-tags": (
        "BertForTokenClassification",
        ENCODER | {"num_labels": 5},
        "tags",
        False,
    ),
    "gpt2-tags": ("GPT2ForTokenClassification", GPT | {"num_labels": 5}, "tags", False),
    "bert-span": ("BertForQuestionAnswering", ENCODER, "span", False),
    "electra-label": (
        "ElectraForSequenceClassification",
        ENCODER | {"embedding_size": 8},
        "labels",
        False,
    ),
    "electra-choice": (
        "ElectraForMultipleChoice",
        ENCODER | {"embedding_size": 8},
        "choice",
        False,
    ),
    "distilbert": (
        "DistilBertForMaskedLM",
        {
            **{"vocab_size": VOCAB, "dim": WIDTH, "n_layers": 2, "n_heads": 2},
            **{"hidden_dim": 24, "max_position_embeddings": 20},
        },
        "masked",
        False,
    ),
    "distilbert-label": (
        "DistilBertForSequenceClassification",
        {
            **{"vocab_size": VOCAB, "dim": WIDTH, "n_layers": 2, "n_heads": 2},
            **{"hidden_dim": 24, "max_position_embeddings": 20},
        },
        "labels",
        False,
    ),
    "deberta-v2": ("DebertaV2ForMaskedLM", DEBERTA, "masked", False),
    "deberta-v2-label": (
        "DebertaV2ForSequenceClassification",
        DEBERTA | SMALL,
        "labels",
        False,
    ),
    "mpnet": ("MPNetForMaskedLM", ENCODER | SMALL, "masked", False),
    "modernbert": (
        "ModernBertForMaskedLM",
        MODERNBERT,
        "masked",
        False,
    ),
    "modernbert-label": (
        "ModernBertForSequenceClassification",
        MODERNBERT | {"classifier_pooling": "mean"},
        "labels",
        False,
    ),
    "modernbert-tags": (
        "ModernBertForTokenClassification",
        MODERNBERT | {"num_labels": 5},
        "tags",
        False,
    ),
    "modernbert-span": ("ModernBertForQuestionAnswering", MODERNBERT, "span", False),
    "gpt-neox": (
        "GPTNeoXForCausalLM",
        ENCODER | SMALL | {"rotary_pct": 0.5},
        "causal",
        False,
    ),
    "llama3": (
        "LlamaForCausalLM",
        LLAMA | SMALL | {"max_position_embeddings": 128, "rope_parameters": SCALED},
        "causal",
        False,
    ),
    "mistral": (
        "MistralForCausalLM",
        LLAMA | SMALL | {"sliding_window": 4},
        "causal",
        False,
    ),
    "qwen2": ("Qwen2ForCausalLM", LLAMA | SMALL, "causal", False),
    "qwen3": ("Qwen3ForCausalLM", LLAMA | SMALL, "causal", False),
    "gemma": ("GemmaForCausalLM", LLAMA | SMALL, "causal", False),
    "mt5": ("MT5ForConditionalGeneration", SHORT_T5, "seq2seq", False),
    "t5-encoder": ("T5EncoderModel", SHORT_T5, "states", False),
    "marian": (
        "MarianMTModel",
        {
            **(BART | {"encoder_layers": 2, "decoder_layers": 1}),
            **{"activation_function": "swish", "scale_embedding": True},
            **{"pad_token_id": 1, "decoder_start_token_id": 1},
        },
        "seq2seq",
        False,
    ),
    "roberta-choice": (
        "RobertaForMultipleChoice",
        ENCODER | {"type_vocab_size": 1},
        "choice",
        False,
    ),
}


def make(name: str) -> torch.nn.Module:
    """The model of a case with random parameters: norms near 1, all others near 0."""
    class_name, keys, _, _ = CASES[name]
    cls = getattr(transformers, class_name)
    model = cls(cls.config_class(**keys)).eval()
    if name == "t5-v1_1":  # the published files have two tables
        model.config.tie_word_embeddings = False
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    trained = [each for each in model.named_parameters() if each[1].requires_grad]
    for key, parameter in trained:  # Marian's positions are none
        is_scale = parameter.ndim == 1 and key.endswith("weight")
        with torch.no_grad():
            parameter.normal_(1.0 if is_scale else 0.0, 0.2)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.normal_(0.0, 0.2)
    return model


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(FIRST_ORDINARY, VOCAB, shape)


def text(pad_id: int) -> dict[str, torch.Tensor]:
    """Rows of which the last is shorter."""
    token, mask = tokens(BATCH, LENGTH), torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[-1, -3:] = 0
    token[mask == 0] = pad_id
    return {"input_ids": token, "attention_mask": mask}


def masked_labels(inputs: dict) -> torch.Tensor:
    chosen = (torch.rand(BATCH, LENGTH) < 0.4) & (inputs["attention_mask"] > 0)
    return torch.where(chosen, tokens(BATCH, LENGTH), IGNORED)


def permuted(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """XLNet's two streams: a permutation of three targets, mems, backward rows.

    `rank` orders the targets; all other tokens precede them and see each other.
    """
    num_targets, config = 3, model.config
    rank = torch.full((BATCH, LENGTH), -1)
    target = torch.stack([torch.randperm(LENGTH)[:num_targets] for _ in range(BATCH)])
    rank.scatter_(1, target, torch.arange(num_targets).expand(BATCH, -1))
    hidden = rank[:, None, :] > rank[:, :, None]
    hidden |= torch.eye(LENGTH, dtype=torch.bool) & (rank >= 0)[:, :, None]
    mapping = torch.nn.functional.one_hot(target, LENGTH).float()
    mems = torch.randn(config.n_layer, config.mem_len, BATCH, config.d_model) * 0.5
    return {
        "input_ids": tokens(BATCH, LENGTH),
        "token_type_ids": torch.arange(LENGTH)
        .div(5, rounding_mode="floor")
        .expand(BATCH, -1)
        .contiguous(),
        "perm_mask": hidden.float(),
        "target_mapping": mapping,
        "mems": mems,
        "labels": tokens(BATCH, num_targets),
        "rank": rank,
        "target_index": target,
    }


def inputs_of(kind: str, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The arguments of the model, and what the test needs beside them."""
    if kind == "permuted":
        return permuted(model)
    pad_id = model.config.pad_token_id
    inputs = text(0 if pad_id is None else pad_id)
    mask = inputs["attention_mask"]
    if kind in ("pairs", "order"):
        inputs["token_type_ids"] = (torch.arange(LENGTH) > 6).long().expand(BATCH, -1)
        inputs["token_type_ids"] = inputs["token_type_ids"].contiguous()
    if kind in ("pairs", "order", "masked"):
        inputs["labels"] = masked_labels(inputs)
    if kind in ("pairs", "order"):
        name = "next_sentence_label" if kind == "pairs" else "sentence_order_label"
        inputs[name] = torch.randint(0, 2, (BATCH,))
    if kind == "replaced":
        inputs["labels"] = torch.randint(0, 2, (BATCH, LENGTH)).float()
    if kind == "labels":
        inputs["labels"] = torch.randint(0, 2, (BATCH,))
        if model.config.is_encoder_decoder:  # it is classified at its one last eos
            last = mask.sum(dim=1) - 1
            inputs["input_ids"][torch.arange(BATCH), last] = model.config.eos_token_id
        if (
            getattr(model.config, "summary_type", "") == "last"
        ):  # it is classified at the last position
            inputs["input_ids"] = tokens(BATCH, LENGTH)
            inputs["attention_mask"] = torch.ones_like(mask)
    if kind == "tags":
        tag = torch.randint(0, model.config.num_labels, (BATCH, LENGTH))
        inputs["labels"] = torch.where(mask > 0, tag, IGNORED)
    if kind == "span":  # without padding, whose states differ
        inputs = {"input_ids": tokens(BATCH, LENGTH), "attention_mask": mask | 1}
        for name in ("start_positions", "end_positions"):
            inputs[name] = torch.randint(0, LENGTH - 3, (BATCH,))
    if kind == "choice":  # two texts of one example
        inputs = {name: x.reshape(2, 2, LENGTH) for name, x in inputs.items()}
        inputs["labels"] = torch.randint(0, 2, (2,))
    if kind == "causal":
        inputs["labels"] = torch.where(mask > 0, inputs["input_ids"], IGNORED)
    if kind == "seq2seq":
        target = tokens(BATCH, LENGTH - 2)
        target[0, -2:] = IGNORED
        inputs["labels"] = target
    return inputs


def run(model: torch.nn.Module, inputs: dict) -> dict[str, torch.Tensor]:
    """Logits and the loss."""
    known = {k: v for k, v in inputs.items() if k not in ("rank", "target_index")}
    if "mems" in known:
        known["mems"] = [*known["mems"]]
    outputs = model(**known)
    names = ("prediction_logits", "seq_relationship_logits", "sop_logits", "logits")
    names += ("start_logits", "end_logits")
    found = {name: outputs[name] for name in names if name in outputs}
    if "last_hidden_state" in outputs:  # of a body alone: the mean square of its states
        states = outputs["last_hidden_state"]
        weight = inputs["attention_mask"][..., None].float()
        loss = (states**2 * weight).sum() / weight.sum()
        return {"loss": loss, "states": states}
    return {"loss": outputs["loss"], **found}


WRITERS = ("bart", "gpt2", "llama", "t5", "marian")
WRITERS += ("gemma", "gpt-neox", "mistral", "qwen3")
BEGIN, NUM_PROMPTS, PROMPT_LENGTH, NEW_TOKENS = 2, 20, 5, 10
NEVER_WRITTEN = [0, 2, 3, 4]
"""Ids of special tokens, which this project never writes; so are those past the 99
pieces of the vocabulary."""
SEARCHES = {
    "greedy": {},
    "repetition": {"repetition_penalty": 1.5},
    "ngrams": {"no_repeat_ngram_size": 2, "min_new_tokens": 4},
    "forced": {"forced_bos_token_id": 7, "forced_eos_token_id": 8},
    "beam": {"num_beams": 4},
    "beam, first": {"num_beams": 3, "early_stopping": True, "length_penalty": 2.0},
    "beam, never": {"num_beams": 3, "early_stopping": "never", "length_penalty": 0.5},
    "beam, summary": {
        **{"num_beams": 4, "length_penalty": 2.0, "early_stopping": True},
        **{"no_repeat_ngram_size": 3, "min_new_tokens": 3, "forced_bos_token_id": 7},
    },
}
"""Arguments of `generate`; the rest are Hugging Face's defaults."""


def texts(model: torch.nn.Module) -> dict:
    """The prompts, and by search the new tokens and the score of each text.

    The token that ends a text is the one that is written most without it.
    """
    body = tokens(NUM_PROMPTS, PROMPT_LENGTH)
    free = _search(model, body, {"num_beams": 4}, 5)
    written = [token for row in free["texts"] for token in row[3:]]
    end = max(sorted({*written} - {5, 7, 8}), key=written.count)
    found = {"prompts": body.tolist(), "end": end, "searches": {}}
    for name, keys in SEARCHES.items():
        if not model.config.is_encoder_decoder:
            keys = {k: v for k, v in keys.items() if k != "forced_bos_token_id"}
        found["searches"][name] = {"keys": keys, **_search(model, body, keys, end)}
    return found


def _search(model: torch.nn.Module, body: torch.Tensor, keys: dict, end: int) -> dict:
    """The texts of a search, and their scores by beam search."""
    edge = [torch.full((NUM_PROMPTS, 1), each) for each in (BEGIN, end)]
    config, is_decoder = model.config, not model.config.is_encoder_decoder
    starts_with_eos = (
        not is_decoder and config.decoder_start_token_id == config.eos_token_id
    )
    if is_decoder:
        prompt = torch.cat([edge[0], body], dim=1)
    elif not starts_with_eos:
        prompt = torch.cat([body, edge[1]], dim=1)
    else:
        prompt = torch.cat([edge[0], body, edge[1]], dim=1)
    ids = {"pad_token_id": 0, "bos_token_id": BEGIN, "eos_token_id": end}
    if not is_decoder:
        ids["decoder_start_token_id"] = end if starts_with_eos else 0
    if starts_with_eos:  # as BART is published: eos, then bos
        keys = keys | {"forced_bos_token_id": BEGIN}
    model.generation_config = transformers.GenerationConfig(
        max_new_tokens=NEW_TOKENS,
        bad_words_ids=[
            [each] for each in (*NEVER_WRITTEN, *range(VOCAB, model.config.vocab_size))
        ],
        return_dict_in_generate=True,
        output_scores=True,
        **ids,
        **keys,
    )
    written = model.generate(prompt, attention_mask=torch.ones_like(prompt))
    begin = prompt.shape[1] if is_decoder else 1 + starts_with_eos
    new = written.sequences[:, begin:].tolist()
    ends = [[at for at, token in enumerate(row) if token in (end, 0)] for row in new]
    found = {
        "texts": [
            row[: at[0]] if at else row for row, at in zip(new, ends, strict=True)
        ]
    }
    if "num_beams" in keys:
        scores = written.sequences_scores.tolist()
        found["scores"] = [round(each, 5) for each in scores]
    return found


def save_texts(folder: Path, name: str) -> None:
    cls = getattr(transformers, CASES[name][0])
    torch.manual_seed(zlib.crc32(name.encode()))
    found = texts(cls.from_pretrained(folder / name).eval())
    (folder / name / "written.json").write_text(json.dumps(found) + "\n")


def main(folder: Path, names: list[str]) -> None:
    """Makes the cases with these names; []: all."""
    for name, (_, _, kind, takes_step) in CASES.items():
        if names and name not in names:
            continue
        torch.manual_seed(zlib.crc32(name.encode()))
        model = make(name)
        inputs = inputs_of(kind, model)
        model.save_pretrained(folder / name)
        (folder / name / "generation_config.json").unlink(missing_ok=True)
        outputs = run(model, inputs)
        golden = {f"input/{k}": v for k, v in inputs.items()}
        golden |= {f"output/{k}": v.detach() for k, v in outputs.items()}
        if takes_step:
            outputs["loss"].backward()
            torch.optim.SGD(model.parameters(), lr=LEARNING_RATE).step()
            after = dict(model.named_parameters())
            golden |= {f"after/{k}": v.detach() for k, v in after.items()}
        golden = {k: v.clone().contiguous() for k, v in golden.items()}
        save_file(golden, folder / name / "golden.safetensors")
        if name in WRITERS:
            save_texts(folder, name)
        print(name, f"{outputs['loss'].item():.6f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
