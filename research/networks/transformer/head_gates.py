"""Gates of attention heads, whose gradients show how a loss depends on each head."""

# B batch, L length, H heads, K head width

from typing import Any

import jax
import jax.numpy as jnp

HEAD_GATE = "head_gate"
"""Name of the parameter [H, 2] of an attention layer; a network that has none has no
gates."""


@jax.custom_vjp
def gate_heads(out_BLHK: jax.Array, gate_H2: jax.Array) -> jax.Array:
    """The unchanged output of heads, as if multiplied by a gate of 1.

    The gradient of `gate_H2` has, for each head: the sum over tokens of out x gradient,
    which is the derivative with respect to the gate (Michel et al. 2019, section 4.1),
    and the sum of its absolute values (their released code, classifier_eval.py).
    """
    del gate_H2
    return out_BLHK


def _backward(out_BLHK: jax.Array, grad_BLHK: jax.Array) -> Any:
    own = out_BLHK.astype(jnp.float32) * grad_BLHK.astype(jnp.float32)
    by_token_BLH = jnp.sum(own, axis=-1)
    sums = [jnp.sum(x, axis=(0, 1)) for x in (by_token_BLH, jnp.abs(by_token_BLH))]
    return grad_BLHK, jnp.stack(sums, axis=-1)


gate_heads.defvjp(lambda out, gate: (out, out), _backward)
