"""Readouts: how the probabilities of a vocabulary are made of states.

A module here defines a frozen dataclass `Output(readouts.Output)`. It is found by
listing the folder, and its fields are keys of all networks; a true value of the one
that `chosen_by` names chooses it. What its head returns is a `softmax.Readout` or an
`OtherReadout`, of which a loss takes `loss` and a sampler `logits`.
"""

# B batch, K scored positions, V vocabulary

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import jax
from flax import linen as nn

from research.contract.errors import UserError
from research.contract.parts import Folder, default_of

if TYPE_CHECKING:
    from research.networks.readouts.softmax import Readout
    from research.networks.shared.options import Options

FOLDER = Folder("research.networks.readouts", "Output")

Score = Callable[..., tuple[jax.Array, jax.Array]]
"""One of research/objectives/losses/softmax.py: (`SoftmaxOptions`, feature, table,
bias, target, weight) -> the sum of the losses, and the weights of right positions."""


class Output(abc.ABC):
    """The base of all parts: the vectors of input words and the head of output words.

    Heads and embeddings are made inside a `setup` or compact method of Flax.
    """

    chosen_by: ClassVar[str] = ""
    """The key that chooses it; "": it is the one if no other is chosen."""

    example: ClassVar[Mapping[str, Any]] = {}
    """Keys that choose it, for a vocabulary of 50 entries, for the laws."""

    needs: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Key of all networks -> the values with which it is defined."""

    def check(self, options: Options) -> None:
        """Raises UserError: a key does not have one of the values that it needs."""
        for key, values in self.needs.items():
            if getattr(options, key) not in values:
                raise UserError(
                    f"model.{self.chosen_by} needs model.{key} "
                    f"{' or '.join(map(str, values))}, not {getattr(options, key)}"
                )

    def embedding(
        self,
        options: Options,
        size: int,
        init: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> nn.Module | None:
        """The module of the vectors of tokens; None: that of the network.

        Args:
          size: entries of the vocabulary.
          init: of tables, instead of that of model.init.
        """
        return None

    @abc.abstractmethod
    def head(
        self, options: Options, size: int, token: nn.Module, transform: bool
    ) -> nn.Module:
        """The module of the readout.

        Args:
          token: of the vectors of tokens.
          transform: see `Needs`.
        """

    @abc.abstractmethod
    def readout(
        self, head: Any, states: jax.Array, token: Any
    ) -> Readout | OtherReadout:
        """What the head makes of states [..., D]."""


class OtherReadout(abc.ABC):
    """The base of readouts that are not one softmax over the rows of one table.

    Raises:
      UserError: the factors of one softmax are read, as of a `softmax.Readout`.
    """

    chosen_by: ClassVar[str]
    """The key of its `Output`."""

    @abc.abstractmethod
    def logits(self) -> jax.Array:
        """Float32 [B, K, V], whose softmax has the probabilities of all words."""

    @abc.abstractmethod
    def loss(
        self, score: Score, options: Any, target_BK: jax.Array, weight_BK: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The sum of -weight log p(target), and the weight of right positions.

        Args:
          options: `SoftmaxOptions`, whose size is that of no softmax.

        Raises:
          UserError: it has no label smoothing or z-loss, which the options ask for.
        """

    def __getattr__(self, name: str) -> Any:
        if name not in ("feature", "table", "bias", "size"):
            raise AttributeError(name)
        raise UserError(
            f"model.{self.chosen_by}: this objective needs one softmax over all words; "
            f"set {unset(self.chosen_by)}"
        )

    def __getitem__(self, index: Any) -> Any:
        return self.feature  # raises


def outputs() -> dict[str, type[Output]]:
    """Name -> the class of each part."""
    return {name: FOLDER.part_class(name, "readout") for name in FOLDER.names()}


def keys() -> dict[str, Any]:
    """Every key of a part -> its value in a network that does not choose the part."""
    fields = (f for cls in outputs().values() for f in dataclasses.fields(cls))
    values = ((field.name, default_of(field)) for field in fields)
    return {n: tuple(v) if isinstance(v, list) else v for n, v in values}


def unset(key: str) -> str:
    """The key with the value that does not choose its part, as in model.cutoffs=[]."""
    value = keys()[key]
    return f"model.{key}={[*value] if isinstance(value, tuple) else value}"


def chosen(values: Mapping[str, Any]) -> Output:
    """The part that the keys of a network choose, with its values.

    Raises:
      UserError: they choose two.
    """
    set_keys = {
        cls.chosen_by: name
        for name, cls in outputs().items()
        if not cls.chosen_by or values[cls.chosen_by]
    }
    plain = set_keys.pop("")
    if len(set_keys) > 1:
        raise UserError(
            f"model.{' and model.'.join(set_keys)} exclude each other; set "
            f"{' or '.join(map(unset, set_keys))}"
        )
    name = next(iter(set_keys.values()), plain)
    return FOLDER.make({"readout": name, **values}, "readout")
