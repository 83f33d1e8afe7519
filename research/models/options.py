"""The options of a network: the `model` section of a config.

Parameters and activations carry logical axis names, which
`research.distributed.sharding` maps to the mesh: batch, length, layers, vocab, embed
(the width of the residual stream and of embeddings), heads (number of heads x head
width) and feedforward.
"""

import dataclasses

from research.errors import UserError


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
      layers: U(-1 / sqrt(fan-in), 1 / sqrt(fan-in)) for kernels and biases
      (facebookresearch/XLM, xlm/model/transformer.py: Embedding, Linear).

    `position` only chooses the position scheme, except that with "relative" the only
    biases of attention layers are those of the relative terms (Dai et al. 2019, section
    3.3).

    Raises:
      UserError: two values are incompatible.
    """

    layers: int
    width: int
    heads: int
    feedforward: int
    embedding_width: int
    max_length: int
    token_types: int
    norm: str
    norm_placement: str
    norm_epsilon: float
    embedding_norm: str
    position: str
    token_type_encoding: str
    activation: str
    bias: bool
    tie_embeddings: bool
    shared_layers: bool
    init: str
    dropout: float
    dtype: str
    remat: str
    scan_unroll: int

    def __post_init__(self):
        if self.width % self.heads:
            raise UserError(
                f"model.heads is {self.heads}; it must divide model.width {self.width}"
            )
        if self.position == "rotary" and self.head_width % 2:
            raise UserError(
                f"model.position rotary needs an even width of heads, "
                f"not {self.width} / {self.heads} = {self.head_width}"
            )

        if self.position == "relative" and self.width % 2:
            raise UserError(
                f"model.position relative needs an even model.width, not {self.width}"
            )
        if self.token_type_encoding == "relative" and self.token_types < 2:
            raise UserError(
                "model.token_type_encoding relative needs model.token_types of at "
                f"least 2, not {self.token_types}"
            )

    @property
    def has_embedding_norm(self) -> bool:
        """Whether a norm follows the embeddings; "auto": in post-norm models."""
        if self.embedding_norm == "auto":
            return self.norm_placement == "post"
        return self.embedding_norm == "always"

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    @property
    def table_width(self) -> int:
        """Width of token embeddings and of readout features."""
        return self.embedding_width or self.width
