"""Matrix products: gradients are JAX's, operands are rounded, sums are float32."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.networks.shared import products
from research.networks.transformer.one_stack import Transformer
from research.objectives.losses.cross_entropy import cross_entropy


def random_arrays(*shapes):
    random = np.random.default_rng(0)
    return [np.float32(random.normal(size=shape)) for shape in shapes]


def rounded(*arrays):
    return [np.float64(jnp.asarray(each, jnp.bfloat16)) for each in arrays]


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 4, 5), (2, 1, 4, 5)], ids=str)
def test_the_gradient_of_a_dense_matmul_is_jaxs(shape, assert_close):
    x, kernel, grad = random_arrays(shape, (5, 7), (*shape[:-1], 7))
    ours, theirs = (
        jax.vjp(fn, x, kernel) for fn in (products.dense_matmul, lambda x, k: x @ k)
    )
    assert_close(ours[0], theirs[0], 1e-6)
    assert_close(ours[1](grad), theirs[1](grad), 1e-6)


@pytest.mark.parametrize("width", [3, 7])
def test_the_operands_of_a_dense_matmul_are_rounded_and_nothing_else(width):
    x, kernel, grad = random_arrays((2, 4, 5), (5, width), (2, 4, width))
    matmul = lambda x, kernel: products.dense_matmul(x, kernel, "bfloat16")  # noqa: E731
    y, vjp = jax.vjp(matmul, x, kernel)
    x, kernel, grad, exact = *rounded(x, kernel, grad), grad
    expected = x @ kernel, grad @ kernel.T, np.einsum("bld,blf->df", x, grad)
    for ours, theirs in zip((y, *vjp(exact)), expected, strict=True):
        assert ours.dtype == jnp.float32
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-5)


def test_a_kernels_gradient_is_summed_in_float32():
    x, kernel, grad = random_arrays((1, 4096, 2), (2, 3), (1, 4096, 3))
    x, grad = jnp.abs(x).astype(jnp.bfloat16), jnp.abs(grad).astype(jnp.bfloat16)
    y, vjp = jax.vjp(products.dense_matmul, x, kernel)
    assert y.dtype == jnp.bfloat16
    grad_x, grad_kernel = vjp(grad)
    assert (grad_x.dtype, grad_kernel.dtype) == (jnp.bfloat16, jnp.float32)
    expected = np.einsum("bld,blf->df", *(np.float64(a) for a in (x, grad)))
    np.testing.assert_allclose(grad_kernel, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("dims", "left", "right"),
    [
        ("bhlk,bhmk->bhlm", (2, 3, 4, 5), (2, 3, 6, 5)),
        ("bhlm,bhlk->bhmk", (2, 3, 4, 6), (2, 3, 4, 5)),
        ("bld,blf->df", (2, 4, 5), (2, 4, 6)),
        ("bhlf,bmf->bhlm", (2, 3, 4, 5), (2, 6, 5)),
    ],
    ids=str,
)
def test_an_einsum_is_numpys_of_its_rounded_operands(dims, left, right, dtype):
    arrays = [jnp.asarray(each, dtype) for each in random_arrays(left, right)]
    expected = np.einsum(dims, *(np.float64(each) for each in arrays))
    found = products.einsum(dims, *arrays)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_no_product_of_a_step_is_converted_back_to_float32(
    make_options, make_group, make_params
):
    """XLA:CPU converts a product's operands if its form is not one that it has."""
    options = make_options(layers=1, width=32, product_dtype="bfloat16")
    network, group = Transformer(options, size=50), make_group(2, 32)

    def loss(net):
        readout = net.readout(net.states(group))
        weight = np.ones((2, 32), np.float32)
        return cross_entropy(readout, group["token"], weight)[0].total

    params = make_params(network, loss)
    grad = jax.jit(jax.grad(lambda params: networks.apply(network, params, loss)))
    text = grad.lower(params).compile().as_text()
    types = dict(re.findall(r"%([\w.-]+) = (\w+)\[", text))
    found = re.findall(r"= (\w+)\[\S+ dot\(%([\w.-]+), %([\w.-]+)\)", text)
    operands = [(types[left], types[right], result) for result, left, right in found]
    # 6 dense layers and 2 products of attention, thrice each, and 3 of the loss.
    assert operands.count(("bf16", "bf16", "f32")) == 27, operands
    assert len(operands) == 27


@pytest.mark.parametrize(
    ("cpuinfo", "fast"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile\n", True),
        ("Features\t: fp asimd bf16\n", True),
        ("flags\t\t: fpu avx512f avx512_vnni\n", False),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu avx512_bf16\n", False),
        ("vendor_id\t: GenuineIntel\nflags\t\t: fpu amx_bf16 avx512_bf16\n", True),
    ],
)
def test_instructions_for_bfloat16_are_read_from_cpuinfo(cpuinfo, fast):
    assert products.has_fast_bfloat16(cpuinfo) == fast
