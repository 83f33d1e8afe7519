"""The methods of a network that is bound to its parameters."""

# B batch, L length of a group, M of the encoder's group, P scored positions, D width

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import jax

from research.networks.readouts import OtherReadout
from research.networks.readouts.softmax import Readout

Group = Mapping[str, jax.Array]
"""The six input arrays [B, L] of `research.contract.batch`, with `Needs.input_features`
also FEATURE, with `Needs.span_width` also SPANS; other arrays are ignored."""


class Encoded(Protocol):
    """The encoder's output, to which the decoder attends."""

    states: Any  # [B, M, D], or what the decoder's layers cache of these
    segment: jax.Array  # [B, M]

    def _replace(self, **fields: Any) -> "Encoded": ...


class Layers(NamedTuple):
    """What all layers of a stack compute for a group; N layers, H heads, K their width.

    Queries are not scaled yet; rotary positions are in queries and keys, T5's biases
    and relative terms are not.
    """

    states: jax.Array  # [N + 1, B, L, D] float: `states[n]` is the input of layer n;
    # the first are the embeddings, the last the result of `BoundNetwork.states`
    query: jax.Array  # [N, B, L, H, K]
    key: jax.Array  # [N, B, L, H, K]
    value: jax.Array  # [N, B, L, H, K]


class Cache(Protocol):
    """What a network stores about the tokens that it has read, to continue the text.

    Rows may have padding before the next tokens.
    """

    def select_rows(self, row: jax.Array) -> "Cache":
        """The cache of the rows with these indices [B]; rows differ only in tokens."""

    def repeat_rows(self, count: int) -> "Cache":
        """The cache with each row repeated `count` times in succession."""

    def without_last(self, count: int) -> "Cache":
        """The cache without the last tokens.

        It is called only on networks with queries or non-causal attention, to drop a
        mask or query after the text.
        """


Mems = Mapping[str, jax.Array]
"""What a row keeps of the one before it: arrays [B, ...], among them `segment`."""


class Outputs(NamedTuple):
    """The results of `BoundNetwork.outputs`; None: not asked for, or not available."""

    states: jax.Array  # [B, L, D], or [B, P, D] at `scored`
    mems: Mems | None = None  # for the next row
    cache: Cache | None = None  # for the next tokens
    inputs: jax.Array | None = None  # [layers, B, L, D] of all layers
    raw: jax.Array | None = None  # the states without dropout of the output, with
    # `Needs.undropped`
    links: jax.Array | None = None  # [B, S, C] scores of the candidates of mentions,
    # with `Needs.span_width`


class StatesOfOutputs:
    """A base of networks that have `outputs`, from which `states` follow."""

    outputs: Callable[..., Outputs]

    def states(
        self,
        group: Group,
        scored: jax.Array | None = None,
        *,
        num_keys: int | None = None,
        encoded: Encoded | None = None,
        text_copies: int = 1,
    ) -> jax.Array:
        """See `BoundNetwork.states`."""
        given = {"num_keys": num_keys, "encoded": encoded}
        given = {name: value for name, value in given.items() if value is not None}
        return self.outputs(group, scored, **given).states


