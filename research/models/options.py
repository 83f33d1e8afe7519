"""What a network is made of: the `model` section of a config, checked.

Parameters and activations carry logical axis names, which `research.distributed.sharding` maps to
the mesh: batch, length, layers, vocab, embed (the width of the residual stream and of
tables), heads (heads x head width) and feedforward.
"""

import dataclasses

from research.errors import UserError

CHOICES = {
    "norm": ("layernorm", "rmsnorm"),
    "norm_placement": ("pre", "post"),
    "embedding_norm": ("auto", "always", "never"),
    "position": ("learned", "sinusoidal", "rotary", "t5", "relative", "none"),
    "token_type_encoding": ("absolute", "relative"),
    "activation": ("gelu", "gelu_tanh", "relu", "geglu", "swiglu"),
    "init": ("normal", "truncated", "gpt2", "t5"),
    "dtype": ("float32", "bfloat16"),
    "remat": ("none", "dots", "full"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The keys of `config.model`, with the legal values of `experiments/base.py`.

    `init` names a whole scheme of scales: "normal" draws from N(0, 0.02); "truncated"
    does, but never beyond 0.04 (Devlin et al. 2019, the released code); "gpt2" draws
    what is added to the residual stream from N(0, 0.02 / sqrt(2 layers)) and positions
    from N(0, 0.01) (Radford et al. 2019, section 2.3; the released code); "t5" goes by
    fan-in with N(0, 1) for tables, and with it go attention logits without 1 / sqrt(d)
    and features of a tied output scaled by 1 / sqrt(width) (Raffel et al. 2020, the
    released code). `position` chooses the positions alone; with "relative" go attention
    layers without biases but its own (Dai et al. 2019, section 3.3).

    Raises:
      UserError: a value is not legal, or two of them do not fit together.
    """

    layers: int = 4
    width: int = 256
    heads: int = 4
    feedforward: int = 1024
    embedding_width: int = 0
    max_length: int = 512
    token_types: int = 0
    norm: str = "layernorm"
    norm_placement: str = "pre"
    norm_epsilon: float = 1e-6
    embedding_norm: str = "auto"
    position: str = "learned"
    token_type_encoding: str = "absolute"
    activation: str = "gelu"
    bias: bool = True
    tie_embeddings: bool = True
    shared_layers: bool = False
    init: str = "normal"
    dropout: float = 0.0
    dtype: str = "float32"
    remat: str = "none"
    scan_unroll: int = 4

    def __post_init__(self):
        for name, legal in CHOICES.items():
            value = getattr(self, name)
            if value not in legal:
                raise UserError(
                    f"model.{name} is {value!r}; it is one of {', '.join(legal)}"
                )
        for name in (
            "layers",
            "width",
            "heads",
            "feedforward",
            "max_length",
            "scan_unroll",
        ):
            if getattr(self, name) < 1:
                raise UserError(f"model.{name} is {getattr(self, name)}; at least 1")
        for name in ("embedding_width", "token_types"):
            if getattr(self, name) < 0:
                raise UserError(f"model.{name} is {getattr(self, name)}; at least 0")
        if not 0 <= self.dropout < 1:
            raise UserError(f"model.dropout is {self.dropout}; it lies in [0, 1)")
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
                f"model.token_type_encoding relative compares kinds; model.token_types is {self.token_types}, "
                "and must be the number of them"
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
