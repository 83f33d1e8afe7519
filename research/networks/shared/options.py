"""The keys of `config.model` that all networks share.

Parameters and activations carry logical axis names, which
`research.distributed.sharding` maps to the mesh: batch, length, layers, vocab, embed
(the width of states and of embeddings), heads (number of heads x head width) and
feedforward.
"""

import dataclasses
from functools import partial
from typing import ClassVar

from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.networks.shared.activations import ACTIVATIONS
from research.networks.shared.norms import NORMS

dropout_rate = partial(number, least=-1, below=1)
dim = partial(number, most=2**20)  # the size of a dim of an array
depth = partial(number, most=2**10)  # number of layers

INITS = (
    *("normal", "truncated", "electra", "gpt2", "zero_residual", "t5", "xlm"),
    "small",
)
"""Names of schemes of initial values."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The options of embeddings, dense layers, readouts and heads.

    `init` names a scheme of initial standard deviations:

    - "normal": N(0, 0.02).
    - "truncated": the same without values beyond 0.04 (Devlin et al. 2019, the released
      code).
    - "electra": as truncated, but Glorot's uniform values for projections of embeddings
      and for the last layer of heads (Clark et al. 2020, the released code).
    - "gpt2": N(0, 0.02 / sqrt(2 layers)) for kernels whose output is added to the
      residual stream, N(0, 0.01) for positions (Radford et al. 2019, section 2.3; the
      released code).
    - "zero_residual": 0 for kernels whose output is added to the residual stream, so
      that a block is initially the identity (Zhang et al. 2019, Fixup, section 3), and
      N(0, 0.02).
    - "t5": by fan-in, and N(0, 1) for embeddings. Attention logits are then not scaled
      by 1 / sqrt(head width), and features of a tied readout are scaled by
      1 / sqrt(width) (Raffel et al. 2020, the released code).
    - "xlm": N(0, 1 / sqrt(width)) for embeddings, and PyTorch's default for dense
      layers: kernels and biases uniform within 1 / sqrt(fan-in) (XLM's
      model/transformer.py, `Embedding` and `Linear`; MASS derives from it).
    - "small": N(0, sqrt(2 / (5 width))) without values beyond twice that (Nguyen and
      Salazar 2019, section 3.1), and kernels of the feed-forward layer of block n, from
      0, divided by sqrt(2 (n + 1)) (LTG-BERT, Samuel et al. 2023; ltgoslo/gpt-bert,
      model_extra.py).

    Dropout is applied at several places, each with a key NAME_dropout for its rate; -1
    means `dropout`.

    Raises:
      UserError: two values are incompatible.
    """

    layers: int = depth(4, least=1)  # number of blocks (in each of encoder and decoder)
    width: int = dim(256, least=1)  # of the states between the layers
    embedding_width: int = dim(0, least=0)  # of the token table; 0: width
    scale_embeddings: bool = False  # token embeddings are multiplied by sqrt(width)
    norm: str = choice("layernorm", NORMS)
    norm_epsilon: float = number(1e-6, above=0, below=1)
    norm_scale: bool = True  # norms have a learned scale and, with model.bias, a bias
    activation: str = choice("gelu", ACTIVATIONS)  # of feed-forward layers
    bias: bool = True  # biases in dense layers and norms
    tie_embeddings: bool = True  # the output table is the token table
    output_head: str = choice("auto", ("auto", "table", "bias", "transform"))  # what is
    # before the softmax: the output table alone; with a bias; with BERT's transform and
    # a bias; auto: the objective's choice (transform if masked tokens are predicted,
    # bias if input words have biases, else table)
    output_rows: str = choice("vocabulary", ("vocabulary", "table"))  # of the softmax;
    # table: also those that pad the table to a multiple of 128 (T5)
    init: str = choice("normal", INITS)  # normal: std 0.02; truncated: at twice that;
    # electra: the same, but last layers of heads by fan-in and fan-out; gpt2: residual
    # projections scaled by depth; zero_residual: these 0; t5, xlm: by fan-in; small: by
    # width
    dropout: float = number(0.0, least=0, below=1)  # at all places below that are -1
    embedding_dropout: float = dropout_rate(-1.0)  # of embeddings
    output_dropout: float = dropout_rate(0.0)  # of the output of a stack
    readout_dropout: float = dropout_rate(0.0)  # of the features of the output table
    head_dropout: float = dropout_rate(-1.0)  # before the last layer of a classifier
    head_input_dropout: float = dropout_rate(0.0)  # of what a classifier with a hidden
    # layer reads (ULMFiT: of the pooled states)
    dtype: str = choice("float32", ("float32", "bfloat16"))  # of activations;
    # parameters are float32
    product_dtype: str = choice("dtype", ("dtype", "bfloat16"))  # of the operands of
    # matrix products, whose sums are float32; a BiLSTM on top of features is always
    # float32; dtype: that of activations

    dropout_places: ClassVar[tuple[str, ...]] = (
        *("embedding", "output", "readout", "head", "head_input"),
    )
    """Places of dropout; each has a key NAME_dropout for its rate."""

    quantization: ClassVar[str] = "none"
    sublayer_norm: ClassVar[bool] = False
    feedforward_bias: ClassVar[bool] = True
    """Networks that support these three make them keys."""

    computation_keys: ClassVar[tuple[str, ...]] = ("dtype", "product_dtype")
    """Keys that say how the network is computed."""

    def __post_init__(self):
        for name, value in vars(self).items():
            if isinstance(value, list):  # which has no hash
                object.__setattr__(self, name, tuple(value))
        for place in self.dropout_places:
            if -1 < getattr(self, f"{place}_dropout") < 0:
                raise UserError(
                    f"model.{place}_dropout must be at least 0, or -1 for "
                    f"model.dropout, not {getattr(self, f'{place}_dropout')}"
                )

    @classmethod
    def parameter_keys(cls) -> list[str]:
        """The keys on which the meaning of parameters depends.

        These are all but `computation_keys` and dropout rates.
        """
        names = (field.name for field in dataclasses.fields(cls))
        others = (n for n in names if n not in cls.computation_keys)
        return [name for name in others if "dropout" not in name]

    def dropout_rate(self, place: str) -> float:
        """The rate at one of `dropout_places`."""
        rate = getattr(self, f"{place}_dropout")
        return self.dropout if rate < 0 else rate

    @property
    def operand_dtype(self) -> str:
        """The dtype of the operands of matrix products."""
        return self.dtype if self.product_dtype == "dtype" else self.product_dtype

    @property
    def has_dropout(self) -> bool:
        """Whether there is dropout at any place."""
        return any(self.dropout_rate(place) > 0 for place in self.dropout_places)

    @property
    def table_width(self) -> int:
        """Width of token embeddings and of readout features."""
        return self.embedding_width or self.width