class BoundNetwork(Protocol):
    """The methods that a loss or a search calls.

    A network always has `states`, `readout`, `head` and `features`, and the others if
    `Needs` requires them; `networks.build` rejects needs that a network does not meet.
    Parameters exist only for what a loss calls.

    Attributes:
      options: the network's keys of `model`.
      generator, discriminator: the bound networks of `Needs.stacks`
        generator_discriminator.
      forward, backward: the bound networks of `Needs.stacks` two_directions; both read
        arrays in their reading order.
      text, image: the bound networks of `Needs.stacks` towers.
    """

    options: Any
    generator: "BoundNetwork"
    discriminator: "BoundNetwork"
    forward: "BoundNetwork"
    backward: "BoundNetwork"
    text: "BoundNetwork"
    image: "BoundNetwork"

    def states(
        self,
        group: Group,
        scored: jax.Array | None = None,
        *,
        num_keys: int | None = None,
        encoded: Encoded | None = None,
        text_copies: int = 1,
    ) -> jax.Array:
        """States [B, L, D]; that of a query depends only on the keys it attends to.

        Args:
          scored: [B, P] positions; the result is then only their states [B, P, D],
            which equal those gathered afterwards.
          num_keys: only this many first positions serve as keys; the others are
            queries, which read one vector instead of their tokens. None: all.
          encoded: the result of `encode`, for an encoder-decoder.
          text_copies: the rows repeat the texts of the first ones this many times, each
            time beside other pictures; layers that read only texts may read them once.
        """

    def outputs(
        self,
        group: Group,
        scored: jax.Array | None = None,
        *,
        num_keys: int | None = None,
        encoded: Encoded | None = None,
        mems: Mems | None = None,
        reuse_len: int | None = None,
        cache: Cache | None = None,
        same_length: bool = False,
        clamp_len: int = 0,
        with_inputs: bool = False,
    ) -> Outputs:
        """The states, and what else an objective or a search needs.

        Args:
          encoded: as in `states`; None: the cache's.
          mems: `empty_mems` in the first step, then the mems of the previous outputs:
            arrays [B, ...], with `segment` 0 where there are none. A row that reads
            them is one segment, which continues them. No gradient flows through them.
          reuse_len: number of positions that may become mems; None: all keys.
          cache: `empty_cache`, or the cache of the previous outputs. The states are the
            same as if the text were read at once.
          same_length, clamp_len: with mems of N positions and `Needs.mem_limits`: a
            query attends only to itself and the N - 1 tokens before it; larger
            distances are replaced by `clamp_len`, 0: never.
          with_inputs: with `Needs.future`, the outputs have the inputs of all layers.
        """

    def embed(self, group: Group, vectors: jax.Array | None = None) -> jax.Array:
        """With `Needs.future`, input embeddings [B, L, E] of the group's tokens.

        Or vectors [B, L, E], to which only embeddings of positions are added.
        """

    def future_outputs(
        self,
        group: Group,
        states: jax.Array,
        number: int,
        cache: Cache | None = None,
        scored: jax.Array | None = None,
        pattern: str | None = None,
    ) -> Outputs:
        """The outputs of block `number` of `Needs.future`, from states [B, L, D].

        Args:
          cache: `empty_future_cache`, or the cache of the block's previous outputs.
          scored: [B, P] positions; the states are then only theirs.
          pattern: of the group's attention; None: that of `Needs`.
        """

    def features(self, group: Group, scored: jax.Array | None = None) -> jax.Array:
        """Inputs of fine-tuning heads [B, L, F], or [B, P, F] at `scored` [B, P]."""

    def layers(self, group: Group) -> Layers:
        """What all layers compute for a group of arrays."""

    def readout(self, states: jax.Array) -> Readout | OtherReadout:
        """The vocabulary head at states [..., D], whose logits are not computed yet."""

    def boundary(self, left: jax.Array, right: jax.Array, offset: jax.Array) -> Readout:
        """The vocabulary head of tokens in spans, from the states around their span.

        Args:
          left, right: the states [B, K, D] before and after each token's span.
          offset: [B, K] the token's offset in its span, from 0.
        """

    def token_bias(self, group: Group) -> jax.Array:
        """Float32 [B, L]: the bias of each input token."""

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""

    def log_scale(self) -> jax.Array:
        """Float32 []: a learned number, initially 0, with `Needs.stacks` towers."""

    def encode(self, group: Group) -> Encoded:
        """The encoder's output for a group of arrays [B, M]."""

    def empty_mems(self, rows: int, length: int) -> dict[str, jax.Array]:
        """Mems of `length` positions [B, ...] before the first row of a stream.

        If a network's mems have a fixed size, `length` does not matter.
        """

    def empty_future_cache(self, rows: int, slots: int) -> Cache:
        """A cache of one of the `Needs.future` blocks."""

    def empty_cache(self, rows: int, slots: int) -> Cache:
        """A cache for `slots` tokens of each row."""
