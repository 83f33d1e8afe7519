"""electra: what each task of section 3.5 of the paper scores, and weight tying."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks, objectives
from research.interop.partial_restore import with_summed_table
from research.networks.transformer.electra import TIE_CHOICES
from research.objectives.contrastive import electra
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab()
KEY = jax.random.key(0)


def corrupt(lengths, length):
    example = texts(length - 2, lengths, VOCAB)
    objective = objectives.make_objective("electra")
    return objective.corrupt(example, keys(len(lengths)), VOCAB, length), example


def on_device(batch) -> dict:
    rows = np.arange(len(batch["token"]), dtype=np.int32)
    return jax.tree.map(jnp.asarray, batch | {"example": rows})


def readout(logits: np.ndarray) -> networks.Readout:
    """A readout [B, K, E = V] of the given logits [B, K, V]."""
    size = logits.shape[-1]
    table, bias = jnp.eye(size), jnp.zeros(size)
    return networks.Readout(jnp.asarray(logits, jnp.float32), table, bias, size)


def stubs(logits, batch, monkeypatch, guess):
    """A pair whose generator predicts `logits` and samples `guess`, and a list.

    The discriminator's states are its input tokens, which are appended to the list.
    """
    seen = []

    def states(group, scored=None):
        jax.debug.callback(lambda token: seen.append(token), group["token"])
        if scored is None:
            return group["token"]
        return jnp.take_along_axis(group["token"], scored, axis=1)

    monkeypatch.setattr(electra, "sample", lambda *_: guess)
    generator = SimpleNamespace(
        states=lambda group, scored: None, readout=lambda states: readout(logits)
    )
    discriminator = SimpleNamespace(
        states=states,
        head=lambda name, states: jnp.sin(states)[..., None],
        readout=lambda states: readout(
            np.broadcast_to(np.cos(np.arange(128)), (*states.shape, 128))
        ),
    )
    return SimpleNamespace(generator=generator, discriminator=discriminator), seen


def score(objective, net, batch):
    terms = jax.jit(lambda batch: objective.loss(net, batch, KEY)[0])(on_device(batch))
    jax.effects_barrier()
    return terms


def test_task_chosen_scores_the_masked_positions_alone(monkeypatch):
    batch, _ = corrupt([30, 12, 0], 32)
    used = batch["weight"] > 0
    guess = np.where(np.arange(batch["target"].shape[1]) % 2, batch["target"], 50)
    net, seen = stubs(np.zeros((*used.shape, 128)), batch, monkeypatch, guess)
    terms = score(objectives.make_objective("electra", task="chosen"), net, batch)
    replaced = guess != batch["target"]
    logit = np.sin(guess)
    loss = np.log1p(np.exp(logit)) - logit * replaced
    term = terms["discriminator"]
    np.testing.assert_allclose(term.total, loss[used].sum(), rtol=1e-5)
    assert term.weight == used.sum() and term.coef == 50
    assert terms["replaced"].total == replaced[used].sum()
    written = np.take_along_axis(np.asarray(seen[0]), batch["scored"], axis=1)
    np.testing.assert_array_equal(written[used], guess[used])


def log_p(scale=1.0):
    logits = scale * np.cos(np.arange(128))
    return logits - np.log(np.exp(logits).sum())


def test_replace_mlm_predicts_the_masked_tokens_from_the_replaced_text(monkeypatch):
    batch, _ = corrupt([30, 12, 0], 32)
    used = batch["weight"] > 0
    guess = np.full_like(batch["target"], 40)
    net, seen = stubs(np.zeros((*used.shape, 128)), batch, monkeypatch, guess)
    objective = objectives.make_objective("electra", task="replace_mlm", coef=1.0)
    terms = score(objective, net, batch)
    assert not (
        np.asarray(seen[0]) == VOCAB.mask_id
    ).any()  # its input has no mask token
    expected = -log_p()[batch["target"][used]].sum()
    np.testing.assert_allclose(terms["mlm"].total, expected, rtol=1e-5)
    assert terms["mlm"].weight == used.sum() and terms["mlm"].coef == 1
    assert "discriminator" not in terms


def test_all_tokens_mlm_predicts_or_copies_every_token(monkeypatch):
    batch, example = corrupt([30, 12, 0], 32)
    used = batch["weight"] > 0
    guess = np.full_like(batch["target"], 40)
    net, seen = stubs(np.zeros((*used.shape, 128)), batch, monkeypatch, guess)
    objective = objectives.make_objective("electra", task="all_tokens", coef=1.0)
    terms = score(objective, net, batch)
    read, here = np.asarray(seen[0]), batch["segment"] > 0
    original = np.full_like(read, VOCAB.pad_id)
    for row, count in enumerate(example.length):
        if count:
            text = [VOCAB.bos_id, *example.token[row, :count], VOCAB.eos_id]
            original[row, : count + 2] = text
    copy_p = 1 / (1 + np.exp(-np.sin(read)))
    p = copy_p * (read == original) + (1 - copy_p) * np.exp(log_p()[original])
    np.testing.assert_allclose(terms["mlm"].total, -np.log(p)[here].sum(), rtol=1e-5)
    assert terms["mlm"].weight == here.sum()
    assert terms["replaced"].total == (read != original)[here].sum()


@pytest.mark.parametrize("task", electra.TASKS)
@pytest.mark.parametrize("tie", TIE_CHOICES)
def test_every_ablation_has_the_parameters_that_its_loss_needs(task, tie):
    generator_size = 1.0 if tie == "all" else 0.25
    objective = objectives.make_objective(
        "electra", task=task, tie=tie, generator_size=generator_size
    )
    options = model_options(layers=2, width=32, heads=2, feedforward=32)
    network = networks.build(options, objective.needs(VOCAB), VOCAB)
    batch = on_device(corrupt([10], 12)[0])
    loss = lambda net: objective.loss(net, batch, KEY)[0]  # noqa: E731
    params = networks.unbox(jax.eval_shape(lambda: networks.init(network, loss, KEY)))
    predicts_tokens = task in ("replace_mlm", "all_tokens")
    assert ("output" in params["discriminator"]) == predicts_tokens
    heads = {k for k in params["discriminator"] if k.startswith("head_")}
    expected = {"replaced": "replaced", "chosen": "replaced", "all_tokens": "copy"}
    assert heads == {f"head_{expected[task]}" for _ in [0] if task in expected}
    assert ("token" in params["generator"]) == (tie in ("none", "gdes"))


def test_differences_alone_learn_from_the_discriminators_loss():
    """He et al. 2023, section 3.3; a run starts from the sum of both tables."""
    keys_of_tie = {"tie": "gdes", "generator_depth": 0.5, "head": "class"}
    objective = objectives.make_objective("electra", **keys_of_tie)
    options = model_options(layers=2, width=32, heads=2, feedforward=32)
    network = networks.build(options, objective.needs(VOCAB), VOCAB)
    batch = on_device(corrupt([10, 7], 12)[0])

    def total(net, name):
        return objective.loss(net, batch, KEY)[0][name].total

    params = networks.unbox(
        networks.init(network, lambda net: total(net, "discriminator"), KEY)
    )

    @jax.jit
    def grad(params):
        run = lambda params, name: networks.apply(  # noqa: E731
            network, params, lambda net: total(net, name)
        )
        return [jax.grad(run)(params, n) for n in ("discriminator", "generator")]

    of_discriminator, of_generator = grad(params)
    size = lambda tree: max(np.abs(x).max() for x in jax.tree.leaves(tree))  # noqa: E731
    assert size(of_discriminator["generator"]) == 0
    assert size(of_discriminator["discriminator"]["token"]["difference"]) > 0
    assert size(of_generator["discriminator"]) == 0
    assert size(of_generator["generator"]["token"]["embedding"]) > 0
    blocks = [
        params[part]["stack"]["blocks"] for part in ("generator", "discriminator")
    ]
    assert [len(b["feedforward"]["out"]["bias"]) for b in blocks] == [1, 2]
    host = jax.tree.map(np.asarray, params)
    host["discriminator"]["token"]["difference"] = np.float32(2)
    table = with_summed_table(host)["discriminator"]["token"]["embedding"]
    np.testing.assert_array_equal(table, host["generator"]["token"]["embedding"] + 2)
