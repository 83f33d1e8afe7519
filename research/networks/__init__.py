"""Networks: how they are bound to parameters; only this folder imports flax.

A network that `model.network` can choose is a module below this folder that defines a
class `Network`; the other modules hold what networks consist of. An objective states
what it needs (`Needs`), the config chooses a network, and `build` checks that the
network meets the needs.
"""

import abc
import dataclasses
import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from flax import linen as nn

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.contract.parts import Folder, keys_of_parts
from research.networks import readouts
from research.networks.readouts import OtherReadout
from research.networks.readouts.softmax import Readout
from research.networks.shared.features import FEATURES, OF_VECTORS, VIEWS
from research.networks.shared.flax_bridge import (
    apply,
    bound_params,
    constrain,
    count_layers,
    dropout_key,
    init,
    init_with_output,
    layer_depths,
    logical_axes,
    logical_rules,
    unbox,
    with_options,
)
from research.networks.shared.heads import HeadSpec
from research.networks.shared.needs import TIE_CHOICES, Ability, Needs, merge_needs
from research.networks.shared.options import Options
from research.networks.shared.protocol import BoundNetwork, Layers, Outputs

Module = nn.Module
"""An unbound network, which `apply` binds to parameters."""

FOLDER = Folder("research.networks", "Network", named_by="model.network")


@dataclasses.dataclass(frozen=True, kw_only=True)
@keys_of_parts(readouts.FOLDER)
class Network(Options, abc.ABC):
    """The base of all networks: a frozen dataclass whose fields are keys of `model`.

    Each module of this folder defines exactly one, a class named `Network`. Legal
    values are declared with the fields (`research.contract.fields`).
    """

    abilities: ClassVar[tuple[Ability, ...]]
    """What the network can do."""

    scales_with_width: ClassVar[bool] = False
    """Whether its parameters have the names that research/optimize/width_scaling.py
    reads, so that optimizer.base_width can scale them."""

    small_keys: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})
    """Values of its own keys in a network of two layers of width 16 for texts of twelve
    tokens, where the defaults are too large for one, or too small to show much: the
    laws test that one (tests/laws/test_network.py)."""

    serves_readouts: ClassVar[bool] = False
    """Whether it serves other readouts than one softmax, by its `output`."""

    def __post_init__(self):
        super().__post_init__()
        self.output.check(self)
        if not self.serves_readouts:
            self.check_one_softmax(f"is not for model.network {self.name}")

    def check_one_softmax(self, reason: str) -> None:
        """Raises UserError: another readout than one softmax is chosen.

        Args:
          reason: a predicate of its key, for the error.
        """
        if key := self.output.chosen_by:
            raise UserError(f"model.{key} {reason}; set {readouts.unset(key)}")

    @functools.cached_property
    def output(self) -> readouts.Output:
        """How it makes the probabilities of words."""
        return readouts.chosen(vars(self))

    @property
    def name(self) -> str:
        """The config's model.network."""
        return type(self).__module__.rpartition(".")[-1]

    @abc.abstractmethod
    def module(self, needs: Needs, size: int) -> nn.Module:
        """The unbound module that serves an objective; bound, it is a `BoundNetwork`.

        Its attribute `options` is this network.

        Args:
          needs: the objective's needs, which the abilities cover.
          size: entries of the vocabulary.

        Raises:
          UserError: a key of the network is incompatible with these needs.
        """

    @property
    def max_positions(self) -> int | None:
        """The most positions of a row; None: any number."""
        return None

    @property
    def keeps_zero_weights(self) -> bool:
        """False if weights are quantised to values without 0, which undoes pruning."""
        return True

    @property
    def spelled_by(self) -> str:
        """The key and value that make it read letters of words; "": it does not."""
        return ""

    @property
    def mesh_unit(self) -> int:
        """The number that the size of the mesh axis `tensor` should divide."""
        return self.width

    def without_remat(self) -> "Network":
        """The network without rematerialisation."""
        return self

    def word_rows(self, params: Any, spelling: Sequence[str]) -> Any:
        """The vectors of words computed from their letters; None: rows of a table.

        Words that the vocabulary lacks also have such vectors
        (`words.subwords.WordRows`).

        Args:
          spelling: as in `Needs`.
        """
        del params, spelling


def from_config(section: Any) -> Network:
    """The network that the `model` section of a config describes.

    Raises:
      UserError: two of its values are incompatible.
    """
    return FOLDER.make(section, "network")


def check_abilities(network: Network, needs: Needs) -> None:
    """Raises UserError: the network cannot do what an objective needs."""
    for ability in needs.abilities:
        if ability not in network.abilities:
            able = [
                name
                for name in FOLDER.names()
                if ability in FOLDER.part_class(name, "model.network").abilities
            ]
            raise UserError(
                f"model.network {network.name} has no {ability}, which the objective "
                f"needs; set it to {' or '.join(able)}"
            )
    if needs.untied and network.tie_embeddings:
        raise UserError(
            "model.tie_embeddings is True, but what the objective predicts has vectors "
            "of its own beside those of the words that are read; set it to False"
        )
    if needs.languages and not getattr(network, "token_types", 0):
        raise UserError(
            "objective.languages are token types, of which the network has no "
            f"embeddings; a transformer has them with model.token_types="
            f"{needs.token_types}"
        )


def no_spelling(key: str) -> UserError:
    """The error for a key that needs words if the vocabulary has other pieces."""
    return UserError(
        f"{key} needs the spelling of words, which this vocabulary does not have; set "
        "data.vocabulary=words"
    )


def build(network: Network, needs: Needs, vocab: VocabInfo) -> nn.Module:
    """The unbound module of a network that serves an objective, see `apply`.

    Raises:
      UserError: the network cannot do what the objective needs, or one of its keys is
        incompatible with it.
    """
    check_abilities(network, needs)
    if network.spelled_by and not vocab.spelling:
        raise no_spelling(network.spelled_by)
    needs = dataclasses.replace(needs, spelling=vocab.spelling or ())
    return network.module(needs, vocab.size)


__all__ = [
    "FEATURES",
    "FOLDER",
    "OF_VECTORS",
    "TIE_CHOICES",
    "VIEWS",
    "Ability",
    "BoundNetwork",
    "HeadSpec",
    "Layers",
    "Module",
    "Needs",
    "Network",
    "Options",
    "OtherReadout",
    "Outputs",
    "Readout",
    "apply",
    "bound_params",
    "build",
    "check_abilities",
    "constrain",
    "count_layers",
    "dropout_key",
    "from_config",
    "init",
    "init_with_output",
    "layer_depths",
    "logical_axes",
    "logical_rules",
    "merge_needs",
    "unbox",
    "with_options",
]
