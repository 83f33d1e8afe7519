"""The options of an LSTM, which reads a text in one direction or in both.

z = W x + U h + b has the gates i, f, g and o of each cell; then
c' = sigmoid(f + 1) c + sigmoid(i) tanh(g) and h' = P (sigmoid(o) tanh(c'))
(Hochreiter and Schmidhuber 1997, with forget gates; their bias of 1 is from Jozefowicz
et al. 2015, section 2, the projection P from Sak et al. 2014, section 2.2).
"""

import dataclasses
from typing import ClassVar

from research import networks
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.networks.shared.options import dim, dropout_rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class LSTMOptions(networks.Network):
    """A stack of LSTM layers.

    The state is reset where a segment begins. Dropout is applied to embeddings, between
    layers and to the output, never to the recurrent state (Zaremba et al. 2014), and
    optionally to recurrent kernels and words of the table. `init` applies to tables,
    readouts and heads, but a token table to which given vectors are added is initially
    0; kernels of layers are uniform within 1 / sqrt(cells).
    """

    cell_width: int = dim(0, least=0)  # cells of a layer, projected to width; 0: width,
    # without a projection
    inner_width: int = dim(0, least=0)  # width of all layers but the last (AWD-LSTM);
    # 0: width
    cell: str = choice("standard", ("standard", "pytorch"))  # pytorch: the forget gate
    # has no constant 1; two biases are added, which are uniform initially, as kernels
    table_range: float = number(0.0, least=0)  # the token table is initially uniform
    # within it; 0: as model.init says
    dropout_mask: str = choice("each", ("each", "locked"))  # each: a mask per position;
    # locked: a mask per row for all positions (Gal and Ghahramani 2016)
    hidden_dropout: float = dropout_rate(-1.0)  # of the output of a layer to the next
    weight_dropout: float = dropout_rate(0.0)  # of entries of recurrent kernels, the
    # same in all steps of a batch (Merity et al. 2018, section 2)
    word_dropout: float = dropout_rate(0.0)  # of whole rows of the token table when it
    # is read (section 4.3)
    residual: bool = False  # layers after the first add their input to their output
    # (ELMo; the next position reads the output without it); joined layers do not, since
    # their input is twice as wide as their output
    joined_layers: int = number(0, least=0, most=64)  # layers on top of these, one LSTM
    # per direction, each of which reads both directions of the layer before (CVT), if a
    # text is read from both ends
    joined_cell_width: int = dim(0, least=0)  # cells of those; 0: cell_width
    cell_clip: float = number(0.0, least=0)  # cells are clipped to this (ELMo: 3); 0:
    # never
    projection_clip: float = number(0.0, least=0)  # the same for projected outputs
    input: str = choice("table", ("table", "characters", "both", "vectors"))  # the
    # vectors of words; characters: a convolution over the bytes of each word (ELMo),
    # which needs data.vocabulary=words; both: the two concatenated (CVT); vectors: only
    # objective.vectors, unchanged (CoVe)
    character_filters: list = dataclasses.field(
        default_factory=lambda: [32, 32, 64, 128, 256, 512, 1024]
    )  # numbers of filters of 1, 2, 3, ... bytes; 0: none
    character_width: int = dim(16, least=1)  # of the vector of a byte
    word_bytes: int = number(50, least=4, most=1024)  # bytes that are read of a word,
    # including a mark at each end
    highways: int = number(2, least=0, most=16)  # layers between filters and projection

    serves_readouts: ClassVar = True
    dropout_places: ClassVar = (
        *("embedding", "hidden", "weight", "word", "output", "readout"),
        *("head", "head_input"),
    )
    small_keys: ClassVar = {"cell_width": 24}
    abilities: ClassVar = (
        networks.Ability.FULL,
        networks.Ability.CAUSAL,
        networks.Ability.MEMS,
        networks.Ability.UNDROPPED,
        networks.Ability.FEATURES,
        networks.Ability.INPUT_FEATURES,
        networks.Ability.TWO_DIRECTIONS,
        networks.Ability.VIEWS,
        networks.Ability.ENCODER_DECODER,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.cell_width and self.inner_width:
            raise UserError(
                "model.cell_width projects to model.width in all layers, so "
                "model.inner_width has no meaning; set one of them to 0"
            )
        if self.residual and self.inner_width not in (0, self.width):
            raise UserError(
                f"model.residual adds what a layer reads, of model.inner_width "
                f"{self.inner_width}, to what it gives; set model.inner_width=0"
            )
        if self.projection_clip and not self.cell_width:
            raise UserError(
                "model.projection_clip cuts projected outputs, but there is no "
                "projection; set model.cell_width, or model.projection_clip=0"
            )
        filters = tuple(self.character_filters)
        object.__setattr__(self, "character_filters", filters)
        fits = all(type(n) is int and 0 <= n <= 2**20 for n in filters)
        if not (filters and fits and filters[-1]) or len(filters) > self.word_bytes:
            raise UserError(
                f"model.character_filters is {[*filters]!r}; it has numbers of filters "
                "of 1, 2, 3, ... bytes, at most model.word_bytes of them, as in [32, "
                "32, 64]"
            )
        if self.input != "table":
            self.check_one_softmax(f"is not for model.input {self.input}")
        if self.joined_cell_width and not self.joined_layers:
            raise UserError(
                "model.joined_cell_width is of model.joined_layers, which is 0; set "
                "the one or the other"
            )
        if self.input in ("characters", "vectors") and self.tie_embeddings:
            raise UserError(
                f"model.input {self.input} has no table of words that a readout could "
                "share; set model.tie_embeddings=False"
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """D of each layer."""
        return (self.inner_width or self.width,) * (self.layers - 1) + (self.width,)

    def cells(self, width: int) -> int:
        """C of a layer of some width."""
        return self.cell_width or width
