"""Networks with the interval kernel equal those with dense attention, on a mesh too."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.batch import NEVER
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.kernels.counter_dropout import counter_dropout, dropout_seeds
from research.networks.shared.dense_attention import (
    AttentionInputs,
    dense_attention,
    dense_mask,
)
from research.networks.transformer.kernel_attention import interval_mask
from research.networks.transformer.one_stack import Transformer
from research.networks.transformer.positions import t5
from research.program.flops import count_flops
from tests.testing.interval_patterns import draw_rows


def loss_and_gradient(network, fn, params):
    def loss(params):
        states = networks.apply(network, params, fn, jax.random.key(1))
        return jnp.mean(jnp.sin(3 * states.astype(jnp.float32)))

    return jax.jit(jax.value_and_grad(loss))(params)


def test_flops_are_those_of_dense_attention(make_group):
    """Nothing is run: on no mesh and on eight devices, tiles filled up or not."""
    group = make_group(4, 250)
    states = (jax.ShapeDtypeStruct((4, 250, 2, 8), jnp.float32),) * 3
    query_rel = jax.ShapeDtypeStruct((4, 250, 2, 24), jnp.float32)
    arrays = *states, (query_rel, jax.ShapeDtypeStruct((4, 250, 24), jnp.float32))

    def flops(attend):
        def total(arrays):
            return jnp.sum(attend(*arrays[:3], relative=arrays[3]))

        return count_flops(jax.grad(total), arrays)

    def interval(*states, relative):
        inputs = AttentionInputs(group, group, "general")
        mask = interval_mask(inputs, interpret=True)
        return mask.attend(*states, relative=relative)

    def dense(*states, relative):
        mask = dense_mask(AttentionInputs(group, group))
        return dense_attention(*states, mask, relative=relative)

    width = 6 * 8 + 2 * 24
    assert flops(interval) == flops(dense) == width * 2 * 4 * 2 * 250**2
    with sharding.context(
        sharding.make_mesh(MeshOptions(**{"data": 2, "fsdp": 2, "tensor": 2}))
    ):
        assert flops(interval) == flops(dense)


@pytest.mark.parametrize("case", ["bias", "two intervals", "cross"])
def test_rows_and_heads_on_a_mesh(case, make_group, assert_close):
    """T5's bias in packed rows, at distances of which buckets of one direction would be
    others, two intervals of ranks, and segments alone with dropout, on eight devices.
    """
    random = np.random.default_rng(0)
    segment = np.tile(np.array([[1] * 5 + [2] * 6 + [0]], np.int32), (4, 1))
    query = key = make_group(4, segment=segment)
    cross, pattern = case == "cross", "causal" if case == "bias" else "general"
    if case == "bias":
        query = key = query | {"position": 5 * query["position"]}
    if case == "two intervals":
        query = key = query | draw_rows("knowledge tree", rows=4, length=12)[0]
    if cross:
        query, key = {"segment": segment[:, 2:11]}, {"segment": segment}
    lengths = (query["segment"].shape[1], 12, 12)
    arrays = [np.float32(random.normal(size=(4, n, 2, 4))) for n in lengths]
    table = np.float32(random.normal(size=(t5.NUM_BUCKETS, 2)))
    mesh = sharding.make_mesh(MeshOptions(**{"data": 2, "fsdp": 2, "tensor": 2}))
    rate, dropout_key = 0.3 if cross else 0.0, jax.random.key(0)
    seed = dropout_seeds(dropout_key, 4, 2)[:, :, None, None]
    index = np.arange(12, dtype=np.int32)[None, None, None]
    query_index = np.swapaxes(index[..., : lengths[0]], 2, 3)
    place = seed, query_index, index

    def gradient(attend):
        def total(arrays, table):
            own = {"pattern": pattern, "bias": t5.Bias(table, one_way=False)}
            inputs = AttentionInputs(query, key, **({} if cross else own))
            return jnp.sum(jnp.sin(attend(inputs, *arrays)))

        return jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(arrays, table)

    def interval(inputs, *arrays):
        own = {"dropout_rate": rate, "dropout_key": dropout_key}
        return interval_mask(inputs, interpret=True).attend(*arrays, **own)

    def dense(inputs, *arrays):
        return dense_attention(
            *arrays, dense_mask(inputs), drop=lambda p: counter_dropout(p, *place, rate)
        )

    with sharding.context(mesh):
        actual = gradient(interval)
    assert_close(actual, gradient(dense))


def test_queries_behind_the_keys(make_options, make_group, make_params, assert_close):
    """Two streams, of which the appended queries are scored, with the same dropout."""
    random = np.random.default_rng(0)
    order = random.permutation(8).astype(np.int32)[None]
    hidden = np.array([[1, 4, 6, 7]], np.int32)
    last = np.take_along_axis(order, hidden, axis=1)
    never = np.full_like(hidden, NEVER)
    group = make_group(
        1,
        12,
        rank=np.concatenate([order, never], axis=1),
        reach=np.concatenate([order, last - 1], axis=1),
    )
    scored = np.array([[8, 11, 9, 10]], np.int32)
    own = {"position": "rotary", "attention": "interval", "dropout": 0.3}
    options = make_options(layers=2, **own)

    def states(net):
        return net.states(group, scored=scored, num_keys=8)

    network = Transformer(options, 50)
    params = make_params(network, states)
    dense = Transformer(dataclasses.replace(options, attention="dense"), 50)
    assert_close(
        loss_and_gradient(network, states, params),
        loss_and_gradient(dense, states, params),
    )


@pytest.mark.parametrize("num_segments", [pytest.param(1, marks=pytest.mark.long), 2])
def test_relative_terms_with_mems_on_a_mesh(
    num_segments, make_options, make_group, make_params, assert_close
):
    """XLNet's, in causal rows after mems of which some are padding, with dropout."""
    random = np.random.default_rng(0)
    segment = np.repeat(np.arange(num_segments) + 1, 10 // num_segments)
    segment = np.tile(np.append(segment, [0, 0]).astype(np.int32), (4, 1))
    token_type = random.integers(0, 2, segment.shape, dtype=np.int32)
    group = make_group(4, segment=segment, token_type=token_type)
    mems_segment = np.tile(np.array([[0, 1, 0, 1, 1, 1]], np.int32), (4, 1))
    scored = np.tile(np.array([[7, 3, 11]], np.int32), (4, 1))
    relative = {"position": "relative", "token_type_encoding": "relative"}
    options = make_options(layers=2, token_types=2, dropout=0.3, **relative)
    mems = {
        "state": np.float32(random.normal(size=(4, 2, 6, options.width))),
        "segment": mems_segment,
    }

    def states(net):
        return net.outputs(group, scored=scored, mems=mems).states

    def network(attention):
        own = dataclasses.replace(options, attention=attention)
        return Transformer(own, 50, "causal")

    params = make_params(network("interval"), states)
    expected = loss_and_gradient(network("dense"), states, params)
    with sharding.context(
        sharding.make_mesh(MeshOptions(**{"data": 2, "fsdp": 2, "tensor": 2}))
    ):
        actual = loss_and_gradient(network("interval"), states, params)
    assert_close(actual, expected)
