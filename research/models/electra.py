"""Networks of two transformers that share parameters: ELECTRA's pair, a biLM."""

import dataclasses
from collections.abc import Mapping

from flax import linen as nn

from research.errors import UserError, unknown
from research.models.layers.heads import HeadSpec
from research.models.options import Options
from research.models.transformer import Transformer

HEAD_WIDTH = 64
"""Width of the generator's heads (Clark et al. 2020, the released code)."""

TIES = ("none", "token", "embedding", "all")
"""What a pair may share: nothing; the tokens' table; positions and kinds as well; all
but heads and readouts."""


class Pair(nn.Module):
    """ELECTRA: a small generator with a readout, a discriminator with head "replaced".

    What is shared belongs to the discriminator, which thus is a whole transformer to
    start from. Tables have the discriminator's table width. A readout or a head exists
    where a loss calls it: the discriminator's readout serves the tasks that recover
    tokens (Clark et al. 2020, section 3.5).

    Attributes:
      fraction: the generator's width over the discriminator's; 1 where all is tied.
      tie: one of `TIES` (section 3.2).
      transform: the discriminator's readout has BERT's head, as the generator's has.
      heads: the discriminator's, beside "replaced".
    """

    options: Options
    size: int
    fraction: float = 0.25
    tie: str = "embedding"
    transform: bool = True
    heads: Mapping[str, int | HeadSpec] | tuple = ()

    def setup(self):
        if self.tie not in TIES:
            raise unknown("objective.tie", self.tie, TIES)
        options, shared = self.options, {}
        self.discriminator = Transformer(
            options,
            self.size,
            pattern="full",
            transform=self.transform,
            heads={"replaced": 1, **dict(self.heads)},
        )
        small = smaller(options, self.fraction)
        if self.tie != "none":
            shared["table"], embed = self.discriminator.tables()
        if self.tie in ("embedding", "all"):
            shared["embed"] = embed
        if self.tie == "all":
            if self.fraction != 1:
                raise UserError(
                    f"objective.fraction is {self.fraction}; to tie all weights of the "
                    "generator to the discriminator's it must be 1"
                )
            small, shared["blocks"] = options, self.discriminator.stack
        self.generator = Transformer(
            small, self.size, pattern="full", transform=True, **shared
        )


def smaller(options: Options, fraction: float) -> Options:
    """The generator's options: narrower, as deep, with tables of the same width."""
    width = max(1, round(options.width * fraction))
    return dataclasses.replace(
        options,
        width=width,
        heads=max(1, width // HEAD_WIDTH),
        feedforward=4 * width,
        embedding_width=options.table_width,
    )


class Twin(nn.Module):
    """A biLM: two stacks, one a direction, over one set of tables and one readout.

    What is shared belongs to `forward`. Each has the methods of a transformer (Peters
    et al. 2018, section 3.1, whose directions share the same two).

    Attributes:
      pattern: a promise about rank and reach of what both read.
    """

    options: Options
    size: int
    pattern: str = "general"
    transform: bool = False

    def setup(self):
        parts = (self.options, self.size, self.pattern, self.transform)
        self.forward = Transformer(*parts)
        table, embed = self.forward.tables()
        self.backward = Transformer(
            *parts, table=table, embed=embed, reads=self.forward.output
        )
