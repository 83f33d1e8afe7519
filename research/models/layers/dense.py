"""The small parts of a block: dense layers, norms, feed-forward layers, dropout."""

# B batch, L length, D width, F width inside the feed-forward layer

from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.ad_checkpoint import checkpoint_name

from research.models.options import Options


@jax.custom_vjp
def gelu(x: jax.Array) -> jax.Array:
    """x Phi(x), which keeps x alone for its gradient (Hendrycks and Gimpel 2016)."""
    return (x * _normal_share(x)).astype(x.dtype)


def _normal_share(x):
    return 0.5 * (1 + jax.lax.erf(x.astype(jnp.float32) * 0.5**0.5))


def _gelu_forward(x):
    return gelu(x), x


def _gelu_backward(x, slope):
    wide = x.astype(jnp.float32)
    density = jnp.exp(-0.5 * wide * wide) * (2 * jnp.pi) ** -0.5
    return (((_normal_share(x) + wide * density) * slope).astype(x.dtype),)


gelu.defvjp(_gelu_forward, _gelu_backward)

ACTIVATIONS = {
    "gelu": gelu,
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "relu": jax.nn.relu,
    "geglu": lambda x: jax.nn.gelu(x, approximate=True),
    "swiglu": jax.nn.silu,
}
GATED = ("geglu", "swiglu")
PRODUCT = "product"
"""The name by which a block may keep a dense layer's product for its gradient."""
RESIDUAL = ("batch", "length", None)
"""The logical axes of states [B, L, D]."""


def gather_positions(states: jax.Array, scored: jax.Array) -> jax.Array:
    """The states [B, P, ...] at the places `scored` [B, P] of [B, L, ...]."""
    places = jnp.expand_dims(scored, range(2, states.ndim))
    return jnp.take_along_axis(states, places, axis=1, mode="clip")


def normal(options: Options, std: float, *names: str | None):
    """An initialiser N(0, std) of a parameter with logical axis names.

    With `model.init` truncated, what lies beyond two deviations is drawn again, as in
    BERT's released code (whose deviation then is 0.88 of `std`).
    """
    truncated = options.init == "truncated"
    draw = nn.initializers.truncated_normal if truncated else nn.initializers.normal
    return nn.with_logical_partitioning(draw(std), names)


def constant(value: float, *names: str | None):
    """An initialiser of a parameter that starts at one value."""
    return nn.with_logical_partitioning(nn.initializers.constant(value), names)


def dropout(module: nn.Module, x: jax.Array) -> jax.Array:
    """Drops entries of x if and only if the module was given a key for it."""
    rate = module.options.dropout
    if not rate or not module.has_rng("dropout"):
        return x
    kept = jax.random.bernoulli(module.make_rng("dropout"), 1 - rate, x.shape)
    return jnp.where(kept, x / (1 - rate), 0).astype(x.dtype)


@jax.custom_vjp
def product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """x [..., D] @ kernel [D, F] in x's type; the kernel's gradient is float32.

    XLA:CPU is quick where both sides of a product are read along their rows, so there
    the kernel's gradient takes an upright copy of the narrower side: 0.7 of the time
    that JAX's own transpose of the product takes. Elsewhere it is a plain product.
    """
    return x @ kernel.astype(x.dtype)


def _product_forward(x, kernel):
    return product(x, kernel), (x, kernel)


def _product_backward(kept, slope):
    x, kernel = kept
    x_ND, slope_NF = (side.reshape(-1, side.shape[-1]) for side in (x, slope))
    wide = partial(jnp.matmul, preferred_element_type=jnp.float32)
    if x_ND.shape[1] <= slope_NF.shape[1]:
        kernel_slope = wide(_copy(x_ND.T), slope_NF)
    else:
        kernel_slope = _copy(wide(_copy(slope_NF.T), x_ND)).T
    return slope @ kernel.T.astype(slope.dtype), kernel_slope


def _copy(x):
    """x, laid out as written on a CPU, where XLA would read it askew."""
    return jax.lax.platform_dependent(
        x, cpu=jax.lax.optimization_barrier, default=lambda x: x
    )


product.defvjp(_product_forward, _product_backward)


class Dense(nn.Module):
    """x @ kernel + bias over the last dimension.

    Attributes:
      axes: the logical names of the kernel's two dimensions.
      scale: of T5's initialisation, beside the fan-in.
      residual: the output is added to the residual stream (GPT-2 scales its kernel).
    """

    options: Options
    size: int
    axes: tuple[str | None, str | None]
    scale: float = 1.0
    residual: bool = False
    bias: bool = True

    @nn.compact
    def __call__(self, x):
        options = self.options
        std = 0.02
        if options.init == "t5":
            std = self.scale * x.shape[-1] ** -0.5
        elif options.init == "gpt2" and self.residual:
            std = 0.02 * (2 * options.layers) ** -0.5
        shape = (x.shape[-1], self.size)
        kernel = self.param("kernel", normal(options, std, *self.axes), shape)
        y = checkpoint_name(product(x, kernel), PRODUCT)
        if options.bias and self.bias:
            bias = self.param("bias", constant(0.0, self.axes[1]), (self.size,))
            y += jnp.expand_dims(bias.astype(x.dtype), range(x.ndim - 1))
        return y


class Norm(nn.Module):
    """LayerNorm or RMSNorm over the last dimension, computed in float32."""

    options: Options

    @nn.compact
    def __call__(self, x):
        options = self.options
        lead = range(x.ndim - 1)
        scale = self.param("scale", constant(1.0, "embed"), (x.shape[-1],))
        y = x.astype(jnp.float32)
        if options.norm == "layernorm":
            y = y - jnp.mean(y, axis=-1, keepdims=True)
        square = jnp.mean(y * y, axis=-1, keepdims=True)
        y = y * jax.lax.rsqrt(square + options.norm_epsilon)
        y = y * jnp.expand_dims(scale, lead)
        if options.norm == "layernorm" and options.bias:
            bias = self.param("bias", constant(0.0, "embed"), (x.shape[-1],))
            y = y + jnp.expand_dims(bias, lead)
        return y.astype(x.dtype)


class FeedForward(nn.Module):
    """Dense, activation (gated or not), dense."""

    options: Options

    @nn.compact
    def __call__(self, x):
        options = self.options
        act = ACTIVATIONS[options.activation]
        inner = ("embed", "feedforward")
        y = act(Dense(options, options.feedforward, inner, name="in")(x))
        if options.activation in GATED:
            y *= Dense(options, options.feedforward, inner, name="gate")(x)
        outer = ("feedforward", "embed")
        return Dense(options, x.shape[-1], outer, residual=True, name="out")(y)
