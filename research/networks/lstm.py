"""The LSTM: a recurrent network that reads a text from its start, or from both ends.

z = W x + U h + b has the gates i, f, g and o of each cell; then
c' = sigmoid(f + 1) c + sigmoid(i) tanh(g) and h' = P (sigmoid(o) tanh(c'))
(Hochreiter and Schmidhuber 1997, with forget gates; their bias of 1 is from Jozefowicz
et al. 2015, section 2, the projection P from Sak et al. 2014, section 2.2).
"""

import dataclasses
from typing import ClassVar

from flax import linen as nn

from research import networks
from research.errors import UserError
from research.fields import choice, number
from research.networks.layers.characters import spell
from research.networks.layers.features import OF_SEVERAL_LAYERS
from research.networks.layers.options import dim, dropout_rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(networks.Network):
    """A stack of LSTM layers.

    The state is reset where a segment begins. Dropout is applied to embeddings, between
    layers and to the output, never to the recurrent state (Zaremba et al. 2014), and to
    recurrent kernels and words of the table where it is asked for. `init` applies to
    tables, readouts and heads, but a token table that given vectors are added to begins
    with 0; kernels of layers are uniform within 1 / sqrt(cells).
    """

    cell_width: int = dim(0, least=0)  # cells of a layer, which are projected to width;
    # 0: width, without a projection
    inner_width: int = dim(0, least=0)  # width of all layers but the last (AWD-LSTM);
    # 0: width
    cell: str = choice("standard", ("standard", "pytorch"))  # pytorch: the forget gate
    # has no 1 of its own; two biases are added, which begin uniform as kernels do
    table_range: float = number(0.0, least=0)  # the token table begins uniform within
    # it; 0: as model.init says
    dropout_mask: str = choice("each", ("each", "locked"))  # what a mask of dropout is
    # of; locked: a unit of a row, at all positions (Gal and Ghahramani 2016)
    hidden_dropout: float = dropout_rate(-1.0)  # of the output of a layer to the next
    weight_dropout: float = dropout_rate(0.0)  # of entries of recurrent kernels, in all
    # steps of a batch alike (Merity et al. 2018, section 2)
    word_dropout: float = dropout_rate(0.0)  # of whole rows of the token table where it
    # is read (section 4.3)
    residual: bool = False  # a layer after the first adds its input to its output
    # (ELMo; what the next position reads is without it); joined layers do not, since
    # they read twice as many numbers as they give
    joined_layers: int = number(0, least=0, most=64)  # layers upon these, each an LSTM
    # a direction that reads both directions of the layer before (CVT), where a text is
    # read from both ends
    joined_cell_width: int = dim(0, least=0)  # cells of those; 0: cell_width
    cell_clip: float = number(0.0, least=0)  # values of cells beyond it are cut (ELMo:
    # 3); 0: none
    projection_clip: float = number(0.0, least=0)  # likewise of projected outputs
    input: str = choice("table", ("table", "characters", "both", "vectors"))  # the
    # vectors of words; characters: a convolution over the bytes of each word (ELMo),
    # which needs data.vocabulary=words; both: the two, one behind the other (CVT);
    # vectors: objective.vectors alone, as they are (CoVe)
    character_filters: list = dataclasses.field(
        default_factory=lambda: [32, 32, 64, 128, 256, 512, 1024]
    )  # numbers of filters of 1, 2, 3, ... bytes; 0: none
    character_width: int = dim(16, least=1)  # of the vector of a byte
    word_bytes: int = number(50, least=4, most=1024)  # that are read of a word, with a
    # mark at each end
    highways: int = number(2, least=0, most=16)  # layers between filters and projection

    dropout_places: ClassVar = (
        *("embedding", "hidden", "weight", "word", "output", "head"),
    )
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
        if self.input == "both" and self.cutoffs:
            raise UserError(
                "model.input both has one table of words; set model.cutoffs=[]"
            )
        if self.joined_cell_width and not self.joined_layers:
            raise UserError(
                "model.joined_cell_width is of model.joined_layers, which is 0; set "
                "the one or the other"
            )
        if self.input in ("characters", "vectors") and (
            self.cutoffs or self.tie_embeddings
        ):
            raise UserError(
                f"model.input {self.input} has no table of words that a readout could "
                "share; set model.tie_embeddings=False and model.cutoffs=[]"
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """D of each layer."""
        return (self.inner_width or self.width,) * (self.layers - 1) + (self.width,)

    def cells(self, width: int) -> int:
        """C of a layer of some width."""
        return self.cell_width or width

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        # The modules import this class.
        from research.networks.modules.lstm import LSTM
        from research.networks.modules.lstm_encoder_decoder import LSTMEncoderDecoder
        from research.networks.modules.two_lstms import TwoLSTMs

        characters = None
        if self.input == "vectors" and not needs.input_features:
            raise UserError(
                "model.input vectors reads the vectors of objective.vectors, and there "
                "are none; set it and objective.vectors_width"
            )
        if self.input in ("characters", "both"):
            if not needs.spelling:
                raise UserError(
                    f"model.input {self.input} needs the spelling of words, which this "
                    "vocabulary does not have; set data.vocabulary=words"
                )
            characters = spell(needs.spelling, self.word_bytes)
        if needs.features in OF_SEVERAL_LAYERS and len({*self.widths}) > 1:
            raise UserError(
                "features of several layers need layers of one width; set "
                "model.inner_width=0"
            )
        read = needs.input_features if self.input == "vectors" else self.width
        if needs.features in OF_SEVERAL_LAYERS and read != self.width:
            raise UserError(
                f"features {needs.features} need layers that read as many numbers, "
                f"{self.width}, as they give, but the first one reads vectors of "
                f"{read}; set objective.features=vectors_last"
            )
        if needs.stacks == "encoder_decoder":
            self._check_encoder_decoder()
            heads, given = tuple(needs.heads.items()), needs.input_features > 0
            return LSTMEncoderDecoder(self, size, heads, characters, given)
        both = needs.pattern == "full" or needs.stacks == "two_directions"
        if self.joined_layers and not (both and needs.stacks == "one"):
            raise UserError(
                "model.joined_layers read a text from both ends, but this objective "
                "reads it from one end at a time; set it to 0"
            )
        if self.joined_layers and needs.features in OF_SEVERAL_LAYERS:
            raise UserError(
                f"features {needs.features} are of layers that read one direction; set "
                "model.joined_layers=0"
            )
        if both and needs.mems:
            raise UserError(
                "a row goes on from the row before it in one direction alone, but this "
                "objective reads texts from both ends"
            )
        return (TwoLSTMs if both else LSTM)(
            self,
            size,
            needs.transform,
            tuple(needs.heads.items()),
            characters=characters,
            feature_states=needs.features,
            lstm_layers=needs.feature_lstm_layers,
            has_vectors=needs.input_features > 0,
        )

    def _check_encoder_decoder(self) -> None:
        """Raises UserError: a key is incompatible with a decoder whose layers begin
        with the last states of the encoder's."""
        for key, value, is_legal in (
            ("residual", False, not self.residual),
            ("cutoffs", [], not self.cutoffs),
            ("inner_width", 0, self.inner_width in (0, self.width)),
            (
                "joined_cell_width",
                self.cell_width,
                self.joined_cell_width in (0, self.cell_width),
            ),
        ):
            if not is_legal:
                raise UserError(
                    f"model.{key} is not for an encoder and a decoder of LSTMs, whose "
                    f"layers are alike; set it to {value}"
                )
