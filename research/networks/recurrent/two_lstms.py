"""Two LSTMs: one reads a text from its start, the other from its end.

The layers of one direction do not read those of the other, so that each is a language
model (ELMo, Peters et al. 2018, section 3.1); both share embeddings and readout. Layers
that read both directions may follow (CVT, Clark et al. 2018).
"""

# B batch, L length, P scored positions, D width of a direction

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.networks.readouts.softmax import Readout
from research.networks.recurrent.lstm_layer import LayerResult
from research.networks.recurrent.lstm_stack import (
    LSTM,
    JoinedLayers,
    StackResult,
    Undropped,
    Words,
    drop,
    inputs_of_layers,
    make_token,
    read_words,
)
from research.networks.recurrent.options import LSTMOptions
from research.networks.shared.characters import Characters
from research.networks.shared.dense import gather_positions
from research.networks.shared.features import VIEWS, FeatureLayers
from research.networks.shared.heads import HeadSpec, make_heads
from research.networks.shared.protocol import Outputs, StatesOfOutputs


class TwoLSTMs(StatesOfOutputs, nn.Module):
    """A `networks.BoundNetwork` when bound.

    Its patterns are full and, for each of its directions, causal. Attributes are those
    of `LSTM`.
    """

    options: LSTMOptions
    size: int
    transform: bool = False
    heads: tuple[tuple[str, HeadSpec], ...] = ()
    characters: Characters | None = None
    feature_states: str = "last"
    lstm_layers: int = 0
    has_vectors: bool = False

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options, size = self.options, self.size
        self.token = make_token(options, size, self.characters, self.has_vectors)
        self.output = options.output.head(options, size, self.token, self.transform)
        shared = {"shared_token": self.token, "shared_output": self.output}
        self.forward = LSTM(options, size, **shared)
        self.backward = LSTM(options, size, **shared)
        numbers = range(options.joined_layers)
        self.joined_forward = [JoinedLayers(options, number) for number in numbers]
        self.joined_backward = [JoinedLayers(options, number) for number in numbers]
        self.feature_layers = FeatureLayers(
            options, self.feature_states, self.lstm_layers, name="features"
        )
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def outputs(self, group: Mapping, scored: jax.Array | None = None) -> Outputs:
        """The states of both directions, with and without dropout of the output."""
        both = self._read(group)
        x = Undropped(*map(_join, *(each[:2] for each in both)))
        x, _ = self._join_layers(x, group["segment"])
        if scored is not None:
            x = Undropped(*(gather_positions(each, scored) for each in x))
        return Outputs(x.states, raw=x.raw)

    def features(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The inputs of fine-tuning heads: the states, or what `Needs` requires.

        The first layer of each direction reads the same vectors, so that a mix of
        layers has them twice, as in ELMo.
        """
        if self.feature_states == "last" and not self.lstm_layers:
            return self.states(group, scored)
        if self.feature_states == "vectors":
            x = self.feature_layers(group)
            return x if scored is None else gather_positions(x, scored)
        both = self._read(group)
        views = Undropped(*map(_join, *(each[:2] for each in both)))
        x = self._join_layers(views, group["segment"])[0].states
        if self.feature_states == VIEWS:
            if self.options.joined_layers:
                x = _join(views.states, x)
            return x if scored is None else gather_positions(x, scored)
        each_layer = zip(*(each.inputs for each in both), strict=True)
        inputs = [_join(*layer) for layer in each_layer]
        inputs = inputs_of_layers(inputs, self.feature_states)
        x = self.feature_layers(group, x, inputs)
        return x if scored is None else gather_positions(x, scored)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head at states [..., 2 D], which it projects.

        Raises:
          UserError: it is no softmax over one table, and reads states of width D.
        """
        self.options.check_one_softmax(
            "is for an LSTM that reads a text from one end, but this objective "
            "predicts words from both ends"
        )
        return self.output(states, self.token.table_VE)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states of any width."""
        return self.named_heads[name](states)

    def encode(self, group: Mapping) -> "EncodedText":
        """All states of a text [B, L], for a decoder."""
        first, back = both = self._read(group, with_cells=True)
        x = Undropped(*map(_join, *(each[:2] for each in both)))
        x, joined = self._join_layers(x, group["segment"], with_cells=True)
        layers = (*zip(first.layers, back.layers, strict=True), *joined)
        return EncodedText(x.states, group["segment"], layers)

    def _join_layers(
        self, x: Undropped, segment_BL: jax.Array, with_cells: bool = False
    ) -> tuple[Undropped, list[tuple[LayerResult, LayerResult]]]:
        """The states after the layers that read both directions, from x [B, L, 2 D].

        They are x if there are no such layers. Also returns the results of each layer,
        in the order of the text. The layers read states with dropout between layers,
        one mask for both directions, instead of that of the output.
        """
        backward, layers = _turn(segment_BL), []
        for first, last in zip(self.joined_forward, self.joined_backward, strict=True):
            read = drop(self, x.raw, "hidden")
            ahead, result = first(read, segment_BL, with_cells)
            back, turned = last(_turn(read), backward, with_cells)
            x = Undropped(*map(_join, ahead, map(_turn, back)))
            layers.append((result, _turn_layer(turned)))
        return x, layers

    def _read(
        self, group: Mapping, with_cells: bool = False
    ) -> tuple[StackResult, StackResult]:
        """The results of both directions, each in the order of the text."""
        words = read_words(self.token, group)
        state = self.forward.empty_cache(len(group["segment"]), 0)
        own = {name: group[name] for name in ("token", "segment")}
        first = self.forward.stack(words, own, state, with_cells)
        turned = Words(*(None if each is None else _turn(each) for each in words))
        back = self.backward.stack(turned, jax.tree.map(_turn, own), state, with_cells)
        return first, StackResult(
            _turn(back.states),
            _turn(back.raw),
            tuple(map(_turn, back.inputs)),
            back.state,
            tuple(map(_turn_layer, back.layers)),
        )


class EncodedText(NamedTuple):
    """The states of a text, as `networks.shared.protocol.Encoded`."""

    states: jax.Array  # [B, L, 2 D] of the last layer
    segment: jax.Array  # [B, L]
    layers: tuple[tuple[LayerResult, LayerResult], ...]  # of each layer, forward and
    # backward, with cells, in the order of the text


def _turn(x: Any) -> jax.Array:
    """An array [B, L, ...] in reverse order.

    Padding then comes first and leaves a state unchanged.
    """
    return jnp.flip(x, axis=1)


def _turn_layer(layer: LayerResult) -> LayerResult:
    cell = None if layer.cell is None else _turn(layer.cell)
    return layer._replace(states=_turn(layer.states), cell=cell)


def _join(forward: jax.Array, backward: jax.Array) -> jax.Array:
    return jnp.concatenate([forward, backward], axis=-1)
