"""Activations, by the values of `model.activation`."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def gelu(x: jax.Array) -> jax.Array:
    """x Phi(x); only x is saved for the gradient (Hendrycks and Gimpel 2016)."""
    return (x * _normal_cdf(x)).astype(x.dtype)


def _normal_cdf(x):
    return 0.5 * (1 + jax.lax.erf(x.astype(jnp.float32) * 0.5**0.5))


def _gelu_fwd(x):
    return gelu(x), x


def _gelu_bwd(x, grad):
    x_float32 = x.astype(jnp.float32)
    density = jnp.exp(-0.5 * x_float32 * x_float32) * (2 * jnp.pi) ** -0.5
    return (((_normal_cdf(x) + x_float32 * density) * grad).astype(x.dtype),)


gelu.defvjp(_gelu_fwd, _gelu_bwd)

GATED = {
    "geglu": lambda x: jax.nn.gelu(x, approximate=True),
    "geglu_exact": gelu,
    "swiglu": jax.nn.silu,
}
"""Activations of a gate: a second projection of the input is multiplied by them."""

ACTIVATIONS = {
    "gelu": gelu,
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
    "relu": jax.nn.relu,
    "relu2": lambda x: jnp.square(jax.nn.relu(x)),
    "silu": jax.nn.silu,
    **GATED,
}
"""Functions of an array, entry by entry, that keep its dtype."""
