"""FLOPs are those that run: scans count as often, dead code not at all."""

import jax
import jax.numpy as jnp
import pytest

from research.run import flops

X = jnp.ones((8, 16))
W = jnp.ones((16, 16))
ONE = 2 * 8 * 16 * 16


def test_matrix_product():
    assert flops.count_flops(lambda x, w: x @ w, X, W) == ONE


@pytest.mark.parametrize("length", [1, 5])
def test_scan_counts_as_often_as_it_runs(length):
    def scanned(x, w):
        return jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=length)[0]

    assert flops.count_flops(scanned, X, W) == length * ONE


def test_gradient_costs_twice_more():
    def loss(w):
        return jnp.tanh(X @ w).sum()

    assert flops.count_flops(jax.grad(loss), W) == 2 * ONE  # X itself has no gradient


def test_dead_code_is_free():
    def loss(x, w):
        unused = x @ w
        return jax.lax.map(lambda row: (row @ w, row.sum())[1], x[None]), unused.shape[
            0
        ]

    assert flops.count_flops(lambda x, w: loss(x, w)[0], X, W) == 0


def test_recomputation_counts():
    def block(x, w):
        return jnp.tanh(jnp.tanh(x @ w) @ w)

    def grad_flops(f):
        return flops.count_flops(jax.value_and_grad(lambda w: f(X, w).sum()), W)

    assert grad_flops(jax.checkpoint(block)) > grad_flops(block)


def test_two_branches_count_as_the_dearer():
    def choose(x, w):
        return jax.lax.cond(x[0, 0] > 0, lambda: x @ w @ w, lambda: x @ w)

    assert flops.count_flops(choose, X, W) == 2 * ONE


def test_jit_changes_nothing():
    assert flops.count_flops(jax.jit(lambda x, w: x @ w), X, W) == ONE
