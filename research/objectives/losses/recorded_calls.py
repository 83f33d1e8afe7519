"""A bound network that keeps what a loss calls, to compare two networks by it."""

# B batch, L length, D width, K scored positions, C classes

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from research import networks


class StackCall(NamedTuple):
    """One call of a stack, at all positions."""

    group: Mapping[str, jax.Array]  # arrays [B, L]
    states: jax.Array  # [B, L, D]
    layers: networks.Layers | None  # if they are asked for


class RecordedNetwork:
    """A `networks.BoundNetwork` whose calls are kept, in order.

    Args:
      net: of one stack, or with an encoder and a decoder.
      every_position: states are computed at all positions, also where a loss asks for
        those of some.
      with_layers: all layers are kept, too; implies `every_position`.

    Attributes:
      stacks: with `every_position`, the calls of `states`: of the decoder, where there
        are two stacks.
      readouts: the readouts.
      heads: logits [..., C] of heads of at least two values.
    """

    def __init__(self, net: Any, *, every_position: bool, with_layers: bool):
        self._net = net
        self._every_position = every_position or with_layers
        self._with_layers = with_layers
        self.stacks: list[StackCall] = []
        self.readouts: list[networks.Readout] = []
        self.heads: list[jax.Array] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def states(self, group: Mapping, scored: Any = None, **options: Any) -> jax.Array:
        if not self._every_position:
            return self._net.states(group, scored=scored, **options)
        if self._with_layers:
            layers = self._net.layers(group)
            states = layers.states[-1]
        else:
            layers, states = None, self._net.states(group, **options)
        self.stacks.append(StackCall(group, states, layers))
        if scored is None:
            return states
        return jnp.take_along_axis(states, scored[..., None], axis=1, mode="clip")

    def features(self, group: Mapping, scored: Any = None) -> jax.Array:
        return self.states(group, scored)  # of `Needs.features` last

    def readout(self, states: jax.Array) -> networks.Readout:
        self.readouts.append(self._net.readout(states))
        return self.readouts[-1]

    def head(self, name: str, states: jax.Array) -> jax.Array:
        logits = self._net.head(name, states)
        if logits.shape[-1] > 1:
            self.heads.append(logits)
        return logits
