"""A family of models: its table of tensors, and its config beside our options."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from research.contract.errors import UserError
from research.contract.parts import default_of
from research.interop.huggingface.rows import Row
from research.networks import readouts
from research.networks.shared.activations import ACTIVATIONS
from research.networks.transformer.transformer import Network

REQUIRED, TIE = object(), "tie_word_embeddings"

TASK_HEADS = ("label", "tag", "span", "choice")
"""Heads of which a network for a task has one, and then no readout. Several may have
the same keys (classifier.weight): the class decides whose they are."""

ACTIVATION_NAMES = {
    name: ours for ours, each in ACTIVATIONS.items() for name in each.huggingface
}
"""Hugging Face's activations -> ours; the first of those that mean the same is
written."""

UNSAID = (
    "max_length",
    *readouts.keys(),
    "dtype",
    "attention",
    "remat",
    "scan_unroll",
)
"""Options of which config.json says nothing; a family may have one of them."""

TRAINED_BY: dict[str, tuple[str, Mapping[str, Any]]] = {
    "full": ("mlm", {}),
    "causal": ("lm", {}),
    "general": ("plm", {"format": "pair"}),
}
"""The first attention mask of a family -> the objective by which its models were
trained, and its fields."""

COMMON = {
    field.name: default_of(field)
    for field in dataclasses.fields(Network)
    if field.name not in UNSAID
}
"""Options of all families that say nothing else: the transformer's defaults."""

ONLY_TRAINED_WITH = tuple(name for name in COMMON if name.endswith("dropout"))
"""Options that do not change what a trained network computes."""


def class_names(config: Mapping[str, Any]) -> list[str]:
    """The classes that a config names.

    Raises:
      UserError: its architectures are no list of names.
    """
    names = config.get("architectures")
    names = [] if names is None else names
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise UserError(
            f"config.json: architectures is {names!r}; it must be a list of names"
        )
    return names


