"""The transformer: BERT, GPT, XLNet, T5, ELECTRA and the like."""

import dataclasses

from flax import linen as nn

from research import networks
from research.contract.errors import UserError
from research.networks.transformer import positions
from research.networks.transformer.options import (
    ONLY_BESIDE_AN_ENCODER,
    TransformerOptions,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(TransformerOptions):
    """Stacks of blocks, as its options say."""

    scales_with_width = True
    of_blocks_alone = True

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        from research.networks.transformer.bilm import BiLM
        from research.networks.transformer.electra import (
            GeneratorDiscriminator,
        )
        from research.networks.transformer.encoder_decoder import (
            EncoderDecoder,
        )
        from research.networks.transformer.one_stack import Transformer

        if needs.pattern == "self":  # rank, reach and low say it
            needs = dataclasses.replace(needs, pattern="general")
        self._check_needs(needs)
        heads = tuple(needs.heads.items())
        if needs.layers and needs.stacks != "one":
            raise UserError(
                "only a network of one stack gives the states and projections of each "
                f"layer, but this objective needs {needs.stacks}"
            )
        if needs.layers and self.dropout_rate("layer") > 0:
            raise UserError(
                "model.layer_dropout skips layers, but this objective reads each "
                "layer; set it to 0"
            )
        if needs.future and needs.stacks != "one":
            raise UserError(
                "only a network of one stack has blocks that predict tokens after the "
                f"next, but this objective needs {needs.stacks}"
            )
        if needs.stacks == "encoder_decoder":
            return EncoderDecoder(self, size, heads)
        if needs.stacks == "two_directions":
            return BiLM(self, size, needs.pattern, needs.transform)
        if needs.stacks == "generator_discriminator":
            return GeneratorDiscriminator(
                self,
                size,
                fraction=needs.generator_size,
                depth=needs.generator_depth,
                tie=needs.tie,
                transform=needs.transform,
                heads=heads,
            )
        return Transformer(
            self,
            size,
            pattern=needs.pattern,
            transform=needs.transform,
            heads=heads,
            offsets=needs.boundary_offsets,
            feature_states=needs.features,
            lstm_layers=needs.feature_lstm_layers,
            future=needs.future,
            future_tokens=needs.future_tokens,
        )

    def _check_needs(self, needs: networks.Needs) -> None:
        """Raises UserError: a key is incompatible with what an objective needs."""
        if 0 < self.token_types < needs.token_types:
            raise UserError(
                f"model.token_types is {self.token_types}, but the objective writes "
                f"{needs.token_types} token types; it must be at least "
                f"{needs.token_types}, or 0 for a network that ignores them"
            )
        if needs.mems and not self.scheme.has_mems:
            raise UserError(
                f"model.position is {self.position!r}, but mems need relative "
                f"positions; set model.position={positions.schemes_with('has_mems')}"
            )
        self.scheme.check_needs(self, needs)
        if needs.mems and self.bias_scheme:
            raise UserError(
                f"model.position_bias is {self.position_bias!r}, which has no "
                "distances to mems; set model.position_bias=auto"
            )
        if self.parallel_residual and needs.stacks == "encoder_decoder":
            raise UserError(
                "model.parallel_residual is for networks of one stack: a decoder has "
                "cross-attention; set it to false"
            )
        if self.mixes_layers and needs.stacks == "encoder_decoder":
            raise UserError(
                "model.layer_mixing is for networks of one stack: a decoder has "
                "cross-attention; set it to none"
            )
        if self.mask_decoder and needs.stacks not in ("one", "generator_discriminator"):
            raise UserError(
                "model.mask_decoder is for networks of one stack and for generators; "
                "set it to 0"
            )
        if needs.stacks not in ("one", "two_directions"):
            self.check_one_softmax("is for networks of one stack")
        if needs.boundary_offsets:
            self.check_one_softmax("cannot be combined with objective.boundary_targets")
        if needs.stacks == "encoder_decoder":
            self._check_shared_stacks()
            return
        for name, value in ONLY_BESIDE_AN_ENCODER.items():
            if getattr(self, name) != value:
                raise UserError(
                    f"model.{name} is {getattr(self, name)}, but the network of this "
                    f"objective is not an encoder-decoder; it must be {value}"
                )

    def _check_shared_stacks(self) -> None:
        num_layers = self.decoder_layers or self.layers
        if self.shared_stacks and num_layers != self.layers:
            raise UserError(
                f"model.decoder_layers is {num_layers}, but with model.shared_stacks "
                f"the decoder has model.layers {self.layers}; set it to 0"
            )
