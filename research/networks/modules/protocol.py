"""What a network offers once it is bound to its parameters."""

# B batch, L length of a group, M of the encoder's group, P scored positions, D width

from collections.abc import Mapping
from typing import Any, Protocol

import jax

from research.networks.layers.adaptive import AdaptiveReadout
from research.networks.layers.heads import Readout

Group = Mapping[str, jax.Array]
"""The six input arrays [B, L] of `research.batch`; more arrays are ignored."""


class Encoded(Protocol):
    """The encoder's output, to which the decoder attends."""

    states: Any  # [B, M, D], or what the decoder's layers keep of these
    segment: jax.Array  # [B, M]


class Cache(Protocol):
    """What a network keeps of the tokens that it has read, so that text can go on.

    Rows may have padding before the tokens that follow.
    """

    def select_rows(self, row: jax.Array) -> "Cache":
        """The cache of other rows [B] which differ in their tokens alone."""

    def repeat_rows(self, count: int) -> "Cache":
        """The cache of each row `count` times in succession."""

    def without_last(self, count: int) -> "Cache":
        """The cache without the last tokens. Only a network that has queries, or
        attention other than causal, is asked for it: a mask after a text is not kept.
        """


class BoundNetwork(Protocol):
    """The methods that a loss or a search calls.

    A network has those that `Needs` asked for, and always `states`, `readout`, `head`
    and `features`; `networks.build` refuses what a network does not have. Parameters
    exist only for what a loss calls.

    Attributes:
      generator, discriminator: of `Needs.stacks` generator_discriminator, each bound.
      forward, backward: of two_directions, each bound; arrays are in reading order.
    """

    generator: "BoundNetwork"
    discriminator: "BoundNetwork"
    forward: "BoundNetwork"
    backward: "BoundNetwork"

    def states(
        self,
        group: Group,
        scored: jax.Array | None = None,
        *,
        num_keys: int | None = None,
        encoded: Encoded | None = None,
        mems: Mapping[str, jax.Array] | None = None,
        reuse_len: int | None = None,
        cache: Cache | None = None,
    ) -> Any:
        """States [B, L, D]: of a query q they depend on the keys that it attends to.

        With mems or a cache a pair: the states, and the next mems or cache.

        Args:
          scored: [B, P] positions; the result then is the states [B, P, D] of these
            alone, which equal those gathered afterwards.
          num_keys: only the first so many positions serve as keys; the others are
            queries, which read one vector in place of their tokens. None: all.
          encoded: of an encoder and a decoder, what `encode` gave; None: that of the
            cache.
          mems: `empty_mems` in the first step, then what the previous step returned:
            arrays [B, ...], of which `segment` is 0 where there are none. They continue
            the first segment. No gradient flows through them.
          reuse_len: number of positions that may become mems; None: all keys.
          cache: `empty_cache`, or what the previous call returned: states are those of
            a text that is read as a whole.
        """

    def features(self, group: Group, scored: jax.Array | None = None) -> jax.Array:
        """What heads of fine-tuning read [B, L, F]; [B, P, F] at `scored` [B, P]."""

    def readout(self, states: jax.Array) -> Readout | AdaptiveReadout:
        """The vocabulary head at states [..., D], whose logits are not computed yet."""

    def boundary(self, left: jax.Array, right: jax.Array, offset: jax.Array) -> Readout:
        """The vocabulary head of tokens between the states [B, K, D] before and after
        their span, at their offset [B, K] in the span, from 0."""

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""

    def encode(self, group: Group) -> Encoded:
        """The encoder's output for a group of arrays [B, M]."""

    def empty_mems(self, rows: int, length: int) -> dict[str, jax.Array]:
        """Mems of `length` positions [B, ...] before the first row of a stream.

        A network whose mems have no length has the same for any.
        """

    def empty_cache(self, rows: int, slots: int) -> Cache:
        """A cache for `slots` tokens of each row."""
