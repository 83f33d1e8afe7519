"""Times a train step of Hugging Face's model for an objective, to compare with ours.

    palimpsest benchmark_huggingface --objective=mlm [--compile] [--autocast]

It is the counterpart of `palimpsest benchmark`, with the sizes of
research/config/base.py: forward, loss, backward and AdamW on one batch, without
dropout, clipping or a loader. Prints one JSON object. It needs torch and transformers
in an environment of their own, and imports nothing of this repository that needs JAX.
Run both with the same GLIBC_TUNABLES, on a machine without other load.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
import transformers as hf

from launch.measure import processor
from research.program.host_memory import keep_freed_memory

# B batch, L length

BATCH, LENGTH, VOCABULARY = 32, 128, 8192
LAYERS, WIDTH, HEADS, FEEDFORWARD = 4, 256, 4, 1024
NUM_MASKED, NUM_PERMUTED, NUM_TARGETS = 19, 21, 29
"""Scored tokens per row of masked LM, permuted LM and T5's decoder."""
MASK_ID, IGNORED_LABEL = 3, -100
MIN_ORDINARY_ID = 200

Loss = Callable[[], torch.Tensor]


def random_tokens(*shape: int) -> torch.Tensor:
    return torch.randint(MIN_ORDINARY_ID, VOCABULARY, shape)


def masked_tokens() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [B, L] with the mask token at random positions, and labels [B, L]."""
    token = random_tokens(BATCH, LENGTH)
    position = torch.rand(BATCH, LENGTH).argsort(1)[:, :NUM_MASKED]
    label = torch.full_like(token, IGNORED_LABEL)
    label = label.scatter(1, position, token.gather(1, position))
    return token.scatter(1, position, MASK_ID), label


def bert_config(config_class: type, **shape) -> hf.PretrainedConfig:
    return config_class(
        vocab_size=VOCABULARY,
        num_hidden_layers=LAYERS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **shape,
    )


def lm() -> tuple[torch.nn.Module, Loss]:
    config = hf.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=FEEDFORWARD,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
    )
    model, token = hf.GPT2LMHeadModel(config), random_tokens(BATCH, LENGTH)
    return model, lambda: model(input_ids=token, labels=token).loss


def mlm() -> tuple[torch.nn.Module, Loss]:
    config = bert_config(
        hf.BertConfig,
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        intermediate_size=FEEDFORWARD,
    )
    model, (token, label) = hf.BertForMaskedLM(config), masked_tokens()
    return model, lambda: model(input_ids=token, labels=label).loss


def plm() -> tuple[torch.nn.Module, Loss]:
    config = hf.XLNetConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        d_inner=FEEDFORWARD,
        dropout=0.0,
        use_mems_train=False,
    )
    model, token = hf.XLNetLMHeadModel(config), random_tokens(BATCH, LENGTH)
    rank = torch.rand(BATCH, LENGTH).argsort(1)
    position = rank.argsort(1)[:, -NUM_PERMUTED:]
    inputs = {
        "input_ids": token,
        "perm_mask": (rank[:, None, :] >= rank[:, :, None]).float(),
        "target_mapping": torch.nn.functional.one_hot(position, LENGTH).float(),
        "labels": token.gather(1, position),
    }
    return model, lambda: model(**inputs).loss


def dae() -> tuple[torch.nn.Module, Loss]:
    config = hf.T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=FEEDFORWARD,
        num_layers=LAYERS,
        num_heads=HEADS,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        use_cache=False,
    )
    model = hf.T5ForConditionalGeneration(config)
    token, target = random_tokens(BATCH, LENGTH), random_tokens(BATCH, NUM_TARGETS)
    return model, lambda: model(input_ids=token, labels=target).loss


def electra() -> tuple[torch.nn.Module, Loss]:
    small = bert_config(
        hf.ElectraConfig,
        hidden_size=WIDTH // 4,
        num_attention_heads=1,
        intermediate_size=FEEDFORWARD // 4,
        embedding_size=WIDTH,
    )
    large = bert_config(
        hf.ElectraConfig,
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        intermediate_size=FEEDFORWARD,
        embedding_size=WIDTH,
    )
    model = torch.nn.ModuleList(
        [hf.ElectraForMaskedLM(small), hf.ElectraForPreTraining(large)]
    )
    generator, discriminator = model
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.generator_lm_head.weight = (
        discriminator.electra.embeddings.word_embeddings.weight
    )
    token, label = masked_tokens()
    masked = label >= 0
    original = torch.where(masked, label, token)

    def loss() -> torch.Tensor:
        generated = generator(input_ids=token, labels=label)
        logits = generated.logits[masked].detach()
        sample = torch.distributions.Categorical(logits=logits).sample()
        replaced = original.masked_scatter(masked, sample)
        is_replaced = (replaced != original).long()
        detected = discriminator(input_ids=replaced, labels=is_replaced)
        return generated.loss + 50 * detected.loss

    return model, loss


MODELS = {"lm": lm, "mlm": mlm, "plm": plm, "dae": dae, "electra": electra}


def seconds_of_product() -> float:
    """The fastest of ten plain matrix products, as `palimpsest benchmark` times."""
    matrix, seconds = torch.ones((processor.PRODUCT_SIZE,) * 2), []
    for _ in range(10):
        began = time.monotonic()
        matrix @ matrix
        seconds.append(time.monotonic() - began)
    return min(seconds)


def measure(
    objective: str, turns: int, steps: int, compiled: bool, autocast: bool
) -> dict:
    """Times `turns` x `steps` steps. The fastest turn counts."""
    torch.manual_seed(0)
    model, loss = MODELS[objective]()
    model.train()
    if compiled:
        for module in model if isinstance(model, torch.nn.ModuleList) else [model]:
            module.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            value = loss()
        value.backward()
        optimizer.step()

    step()
    seconds = []
    for _ in range(turns):
        began = time.monotonic()
        for _ in range(steps):
            step()
        seconds.append((time.monotonic() - began) / steps)
    return {
        "objective": objective,
        "torch": torch.__version__,
        "transformers": hf.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "step_seconds": min(seconds),
        "tokens_per_second": BATCH * LENGTH / min(seconds),
        "seconds": seconds,
        "compiled": compiled,
        "autocast": autocast,
        "processor": processor.processor_name(),
        "product_flops_per_second": processor.PRODUCT_FLOPS / seconds_of_product(),
    }


if __name__ == "__main__":
    keep_freed_memory()  # as for our own step
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objective", choices=MODELS, required=True)
    parser.add_argument("--turns", type=int, default=8, help="the fastest one counts")
    parser.add_argument("--steps", type=int, default=5, help="steps in a turn")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument(
        "--autocast",
        action="store_true",
        help="bfloat16 products by torch.autocast",
    )
    flags = parser.parse_args()
    figures = measure(
        flags.objective, flags.turns, flags.steps, flags.compile, flags.autocast
    )
    print(json.dumps(figures, indent=2))
