"""The options of a network: the `model` section of a config.

Parameters and activations carry logical axis names, which
`research.distributed.sharding` maps to the mesh: batch, length, layers, vocab, embed
(the width of the residual stream and of embeddings), heads (number of heads x head
width) and feedforward.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from research.errors import UserError

DROPOUT_PLACES = (
    "embedding",
    "position",
    "attention",
    "feedforward",
    "residual",
    "output",
    "head",
)
"""Where a network may have dropout, each at a rate of its own."""

CUTOFFS_NEED = {
    "embedding_width": (0,),
    "tie_embeddings": (True,),
    "output_head": ("table", "bias"),
    "output_rows": ("vocabulary",),
    "init": ("normal", "truncated"),
}
"""The values of other keys that an adaptive softmax is defined for."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The keys of `config.model`; experiments/base.py has their values and defaults.

    `init` names a scheme of initial standard deviations:

    - "normal": N(0, 0.02).
    - "truncated": the same without values beyond 0.04 (Devlin et al. 2019, the released
      code).
    - "gpt2": N(0, 0.02 / sqrt(2 layers)) for kernels whose output is added to the
      residual stream, N(0, 0.01) for positions (Radford et al. 2019, section 2.3; the
      released code).
    - "t5": by fan-in, and N(0, 1) for embeddings. Attention logits then are not scaled
      by 1 / sqrt(head width), and features of a tied readout are scaled by
      1 / sqrt(width) (Raffel et al. 2020, the released code).
    - "xlm": N(0, 1 / sqrt(width)) for embeddings, and PyTorch's default for dense
      layers: kernels and biases uniform within 1 / sqrt(fan-in) (XLM's
      model/transformer.py, `Embedding` and `Linear`; MASS derives from it).

    `position` only chooses the position scheme, except that with "relative" the only
    biases of attention layers are those of the relative terms (Dai et al. 2019, section
    3.3).

    `attention` chooses the implementation: "dense" has logits of all pairs in memory,
    "interval" is a kernel for TPUs (`research.networks.layers.kernel_attention`) and
    one for Hopper GPUs (`research.networks.layers.hopper_attention`), "library" is
    cuDNN's on a GPU (`research.networks.layers.library_attention`). Of the three only
    the kernel for TPUs has relative terms, and the library's has no bias of relative
    positions (T5's) and no dropout of attention weights. Elsewhere "interval" is the
    TPU's, interpreted, for tests, and "library" is XLA's. "auto" is "interval" on a TPU
    and "library" on a GPU where that has all that these options need, else "dense".

    Dropout has places, each with a rate `PLACE_dropout`; -1 stands for `dropout`. BERT,
    GPT and RoBERTa have it at embeddings, attention weights and what a block adds; T5,
    Transformer-XL and XLNet also inside feed-forward layers and at the output of a
    stack, the last two at relative positions too.

    Raises:
      UserError: two values are incompatible.
    """

    layers: int
    decoder_layers: int
    width: int
    heads: int
    head_width: int
    num_kv_heads: int
    feedforward: int
    embedding_width: int
    scale_embeddings: bool
    shared_embeddings: bool
    shared_stacks: bool
    max_length: int
    token_types: int
    norm: str
    norm_placement: str
    norm_epsilon: float
    embedding_norm: str
    position: str
    rope_theta: float
    shared_relative_biases: bool
    cross_output: str
    token_type_encoding: str
    activation: str
    bias: bool
    tie_embeddings: bool
    cutoffs: tuple[int, ...]
    cutoff_divisor: int
    output_head: str
    output_rows: str
    shared_layers: bool
    init: str
    dropout: float
    embedding_dropout: float
    position_dropout: float
    attention_dropout: float
    feedforward_dropout: float
    residual_dropout: float
    output_dropout: float
    head_dropout: float
    dtype: str
    attention: str
    remat: str
    scan_unroll: int

    def __post_init__(self):
        object.__setattr__(self, "cutoffs", tuple(self.cutoffs))
        if self.cutoffs:
            self._check_cutoffs()
        self._check_heads()
        self._check_positions()
        self._check_dropout()
        self._check_attention()

    def _check_cutoffs(self):
        for key, value in CUTOFFS_NEED.items():
            if getattr(self, key) not in value:
                raise UserError(
                    f"model.cutoffs needs model.{key} "
                    f"{' or '.join(map(str, value))}, not {getattr(self, key)}"
                )

    def _check_heads(self):
        if not self.head_width and self.width % self.heads:
            raise UserError(
                f"model.heads is {self.heads}; it must divide model.width "
                f"{self.width}, or set model.head_width"
            )
        if self.heads % (self.num_kv_heads or self.heads):
            raise UserError(
                f"model.num_kv_heads is {self.num_kv_heads}; it must divide "
                f"model.heads {self.heads}"
            )

    def _check_positions(self):
        """Checks positions and token types, which may both be relative."""
        if self.position == "rotary" and self.key_width % 2:
            raise UserError(
                f"model.position rotary needs an even width of heads, "
                f"not {self.key_width}"
            )
        if self.position == "relative" and self.width % 2:
            raise UserError(
                f"model.position relative needs an even model.width, not {self.width}"
            )
        for key in ("token_type_encoding relative", "cross_output token_type"):
            name, value = key.split()
            if getattr(self, name) == value and self.token_types < 2:
                raise UserError(
                    f"model.{key} needs model.token_types of at least 2, "
                    f"not {self.token_types}"
                )
        if self.shared_relative_biases and not self.has_relative_terms:
            raise UserError(
                "model.shared_relative_biases needs model.position relative, "
                f"not {self.position}"
            )

    def _check_dropout(self):
        if self.position_dropout > 0 and self.position != "relative":
            raise UserError(
                "model.position_dropout needs model.position relative, "
                f"not {self.position}"
            )
        for place in DROPOUT_PLACES:
            if -1 < getattr(self, f"{place}_dropout") < 0:
                raise UserError(
                    f"model.{place}_dropout is at least 0, or -1 for that of "
                    f"model.dropout, not {getattr(self, f'{place}_dropout')}"
                )

    def _check_attention(self):
        if self.attention != "auto" and (what := self.lacks(self.attention)):
            raise UserError(
                f"model.attention {self.attention} has no {what}; "
                "set model.attention=dense"
            )

    def lacks(self, attention: str) -> str:
        """What these options need that an implementation does not have; "": nothing."""
        needs = {
            "relative terms (model.position, model.token_type_encoding)": (
                attention == "library" and self.has_relative_terms
            ),
            "dropout of attention weights (model.attention_dropout)": (
                attention == "library" and self.dropout_rate("attention") > 0
            ),
            "bias of relative positions (model.position t5)": (
                attention == "library" and self.position == "t5"
            ),
        }
        return next((what for what, is_needed in needs.items() if is_needed), "")

    def dropout_rate(self, place: str) -> float:
        """The rate at one of `DROPOUT_PLACES`."""
        rate = getattr(self, f"{place}_dropout")
        return self.dropout if rate < 0 else rate

    @property
    def has_dropout(self) -> bool:
        """Whether there is dropout at any place."""
        return any(self.dropout_rate(place) > 0 for place in DROPOUT_PLACES)

    @property
    def has_relative_terms(self) -> bool:
        """Whether attention logits have terms of relative positions or token types."""
        return "relative" in (self.position, self.token_type_encoding)

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
    def table_width(self) -> int:
        """Width of token embeddings and of readout features."""
        return self.embedding_width or self.width


def options_of_run(keys: Mapping[str, Any], workdir: Any) -> Options:
    """The options of a run.

    Args:
      keys: those of its config, below "model".

    Raises:
      UserError: they are not the keys that this version has.
    """
    try:
        return Options(**keys)
    except TypeError as error:
        raise UserError(f"{workdir} is of another version: {error}") from error
