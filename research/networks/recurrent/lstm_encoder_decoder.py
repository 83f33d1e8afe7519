"""An encoder and a decoder of LSTMs (Luong et al. 2015; CoVe, McCann et al. 2017).

A decoder layer starts from the last states of the encoder layer, with both directions
concatenated. With h the state of its last layer and H those of the encoder, the
attentional state is h~ = tanh(V sum_m a_m H_m + U h), where a = softmax(H W h); the
decoder reads h~ of the previous position in addition to its token (input feeding). V
and U are the two halves of the paper's W2, without biases, as in the released code
(salesforce/cove at 9a0d90b, OpenNMT-py/onmt/modules/GlobalAttention.py and Models.py).
"""

# B batch, L length of the decoder, M of the encoder, P scored positions, N layers
# D width of a direction, W = 2 D width of the decoder, C its cells, E of its tokens

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from research.networks.readouts.softmax import Readout, VocabHead
from research.networks.recurrent.lstm_layer import (
    Blocks,
    find_steps,
    gathered_kernels,
    run_cell,
)
from research.networks.recurrent.lstm_stack import (
    State,
    drop,
    drop_weights,
    drop_words,
    zero_state,
)
from research.networks.recurrent.options import LSTMOptions
from research.networks.recurrent.two_lstms import EncodedText, TwoLSTMs
from research.networks.shared.characters import Characters
from research.networks.shared.dense import STATE_AXES, Module, gather_positions, uniform
from research.networks.shared.dense_attention import (
    HIDDEN,
    same_segment,
)
from research.networks.shared.embeddings import embed_by_table
from research.networks.shared.heads import HeadSpec, make_heads
from research.networks.shared.products import dense_matmul, einsum, matmul
from research.networks.shared.protocol import Outputs, StatesOfOutputs


class Attended(NamedTuple):
    """What a decoder reads of the encoder's text."""

    key: jax.Array  # [B, M, W]: H W
    value: jax.Array  # [B, M, W]: V H
    segment: jax.Array  # [B, M]


class DecoderState(NamedTuple):
    """The decoder's state after the positions so far; it is also the cache."""

    layers: State
    fed: jax.Array  # [B, W]: h~ of the last position
    attended: Attended | None = None  # None: no text has been encoded yet

    def select_rows(self, row: jax.Array) -> "DecoderState":
        """The state of the rows with these indices [B], which share an encoded text."""
        fed = jnp.take(self.fed, row, 0, mode="clip")
        return DecoderState(self.layers.select_rows(row), fed, self.attended)

    def repeat_rows(self, count: int) -> "DecoderState":
        """The state with each row repeated `count` times in succession."""
        return jax.tree.map(lambda x: jnp.repeat(x, count, 0), self)


class LSTMEncoderDecoder(StatesOfOutputs, nn.Module):
    """A `networks.BoundNetwork` when bound.

    Encoder and decoder have their own token tables. Attributes are those of
    `lstm_stack.LSTM`.
    """

    options: LSTMOptions
    size: int
    heads: tuple[tuple[str, HeadSpec], ...] = ()
    characters: Characters | None = None
    has_vectors: bool = False

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        self.encoder = TwoLSTMs(
            options,
            self.size,
            characters=self.characters,
            has_vectors=self.has_vectors,
        )
        self.decoder_token = embed_by_table(options, self.size)
        self.decoder = Decoder(decoder_options(options))
        width = 0 if options.tie_embeddings else 2 * options.width
        self.output = VocabHead(options, self.size, width=width)
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def encode(self, group: Mapping) -> EncodedText:
        """The encoder's output for a group of arrays [B, M]."""
        return self.encoder.encode(group)

    def outputs(
        self,
        group: Mapping,
        scored: jax.Array | None = None,
        *,
        encoded: EncodedText | None = None,
        cache: DecoderState | None = None,
    ) -> Outputs:
        """The decoder's outputs.

        The next cache also holds what is read of the encoder's text: later calls omit
        `encoded`.
        """
        state = self.empty_cache(len(group["segment"]), 0) if cache is None else cache
        x = self.decoder_token(group["token"])
        x, state = self.decoder(x, group, encoded, state)
        x = x if scored is None else gather_positions(x, scored)
        return Outputs(x, cache=state)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head at states [..., W]."""
        return self.output(states, self.decoder_token.table_VE)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., W]."""
        return self.named_heads[name](states)

    def empty_cache(self, rows: int, slots: int) -> DecoderState:
        """The zero state; it needs no slots."""
        options = self.decoder.options
        fed = jnp.zeros((rows, options.width), options.dtype)
        return DecoderState(zero_state(options, rows), fed)