def object_at(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object of a key; {} where it is missing or null.

    Raises:
      UserError: it is something else.
    """
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(
            f"config.json: {key} is {value!r}; it must be an object, or null"
        )
    return value


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of config.json that stands for one option.

    Attributes:
      names: their value -> ours; None: the same.
      default: what a config without the key means, or a function of the config.
      source: the value that is written, of the options; None: the option's.
      parse: the option's value, of the config; None: that of the key.
      place: the place of dropout whose rate is written.
    """

    key: str
    option: str
    names: Mapping[Any, Any] | None = None
    default: Any = REQUIRED
    source: Callable[[Any], Any] | None = None
    parse: Callable[[Mapping[str, Any]], Any] | None = None
    place: str = ""

    def read(self, config: Mapping[str, Any]) -> Any:
        """The option's value.

        Raises:
          UserError: the key is missing, or has a value that no option has.
        """
        if self.parse:
            return self.parse(config)
        value = config.get(self.key)
        is_name = self.names is not None and self.key in config  # null names nothing
        if value is None and not is_name:
            if self.default is REQUIRED:
                raise UserError(f"config.json has no {self.key}")
            return self.default(config) if callable(self.default) else self.default
        if self.names is None:
            return value
        if value not in self.names:
            known = ", ".join(map(str, self.names))
            raise UserError(f"config.json: {self.key} is {value!r}; known: {known}")
        return self.names[value]

    def write(self, options: Any) -> Any:
        """The key's value; None: no value of the key means this option's."""
        if self.place:
            return options.dropout_rate(self.place)
        value = self.source(options) if self.source else getattr(options, self.option)
        if self.names is None:
            return value
        return next((a for a, b in self.names.items() if b == value), None)


@dataclasses.dataclass(frozen=True)
class Family:
    """What one `model_type` of Hugging Face is here.

    Attributes:
      patterns: the attention masks that it has; () for an encoder-decoder.
      prefix: what the body's keys begin with, except in a file of the body alone.
      vocab_key: the config key of the number of rows of the token table.
      options: values that differ from `COMMON`.
      constants: keys of config.json that can have one value only -> that value.
      extra: keys that are written beside all these.
      body: rows of all architectures.
      heads: name -> rows.
      architectures: class names, each with the names of its heads; the first one whose
        parameters exist is written.
      copies: key -> key of the tensor that it repeats in files that keep both.
      decide: options that the tensors decide: (config, tensors) -> options.
      readout: the values of `output_head` that its readouts may have.
      readout_activation: the only one of the readout's transform; "": the network's.
      head_activation: that of a classifier's own hidden layer, of HEADS of tasks; "":
        it has none.
      heads_divide_width: its class refuses a config in which they do not.
      has_class_ids: config.json has cls_token_id and sep_token_id, too.
      reads_last: its classifiers read the last token of a row of an encoder, others the
        first.
      note: what users have to know of it, in docs/parts.md.
      types_are_tokens: its code embeds token types as tokens, from the same table.
      has_bare_start: no special token stands before its texts, whatever the objective.
      pools: the states that a classifier may read, as `objective.pool` has them.
      pad_id: what a config without pad_token_id means.
      has_own_pad: its code takes `pad_id` for it, whatever pad_token_id says.
      after_pad: positions start behind the padding id's row, and the table of positions
        has so many more rows.
      sentinels: how many it has behind its pieces.
      tokenizer: the only file of a vocabulary that has its ids; "": any.
      tokenizer_types: those of the vocabularies of its models. Of families with the
        same network one that has the type of a run is exported to.
      decoder_trained_by: of an encoder-decoder the objective by which it was trained,
        and its fields. Others have that of their attention mask.
      task_format: the rows of its tasks, `format` of their objectives; "": those of
        decoders, or those that its tokenizer tells, of BERT or of RoBERTa.
    """

    model_type: str
    patterns: tuple[str, ...]
    keys: tuple[Key, ...]
    body: tuple[Row, ...]
    heads: Mapping[str, tuple[Row, ...]]
    architectures: tuple[tuple[str, tuple[str, ...]], ...]
    prefix: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    constants: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    decide: Callable[[Mapping, Mapping], dict] | None = None
    readout: tuple[str, ...] = ("table",)
    readout_activation: str = ""
    head_activation: str = ""
    reads_last: bool = False
    note: str = ""
    types_are_tokens: bool = False
    has_bare_start: bool = False
    pools: tuple[str, ...] = ("token",)
    heads_divide_width: bool = False
    has_class_ids: bool = False
    pad_id: int = 0
    has_own_pad: bool = False
    after_pad: bool = False
    sentinels: int = 0
    tokenizer: str = ""
    tokenizer_types: tuple[str, ...] = ()
    decoder_trained_by: tuple[str, Mapping[str, Any]] | None = None
    task_format: str = ""

    @property
    def trained_by(self) -> tuple[str, Mapping[str, Any]]:
        """The objective by which its models were trained, and its fields."""
        if self.patterns:
            return TRAINED_BY[self.patterns[0]]
        assert self.decoder_trained_by, f"{self.model_type}: decoder_trained_by"
        return self.decoder_trained_by

    def heads_of(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """The heads that a config's class may have.

        Those for tasks are of their own classes alone; without a class, all.
        """
        named = class_names(config)
        own = {head for n, heads in self.architectures if n in named for head in heads}
        return tuple(
            name
            for name in self.heads
            if not named or name in own or name not in TASK_HEADS
        )

    def rows(self, heads: tuple[str, ...] | None = None) -> list[Row]:
        """The rows of the body and of the heads; None: of all heads."""
        names = self.heads if heads is None else heads
        return [*self.body, *(r for name in names for r in self.heads[name])]

    def read_options(
        self, config: Mapping[str, Any], tensors: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The options that a config and its tensors mean.

        Raises:
          UserError: the config has a value that no option has.
        """
        for name, value in self.constants.items():
            if config.get(name, value) != value:
                raise UserError(
                    f"config.json: {name} is {config[name]!r}; only {value!r} is "
                    "known here"
                )
        options = {**COMMON, **self.options}
        options |= {key.option: key.read(config) for key in self.keys}
        if self.after_pad:
            options["max_length"] -= self.padding(config) + 1
        return options | (self.decide(config, tensors) if self.decide else {})

    def write_config(self, options: Any, pad_id: int) -> dict[str, Any]:
        """The keys of config.json that options decide."""
        written = {key.key: key.write(options) for key in self.keys}
        known = {name: value for name, value in written.items() if value is not None}
        constants = {k: v for k, v in self.constants.items() if v is not None}
        padding = {"pad_token_id": pad_id}
        if self.after_pad:
            known["max_position_embeddings"] += self.padding(padding) + 1
        return {**constants, **self.extra, **known, **padding}

    def ties_tables(self, config: Mapping[str, Any]) -> bool:
        """Whether a config says that the output table is the token table."""
        ties = (key.read(config) for key in self.keys if key.key == TIE)
        return next(ties, True)

    def padding(self, config: Mapping[str, Any]) -> int:
        """The padding id by which a config's model counts positions."""
        value = config.get("pad_token_id")
        return self.pad_id if value is None or self.has_own_pad else value
