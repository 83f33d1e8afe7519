"""Laws of a mesh: the same numbers, and no tensor made whole because XLA gave up."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import models
from research.distributed import sharding
from research.objectives.losses import cross_entropy
from tests.testing.model_options import model_options

SIZE = 200


def encoder(options, group):
    """An MLM: gathered places, BERT's head; kinds; post-norm."""
    network = models.Transformer(options, SIZE, pattern="full", transform=True)
    scored = group["token"][:, :4] % group["token"].shape[1]

    def loss(net):
        states = net.states(group, scored=scored)
        return score(net.readout(states), group["token"][:, :4])

    return network, loss


def decoder(options, group):
    """A causal model; all places are scored."""
    network = models.Transformer(options, SIZE, pattern="causal")

    def loss(net):
        return score(net.readout(net.states(group)), group["token"])

    return network, loss


def both(options, group):
    """An encoder-decoder that recovers what it reads."""
    network = models.EncoderDecoder(options, SIZE)

    def loss(net):
        states = net.states(group, net.encode(group))
        return score(net.readout(states), group["token"])

    return network, loss


def pair(options, group):
    """Generator and discriminator."""
    network = models.Pair(options, SIZE, fraction=0.5)

    def loss(net):
        readout = net.generator.readout(net.generator.states(group))
        logits = net.discriminator.head("replaced", net.discriminator.states(group))
        label = group["token"] % 2
        told, _ = cross_entropy.binary_cross_entropy(
            logits[..., 0], label, jnp.ones(label.shape)
        )
        return score(readout, group["token"]) + told.total / told.weight

    return network, loss


def remembering(options, group):
    """A causal model with a memory, which is scored too; three kinds of places."""
    network = models.Transformer(options, SIZE, pattern="causal")

    def loss(net):
        memory = net.no_memory(len(group["token"]), 12)
        _, memory = net.states(group, memory=memory)
        states, memory = net.states(group, memory=memory)
        recall = jnp.mean(jnp.sin(memory["state"].astype(jnp.float32)))
        return score(net.readout(states), group["token"]) + recall

    return network, loss


NETWORKS = {
    "encoder": (
        encoder,
        {"norm_placement": "post", "token_types": 3, "scan_unroll": 1},
    ),
    "decoder": (decoder, {"position": "rotary", "activation": "swiglu"}),
    "both": (
        both,
        {"position": "t5", "init": "t5", "norm": "rmsnorm", "scan_unroll": 1},
    ),
    "pair": (pair, {"embedding_width": 8}),
    "remembering": (
        remembering,
        {
            "position": "relative",
            "token_type_encoding": "relative",
            "token_types": 3,
            "scan_unroll": 1,
        },
    ),
}


def score(readout, target):
    weight = jnp.ones(target.shape)
    term, _ = cross_entropy.cross_entropy(readout, target, weight, form="fused")
    return term.total / term.weight


def some_group(batch=8, length=16):
    place = np.tile(np.arange(length, dtype=np.int32), (batch, 1))
    token = np.random.default_rng(0).integers(5, SIZE, place.shape, dtype=np.int32)
    arrays = {name: 0 * place for name in ("token_type", "rank", "reach")}
    return arrays | {"token": token, "position": place, "segment": 0 * place + 1}


def compiled(name, mesh):
    """The step (parameters, group) -> loss and gradient, and its inputs, on a mesh."""
    make, changes = NETWORKS[name]
    small = {"layers": 2, "width": 32, "heads": 4, "feedforward": 64}
    options = model_options(**(small | changes))
    group = some_group()

    def fn(net):
        return make(options, group)[1](net)

    network = make(options, group)[0]
    boxed = jax.eval_shape(lambda: models.init(network, fn, jax.random.key(0)))

    def place(names, leaf):
        return sharding.parameter_sharding(names, leaf.shape, mesh)

    placed = jax.tree.map(
        place, models.axes(boxed), models.unbox(boxed), is_leaf=sharding.is_axes
    )

    def step(params, group):
        def loss(params):
            return models.apply(network, params, make(options, group)[1])

        return jax.value_and_grad(loss)(params)

    with sharding.context(mesh):
        params = jax.jit(
            lambda key: models.unbox(models.init(network, fn, key)),
            out_shardings=placed,
        )(jax.random.key(0))
        group = jax.device_put(group, sharding.batch_sharding(mesh))
        out = (sharding.replicated(mesh), placed)
        return (
            jax.jit(step, out_shardings=out)
            .lower(params, group)
            .compile()(params, group)
        )


def mesh_of(data, fsdp, tensor):
    count = data * fsdp * tensor
    sizes = {"data": data, "fsdp": fsdp, "tensor": tensor}
    return sharding.make_mesh(sizes, jax.devices()[:count])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_mesh_changes_no_number(name, assert_close):
    with jax.threefry_partitionable(True):
        alone = compiled(name, mesh_of(1, 1, 1))
        spread = compiled(name, mesh_of(2, 2, 2))
    assert_close(spread, alone)


def test_xla_makes_no_tensor_whole_because_it_gave_up():
    """It logs an involuntary rematerialisation, in C++, where it does."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    run = subprocess.run(
        [sys.executable, os.path.abspath(__file__)],
        env=os.environ
        | {
            "PYTHONPATH": root,
            "TF_CPP_MIN_LOG_LEVEL": "0",
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert run.stdout.split() == list(NETWORKS)
    assert "nvoluntary" not in run.stderr


if __name__ == "__main__":
    for each in NETWORKS:
        compiled(each, mesh_of(2, 2, 2))
        print(each)