def decoder_options(options: LSTMOptions) -> LSTMOptions:
    """The decoder's layers: as many as the encoder's, as wide as its two directions."""
    return dataclasses.replace(
        options,
        layers=options.layers + options.joined_layers,
        width=2 * options.width,
        cell_width=2 * options.cell_width,
        inner_width=0,
        joined_layers=0,
        joined_cell_width=0,
        embedding_width=options.table_width,
    )


class Decoder(Module):
    """The decoder's layers and its attention."""

    options: LSTMOptions

    @nn.compact
    def __call__(
        self,
        x_BLE: jax.Array,
        group: Mapping,
        encoded: EncodedText | None,
        state: DecoderState,
    ) -> tuple[jax.Array, DecoderState]:
        """The states [B, L, W], 0 at padding, and the state after the last position."""
        options, segment_BL = self.options, group["segment"]
        width, layers = options.width, range(options.layers)
        x = drop_words(self, x_BLE.astype(options.dtype), group["token"])
        x = drop(self, x, "embedding")
        read = (x.shape[-1] + width, *(width for _ in layers[1:]))
        blocks = [Blocks(options, 1, read[n], width, name=f"block_{n}") for n in layers]
        blocks = [drop_weights(self, block()[0]) for block in blocks]
        attend = Attention(options, name="attention")
        attended = attend.read(encoded) if encoded is not None else state.attended
        steps, last_B = find_steps(segment_BL, state.layers.segment)
        inputs = Inputs(
            gates=_own_gates(blocks[0], x, options),
            is_text=steps.is_text,
            continues=steps.continues,
            begin=first_states(encoded, segment_BL, options),
            attends=_time_major(same_segment(segment_BL, attended.segment)),
            kept=tuple(
                self._kept(x, "hidden" if n < options.layers else "output")
                for n in range(1, options.layers + 1)
            ),
        )
        step = make_step(blocks, attend.state_kernel(), attended, options)
        before = *(jnp.moveaxis(leaf, 1, 0) for leaf in state.layers[:2]), state.fed
        (hidden, cell, fed), states_LBW = lax.scan(step, before, inputs)
        states = nn.with_logical_constraint(_time_major(states_LBW), STATE_AXES)
        states = jnp.where((segment_BL > 0)[..., None], states, 0)
        after = State(*(jnp.moveaxis(leaf, 0, 1) for leaf in (hidden, cell)), last_B)
        return states, DecoderState(after, fed, attended)

    def _kept(self, x_BLE: jax.Array, place: str) -> jax.Array | None:
        """[L, B, W]: factors of dropout at a place; None: no dropout."""
        ones = jnp.ones((*x_BLE.shape[:2], self.options.width), x_BLE.dtype)
        kept = drop(self, ones, place)
        return None if kept is ones else _time_major(kept)


class Inputs(NamedTuple):
    """What a step of the decoder reads; all have a leading L."""

    gates: jax.Array  # [L, B, 4 C] of the first layer, from only the token
    is_text: jax.Array  # [L, B, 1], as `Steps`
    continues: jax.Array  # [L, B, 1]
    begin: tuple[jax.Array, jax.Array] | None  # hidden [L, N, B, W] and cell [L, N, B,
    # C] of texts that begin here; None: none does
    attends: jax.Array  # [L, B, M] bool
    kept: tuple[jax.Array | None, ...]  # [L, B, W] of each layer but the last, then of
    # h~: factors of dropout


class Attention(Module):
    """Bilinear attention to the encoder's states."""

    options: LSTMOptions

    def setup(self):
        width, cells = self.options.width, self.options.cells(self.options.width)
        draw, shape = uniform(cells**-0.5, "embed", None), (width, width)
        self.bilinear = self.param("bilinear", draw, shape)
        self.context = self.param("context", draw, shape)
        self.state = self.param("state", draw, shape)

    def read(self, encoded: EncodedText) -> Attended:
        """Keys and values of a text: products that are computed before all steps."""
        both = (
            dense_matmul(encoded.states, kernel, self.options.operand_dtype)
            for kernel in (self.bilinear, self.context)
        )
        return Attended(*both, encoded.segment)

    def state_kernel(self) -> jax.Array:
        """U, transposed, in the dtype of products."""
        kernel = self.state.astype(self.options.operand_dtype)
        return nn.with_logical_constraint(kernel, (None, None))


def attentional_state(
    hidden_BW: jax.Array,
    attended: Attended,
    attends_BM: jax.Array,
    kernel_WW: jax.Array,
) -> jax.Array:
    """h~ [B, W] of a decoder's state, whose product with `kernel_WW` is U h.

    A row that attends to nothing has no sum over the encoder's states. Operands of all
    products have the type of `kernel_WW`.
    """
    operands = hidden_BW, attended.key, attended.value
    hidden, key, value = (each.astype(kernel_WW.dtype) for each in operands)
    score_BM = einsum("bw,bmw->bm", hidden, key)
    weight_BM = jax.nn.softmax(jnp.where(attends_BM, score_BM, HIDDEN), axis=-1)
    weight_BM = jnp.where(attends_BM, weight_BM, 0).astype(hidden.dtype)
    context_BW = einsum("bm,bmw->bw", weight_BM, value)
    own_BW = matmul(hidden, kernel_WW, hidden_BW.dtype)
    return jnp.tanh(context_BW + own_BW).astype(hidden_BW.dtype)


