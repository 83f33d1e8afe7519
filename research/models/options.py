"""What a network is made of: the `model` section of a config, checked.

Parameters and activations carry logical axis names, which
`research.distributed.sharding` maps to the mesh: batch, length, layers, vocab, embed (the width of the residual stream and of
tables), heads (heads x head width) and feedforward.
"""

import dataclasses

from research.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The keys of `config.model`; experiments/base.py has their values and defaults.

    `init` names a whole scheme of scales: "normal" draws from N(0, 0.02); "truncated"
    does, but never beyond 0.04 (Devlin et al. 2019, the released code); "gpt2" draws
    what is added to the residual stream from N(0, 0.02 / sqrt(2 layers)) and positions
    from N(0, 0.01) (Radford et al. 2019, section 2.3; the released code); "t5" goes by
    fan-in with N(0, 1) for tables, and with it go attention logits without 1 / sqrt(d)
    and features of a tied output scaled by 1 / sqrt(width) (Raffel et al. 2020, the
    released code). `position` chooses the positions alone; with "relative" go attention
    layers without biases but its own (Dai et al. 2019, section 3.3).

    Raises:
      UserError: two values do not fit together.
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
        """Whether a norm follows the embeddings: by itself in post-norm models."""
        if self.embedding_norm == "auto":
            return self.norm_placement == "post"
        return self.embedding_norm == "always"

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    @property
    def table_width(self) -> int:
        """Width of the token table and of readout features."""
        return self.embedding_width or self.width
