"""Schemes of positions: how a transformer knows where its tokens are.

A module here defines a frozen dataclass `Scheme(positions.Scheme)`. It is found by
listing the folder: its name is a value of model.position, and its fields are keys of
transformers. A scheme adds to embeddings, rotates queries and keys, or adds to the
logits: terms of each layer, or one bias for all layers.
"""

# B batch, L queries, M keys, H heads, K head width, E embedding width, F width of
# terms, P scored positions

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import jax

from research.contract.parts import Folder
from research.networks.shared.dense import Module, gather_positions
from research.networks.shared.dense_attention import AttentionInputs

if TYPE_CHECKING:
    from research.networks.shared.needs import Needs
    from research.networks.transformer.options import TransformerOptions as Options

FOLDER = Folder(
    "research.networks.transformer.positions", "Scheme", named_by="model.position"
)


class Prepared(NamedTuple):
    """What all layers of a stack share for a scheme: any trees of arrays."""

    query: Any = None  # leaves [B, L, ...]
    key: Any = None  # leaves [B, M, ...]
    table: Any = None  # without batch axis


class Layer(NamedTuple):
    """What a scheme reads of one layer of attention."""

    query: jax.Array  # [B, L, H, K], rotated
    key: jax.Array  # [B, M, H, K], rotated
    scale: float  # of all logits
    biases: Mapping[str, jax.Array]  # [1, 1, H, K] each: of queries, by name
    project: Callable[[str, jax.Array], jax.Array]  # "query" or "key", and states
    # [1, R, D] -> [R, H, K]: the layer's projections
    drop: Callable[[jax.Array], jax.Array]  # model.position_dropout


class Scheme:
    """The base of all schemes, in which a network does not know positions.

    Methods that make parameters (`self.param`) or layers get the Flax module that owns
    them, inside a compact method of it.
    """

    query_biases: ClassVar[tuple[str, ...]] = ()
    """Names of vectors [heads x head width] that it adds to queries: parameters of each
    layer, or of the stack with model.shared_relative_biases. With them attention has no
    other biases (Dai et al. 2019, section 3.3)."""

    learns_positions: ClassVar[bool] = False
    """Whether each position has a vector of its own, which takes many steps: small
    scales of sweeps have another scheme instead."""

    has_mems: ClassVar[bool] = False
    """Whether it has distances to mems, whose positions are not in the batch."""

    def check(self, options: Options) -> None:
        """Raises UserError: it is incompatible with other keys of the network."""

    def check_needs(self, options: Options, needs: Needs) -> None:
        """Raises UserError: it is incompatible with what an objective needs."""

    def max_positions(self, options: Options) -> int | None:
        """The most positions of a row; None: any number."""
        return None

    def features(self, options: Options) -> tuple[str, ...]:
        """The `kernels.FEATURES` that attention needs for it."""
        return ()

    def embed(
        self, embedding: Module, x_BLE: jax.Array, position_BL: jax.Array, length: int
    ) -> jax.Array:
        """[B, L, E]: embeddings x plus those of their positions.

        Args:
          embedding: owns its parameters.
          length: number of positions that the network reads.

        Raises:
          UserError: there are too many positions.
        """
        return x_BLE

    def bias(self, stack: Module, options: Options, inputs: AttentionInputs) -> Bias:
        """What it adds to the logits of all layers, with the stack's parameters."""
        raise NotImplementedError

    def buckets(self, pattern: str) -> str:
        """The distances that share a number of the bias, as `model.position_buckets`.

        Args:
          pattern: the attention pattern of the stack.

        Returns:
          "" if there are no such buckets.
        """
        return ""

    def prepare(
        self, stack: Module, options: Options, inputs: AttentionInputs
    ) -> Prepared:
        """What its layers read for all queries and keys of self-attention.

        Args:
          stack: owns the parameters that all layers share.
        """
        return Prepared()

    def in_window(
        self, prepared: Prepared, options: Options, inputs: AttentionInputs
    ) -> Prepared:
        """The same for layers with `model.window`; only arrays differ."""
        return prepared

    def at(self, prepared: Prepared, scored_BP: jax.Array) -> Prepared:
        """The same for the queries at the scored positions."""
        query = jax.tree.map(lambda x: gather_positions(x, scored_BP), prepared.query)
        return prepared._replace(query=query)

    def rotate(
        self, query_BLHK: jax.Array, key_BMHK: jax.Array, prepared: Prepared
    ) -> tuple[jax.Array, jax.Array]:
        """Queries and keys of a layer with positions, as caches and teachers read."""
        return query_BLHK, key_BMHK

    def logits(
        self, terms: Module, layer: Layer, prepared: Prepared
    ) -> tuple[jax.Array, Any]:
        """The scaled queries [B, L, H, K] of a layer, and what is added to its logits.

        Args:
          terms: owns the parameters of the layer's terms.

        Returns:
          The queries; and None, logits [B, H, L, M], or their factors q [B, L, H, F]
          and k [B, M, F] of q @ k, where no gradient flows to k.
        """
        return layer.query * layer.scale, None

    @property
    def has_bias(self) -> bool:
        """Whether there is a bias of the logits, the same for all layers."""
        return type(self).bias is not Scheme.bias

    @property
    def is_in_attention(self) -> bool:
        """Whether attention reads positions, not only embeddings."""
        return self.has_bias or type(self).prepare is not Scheme.prepare


class Bias(Protocol):
    """A bias of the logits, the same for all layers."""

    def between(self, query_BL: jax.Array, key_BM: jax.Array) -> jax.Array:
        """[B, H, L, M]: the bias for positions of queries and keys."""

    def steps(self) -> tuple[tuple[int, ...], jax.Array]:
        """The bias as a step function of key - query, if it has the feature "bias".

        Returns:
          The distances at which the next step begins, ascending; the bias of each step
          and head [steps, H], one step more, float32.
        """


def biases() -> dict[str, str]:
    """Value of `model.position_bias` -> its meaning."""
    has = (name for name, scheme in _defaults().items() if scheme.has_bias)
    lines = {name: FOLDER.lines()[name] for name in has}
    return {"auto": "that of model.position, if it has one"} | lines


def query_biases() -> set[str]:
    """The names of all schemes' biases of queries."""
    return {n for scheme in _defaults().values() for n in scheme.query_biases}


def schemes_with(fact: str) -> str:
    """The schemes that have query_biases, or mems (has_mems), in words."""
    found = _defaults().items()
    return " or ".join(name for name, scheme in found if getattr(scheme, fact))


def _defaults() -> dict[str, Scheme]:
    return {n: FOLDER.part_class(n, "model.position")() for n in FOLDER.names()}
