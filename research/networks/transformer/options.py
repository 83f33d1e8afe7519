"""The options of a transformer, and what follows from them."""

import dataclasses
import functools
from typing import ClassVar

from research import networks
from research.contract import parts
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.networks.shared.options import depth, dim, dropout_rate
from research.networks.shared.quantized import QUANTIZATIONS, RANGES, SCALES, SPLIT
from research.networks.transformer import feature_layers, kernels, positions
from research.networks.transformer.layer_mixing import LAYER_MIXINGS

ONLY_BESIDE_AN_ENCODER = {
    "decoder_layers": 0,
    "shared_embeddings": True,
    "shared_stacks": False,
    "cross_output": "shared",
}
"""Keys that only an encoder-decoder reads -> their values for other networks."""


STACK_PATTERNS = {"encoder": "full", "decoder": "causal"}
"""Stack of an encoder-decoder -> its attention pattern."""


@dataclasses.dataclass(frozen=True, kw_only=True)
@parts.keys_of_parts(feature_layers.FOLDER, "feature_layers")
@parts.keys_of_parts(positions.FOLDER, "position", "position_bias")
class TransformerOptions(networks.Network):
    """Stacks of blocks: attention, then a feed-forward layer.

    `position` is a scheme (research/networks/transformer/positions), `attention` the
    kernels of all platforms (research/networks/transformer/kernels).

    BERT, GPT and RoBERTa apply dropout to embeddings, attention weights and the outputs
    of sublayers; T5, Transformer-XL and XLNet also inside feed-forward layers and to
    the output of a stack, the last two to relative positions too.
    """

    decoder_layers: int = depth(0, least=0)  # blocks of a decoder; 0: layers
    heads: int = dim(4, least=1)  # divides width, if head_width is 0
    head_width: int = dim(0, least=0)  # of one head; 0: width / heads
    num_kv_heads: int = dim(0, least=0)  # heads of keys and values, each of which
    # serves heads / num_kv_heads query heads (Ainslie et al. 2023); 0: heads
    qkv_bias: bool = False  # biases of queries, keys and values even without model.bias
    # (Qwen; Bai et al. 2023, section 2.3)
    qk_norm: bool = False  # a norm of each head's queries and of its keys (Henry et al.
    # 2020; with rmsnorm as in Qwen3, with layernorm as in Dehghani et al. 2023)
    parallel_residual: bool = False  # a block adds its attention and its feed-forward
    # layer to the same states (GPT-J; Black et al. 2022, section 2.1.2)
    feedforward: int = dim(1024, least=1)  # width inside the feed-forward layer
    shared_embeddings: bool = True  # encoder and decoder have one token table
    shared_stacks: bool = False  # encoder and decoder have the same parameters, except
    # for the decoder's cross-attention
    shared_layers: bool = False  # one block's parameters serve all layers
    max_length: int = dim(512, least=1)  # rows of a table of learned positions
    token_types: int = dim(0, least=0)  # sentence A or B, language, ...; 0: none
    token_type_encoding: str = choice("absolute", ("absolute", "relative"))  # absolute:
    # an embedding; relative: a term of attention logits if two types are the same
    norm_placement: str = choice("pre", ("pre", "post"))
    embedding_norm: str = choice("auto", ("auto", "always", "never"))  # auto: if
    # norm_placement is post
    feature_layers: str = choice("linear", feature_layers.FOLDER.lines())  # project
    # the vector that a position reads in addition to its token, such as a patch's
    sublayer_norm: bool = False  # also a norm before the last layer of attention and of
    # the feed-forward layer (Magneto, Wang et al. 2022; LTG-BERT, Samuel et al. 2023)
    attention_gate: bool = False  # the output of the heads is multiplied by gelu of a
    # projection of the query's state (GPT-BERT, Charpentier and Samuel 2024)
    feedforward_bias: bool = True  # with model.bias, feed-forward layers have biases
    layer_mixing: str = choice("none", LAYER_MIXINGS)  # when the state is a learned sum
    # of all states so far, including the embeddings; layers are then not scanned
    mask_decoder: int = depth(0, least=0)  # how often the last layer runs to predict
    # masked tokens: its queries also read absolute positions, and its keys are the
    # states before it (enhanced mask decoder of DeBERTa, He et al. 2021, section 3.2;
    # 2 in the released code); heads read the ordinary layer; 0: no mask decoder
    first_attention_norm: bool = True  # whether a norm precedes the first block's
    # attention (not in ModernBERT, whose embeddings have one)
    position: str = choice("learned", positions.FOLDER.lines())
    position_bias: str = choice("auto", positions.biases())  # of attention logits,
    # in addition to `position` (t5: MPNet, Song et al. 2020)
    window: int = dim(0, least=0)  # positions to each side to which a query attends, in
    # rows that are full or causal; 0: all. ModernBERT: 64, for its width of 128
    global_every: int = depth(0, least=0)  # layers 0, n, 2n, ... have no window; 0: all
    # layers have it
    shared_relative_biases: bool = False  # all layers have the same biases u and v for
    # relative positions and token types
    cross_output: str = choice("shared", ("shared", "token_type"))  # output projection
    # of cross-attention; token_type: one per token type of the decoder (MASS)
    attention_dropout: float = dropout_rate(-1.0)  # of attention weights
    feedforward_dropout: float = dropout_rate(0.0)  # inside a feed-forward layer
    residual_dropout: float = dropout_rate(-1.0)  # of what a block adds to its input
    layer_dropout: float = dropout_rate(0.0)  # of whole layers, which a step skips for
    # all rows, so that fewer layers suffice later (LayerDrop, Fan et al. 2020)
    attention: str = choice("dense", kernels.lines())
    quantization: str = choice("none", QUANTIZATIONS)  # int8: dense layers multiply
    # 8-bit integers, also in training (Q8BERT), and the token table has their values;
    # attention itself, norms and softmaxes are unchanged. ternary (TernaryBERT), binary
    # (BinaryBERT): the same, but weights have three or two values; split: a kernel is
    # the sum of two binary ones (BinaryBERT's ternary weight splitting)
    quantization_scale: str = choice("channel", SCALES)  # what shares a scale in a
    # kernel: each output, or the whole matrix
    quantization_range: str = choice("token", RANGES)  # of the inputs of a dense layer:
    # per token; or ema: one per layer, measured by palimpsest shrink
    quantization_clip: float = number(0.0, least=0)  # weights and inputs of dense
    # layers are clipped to this and have no gradient beyond; 0: never. Released code of
    # TernaryBERT and BinaryBERT: 2.5
    remat: str = choice("none", ("none", "dots", "full"))  # what a block recomputes
    scan_unroll: int = depth(4, least=1)  # layers per scan step; >= layers: no scan

    of_blocks_alone: ClassVar[bool] = False
    """Whether nothing else is in or between its stacks of blocks: it can be exported to
    Hugging Face's layout, and heads can be removed."""

    serves_readouts: ClassVar = True
    dropout_places: ClassVar[tuple[str, ...]] = (
        "embedding",
        "position",
        "attention",
        "feedforward",
        "residual",
        "layer",
        "output",
        "readout",
        "head",
        "head_input",
    )

    computation_keys: ClassVar = (
        *networks.Options.computation_keys,
        "attention",
        "remat",
        "scan_unroll",
    )

    abilities: ClassVar[tuple[networks.Ability, ...]] = (
        networks.Ability.SELF,
        networks.Ability.FULL,
        networks.Ability.CAUSAL,
        networks.Ability.GENERAL,
        networks.Ability.MEMS,
        networks.Ability.MEM_LIMITS,
        networks.Ability.QUERIES,
        networks.Ability.BOUNDARIES,
        networks.Ability.FEATURES,
        networks.Ability.LAYERS,
        networks.Ability.INPUT_FEATURES,
        networks.Ability.FUTURE,
        networks.Ability.ENCODER_DECODER,
        networks.Ability.TWO_DIRECTIONS,
        networks.Ability.GENERATOR,
    )

    def __post_init__(self):
        super().__post_init__()
        self._check_heads()
        self._check_positions()
        self._check_window()
        self._check_dropout()
        if self.attention != "auto":
            kernels.check_features(self.attention, self.attention_features)

    def _check_heads(self):
        if self.mask_decoder and (self.mixes_layers or self.shared_layers):
            raise UserError(
                "model.mask_decoder needs model.layer_mixing none and "
                "model.shared_layers False"
            )
        if self.parallel_residual and self.norm_placement == "post":
            raise UserError(
                "model.parallel_residual needs model.norm_placement pre, not post"
            )
        mixed = LAYER_MIXINGS[self.layer_mixing].sublayers
        if self.parallel_residual and "attention" in mixed:
            raise UserError(
                f"model.layer_mixing {self.layer_mixing} needs "
                "model.parallel_residual False, not True"
            )
        if not self.first_attention_norm and self.norm_placement == "post":
            raise UserError(
                "model.first_attention_norm=False needs model.norm_placement pre, not "
                "post"
            )
        if not self.head_width and self.width % self.heads:
            raise UserError(
                f"model.heads is {self.heads}; it must divide model.width "
                f"{self.width}, or set model.head_width"
            )
        if self.qk_norm and self.init == "t5":
            raise UserError(
                "model.init t5 leaves attention logits unscaled, and model.qk_norm "
                "makes them large at first; set qk_norm=False or another init"
            )
        if self.heads % (self.num_kv_heads or self.heads):
            raise UserError(
                f"model.num_kv_heads is {self.num_kv_heads}; it must divide "
                f"model.heads {self.heads}"
            )

    def _check_positions(self):
        """Checks positions and token types, which may both be relative."""
        self.scheme.check(self)
        if self.scheme.has_bias and self.position_bias not in ("auto", self.position):
            raise UserError(
                f"model.position {self.position} has a bias of its own; set "
                "model.position_bias=auto"
            )
        chosen = {self.position, self.position_bias}
        for field in dataclasses.fields(self):
            key, schemes = field.metadata.get("read_with", ("", ()))
            if key != "position" or chosen & {*schemes}:
                continue
            if getattr(self, field.name) not in (parts.default_of(field), ()):
                raise UserError(
                    f"model.{field.name} needs model.position "
                    f"{' or '.join(schemes)}, not {self.position}"
                )
        for key in ("token_type_encoding relative", "cross_output token_type"):
            name, value = key.split()
            if getattr(self, name) == value and self.token_types < 2:
                raise UserError(
                    f"model.{key} needs model.token_types of at least 2, "
                    f"not {self.token_types}"
                )
        has_biases = self.scheme.query_biases or self.has_relative_types
        if self.shared_relative_biases and not has_biases:
            raise UserError(
                "model.shared_relative_biases needs model.position "
                f"{positions.schemes_with('query_biases')}, not {self.position}"
            )

    def _check_window(self):
        if self.global_every and not self.window:
            raise UserError(
                f"model.global_every is {self.global_every}, but there is no window; "
                "set model.window, or model.global_every=0"
            )

    def _check_dropout(self):
        if self.mixes_layers and self.dropout_rate("layer") > 0:
            raise UserError(
                "model.layer_mixing reads each layer, but model.layer_dropout skips "
                "some; set one of them to its default, none or 0"
            )

    @functools.cached_property
    def scheme(self) -> positions.Scheme:
        """The scheme of positions."""
        return positions.FOLDER.make(vars(self), "position")

    @property
    def bias_scheme(self) -> positions.Scheme | None:
        """The scheme of the bias of attention logits; None: no bias."""
        if self.position_bias != "auto":
            return positions.FOLDER.make(vars(self), "position_bias")
        return self.scheme if self.scheme.has_bias else None

    @property
    def has_relative_types(self) -> bool:
        """Whether attention logits have a term of token types."""
        return self.token_type_encoding == "relative"

    @property
    def logit_features(self) -> set[str]:
        """The `kernels.FEATURES` that are added to products of query and key."""
        schemes = filter(None, (self.scheme, self.bias_scheme))
        features = {name for scheme in schemes for name in scheme.features(self)}
        return features | {"relative"} if self.has_relative_types else features

    @property
    def attention_features(self) -> set[str]:
        """The `kernels.FEATURES` that attention needs, whatever its inputs."""
        drops = self.dropout_rate("attention") > 0
        return self.logit_features | {"dropout"} if drops else self.logit_features

    def has_window(self, layer: int) -> bool:
        """Whether a layer of a stack has a window."""
        return self.window > 0 and not (
            self.global_every and layer % self.global_every == 0
        )

    @property
    def keeps_zero_weights(self) -> bool:
        return self.quantization not in ("binary", SPLIT)

    @property
    def mixes_layers(self) -> bool:
        """Whether states are sums of all states before them."""
        return bool(LAYER_MIXINGS[self.layer_mixing].sublayers)

    @property
    def has_embedding_norm(self) -> bool:
        """Whether a norm follows the embeddings; "auto": in post-norm models."""
        if self.embedding_norm == "auto":
            return self.norm_placement == "post"
        return self.embedding_norm == "always"

    @property
    def key_width(self) -> int:
        """Width of the queries, keys and values of one head."""
        return self.head_width or self.width // self.heads

    @property
    def attention_width(self) -> int:
        """Width of the queries, keys and values of all heads."""
        return self.heads * self.key_width

    @property
    def max_positions(self) -> int | None:
        return self.scheme.max_positions(self)

    @property
    def mesh_unit(self) -> int:
        return self.heads

    def without_remat(self) -> "TransformerOptions":
        return dataclasses.replace(self, remat="none")
