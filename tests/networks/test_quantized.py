"""Products of 8-bit integers: NumPy's integers, rounding to and fro, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.interop import int8_weights
from research.networks.shared import quantized
from research.networks.shared.quantized import SCALE, VALUES
from research.networks.transformer import transformer
from research.use.shrinking.splitting import split_weights


def draw(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape).astype(np.float32) * 3


def numpy_scale(x, axis):
    """`scale_of`, of 16 significant bits, by NumPy."""
    scale = np.max(np.abs(x), axis=axis, keepdims=True) / np.float32(127)
    mantissa, exponent = np.frexp(scale)
    rounded = np.floor(np.ldexp(mantissa.astype(np.float64), 16) + 0.5)
    scale = np.ldexp(rounded, exponent - 16).astype(np.float32)
    return np.where(scale > 0, scale, np.float32(1))


def numpy_int8(x, scale):
    return np.clip(np.round(x / scale), -127, 127).astype(np.int64)


@pytest.mark.parametrize("scales", quantized.SCALES)
@pytest.mark.parametrize("limit", [0.0, 2.5])
def test_fake_quantisation_is_integer_arithmetic_bit_by_bit(scales, limit):
    """Of 1536 inputs, as in a feed-forward layer; sums stay exact in float32."""
    x, kernel = draw(7, 1536), draw(1536, 5, seed=1)
    kernel[:, 3] = 0
    x_scale = numpy_scale(np.full((7, 1), limit) if limit else x, -1)
    kernel_scale = numpy_scale(kernel, 0 if scales == "channel" else (0, 1))
    x_int, kernel_int = numpy_int8(x, x_scale), numpy_int8(kernel, kernel_scale)
    expected = (x_int @ kernel_int).astype(np.float32) * x_scale * kernel_scale

    @jax.jit
    def product(x, kernel, limit):
        return quantized.int8_matmul(x, kernel, limit, scales, jnp.float32)

    np.testing.assert_array_equal(product(x, kernel, np.float32(limit)), expected)
    stored = {VALUES: kernel_int.astype(np.int8), SCALE: kernel_scale}
    np.testing.assert_array_equal(product(x, stored, np.float32(limit)), expected)
    # The values that the integers have, multiplied as float32 integers: nothing rounds.
    fake = (x_int.astype(np.float32) @ kernel_int.astype(np.float32)) * x_scale
    np.testing.assert_array_equal(fake * kernel_scale, expected)


def test_quantising_twice_changes_nothing():
    kernel = draw(40, 30) * np.geomspace(1e-6, 1e4, 30, dtype=np.float32)
    values, scale = map(
        np.asarray, quantized.quantize_kernel(kernel, "int8", "channel")
    )
    once = values * scale
    assert (np.float64(values) * np.float64(scale) == once).all()  # exact
    again = quantized.quantize_kernel(once, "int8", "channel")
    np.testing.assert_array_equal(again[1], scale)
    np.testing.assert_array_equal(again[0], values)
    assert np.abs(values).max(0).min() == 127
    assert (np.abs(once - kernel).max(0) <= np.asarray(scale)[0] / 1.99).all()


def test_published_integers():
    """reference/compression_modern.md, D9, without the values between two integers."""
    for x, expected in (
        ((-1, -0.26, 0, 0.1, 0.333, 0.75), (-127, -33, 0, 13, 42, 95)),
        ((0.3, -2.54), (15, -127)),
    ):
        x = jnp.array(x, jnp.float32)
        integers = quantized.to_int8(x, quantized.scale_of(x, 0))
        np.testing.assert_array_equal(integers, expected)


def test_published_weights_of_few_values():
    """reference/compression_modern.md, D10; scales have 16 significant bits."""
    kernel = jnp.array([0.5, -0.2, 0.05, -0.9])[:, None]
    for kind, values, expected in (
        ("ternary", [1, 0, 0, -1], 0.7),
        ("binary", [1, -1, 1, -1], 0.4125),
    ):
        found, scale = quantized.quantize_kernel(kernel, kind, "tensor")
        assert found[:, 0].tolist() == values and found.dtype == jnp.int8
        np.testing.assert_allclose(scale, [[expected]], rtol=2.0**-16)


@pytest.mark.parametrize("kind", ["ternary", "binary"])
@pytest.mark.parametrize("scales", quantized.SCALES)
def test_weights_of_few_values_stay_when_they_are_quantised_again(kind, scales):
    """And gradients pass as if they were not; 0 is a value of binary weights, too."""
    x, kernel, grad = draw(6, 800), draw(800, 5, seed=1), draw(6, 5, seed=2)
    kernel[3] = 0
    values, scale = map(np.asarray, quantized.quantize_kernel(kernel, kind, scales))
    assert {*values.flat} == ({-1, 0, 1} if kind == "ternary" else {-1, 1})
    again = quantized.quantize_kernel(values * scale, kind, scales)
    np.testing.assert_array_equal(again[0], values)
    np.testing.assert_array_equal(again[1], scale)

    def product(x, kernel):
        return quantized.int8_matmul(x, kernel, None, scales, jnp.float32, kind)

    y, pull = jax.vjp(product, x, kernel)
    np.testing.assert_array_equal(y, product(x, {VALUES: values, SCALE: scale}))
    of_x, of_kernel = pull(grad)
    np.testing.assert_allclose(of_x, grad @ (values * scale).T, rtol=1e-5, atol=1e-5)
    x_scale = numpy_scale(x, -1)
    expected = (numpy_int8(x, x_scale) * x_scale).T @ grad
    np.testing.assert_allclose(of_kernel, expected, rtol=1e-5, atol=1e-4)


def test_gradients_pass_as_if_nothing_was_rounded():
    """Those of the product of the values that the integers have; none is clipped."""
    x, kernel, grad = draw(6, 8), draw(8, 5, seed=1), draw(6, 5, seed=2)

    def product(x, kernel, limit):
        return quantized.int8_matmul(x, kernel, limit, "channel", jnp.float32)

    def values(x, axis):
        scale = numpy_scale(x, axis)
        return numpy_int8(x, scale) * scale

    _, pull = jax.vjp(product, x, kernel, jnp.float32(0))
    of_x, of_kernel, of_limit = pull(grad)
    np.testing.assert_allclose(of_x, grad @ values(kernel, 0).T, rtol=1e-5)
    np.testing.assert_allclose(of_kernel, values(x, -1).T @ grad, rtol=1e-5, atol=1e-5)
    assert of_limit == 0  # a range is not learned
    _, pull = jax.vjp(product, x, kernel, jnp.float32(quantized.MEASURE))
    assert pull(grad)[2] == np.abs(x).max()
    _, pull = jax.vjp(product, x, kernel, jnp.float32(0.5))  # beyond the range, too
    clipped = np.clip(np.round(x / numpy_scale(np.float32([[0.5]]), 0)), -127, 127)
    assert (np.abs(clipped) == 127).any()
    np.testing.assert_allclose(pull(grad)[0], grad @ values(kernel, 0).T, rtol=1e-5)


def test_rows_of_a_table():
    table = draw(5, 8)
    scale = numpy_scale(table, -1)
    np.testing.assert_array_equal(
        quantized.quantize_rows(table), numpy_int8(table, scale) * scale
    )
    grad = jax.grad(lambda t: jnp.sum(quantized.quantize_rows(t) * table))(table)
    np.testing.assert_array_equal(grad, table)


def small_network(quantization, clip=0.0):
    """The states of a text by its parameters, and a function of initial ones."""
    options = transformer.Network(
        **{"layers": 2, "width": 16, "heads": 2, "feedforward": 32},
        **{"quantization": quantization, "quantization_clip": clip},
    )
    network = options.module(networks.Needs(pattern="full"), 40)
    shape = (2, 6)
    group = {
        "token": jnp.arange(12).reshape(shape),
        "position": jnp.tile(jnp.arange(6), (2, 1)),
        "segment": jnp.ones(shape, jnp.int32),
    }
    group |= dict.fromkeys(("rank", "reach", "token_type"), jnp.zeros(shape, jnp.int32))

    def states(params):
        return networks.apply(network, params, lambda net: net.states(group))

    @jax.jit
    def init():
        key = jax.random.key(0)
        return networks.unbox(
            networks.init(network, lambda net: net.states(group), key)
        )

    return states, init


def test_ternary_weights_by_hand_are_two_binary_ones():
    """Of D10: a = (1.4 + .2 - .05) / 2.8, b = (4 x .7 - 1.65) / 4; both means are .35;
    of weights without zeros, and of zeros alone, there is no b."""
    weight = np.float32([0.5, -0.2, 0.05, -0.9])
    expected = [0.276786, 0.2875, 0.3375, -0.498214], [0.223214, -0.4875, -0.2875]
    expected[1].append(-0.401786)
    for kernel, axis in ((weight[:, None], (-2, -1)), (weight[None], -1)):
        found = split_weights(kernel, axis, "w").reshape(2, 4)
        np.testing.assert_allclose(found, expected, atol=5e-6)
    for row in (np.float32([[0.3, 0.3, -0.3]]), np.zeros((1, 3), np.float32)):
        (found,) = split_weights(row, -1, "w")
        half = row[0] / 2  # but for the 16 bits of a scale
        np.testing.assert_allclose(found, np.stack([half, half]), rtol=2.0**-16)
    one_sign = np.float32([[1] + 99 * [0.02]])  # a = (1 - 1.98) / 2
    with pytest.raises(UserError, match="token/embedding has 1 weights"):
        split_weights(one_sign, -1, "token/embedding")


@pytest.mark.parametrize("scales", quantized.SCALES)
def test_a_split_product_is_the_ternary_one_bit_by_bit(scales):
    """And stays the sum of two binary ones when their scales part."""
    x, kernel, grad = draw(6, 90), draw(90, 5, seed=1), draw(6, 5, seed=2)
    parts = split_weights(kernel, quantized.KERNEL_AXES[scales], "w")
    np.testing.assert_allclose(parts.sum(0), kernel, rtol=1e-6, atol=1e-6)

    def product(x, kernel, kind):
        return quantized.int8_matmul(x, kernel, None, scales, jnp.float32, kind)

    np.testing.assert_array_equal(
        product(x, parts, "split"), product(x, kernel, "ternary")
    )
    parts = parts * np.float32([1, 3])[:, None, None]
    y, pull = jax.vjp(lambda *args: product(*args, "split"), x, parts)
    values, scale = map(np.asarray, quantized.quantize_kernel(parts, "split", scales))
    np.testing.assert_array_equal(y, product(x, {VALUES: values, SCALE: scale}, ""))
    each = [product(x, part, "binary") for part in parts]
    np.testing.assert_allclose(y, sum(each), rtol=1e-5, atol=1e-4)
    of_x, of_parts = pull(grad)
    np.testing.assert_allclose(of_x, grad @ (values * scale).sum(0).T, rtol=1e-4)
    x_scale = numpy_scale(x, -1)
    expected = (numpy_int8(x, x_scale) * x_scale).T @ grad
    np.testing.assert_allclose(of_parts, [expected, expected], rtol=1e-4, atol=1e-4)


def test_a_split_network_computes_what_the_ternary_one_does():
    """And both have the same values of integers, which an export writes."""
    ternary, init = small_network("ternary")
    split, shapes = small_network("split")
    params = jax.device_get(init())
    own = int8_weights.map_quantized(split_weights, params, "channel")
    found = jax.tree.map(jnp.shape, own)
    assert found == jax.tree.map(jnp.shape, jax.eval_shape(shapes))
    stored = jax.jit(lambda own: int8_weights.stored(own, "split", "channel"))(own)
    np.testing.assert_array_equal(jax.jit(split)(stored), jax.jit(ternary)(params))
    values = int8_weights.values(own, "split", "channel")
    same = int8_weights.values(params, "ternary", "channel")
    jax.tree.map(np.testing.assert_array_equal, values, same)
    kernel = params["stack"]["blocks"]["feedforward"]["in"]["kernel"]
    kernel = kernel - values["stack"]["blocks"]["feedforward"]["in"]["kernel"]
    assert np.abs(kernel).max() > 0


def test_a_network_multiplies_integers_alone_in_its_dense_layers():
    """Stored and trained parameters have the same states; attention is float32."""
    states, init = small_network("int8")
    params = init()
    stored = int8_weights.stored(params, "int8", "channel")
    np.testing.assert_array_equal(jax.jit(states)(stored), jax.jit(states)(params))
    products = [
        equation.invars[0].aval.dtype.name
        for equation in jax.make_jaxpr(states)(
            stored
        ).jaxpr.eqns  # attention has its own
        if equation.primitive.name == "dot_general"
    ]
    # Those of attention are inside a function with a gradient of its own.
    assert products == 12 * ["int8"]


def test_what_is_beyond_the_clip_counts_as_the_limit_and_has_no_gradient():
    """The released rule on five values; weights of a network that is stored or not."""
    x = jnp.float32([-3, -2.5, 1, 2.5, 3])
    limited, pull = jax.vjp(lambda x: quantized.within(x, 2.5), x)
    np.testing.assert_array_equal(limited, [-2.5, -2.5, 1, 2.5, 2.5])
    np.testing.assert_array_equal(pull(jnp.ones(5))[0], [0, 0, 1, 0, 0])
    states, init = small_network("ternary", clip=1.0)
    without, _ = small_network("ternary")
    large = lambda leaf, *_: 50 * leaf  # noqa: E731
    params = int8_weights.map_quantized(large, jax.device_get(init()), "channel")
    found = jax.jit(states)(params)
    assert not np.allclose(found, jax.jit(without)(params), atol=1e-2)
    stored = int8_weights.stored(params, "ternary", "channel", 1.0)
    np.testing.assert_array_equal(jax.jit(states)(stored), found)
    grads = jax.jit(jax.grad(lambda params: jnp.sum(states(params) ** 2)))(params)
    beyond = lambda leaf, *_: np.abs(leaf) >= 1  # noqa: E731
    beyond = jax.tree.leaves(int8_weights.map_quantized(beyond, params, "channel"))
    for where, grad in zip(beyond, jax.tree.leaves(grads), strict=True):
        if where.dtype == bool:
            assert where.any() and np.any(grad) and not np.any(np.asarray(grad)[where])