def make_step(
    blocks: list[dict[str, jax.Array]],
    state_kernel_WW: jax.Array,
    attended: Attended,
    options: LSTMOptions,
) -> Any:
    """The decoder's function of its states and the `Inputs` of a position.

    The states are hidden [N, B, W], cell [N, B, C] and h~ [B, W].
    """
    operand_dtype, dtype, width = options.operand_dtype, options.dtype, options.width
    kernels, projections = [], []
    for block in blocks:
        recurrent, projection = gathered_kernels(block, options)
        above = block["input_kernel"][-width:].astype(operand_dtype)
        above = nn.with_logical_constraint(above, (None, "feedforward"))
        kernels.append(jnp.concatenate([above, recurrent]))
        projections.append(projection)

    def step(state, inputs: Inputs):
        (hidden, cell, fed), continues = state, inputs.continues
        begin = (0, 0) if inputs.begin is None else inputs.begin
        hidden_before = jnp.where(continues[None], hidden, begin[0])
        cell_before = jnp.where(continues[None], cell, begin[1])
        x, found = jnp.where(continues, fed, 0), []
        for n, block in enumerate(blocks):
            both = jnp.concatenate([x, hidden_before[n]], -1).astype(operand_dtype)
            gates = jnp.matmul(both, kernels[n], preferred_element_type=jnp.float32)
            gates += inputs.gates.astype(jnp.float32) if n == 0 else _biases(block)
            new = run_cell(gates, cell_before[n], projections[n], options, dtype)
            found.append(new)
            x = new[0]
            if n + 1 < len(blocks) and inputs.kept[n] is not None:
                x = x * inputs.kept[n]
        x = attentional_state(x, attended, inputs.attends, state_kernel_WW)
        x = x if inputs.kept[-1] is None else x * inputs.kept[-1]
        new_hidden, new_cell = map(jnp.stack, zip(*found, strict=True))
        is_text = inputs.is_text
        after = (
            jnp.where(is_text[None], new_hidden, hidden),
            jnp.where(is_text[None], new_cell, cell),
            jnp.where(is_text, x, fed),
        )
        return after, x

    return step


def _own_gates(block: dict, x_BLE: jax.Array, options: LSTMOptions) -> jax.Array:
    """[L, B, G]: the tokens' part of the gates of the first layer."""
    kernel = block["input_kernel"][: x_BLE.shape[-1]]
    gates = dense_matmul(x_BLE, kernel, options.operand_dtype)
    return _time_major(gates + _biases(block, gates.dtype)[None])


def _biases(block: dict, dtype: Any = jnp.float32) -> jax.Array:
    """[1, G]: the biases of a layer."""
    names = [name for name in ("bias", "recurrent_bias") if name in block]
    zero = jnp.zeros((1, block["recurrent_kernel"].shape[-1]), dtype)
    return sum((block[name].astype(dtype)[None] for name in names), zero)


def first_states(
    encoded: EncodedText | None, segment_BL: jax.Array, options: LSTMOptions
) -> tuple[jax.Array, jax.Array] | None:
    """hidden [L, N, B, W] and cell [L, N, B, C].

    They are the last states, in both directions, of the encoded text of each position's
    segment; 0 if there is none.
    """
    if encoded is None:
        return None
    same_BLM = same_segment(segment_BL, encoded.segment)
    is_there = same_BLM.any(axis=-1)[..., None]
    first_BL = jnp.argmax(same_BLM, axis=-1)
    last_BL = same_BLM.shape[-1] - 1 - jnp.argmax(jnp.flip(same_BLM, -1), axis=-1)

    def of_layer(forward: jax.Array, backward: jax.Array) -> jax.Array:
        ends = gather_positions(forward, last_BL), gather_positions(backward, first_BL)
        return _time_major(jnp.where(is_there, jnp.concatenate(ends, axis=-1), 0))

    hidden = [of_layer(*(side.states for side in both)) for both in encoded.layers]
    cell = [of_layer(*(side.cell for side in both)) for both in encoded.layers]
    return jnp.stack(hidden, 1).astype(options.dtype), jnp.stack(cell, 1)


def _time_major(x: jax.Array) -> jax.Array:
    """[B, L, ...] to [L, B, ...], and back."""
    return jnp.moveaxis(x, 0, 1)
