"""Hugging Face's model for the same step: `python -m launch.benchmark_huggingface --objective=mlm`.

The yardstick of `launch.benchmark`, at the shape of experiments/base.py: forward,
loss, backward and AdamW on one batch, without dropout, clipping or a loader. It prints
one JSON object, and needs torch and transformers (in an environment of their own) and
nothing of ours. Give both the same GLIBC_TUNABLES; look at the machine's load first.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
import transformers as hf

# B batch, L length, K scored places, V vocabulary

BATCH, LENGTH, VOCABULARY = 32, 128, 8192
LAYERS, WIDTH, HEADS, FEEDFORWARD = 4, 256, 4, 1024
MASKED, PERMUTED, TARGETS = 19, 21, 29
"""Scored tokens of a row: masked LM, permuted LM, T5's decoder."""

Loss = Callable[[], torch.Tensor]


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(200, VOCABULARY, shape)


def hidden() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [B, L] with the mask token 3 at random places, and labels [B, L]."""
    token = tokens(BATCH, LENGTH)
    place = torch.rand(BATCH, LENGTH).argsort(1)[:, :MASKED]
    label = torch.full_like(token, -100).scatter(1, place, token.gather(1, place))
    return token.scatter(1, place, 3), label


def bert_like(kind: type, **shape) -> hf.PretrainedConfig:
    return kind(
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
    model, token = hf.GPT2LMHeadModel(config), tokens(BATCH, LENGTH)
    return model, lambda: model(input_ids=token, labels=token).loss


def mlm() -> tuple[torch.nn.Module, Loss]:
    config = bert_like(
        hf.BertConfig,
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        intermediate_size=FEEDFORWARD,
    )
    model, (token, label) = hf.BertForMaskedLM(config), hidden()
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
    model, token = hf.XLNetLMHeadModel(config), tokens(BATCH, LENGTH)
    rank = torch.rand(BATCH, LENGTH).argsort(1)
    place = rank.argsort(1)[:, -PERMUTED:]
    inputs = {
        "input_ids": token,
        "perm_mask": (rank[:, None, :] >= rank[:, :, None]).float(),
        "target_mapping": torch.nn.functional.one_hot(place, LENGTH).float(),
        "labels": token.gather(1, place),
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
    token, target = tokens(BATCH, LENGTH), tokens(BATCH, TARGETS)
    return model, lambda: model(input_ids=token, labels=target).loss


def electra() -> tuple[torch.nn.Module, Loss]:
    shape = {"embedding_size": WIDTH}
    small = bert_like(
        hf.ElectraConfig,
        hidden_size=WIDTH // 4,
        num_attention_heads=1,
        intermediate_size=FEEDFORWARD // 4,
        **shape,
    )
    large = bert_like(
        hf.ElectraConfig,
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        intermediate_size=FEEDFORWARD,
        **shape,
    )
    model = torch.nn.ModuleList(
        [hf.ElectraForMaskedLM(small), hf.ElectraForPreTraining(large)]
    )
    generator, discriminator = model
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.generator_lm_head.weight = (
        discriminator.electra.embeddings.word_embeddings.weight
    )
    token, label = hidden()
    masked = label >= 0
    clear = torch.where(masked, label, token)

    def loss() -> torch.Tensor:
        guess = generator(input_ids=token, labels=label)
        logits = guess.logits[masked].detach()
        sample = torch.distributions.Categorical(logits=logits).sample()
        mixed = clear.masked_scatter(masked, sample)
        found = discriminator(input_ids=mixed, labels=(mixed != clear).long())
        return guess.loss + 50 * found.loss

    return model, loss


PEERS = {"lm": lm, "mlm": mlm, "plm": plm, "dae": dae, "electra": electra}


def measure(objective: str, turns: int, steps: int) -> dict:
    """The fastest of several turns, as `launch.benchmark` takes it."""
    torch.manual_seed(0)
    model, loss = PEERS[objective]()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
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
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objective", choices=PEERS, required=True)
    parser.add_argument("--turns", type=int, default=8, help="the fastest counts")
    parser.add_argument("--steps", type=int, default=5, help="steps a turn")
    flags = parser.parse_args()
    print(json.dumps(measure(flags.objective, flags.turns, flags.steps), indent=2))
