"""Dense, norm and feed-forward layers, dropout, initialisers."""

# B batch, L length, P scored positions, D width

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.core.scope import LazyRng
from jax.ad_checkpoint import checkpoint_name

from research.kernels.counter_dropout import counter_dropout, dropout_seeds
from research.networks.shared.activations import ACTIVATIONS
from research.networks.shared.norms import NORMS
from research.networks.shared.options import Options
from research.networks.shared.products import dense_matmul
from research.networks.shared.quantized import (
    INPUT_RANGE,
    SPLIT,
    int8_matmul,
    is_stored,
    within,
)

DENSE_PRODUCT = "product"
"""Name of a dense layer's product for `jax.checkpoint`, whose policies may save it."""
STATE_AXES = ("batch", "length", None)
"""The logical axes of states [B, L, D]."""


def gather_positions(array: jax.Array, scored_BP: jax.Array) -> jax.Array:
    """[B, P, ...]: the entries of an array [B, L, ...] at the scored positions."""
    index = jnp.expand_dims(scored_BP, range(2, array.ndim))
    return jnp.take_along_axis(array, index, axis=1, mode="clip")


def normal(options: Options, std: float, *names: str | None):
    """An initialiser N(0, std) of a parameter with logical axis names.

    With `model.init` truncated, electra or small, values beyond two standard deviations
    are redrawn, as in BERT's released code (the standard deviation is then 0.88 of
    `std`, which with small depends on the width).
    """
    if options.init == "small":
        std = (2 / (5 * options.width)) ** 0.5
    truncated = options.init in ("truncated", "electra", "small")
    draw = nn.initializers.truncated_normal if truncated else nn.initializers.normal
    return nn.with_logical_partitioning(draw(std), names)


def constant(value: float, *names: str | None):
    """An initialiser with one value for a parameter with logical axis names."""
    return nn.with_logical_partitioning(nn.initializers.constant(value), names)


def uniform(bound: float, *names: str | None):
    """An initialiser U(-bound, bound) for a parameter with logical axis names."""

    def draw(key, shape, dtype=jnp.float32):
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return nn.with_logical_partitioning(draw, names)


def bias_init(options: Options, fan_in: int, *names: str | None):
    """The initialiser of the bias of a dense layer with `fan_in` inputs."""
    if options.init == "xlm":
        return uniform(fan_in**-0.5, *names)
    return constant(0.0, *names)


KEY_NAMES = {
    "embeddings": "place",
    "encoder_embeddings": "encoder_place",
    "decoder_embeddings": "decoder_place",
    "token_type": "kind",
    "boundary_head": "sides",
}
"""Name of a module -> the name from which its random keys are derived."""


def _key_name(name: str) -> str:
    if name.startswith("head_"):
        return f"answer_{name.removeprefix('head_')}"
    return KEY_NAMES.get(name, name)


class Module(nn.Module):
    """The base of modules with parameters.

    Flax derives random keys from the names of modules. For renamed modules `KEY_NAMES`
    has the old name, so that published results can be reproduced exactly.
    """

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.parent, nn.Module) and self.scope is not None:
            rngs = self.parent.scope.rngs
            name = _key_name(self.name)
            self.scope.rngs = {k: LazyRng.create(rng, name) for k, rng in rngs.items()}

    @nn.nowrap
    def param(self, name: str, init: Callable, *args: Any) -> Any:
        """The parameter `name`, initialised by `init(key, *args)` if it does not exist.

        Flax's method traces `init` wherever a parameter is read, to compare shapes,
        which took a third of the time to trace a network with its gradient.
        """
        if self.has_variable("params", name):
            return nn.meta.unbox(self.get_variable("params", name))
        return super().param(name, init, *args)


def dropout(module: nn.Module, x: jax.Array, place: str) -> jax.Array:
    """Dropout of x [..., L, D] at the rate for a place, if there is a "dropout" key.

    Args:
      place: one of the options' `dropout_places`.
    """
    rate = module.options.dropout_rate(place)
    if not rate or not module.has_rng("dropout"):
        return x
    seed = dropout_seeds(module.make_rng("dropout"), *x.shape[:-2])[..., None, None]
    row, column = (
        jax.lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - n) for n in (2, 1)
    )
    return counter_dropout(x, seed, row, column, rate)


