"""The LSTM's layers, embeddings, readout and heads (`lstm.LSTMOptions`)."""

# B batch, L length, P scored positions, N layers, D width, C cells of a layer
# E width of the token table; G gates of a layer

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from research.contract.batch import FEATURE
from research.contract.errors import UserError
from research.kernels.counter_dropout import counter_dropout, dropout_seeds
from research.networks.readouts import OtherReadout
from research.networks.readouts.softmax import Readout
from research.networks.recurrent.lstm_layer import (
    Blocks,
    LayerResult,
    find_steps,
    run_layer,
)
from research.networks.recurrent.options import LSTMOptions
from research.networks.shared.characters import CharacterEmbedding, Characters
from research.networks.shared.dense import (
    STATE_AXES,
    Dense,
    Module,
    dropout,
    gather_positions,
)
from research.networks.shared.embeddings import embed_by_table, padded_rows, range_init
from research.networks.shared.features import OF_SEVERAL_LAYERS, FeatureLayers
from research.networks.shared.heads import HeadSpec, make_heads
from research.networks.shared.protocol import Outputs, StatesOfOutputs


class State(NamedTuple):
    """The recurrent state after the positions so far; it is also the cache."""

    hidden: jax.Array  # [B, N, largest D], padded with zeros
    cell: jax.Array  # [B, N, largest C] float32, also padded
    segment: jax.Array  # [B] segment of the last position outside padding; 0: none

    def select_rows(self, row: jax.Array) -> "State":
        """The state of the rows with these indices [B]."""
        return jax.tree.map(lambda x: jnp.take(x, row, 0, mode="clip"), self)

    def repeat_rows(self, count: int) -> "State":
        """The state with each row repeated `count` times in succession."""
        return jax.tree.map(lambda x: jnp.repeat(x, count, 0), self)


