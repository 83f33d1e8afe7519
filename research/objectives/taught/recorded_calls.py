"""A bound network that records what a loss calls, to compare two networks."""

# B batch, L length, D width, K scored positions, C classes

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from research import networks
from research.networks.shared.dense import gather_positions


class StackCall(NamedTuple):
    """One call of a stack, at all positions."""

    group: Mapping[str, jax.Array]  # arrays [B, L]
    states: jax.Array  # [B, L, D]
    layers: networks.Layers | None  # if requested


class RecordedNetwork:
    """A `networks.BoundNetwork` whose calls are recorded in order.

    Args:
      net: a network of one stack, or of an encoder and a decoder.
      every_position: states are computed at all positions, even if a loss requests
        only some.
      with_layers: all layers are also recorded; implies `every_position`.

    Attributes:
      stack: with `every_position`, the first call of `states` (of the decoder, if there
        are two stacks); None: not called.
      first_readout: the first readout, that of tokens; None: there is none.
      heads: name -> logits [..., C] of heads of at least two values.
    """

    def __init__(
        self, net: networks.BoundNetwork, *, every_position: bool, with_layers: bool
    ):
        self._net = net
        self._every_position = every_position or with_layers
        self._with_layers = with_layers
        self.stack: StackCall | None = None
        self.first_readout: Any = None
        self.heads: dict[str, jax.Array] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def states(
        self, group: Mapping[str, Any], scored: Any = None, **options: Any
    ) -> jax.Array:
        if not self._every_position:
            return self._net.states(group, scored, **options)
        layers = self._net.layers(group) if self._with_layers else None
        states = layers.states[-1] if layers else self._net.states(group, **options)
        self.stack = self.stack or StackCall(group, states, layers)
        return states if scored is None else gather_positions(states, scored)

    def outputs(
        self, group: Mapping[str, Any], scored: Any = None, **options: Any
    ) -> networks.Outputs:
        if not self._every_position:
            return self._net.outputs(group, scored, **options)
        outputs = self._net.outputs(group, **options)
        self.stack = self.stack or StackCall(group, outputs.states, None)
        if scored is None:
            return outputs
        return outputs._replace(states=gather_positions(outputs.states, scored))

    def features(self, group: Mapping[str, Any], scored: Any = None) -> jax.Array:
        return self.states(group, scored)  # of `Needs.features` last

    def readout(self, states: jax.Array) -> networks.Readout | networks.OtherReadout:
        found = self._net.readout(states)
        self.first_readout = self.first_readout or found
        return found

    def head(self, name: str, states: jax.Array) -> jax.Array:
        logits = self._net.head(name, states)
        if logits.shape[-1] > 1:
            self.heads[name] = logits
        return logits