class Dense(Module):
    """x @ kernel + bias over the last dimension.

    Attributes:
      axes: the logical names of the kernel's two dimensions.
      scale: factor of the initial standard deviation with `model.init` t5.
      residual: the output is added to the residual stream (GPT-2 scales its kernel).
      unspecified: ELECTRA's code gives no initialiser for it, so that the kernel has
        TensorFlow's default, Glorot's uniform.
      bias: whether there is a bias; None: as `model.bias`.
    """

    options: Options
    size: int
    axes: tuple[str | None, str | None]
    scale: float = 1.0
    residual: bool = False
    unspecified: bool = False
    bias: bool | None = None

    @nn.compact
    def __call__(self, x):
        options, fan_in = self.options, x.shape[-1]
        shape = (fan_in, self.size)
        if options.quantization == SPLIT:
            shape = (2, *shape)
        kernel = self.param("kernel", self._kernel_init(fan_in), shape)
        if options.quantization != "none":
            y = self._int8_product(x, kernel)
        else:
            y = dense_matmul(x, kernel, options.operand_dtype)
        y = checkpoint_name(y, DENSE_PRODUCT)
        if options.bias if self.bias is None else self.bias:
            init = bias_init(options, fan_in, self.axes[1])
            bias = self.param("bias", init, (self.size,))
            y += jnp.expand_dims(bias.astype(x.dtype), range(x.ndim - 1))
        return y

    def _int8_product(self, x, kernel):
        options, limit = self.options, None
        if options.quantization_range == "ema":
            limit = self.param(INPUT_RANGE, constant(0.0), ())
        scales, dtype = options.quantization_scale, options.operand_dtype
        kind, clip = options.quantization, options.quantization_clip
        if not is_stored(kernel):
            kernel = within(kernel, clip)
        return int8_matmul(within(x, clip), kernel, limit, scales, dtype, kind)

    def _kernel_init(self, fan_in):
        options, std, axes = self.options, 0.02, self.axes
        if options.quantization == SPLIT:
            axes = (None, *axes)
        if options.init == "xlm":
            return uniform(fan_in**-0.5, *axes)
        if options.init == "electra" and self.unspecified:
            summands = range(len(axes) - 2)  # each is initialised as a separate kernel
            draw = nn.initializers.glorot_uniform(batch_axis=(*summands,))
            return nn.with_logical_partitioning(draw, axes)
        if options.init == "t5":
            std = self.scale * fan_in**-0.5
        elif options.init == "gpt2" and self.residual:
            std = 0.02 * (2 * options.layers) ** -0.5
        elif options.init == "zero_residual" and self.residual:
            return constant(0.0, *axes)
        return normal(options, std, *axes)


class Norm(Module):
    """The `model.norm` of NORMS over the last dimension, computed in float32.

    Attributes:
      axis: the logical name of that dimension.
      scaled: whether there is a scale; None: as `model.norm_scale`.
      initial_scale: the initial scale.
    """

    options: Options
    axis: str | None = "embed"
    scaled: bool | None = None
    initial_scale: float = 1.0

    @nn.compact
    def __call__(self, x):
        options, norm = self.options, NORMS[self.options.norm]
        leading_dims = range(x.ndim - 1)
        y = norm.apply(x.astype(jnp.float32), options.norm_epsilon)
        if not (options.norm_scale if self.scaled is None else self.scaled):
            return y.astype(x.dtype)
        init = constant(self.initial_scale, self.axis)
        scale = self.param("scale", init, (x.shape[-1],))
        y = y * jnp.expand_dims(scale, leading_dims)
        if norm.has_bias and options.bias:
            bias = self.param("bias", constant(0.0, self.axis), (x.shape[-1],))
            y = y + jnp.expand_dims(bias, leading_dims)
        return y.astype(x.dtype)


class FeedForward(nn.Module):
    """Dense, activation (gated or not), dense."""

    options: Options

    @nn.compact
    def __call__(self, x):
        options = self.options
        activation = ACTIVATIONS[options.activation]
        inner, outer = ("embed", "feedforward"), ("feedforward", "embed")
        dense = partial(Dense, options, bias=options.bias and options.feedforward_bias)
        y = activation.apply(dense(options.feedforward, inner, name="in")(x))
        if activation.of_gate:
            y *= dense(options.feedforward, inner, name="gate")(x)
        if options.sublayer_norm:
            y = Norm(options, axis="feedforward", name="norm")(y)
        y = dropout(self, y, "feedforward")
        return dense(x.shape[-1], outer, residual=True, name="out")(y)