class LSTM(StatesOfOutputs, nn.Module):
    """A `networks.BoundNetwork` when bound.

    Attributes:
      size: entries of the vocabulary.
      transform: the readout has BERT's layers before the table.
      heads: the layers of each named head.
      characters: of the entries, if `model.input` reads them.
      feature_states, lstm_layers: `Needs.features` and `Needs.feature_lstm_layers`.
      has_vectors: positions have vectors, to which the token table, initially 0, is
        added.
      shared_token, shared_output: modules of a network with this as one direction.
    """

    options: LSTMOptions
    size: int
    transform: bool = False
    heads: tuple[tuple[str, HeadSpec], ...] = ()
    characters: Characters | None = None
    feature_states: str = "last"
    lstm_layers: int = 0
    has_vectors: bool = False
    shared_token: Any = None
    shared_output: Any = None

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        token = self.shared_token
        if token is None:
            token = self.token = make_token(
                options, self.size, self.characters, self.has_vectors
            )
        self.stack = Stack(options)
        if self.shared_output is None:
            self.output = options.output.head(options, self.size, token, self.transform)
        self.feature_layers = FeatureLayers(
            options, self.feature_states, self.lstm_layers, name="features"
        )
        self.pooler, self.named_heads = make_heads(options, self.heads)

    @property
    def _token(self) -> Any:
        return self.token if self.shared_token is None else self.shared_token

    def outputs(
        self,
        group: Mapping,
        scored: jax.Array | None = None,
        *,
        mems: Mapping | None = None,
        cache: State | None = None,
    ) -> Outputs:
        """The outputs, whose states are 0 at padding.

        Mems are the state after the last position of the previous row; the first
        segment continues it. They have the arrays of `State`, but segment is [B, 1].
        """
        state = cache
        if mems is not None:
            state = State(**lax.stop_gradient(dict(mems)))
            first_B = jnp.where(state.segment[:, 0] > 0, group["segment"][:, 0], 0)
            state = state._replace(segment=first_B)
        if state is None:
            state = self.empty_cache(len(group["segment"]), 0)
        result = self.stack(read_words(self._token, group), group, state)
        states, raw, state = result.states, result.raw, result.state
        if scored is not None:
            states, raw = (gather_positions(x, scored) for x in (states, raw))
        outputs = Outputs(states, cache=state, raw=raw)
        if mems is not None:
            mems = state._replace(segment=state.segment[:, None])._asdict()
        return outputs._replace(mems=mems)

    def features(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The inputs of fine-tuning heads: the states, or what `Needs` requires."""
        if self.feature_states == "last" and not self.lstm_layers:
            return self.states(group, scored)
        read = ()
        if self.feature_states != "vectors":
            state = self.empty_cache(len(group["segment"]), 0)
            result = self.stack(read_words(self._token, group), group, state)
            inputs = inputs_of_layers(result.inputs, self.feature_states)
            read = result.states, inputs
        x = self.feature_layers(group, *read)
        return x if scored is None else gather_positions(x, scored)

    def readout(self, states: jax.Array) -> Readout | OtherReadout:
        """The vocabulary head at states [..., D]."""
        output = self.output if self.shared_output is None else self.shared_output
        return self.options.output.readout(output, states, self._token)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""
        return self.named_heads[name](states)

    def empty_mems(self, rows: int, length: int) -> dict[str, jax.Array]:
        """Zero mems of one position, whatever `length` is."""
        state = self.empty_cache(rows, 0)
        return state._replace(segment=state.segment[:, None])._asdict()

    def empty_cache(self, rows: int, slots: int) -> State:
        """The zero state; it needs no slots."""
        return zero_state(self.options, rows)


def zero_state(options: LSTMOptions, rows: int) -> State:
    """The state before the first position."""
    width = max(options.widths)
    return State(
        hidden=jnp.zeros((rows, options.layers, width), options.dtype),
        cell=jnp.zeros((rows, options.layers, options.cells(width)), jnp.float32),
        segment=jnp.zeros((rows,), jnp.int32),
    )


def make_token(
    options: LSTMOptions, size: int, characters: Characters | None, has_vectors: bool
) -> nn.Module:
    """The embeddings of a vocabulary of `size` entries, for use in a `setup`."""
    init = range_init(options, has_vectors=has_vectors)
    token = options.output.embedding(options, size, init, "token")
    if token is not None:
        return token
    if options.input == "both":
        return TableAndCharacters(options, size, characters, has_vectors, name="token")
    if options.input == "vectors":
        return GivenVectors(options, size, name="token")
    if characters is not None:
        return _of_characters(options, characters, "token")
    return embed_by_table(options, size, "token", has_vectors=has_vectors)


def _of_characters(
    options: LSTMOptions, characters: Characters, name: str | None = None
) -> nn.Module:
    return CharacterEmbedding(
        options,
        characters,
        options.character_width,
        options.character_filters,
        options.highways,
        name=name,
    )


class TableAndCharacters(Module):
    """The vector of a word from a table, then that of its characters (CVT's input)."""

    options: LSTMOptions
    size: int
    characters: Characters
    has_vectors: bool

    def setup(self):
        self.table = embed_by_table(
            self.options, self.size, has_vectors=self.has_vectors
        )
        self.spelled = _of_characters(self.options, self.characters)
        self.table_VE = self.table.table_VE

    def __call__(self, token_BL: jax.Array) -> jax.Array:
        """[B, L, 2 E]."""
        both = self.table(token_BL), self.spelled(token_BL)
        return jnp.concatenate([x.astype(self.options.dtype) for x in both], axis=-1)


class GivenVectors(Module):
    """Given vectors of words instead of embeddings."""

    options: LSTMOptions
    size: int

    @property
    def table_VE(self) -> jax.ShapeDtypeStruct:  # noqa: N802 (an array, by its dims)
        """The shape of a table of all entries.

        It is for a readout with its own table.
        """
        shape = (padded_rows(self.size), self.options.table_width)
        return jax.ShapeDtypeStruct(shape, jnp.float32)


class Words(NamedTuple):
    """What a stack reads."""

    token: jax.Array  # [B, L, E] embeddings
    feature: jax.Array | None  # [B, L, F] vectors of positions, if there are any


def read_words(token: nn.Module, group: Mapping) -> Words:
    """The embeddings of a group's tokens, and the vectors of its positions."""
    if isinstance(token, GivenVectors):
        if FEATURE not in group:
            raise UserError(
                "model.input vectors reads the vectors of words, which this text does "
                "not have"
            )
        return Words(group[FEATURE], None)
    return Words(token(group["token"]), group.get(FEATURE))


def inputs_of_layers(inputs: Sequence[jax.Array], features: str) -> jax.Array | None:
    """[N, B, L, D]: what all layers read, for `FeatureLayers`.

    None if it reads only the last states, since such an array may not exist.
    """
    return jnp.stack(inputs) if features in OF_SEVERAL_LAYERS else None


class Undropped(NamedTuple):
    """States [B, L, D] with and without dropout of the output."""

    states: jax.Array
    raw: jax.Array


class StackResult(NamedTuple):
    """What all layers compute."""

    states: jax.Array  # [B, L, D]
    raw: jax.Array  # the states without dropout of the output
    inputs: tuple[jax.Array, ...]  # [B, L, D_n] of each layer
    state: State  # after the last position
    layers: tuple[LayerResult, ...]


class Stack(Module):
    """All layers, with dropout between them."""

    options: LSTMOptions

    @nn.compact
    def __call__(
        self, words: Words, group: Mapping, state: State, with_cells: bool = False
    ) -> StackResult:
        options, segment_BL = self.options, group["segment"]
        is_text = (segment_BL > 0)[..., None]
        x = drop_words(self, words.token.astype(options.dtype), group["token"])
        if words.feature is not None:
            axes = (None, "embed")
            project = Dense(options, x.shape[-1], axes, bias=False, name=FEATURE)
            x += project(words.feature.astype(x.dtype))
        x = drop(self, x, "embedding")
        if x.shape[-1] != options.width and options.input != "vectors":
            axes = (None, "embed")
            x = Dense(options, options.width, axes, name="project")(x)
        steps, last_B = find_steps(segment_BL, state.segment)
        hidden, cell, inputs, layers = [], [], [], []
        for n, (params, width) in enumerate(
            zip(self._layers(x.shape[-1]), options.widths, strict=True)
        ):
            x = drop(self, x, "hidden") if n else x
            before = state.hidden[:, n], state.cell[:, n]
            before = before[0][:, :width], before[1][:, : options.cells(width)]
            params = drop_weights(self, params)
            inputs.append(jnp.where(is_text, x, 0))
            result = run_layer(params, x, steps, before, options, with_cells=with_cells)
            x = x + result.states if n and options.residual else result.states
            x = nn.with_logical_constraint(x, STATE_AXES)
            layers.append(result)
            hidden.append(_pad(result.after[0], state.hidden.shape[-1]))
            cell.append(_pad(result.after[1], state.cell.shape[-1]))
        dropped, raw = (
            jnp.where(is_text, each, 0) for each in (drop(self, x, "output"), x)
        )
        after = State(jnp.stack(hidden, 1), jnp.stack(cell, 1), last_B)
        return StackResult(dropped, raw, tuple(inputs), after, tuple(layers))

    def _layers(self, read: int) -> list[dict[str, jax.Array]]:
        """The parameters of each layer; those of equal widths are stacked.

        Args:
          read: input width of the first one.
        """
        options = self.options
        before = (read, *options.widths[:-1])
        if len({*zip(before, options.widths, strict=True)}) == 1:
            size = read, options.width
            return Blocks(options, options.layers, *size, name="blocks")()
        sizes = enumerate(zip(before, options.widths, strict=True))
        named = [
            Blocks(options, 1, *size, name=f"block_{number}") for number, size in sizes
        ]
        return [block()[0] for block in named]


def drop_words(module: Module, x: jax.Array, token_BL: jax.Array) -> jax.Array:
    """x [B, L, E] of tokens, with some words dropped."""
    zero = jnp.zeros((1, 1, 1), jnp.int32)
    return _hashed(module, x, "word", (), token_BL[..., None], zero)


def drop_weights(module: Module, params: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """The parameters of a layer with dropout of its recurrent kernel [D, G]."""
    kernel = params["recurrent_kernel"]
    row, column = (lax.broadcasted_iota(jnp.int32, kernel.shape, n) for n in (0, 1))
    return params | {
        "recurrent_kernel": _hashed(module, kernel, "weight", (), row, column)
    }


def drop(module: Module, x: jax.Array, place: str) -> jax.Array:
    """Dropout of x [B, L, D] at a place of a network of LSTMs."""
    if module.options.dropout_mask == "each":
        return dropout(module, x, place)
    position = jnp.zeros((1, 1, 1), jnp.int32)  # as if all were one
    unit = lax.broadcasted_iota(jnp.int32, (1, 1, x.shape[-1]), 2)
    return _hashed(module, x, place, x.shape[:1], position, unit)


def _hashed(module: Module, x, place, seeds, row, column) -> jax.Array:
    """Dropout by a hash of row and column, with seeds for the first dims."""
    rate = module.options.dropout_rate(place)
    if not rate or not module.has_rng("dropout"):
        return x
    seed = dropout_seeds(module.make_rng("dropout"), *seeds)
    seed = jnp.expand_dims(seed, range(len(seeds), x.ndim))
    return counter_dropout(x, seed, row, column, rate)


class JoinedLayers(Module):
    """One direction of `model.joined_layers`.

    Attributes:
      number: of the layer, from 0, among those that join directions.
    """

    options: LSTMOptions
    number: int

    @nn.compact
    def __call__(
        self, x_BLR: jax.Array, segment_BL: jax.Array, with_cells: bool = False
    ) -> tuple[Undropped, LayerResult]:
        """The states [B, L, D] from both directions of the layer before."""
        options, width = self.options, self.options.width
        own = dataclasses.replace(
            options,
            cell_width=options.joined_cell_width or options.cell_width,
            inner_width=0,
            joined_layers=0,
            joined_cell_width=0,
        )
        name = f"block_{options.layers + self.number}"
        (params,) = Blocks(own, 1, x_BLR.shape[-1], width, name=name)()
        params = drop_weights(self, params)
        rows = len(segment_BL)
        before = (
            jnp.zeros((rows, width), options.dtype),
            jnp.zeros((rows, own.cells(width)), jnp.float32),
        )
        steps, _ = find_steps(segment_BL, jnp.zeros((rows,), jnp.int32))
        result = run_layer(params, x_BLR, steps, before, own, with_cells=with_cells)
        y = nn.with_logical_constraint(result.states, STATE_AXES)
        y = jnp.where((segment_BL > 0)[..., None], y, 0)
        return Undropped(drop(self, y, "output"), y), result


def _pad(x: jax.Array, width: int) -> jax.Array:
    """x [B, D] padded with zeros."""
    return jnp.pad(x, ((0, 0), (0, width - x.shape[-1])))
