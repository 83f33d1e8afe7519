"""Positions: T5's buckets, rotary angles, arrays that restart or repeat."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.networks.shared.positions import sinusoids
from research.networks.transformer.one_stack import Transformer
from research.networks.transformer.positions import rotary, t5

BOTH_WAYS = {
    **{0: 0, -1: 1, -7: 7, -8: 8, -12: 9, -16: 10, -17: 10, -64: 14, -127: 15},
    **{-200: 15, 1: 17, 7: 23, 8: 24, 12: 25, 16: 26, 64: 30, 127: 31},
}
CAUSAL = {
    **{0: 0, 1: 0, 5: 0, 300: 0, -1: 1, -15: 15, -16: 16, -17: 16, -32: 21},
    **{-64: 26, -113: 31},
}


@pytest.mark.parametrize("causal, golden", [(False, BOTH_WAYS), (True, CAUSAL)])
def test_buckets_are_the_published_ones(causal, golden):
    distance = jnp.array(list(golden))
    bucket = t5.relative_bucket(distance, one_way=causal)
    np.testing.assert_array_equal(bucket, list(golden.values()))


@pytest.mark.parametrize("causal", [False, True])
def test_buckets_never_fall_with_distance_and_use_the_whole_table(causal):
    bucket = t5.relative_bucket(-jnp.arange(1000), one_way=causal)
    assert (np.diff(bucket) >= 0).all()
    both_ways = t5.relative_bucket(jnp.arange(-999, 1000), one_way=causal)
    unused = {16} if not causal else set()  # later keys have a distance of at least 1
    assert set(np.unique(both_ways)) == set(range(t5.NUM_BUCKETS)) - unused


def test_the_relative_bias_is_its_tables_rows():
    random = np.random.default_rng(0)
    table = random.normal(size=(t5.NUM_BUCKETS, 3)).astype(np.float32)
    query, key = random.integers(0, 300, (2, 5)), random.integers(0, 300, (2, 7))
    bias = t5.Bias(jnp.array(table), one_way=False).between(query, key)
    distance = key[:, None, :] - query[:, :, None]
    bucket = np.array(t5.relative_bucket(jnp.array(distance), one_way=False))
    np.testing.assert_allclose(bias, np.moveaxis(table[bucket], -1, 1), rtol=1e-6)


def test_the_gradient_of_the_relative_bias_sums_over_positions():
    random = np.random.default_rng(0)
    table = random.normal(size=(t5.NUM_BUCKETS, 3)).astype(np.float32)
    query, key = random.integers(0, 99, (2, 5)), random.integers(0, 99, (2, 7))
    grad = random.normal(size=(2, 3, 5, 7)).astype(np.float32)

    def total(table):
        bias = t5.Bias(table, one_way=True).between(query, key)
        return jnp.sum(bias * grad)

    expected = np.zeros_like(table)
    distance = key[:, None, :] - query[:, :, None]
    bucket = np.array(t5.relative_bucket(jnp.array(distance), one_way=True))
    np.add.at(expected, bucket, np.moveaxis(grad, 1, -1))
    np.testing.assert_allclose(jax.grad(total)(table), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoids_are_those_of_the_paper(width):
    """Section 3.5; of an odd width the last sine has no cosine, as in
    modeling_marian.py (MarianSinusoidalPositionalEmbedding)."""
    position = np.arange(9)
    n = np.arange((width + 1) // 2)
    angle = position[:, None] / 10_000 ** (2 * n / width)
    waves = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)[:, :width]
    found = sinusoids(jnp.asarray(position)[None], width)[0]
    np.testing.assert_allclose(found, waves, atol=1e-5)


def test_rotary_products_depend_on_distance_alone():
    random = np.random.default_rng(0)
    query, key = (random.normal(size=(1, 1, 1, 8)) for _ in range(2))

    def product(query_position, key_position):
        rotated = (
            rotary.apply_rotary(
                jnp.array(state), *rotary.rotary_angles(jnp.array([[position]]), 8)
            )
            for state, position in ((query, query_position), (key, key_position))
        )
        return float(jnp.sum(jnp.multiply(*rotated)))

    assert product(3, 10) == pytest.approx(product(40, 47), abs=1e-4)
    assert product(3, 10) != pytest.approx(product(3, 11), abs=1e-3)


def test_the_error_names_the_length_of_too_short_a_position_table(
    make_options, make_group
):
    network = Transformer(make_options(max_length=8), size=50)
    group = make_group()
    with pytest.raises(UserError, match=r"model\.max_length is 8.* 12 positions"):
        jax.eval_shape(
            lambda: networks.init(network, lambda n: n.states(group), jax.random.key(0))
        )
