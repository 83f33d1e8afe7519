"""Single sentences (MASS)."""

from dataclasses import dataclass

from research.contract.errors import UserError
from research.data.rows import Spans, TextSpec, TokenStream
from research.data.rows.packing.sentences import find_sentences


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """Sentences longer than a row, or shorter than `shortest`, are left out."""

    shortest: int = 1

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        text = find_sentences(stream)
        size = text.end - text.start
        kept = (size >= self.shortest) & (size <= self.length)
        if not kept.any():
            raise UserError(
                f"the text has no sentence of {self.shortest} to {self.length} tokens; "
                "give other text or a larger data.length"
            )
        return Spans(text.start[kept], size[kept], total=int(size.sum()))
