"""FLOPs count what runs: a scan's body for each iteration, dead code not at all."""

import jax
import jax.numpy as jnp
import pytest

from research.program import flops

X = jnp.ones((8, 16))
W = jnp.ones((16, 16))
ONE = 2 * 8 * 16 * 16


def test_matrix_product():
    assert flops.count_flops(lambda x, w: x @ w, X, W) == ONE


@pytest.mark.parametrize("length", [1, 5])
def test_the_body_of_a_scan_counts_for_each_iteration(length):
    def scanned(x, w):
        return jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=length)[0]

    assert flops.count_flops(scanned, X, W) == length * ONE


def test_a_gradient_costs_twice_the_forward_pass():
    def loss(w):
        return jnp.tanh(X @ w).sum()

    assert flops.count_flops(jax.grad(loss), W) == 2 * ONE  # X itself has no gradient


def test_dead_code_does_not_count():
    def loss(x, w):
        unused = x @ w
        total = jax.lax.map(lambda row: (row @ w, row.sum())[1], x[None])
        return total, unused.shape[0]

    assert flops.count_flops(lambda x, w: loss(x, w)[0], X, W) == 0


def test_rematerialisation_counts():
    def block(x, w):
        return jnp.tanh(jnp.tanh(x @ w) @ w)

    def grad_flops(f):
        return flops.count_flops(jax.value_and_grad(lambda w: f(X, w).sum()), W)

    assert grad_flops(jax.checkpoint(block)) > grad_flops(block)


def test_a_cond_counts_as_its_more_expensive_branch():
    def either(x, w):
        return jax.lax.cond(x[0, 0] > 0, lambda: x @ w @ w, lambda: x @ w)

    found = flops.flops_by_kind(either, X, W)
    assert flops.product_flops(found) == 2 * ONE and found[flops.SKIPPABLE] == ONE
    twice = flops.flops_by_kind(lambda x, w: either(either(x, w), w), X, W)
    assert twice[flops.SKIPPABLE] == 2 * ONE


def test_of_a_branch_in_another_all_that_may_be_skipped_is_told():
    def nested(x, w):
        inner = lambda: jax.lax.cond(x[0, 0] > 1, lambda: x @ w, lambda: x) @ w  # noqa: E731
        return jax.lax.cond(x[0, 0] > 0, inner, lambda: x @ w @ w @ w)

    found = flops.flops_by_kind(nested, X, W)
    assert flops.product_flops(found) == 3 * ONE and found[flops.SKIPPABLE] == 2 * ONE


def test_jit_does_not_change_the_count():
    assert flops.count_flops(jax.jit(lambda x, w: x @ w), X, W) == ONE


def test_products_are_apart_by_dtype_from_other_flops():
    def loss(x, w):
        half = x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)
        return jnp.tanh(half.astype(jnp.float32) @ w).sum()

    assert flops.flops_by_kind(loss, X, W) == {
        "bfloat16 products": ONE,
        "float32 products": ONE,
        "other": 2 * 8 * 16,  # tanh and the sum
    }


def test_memory_on_a_cpu_has_temporary_buffers():
    """The product of [2048, 8] and its transpose is in memory."""

    def total(x):
        return jnp.sort(x @ x.T).sum()

    shape = jax.ShapeDtypeStruct((2048, 8), jnp.float32)
    compiled = jax.jit(total).lower(shape).compile()
    assert flops.peak_bytes(compiled, on_cpu=True) > 4 * 2048**2
