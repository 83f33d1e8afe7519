"""What an objective needs from a network, whichever network it is."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any

from research.contract.errors import UserError
from research.networks.shared.features import FEATURES, VIEWS
from research.networks.shared.heads import HeadSpec


class Ability(enum.StrEnum):
    """What some networks can do.

    All networks have a token table, states, a readout and named heads.
    """

    SELF = "attention to the position itself alone"
    FULL = "full attention"
    CAUSAL = "causal attention"
    GENERAL = "attention by rank and reach"
    MEMS = "mems of the row before"
    MEM_LIMITS = "limits of distances to mems"
    QUERIES = "queries that are no keys"
    TOKEN_BIAS = "biases of input tokens"
    UNDROPPED = "states without dropout of the output"
    BOUNDARIES = "readouts of spans from their boundaries"
    FEATURES = "features of several layers"
    VIEWS = "states of each direction alone"
    LAYERS = "states and projections of each layer"
    INPUT_FEATURES = "vectors beside tokens"
    FUTURE = "blocks that predict tokens after the next"
    SPANS = "mentions of entities"
    ENCODER_DECODER = "an encoder and a decoder"
    TWO_DIRECTIONS = "a stack for each direction"
    GENERATOR = "a generator and a discriminator"
    TOWERS = "a tower for images beside that for texts"


STACKS = {
    "one": "one stack",
    "encoder_decoder": Ability.ENCODER_DECODER,
    "two_directions": Ability.TWO_DIRECTIONS,
    "generator_discriminator": Ability.GENERATOR,
    "towers": Ability.TOWERS,
}
"""Value of `Needs.stacks` -> the ability that it needs, or its meaning."""


TIE_CHOICES = ("none", "token", "embedding", "all", "gdes")
"""What generator and discriminator may share: nothing; token embeddings; also the
embeddings of positions and token types; everything except heads and readouts. gdes: the
discriminator's token embeddings are the generator's, which get no gradient from its
loss, plus a table of differences."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Needs:
    """What an objective's loss calls on a `BoundNetwork`.

    Attributes:
      pattern: the objective's promise about rank and reach: self | full | causal |
        general.
      stacks: one of `STACKS`.
      transform: masked tokens are predicted: the readout has BERT's layers before the
        table, unless `model.output_head` says otherwise.
      heads: the layers of each named head.
      token_types: number of token types in the arrays; 0: token types are not used.
      languages: token types are languages, which the network must embed.
      mems: rows continue from step to step, and a row reads mems of the previous one.
      mem_limits: `states` is called with `same_length` or `clamp_len`.
      queries: the last positions are queries that are not keys.
      boundary_offsets: number of offsets in a span that `boundary` distinguishes; 0: it
        is not called.
      token_bias: `token_bias` is called; the readout also has a bias, unless
        `model.output_head` says otherwise.
      untied: the output table is not the token table.
      undropped: `outputs` has states without dropout of the output.
      features: what `features` returns: one of `shared.features.FEATURES`, or VIEWS.
      feature_lstm_layers: layers of the BiLSTM on top of the features.
      layers: `layers` is called.
      input_features: width F of the vectors that positions read in addition to tokens
        (`batch.FEATURE`); 0: none.
      span_width: width E of the vectors of mentions' candidates (`batch.SPANS`), whose
        scores `states` returns `with_links`; 0: none.
      image_positions: number of positions of an image, in the input of its tower or at
        the end of rows; 0: no image.
      box_features: number of the last `input_features`, which are a region's box; 0:
        no box.
      text_features: positions of the text before an image also have vectors.
      future: number of blocks that predict tokens after the next; `future_outputs` is
        called.
      future_tokens: these blocks also read the token before the one they predict.
      generator_size, generator_depth: width and number of layers of the generator, as
        fractions of the discriminator's.
      tie: one of `TIE_CHOICES`.
      spelling: of the entries that are words, "" for others, for networks that read
        characters; (): unknown. `networks.build` takes it from the vocabulary.
    """

    pattern: str
    stacks: str = "one"
    transform: bool = False
    heads: Mapping[str, HeadSpec] = dataclasses.field(default_factory=dict)
    token_types: int = 0
    languages: bool = False
    mems: bool = False
    mem_limits: bool = False
    queries: bool = False
    boundary_offsets: int = 0
    token_bias: bool = False
    untied: bool = False
    undropped: bool = False
    features: str = "last"
    feature_lstm_layers: int = 0
    layers: bool = False
    input_features: int = 0
    span_width: int = 0
    image_positions: int = 0
    box_features: int = 0
    text_features: bool = False
    future: int = 0
    future_tokens: bool = False
    generator_size: float = 1.0
    generator_depth: float = 1.0
    tie: str = "none"
    spelling: tuple[str, ...] = ()

    @property
    def abilities(self) -> tuple[Ability, ...]:
        """The abilities that a network must have."""
        needed = {
            Ability[self.pattern.upper()]: True,
            STACKS[self.stacks]: self.stacks != "one",
            Ability.MEMS: self.mems,
            Ability.MEM_LIMITS: self.mem_limits,
            Ability.QUERIES: self.queries,
            Ability.BOUNDARIES: self.boundary_offsets > 0,
            Ability.LAYERS: self.layers,
            Ability.INPUT_FEATURES: self.input_features > 0,
            Ability.FUTURE: self.future > 0,
            Ability.SPANS: self.span_width > 0,
            Ability.TOKEN_BIAS: self.token_bias,
            Ability.UNDROPPED: self.undropped,
            Ability.FEATURES: self.features in FEATURES[1:]
            or self.feature_lstm_layers > 0,
            Ability.VIEWS: self.features == VIEWS,
        }
        return tuple(ability for ability, is_needed in needed.items() if is_needed)


_EQUAL_OR_ZERO = ("boundary_offsets", "input_features", "span_width", "future")
"""Numbers that must be equal in all objectives in which they are above 0."""


def merge_needs(needs: Sequence[Needs]) -> Needs:
    """The needs of several objectives that train one network.

    They contain all heads and all that any objective needs; the pattern is "general" if
    the patterns differ.

    Raises:
      UserError: the objectives need different stacks, or differ in a field that cannot
        be merged.
    """
    fields = [field.name for field in dataclasses.fields(Needs)]
    values = {name: [getattr(each, name) for each in needs] for name in fields}
    return Needs(**{name: _merge(name, values[name]) for name in fields})


def _merge(name: str, values: list[Any]) -> Any:
    """The merged value of a field."""
    if all(value == values[0] for value in values):
        return values[0]
    match name:
        case "pattern":
            return "general"
        case "heads":
            return _merge_heads(values)
        case _ if all(isinstance(value, bool) for value in values):
            return True
        case "token_types":
            return max(values)
        case _ if name in _EQUAL_OR_ZERO and len({*values} - {0}) == 1:
            return max(values)
    raise UserError(
        "objectives that are trained together need one network, but its "
        f"{name} is {' or '.join(map(repr, dict.fromkeys(values)))}"
    )


def _merge_heads(heads_of_each: list[Mapping[str, HeadSpec]]) -> dict[str, HeadSpec]:
    merged = {}
    for name, spec in (item for heads in heads_of_each for item in heads.items()):
        if merged.setdefault(name, spec) != spec:
            raise UserError(
                "objectives that are trained together share their heads, but "
                f"{name!r} is {merged[name]} and {spec}; rename one"
            )
    return merged
