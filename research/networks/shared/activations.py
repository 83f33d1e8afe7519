"""Activations, by the values of `model.activation`."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

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


class Activation(NamedTuple):
    """A value of `model.activation`."""

    line: str  # what it is, for users
    apply: Callable[[jax.Array], jax.Array]  # entry by entry; keeps the dtype
    of_gate: bool = False  # it multiplies a second projection of the input (gated)
    huggingface: tuple[str, ...] = ()  # its names in config.json; the first is written


gelu_tanh = partial(jax.nn.gelu, approximate=True)

ACTIVATIONS = {
    "gelu": Activation(
        "x Phi(x) (Hendrycks and Gimpel 2016)",
        gelu,
        huggingface=("gelu", "gelu_python"),
    ),
    "gelu_tanh": Activation(
        "gelu, approximated by tanh (GPT)",
        gelu_tanh,
        huggingface=("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    ),
    "quick_gelu": Activation(
        "x sigmoid(1.702 x) (CLIP)", lambda x: x * jax.nn.sigmoid(1.702 * x)
    ),
    "relu": Activation("max(x, 0)", jax.nn.relu, huggingface=("relu",)),
    "relu2": Activation(
        "the square of relu (So et al. 2021)", lambda x: jnp.square(jax.nn.relu(x))
    ),
    "silu": Activation("x sigmoid(x)", jax.nn.silu, huggingface=("swish", "silu")),
    "geglu": Activation("a gate of gelu_tanh (Shazeer 2020)", gelu_tanh, of_gate=True),
    "geglu_exact": Activation("a gate of gelu (ModernBERT)", gelu, of_gate=True),
    "swiglu": Activation("a gate of silu (Shazeer 2020)", jax.nn.silu, of_gate=True),
}
