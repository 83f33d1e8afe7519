"""A layer of an LSTM: its parameters, its cell and the scan over positions."""

# B batch, L length, M one more than L, D width, C cells of a layer
# G gates, four consecutive ones for each cell

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from research.networks.recurrent.options import LSTMOptions
from research.networks.shared.dense import Module, constant, uniform
from research.networks.shared.products import dense_matmul, matmul

UNROLL = 4
"""Number of positions in one step of the scan."""


class Steps(NamedTuple):
    """How each position changes the state, [L, B, 1] bool."""

    is_text: jax.Array  # False: padding, which leaves the state unchanged
    continues: jax.Array  # the last position outside padding has the same segment


class LayerResult(NamedTuple):
    """What a layer computes for a text."""

    states: jax.Array  # [B, L, D]; padding has the state of the position before it
    cell: jax.Array | None  # [B, L, C] float32, in the same way, if requested
    after: tuple[jax.Array, jax.Array]  # hidden [B, D] and cell [B, C] after the last


class Blocks(Module):
    """The parameters of layers of equal widths, stacked over the layers.

    Attributes:
      count: number of layers.
      read, width: widths of their inputs and outputs.
    """

    options: LSTMOptions
    count: int
    read: int
    width: int

    @nn.compact
    def __call__(self) -> list[dict[str, jax.Array]]:
        """The parameters of each layer."""
        options, count, width = self.options, self.count, self.width
        cells = options.cells(width)
        draw = partial(uniform, cells**-0.5, "layers")
        kernel = draw("embed", "feedforward")
        bias = (constant(0.0, "layers", "feedforward"), (count, 4 * cells))
        if options.cell == "pytorch":
            bias = (draw("feedforward"), (count, 4 * cells))
        made = {
            "input_kernel": (kernel, (count, self.read, 4 * cells)),
            "recurrent_kernel": (kernel, (count, width, 4 * cells)),
            "bias": bias,
            "recurrent_bias": bias,
            "projection": (draw("feedforward", "embed"), (count, cells, width)),
        }
        if not options.bias:
            del made["bias"]
        if not options.bias or options.cell != "pytorch":
            del made["recurrent_bias"]
        if not options.cell_width:
            del made["projection"]
        stacked = {name: self.param(name, *each) for name, each in made.items()}
        split = {name: lax.split(leaf, (1,) * count) for name, leaf in stacked.items()}
        return [
            {name: leaves[number][0] for name, leaves in split.items()}
            for number in range(count)
        ]


def find_steps(segment_BL: jax.Array, before_B: jax.Array) -> tuple[Steps, jax.Array]:
    """`Steps` of the positions, and the segment [B] of the state after the last one.

    Args:
      before_B: the segment of the state before the first position; 0: none.
    """
    all_BM = jnp.concatenate([before_B[:, None], segment_BL], axis=1)
    number = jnp.arange(1, all_BM.shape[1])[None]
    text_BL = lax.cummax(jnp.where(segment_BL > 0, number, 0), axis=1)
    previous_BL = jnp.pad(text_BL, ((0, 0), (1, 0)))[:, :-1]
    continues_BL = jnp.take_along_axis(all_BM, previous_BL, axis=1) == segment_BL
    last_B = jnp.take_along_axis(all_BM, text_BL[:, -1:], axis=1)[:, 0]
    time_major = (each.T[..., None] for each in (segment_BL > 0, continues_BL))
    return Steps(*time_major), last_B


def run_layer(
    params: dict[str, jax.Array],
    x_BLD: jax.Array,
    steps: Steps,
    before: tuple[jax.Array, jax.Array],
    options: LSTMOptions,
    *,
    with_cells: bool = False,
) -> LayerResult:
    """One layer, from its hidden state [B, D] and its cell [B, C] before the text.

    The input product is computed for all positions at once; a step of the scan computes
    the recurrent product and the projection.
    """
    dtype, operand_dtype = x_BLD.dtype, options.operand_dtype
    input_BLG = dense_matmul(x_BLD, params["input_kernel"], operand_dtype)
    for name in ("bias", "recurrent_bias"):
        if name in params:
            input_BLG += params[name].astype(dtype)[None, None]
    recurrent_DG, projection_CD = gathered_kernels(params, options)

    def step(state, inputs):
        (hidden, cell), (input_BG, is_text, continues) = state, inputs
        kept = jnp.where(continues, hidden, 0)
        gates_BG = input_BG.astype(jnp.float32) + jnp.matmul(
            kept.astype(operand_dtype), recurrent_DG, preferred_element_type=jnp.float32
        )
        cell_before = jnp.where(continues, cell, 0)
        new_hidden, new_cell = run_cell(
            gates_BG, cell_before, projection_CD, options, dtype
        )
        hidden = jnp.where(is_text, new_hidden, hidden)
        cell = jnp.where(is_text, new_cell, cell)
        return (hidden, cell), (hidden, cell if with_cells else None)

    inputs = jnp.moveaxis(input_BLG, 1, 0), *steps
    after, found = lax.scan(step, before, inputs, unroll=UNROLL)
    return LayerResult(*jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), found), after)


def gathered_kernels(
    params: dict[str, jax.Array], options: LSTMOptions
) -> tuple[jax.Array, jax.Array | None]:
    """The recurrent kernel and the projection, in the type of products.

    With fsdp they are gathered once, not in each step of a scan.
    """
    gather = nn.with_logical_constraint
    recurrent_DG = params["recurrent_kernel"].astype(options.operand_dtype)
    recurrent_DG = gather(recurrent_DG, (None, "feedforward"))
    projection_CD = params.get("projection")
    if projection_CD is not None:
        projection_CD = projection_CD.astype(options.operand_dtype)
        projection_CD = gather(projection_CD, ("feedforward", None))
    return recurrent_DG, projection_CD


def run_cell(
    gates_BG: jax.Array,
    cell_BC: jax.Array,
    projection_CD: jax.Array | None,
    options: LSTMOptions,
    dtype: Any,
) -> tuple[jax.Array, jax.Array]:
    """The hidden state [B, D] and the cell [B, C] of one step, from its gates."""
    forget_bias = 1 if options.cell == "standard" else 0
    i, f, g, o = jnp.moveaxis(gates_BG.reshape(*cell_BC.shape, 4), -1, 0)
    new_cell = jax.nn.sigmoid(f + forget_bias) * cell_BC
    new_cell += jax.nn.sigmoid(i) * jnp.tanh(g)
    new_cell = _cut(new_cell, options.cell_clip)
    new_hidden = (jax.nn.sigmoid(o) * jnp.tanh(new_cell)).astype(dtype)
    if projection_CD is not None:
        operand = new_hidden.astype(options.operand_dtype)
        new_hidden = matmul(operand, projection_CD, dtype)
        new_hidden = _cut(new_hidden, options.projection_clip)
    return new_hidden, new_cell


def _cut(x: jax.Array, bound: float) -> jax.Array:
    """Clips x to a bound; 0: x itself."""
    return jnp.clip(x, -bound, bound) if bound else x
