"""The LSTM: a recurrent network that reads a text in one direction or in both."""

import dataclasses

from flax import linen as nn

from research import networks
from research.contract.errors import UserError
from research.networks.recurrent.options import LSTMOptions
from research.networks.shared.characters import spell
from research.networks.shared.features import OF_SEVERAL_LAYERS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(LSTMOptions):
    """A stack of LSTM layers, or two of them, as its options say."""

    @property
    def spelled_by(self) -> str:
        reads = self.input in ("characters", "both")
        return f"model.input={self.input}" if reads else ""

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        from research.networks.recurrent.lstm_encoder_decoder import LSTMEncoderDecoder
        from research.networks.recurrent.lstm_stack import LSTM
        from research.networks.recurrent.two_lstms import TwoLSTMs

        characters = None
        if self.input == "vectors" and not needs.input_features:
            raise UserError(
                "model.input vectors reads objective.vectors, which is not set; set it "
                "and objective.vectors_width"
            )
        if self.spelled_by:
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
                f"features {needs.features} need layers that read one direction; set "
                "model.joined_layers=0"
            )
        if both and needs.mems:
            raise UserError(
                "rows can continue the rows before them only in one direction, but "
                "this objective reads texts from both ends"
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
        """Raises UserError: a key is incompatible with a decoder.

        Its layers start from the last states of the encoder's layers.
        """
        self.check_one_softmax("is not for an encoder and a decoder of LSTMs")
        for key, value, is_legal in (
            ("residual", False, not self.residual),
            ("inner_width", 0, self.inner_width in (0, self.width)),
            (
                "joined_cell_width",
                self.cell_width,
                self.joined_cell_width in (0, self.cell_width),
            ),
        ):
            if not is_legal:
                raise UserError(
                    f"model.{key} is not for an encoder-decoder of LSTMs, whose layers "
                    f"are all alike; set it to {value}"
                )
