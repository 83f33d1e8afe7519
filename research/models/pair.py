"""The generator-discriminator pair: two transformers over one set of tables."""

import dataclasses

from flax import linen as nn

from research.models.options import Options
from research.models.transformer import Transformer

HEAD_WIDTH = 64
"""Width of the generator's heads (Clark et al. 2020, the released code)."""


class Pair(nn.Module):
    """ELECTRA: a small generator with a readout, a discriminator with head "replaced".

    Tables of tokens, positions and kinds are shared at the discriminator's table width
    and belong to the discriminator, which thus is a whole transformer to start from.

    Attributes:
      fraction: the generator's width over the discriminator's.
    """

    options: Options
    size: int
    fraction: float = 0.25

    def setup(self):
        options = self.options
        self.discriminator = Transformer(
            options, self.size, pattern="full", heads={"replaced": 1}
        )
        table, embed = self.discriminator.tables()
        self.generator = Transformer(
            smaller(options, self.fraction),
            self.size,
            pattern="full",
            transform=True,
            table=table,
            embed=embed,
        )


def smaller(options: Options, fraction: float) -> Options:
    """The generator's options: narrower, as deep, with tables of the same width."""
    width = max(1, round(options.width * fraction))
    return dataclasses.replace(
        options,
        width=width,
        heads=max(1, width // HEAD_WIDTH),
        feedforward=4 * width,
        embedding=options.table_width,
    )
