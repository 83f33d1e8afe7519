"""On a mesh: the same numbers, and no involuntary full rematerialisation by XLA."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.networks import readouts
from research.networks.recurrent.lstm_encoder_decoder import LSTMEncoderDecoder
from research.networks.transformer.electra import GeneratorDiscriminator
from research.networks.transformer.encoder_decoder import EncoderDecoder
from research.networks.transformer.one_stack import Transformer
from research.networks.transformer.transformer import Network
from research.objectives.losses import cross_entropy
from tests.testing.interval_patterns import draw_rows
from tests.testing.model_options import model_options
from tests.testing.readout_keys import example_keys

SIZE = 200

LONG = ("decoder", "encoder", "generator_discriminator")
"""Networks whose parts others have: tests/laws has one of each and ELECTRA's step."""

REMATERIALISATION = "nvoluntary full remat"
"""What XLA's C++ code logs where it replicates a tensor for want of a better way."""


def encoder(options, group):
    """An MLM: scored positions, BERT's head, token types, post-norm."""
    network = Transformer(options, SIZE, pattern="full", transform=True)
    scored = group["token"][:, :4] % group["token"].shape[1]

    def loss(net):
        states = net.states(group, scored=scored)
        return score(net.readout(states), group["token"][:, :4])

    return network, loss


def decoder(options, group):
    """A causal model; all positions are scored."""
    network = Transformer(options, SIZE, pattern="causal")

    def loss(net):
        return score(net.readout(net.states(group)), group["token"])

    return network, loss


def two_intervals(options, group):
    """A model whose queries attend to two intervals of ranks."""
    arrays, _ = draw_rows("knowledge tree", rows=8, length=16)
    network = Transformer(options, SIZE, pattern="general")

    def loss(net):
        return score(net.readout(net.states(group | arrays)), group["token"])

    return network, loss


def encoder_decoder(options, group, network=EncoderDecoder):
    """An encoder-decoder whose target is its input."""
    network = network(options, SIZE)

    def loss(net):
        states = net.states(group, encoded=net.encode(group))
        return score(net.readout(states), group["token"])

    return network, loss


def generator_discriminator(options, group):
    """ELECTRA."""
    network = GeneratorDiscriminator(options, SIZE, fraction=0.5)

    def loss(net):
        readout = net.generator.readout(net.generator.states(group))
        logits = net.discriminator.head("replaced", net.discriminator.states(group))
        label = group["token"] % 2
        replaced, _ = cross_entropy.binary_cross_entropy(
            logits[..., 0], label, jnp.ones(label.shape)
        )
        return score(readout, group["token"]) + replaced.total / replaced.weight

    return network, loss


def recurrent(options, group):
    """A causal model with mems, which the loss reads too, and three token types."""
    network = Transformer(options, SIZE, pattern="causal")

    def loss(net):
        mems = net.empty_mems(len(group["token"]), 12)
        mems = net.outputs(group, mems=mems).mems
        found = net.outputs(group, mems=mems)
        mean = jnp.mean(jnp.sin(found.mems["state"].astype(jnp.float32)))
        return score(net.readout(found.states), group["token"]) + mean

    return network, loss


NETWORKS = {
    "encoder": (
        encoder,
        {"norm_placement": "post", "token_types": 3, "scan_unroll": 1},
    ),
    "decoder": (decoder, {"position": "rotary", "activation": "swiglu"}),
    "two_intervals": (two_intervals, {"layers": 1}),
    "windows": (
        decoder,
        {"position": "rotary", "window": 3, "global_every": 2, "rope_theta_local": 9.0},
    ),
    **{
        f"readout-{name}": (decoder, example_keys(name, Network))
        for name in readouts.outputs()
    },
    "encoder_decoder": (
        encoder_decoder,
        {"position": "t5", "init": "t5", "norm": "rmsnorm", "scan_unroll": 1},
    ),
    "lstm_encoder_decoder": (
        partial(encoder_decoder, network=LSTMEncoderDecoder),
        {"network": "lstm", "layers": 1, "joined_layers": 1, "width": 8},
    ),
    "generator_discriminator": (generator_discriminator, {"embedding_width": 8}),
    "recurrent": (
        recurrent,
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
    term, _ = cross_entropy.cross_entropy(readout, target, weight)
    return term.total / term.weight


def random_group(batch=8, length=16):
    position = np.tile(np.arange(length, dtype=np.int32), (batch, 1))
    token = np.random.default_rng(0).integers(5, SIZE, position.shape, dtype=np.int32)
    zero = np.zeros_like(position)
    arrays = {name: zero for name in ("token_type", "rank", "reach")}
    return arrays | {"token": token, "position": position, "segment": zero + 1}


def loss_and_gradient(name, mesh):
    """Loss and gradient of a network on a mesh."""
    make, changes = NETWORKS[name]
    small = {"layers": 2, "width": 32, "heads": 4, "feedforward": 64}
    options = model_options(**(small | changes))
    group = random_group()

    def fn(net):
        return make(options, group)[1](net)

    network = make(options, group)[0]
    boxed = jax.eval_shape(lambda: networks.init(network, fn, jax.random.key(0)))

    def shard(names, leaf):
        return sharding.parameter_sharding(names, leaf.shape, mesh)

    axes, shapes = networks.logical_axes(boxed), networks.unbox(boxed)
    shardings = jax.tree.map(shard, axes, shapes, is_leaf=sharding.is_logical_axes)

    def step(params, group):
        def loss(params):
            return networks.apply(network, params, make(options, group)[1])

        return jax.value_and_grad(loss)(params)

    random = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: random.normal(0, 0.2, leaf.shape).astype(np.float32), shapes
    )
    with sharding.context(mesh):
        params = jax.device_put(params, shardings)
        group = jax.device_put(group, sharding.batch_sharding(mesh))
        out = (sharding.replicated(mesh), shardings)
        return (
            jax.jit(step, out_shardings=out)
            .lower(params, group)
            .compile()(params, group)
        )


def mesh_of(data, fsdp, tensor):
    count = data * fsdp * tensor
    sizes = {"data": data, "fsdp": fsdp, "tensor": tensor}
    return sharding.make_mesh(MeshOptions(**sizes), jax.devices()[:count])


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in NETWORKS],
)
def test_loss_and_gradient_are_the_same_on_a_mesh(name, assert_close, capfd):
    expected = loss_and_gradient(name, mesh_of(1, 1, 1))
    actual = loss_and_gradient(name, mesh_of(2, 2, 2))
    assert_close(actual, expected)
    assert REMATERIALISATION not in capfd.readouterr().err


def test_xla_logs_an_involuntary_rematerialisation(capfd):
    """The test above would see one: here XLA has no better way than to replicate."""
    mesh = mesh_of(2, 2, 2)

    def change_sharding(x):
        for axes in ((("data", "fsdp"), None), ("fsdp", "data")):
            where = jax.NamedSharding(mesh, jax.P(*axes))
            x = jax.lax.with_sharding_constraint(jnp.sin(x), where)
        return x

    jax.jit(change_sharding).lower(jnp.ones((6, 10))).compile()
    assert REMATERIALISATION in capfd.readouterr().err
