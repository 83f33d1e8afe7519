"""ELECTRA: a generator and a discriminator, which may share parameters."""

import dataclasses
from collections.abc import Mapping
from functools import partial

from flax import linen as nn

from research.contract.errors import UserError, unknown
from research.networks.shared.heads import HeadSpec
from research.networks.shared.needs import TIE_CHOICES
from research.networks.transformer.one_stack import Transformer
from research.networks.transformer.options import TransformerOptions as Options

HEAD_WIDTH = 64
"""Width of the generator's attention heads (Clark et al. 2020, the released code)."""


class GeneratorDiscriminator(nn.Module):
    """A small generator with a readout, and a discriminator with a head "replaced".

    Shared parameters belong to the discriminator, which is thus a complete transformer
    for fine-tuning. The generator's embeddings have the discriminator's embedding
    width. A readout or a head exists only if a loss calls it; the discriminator's
    readout is for objectives that predict tokens with it (Clark et al. 2020, section
    3.5).

    Attributes:
      size: entries of the vocabulary.
      fraction, depth: width and number of layers of the generator as fractions of the
        discriminator's; 1 with tie "all".
      tie: one of `TIE_CHOICES` (section 3.2).
      transform: the discriminator's readout has BERT's layers before the table; the
        generator's always does.
      heads: other heads of the discriminator.

    Raises:
      UserError: `tie` is unknown, or "all" with a fraction or depth other than 1.
    """

    options: Options
    size: int
    fraction: float = 0.25
    depth: float = 1.0
    tie: str = "embedding"
    transform: bool = True
    heads: Mapping[str, int | HeadSpec] | tuple = ()

    def setup(self):
        if self.tie not in TIE_CHOICES:
            raise unknown("objective.tie", self.tie, TIE_CHOICES)
        if self.tie == "all" and (self.fraction, self.depth) != (1, 1):
            raise UserError(
                f"objective.generator_size is {self.fraction} and generator_depth "
                f"{self.depth}; to tie all weights of the generator to the "
                "discriminator's they must be 1"
            )
        options, shared = self.options, {}
        discriminator = partial(
            Transformer,
            dataclasses.replace(options, mask_decoder=0),
            self.size,
            pattern="full",
            transform=self.transform,
            heads={"replaced": 1, **dict(self.heads)},
        )
        if self.tie == "gdes":
            self.generator = Transformer(
                generator_options(options, self.fraction, self.depth),
                self.size,
                pattern="full",
                transform=True,
            )
            self.discriminator = discriminator(
                base_token=self.generator.embeddings()[0]
            )
            return
        self.discriminator = discriminator()
        token, embedding = self.discriminator.embeddings()
        if self.tie != "none":
            shared["shared_token"] = token
        if self.tie in ("embedding", "all"):
            shared["shared_embedding"] = embedding
        if self.tie == "all":
            shared["shared_stack"] = self.discriminator.stack
        else:
            options = generator_options(options, self.fraction, self.depth)
        self.generator = Transformer(
            options, self.size, pattern="full", transform=True, **shared
        )


def generator_options(options: Options, fraction: float, depth: float = 1) -> Options:
    """The generator's options: narrower, as deep, and with the same embedding width.

    Args:
      depth: its layers over those of `options`.

    Raises:
      UserError: a network of that width is not possible; names the nearest possible.
    """
    width = max(1, round(options.width * fraction))
    layers = max(1, round(options.layers * depth))
    options = dataclasses.replace(options, layers=layers)
    try:
        return _of_width(options, width)
    except UserError as error:
        heads = _num_heads(width)
        reason = f"where {error}"
        if width % heads:
            reason = f"which {heads} heads do not divide"
        nearest = _nearest_width(options, width)
        advice = f"; set it to {nearest / options.width:.6g}" if nearest else ""
        raise UserError(
            f"objective.generator_size is {fraction:g}, a width of {width}, "
            f"{reason}{advice}"
        ) from error


def _of_width(options: Options, width: int) -> Options:
    return dataclasses.replace(
        options,
        width=width,
        heads=_num_heads(width),
        head_width=0,
        feedforward=4 * width,
        embedding_width=options.table_width,
    )


def _num_heads(width: int) -> int:
    return max(1, width // HEAD_WIDTH)


def _nearest_width(options: Options, width: int) -> int | None:
    """The possible width of a generator nearest to `width`; None: there is none."""
    widths = range(1, options.width + 1)
    for other in sorted(widths, key=lambda other: abs(other - width)):
        try:
            _of_width(options, other)
        except UserError:
            continue
        return other
    return None
