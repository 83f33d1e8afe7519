"""The special tokens around one or two texts that a network reads alone."""

from typing import NamedTuple


class Specials(NamedTuple):
    """Special tokens, as in an objective's training rows.

    The class token is the first of `before`, or else the last of `after`; in a causal
    network it is the last token, the only one that attends to the whole text.
    """

    before: tuple[int, ...] = ()  # ids before the text
    after: tuple[int, ...] = ()  # ids after it
    token_type: int = 0  # of all tokens
    last_type: int = 0  # of the last token, if above `token_type` (XLNet)
    between: tuple[int, ...] = ()  # ids between two texts
    second_type: int = 0  # token type of a second text and of what follows it

    def row(self, first: str, second: str = "") -> list[tuple[int | str, int]]:
        """The ids of a row around the names of its texts, each with a token type.

        The first id between two texts has the type of the first text.
        """
        token_type = self.token_type
        row: list[tuple[int | str, int]] = []
        row += [*((piece, token_type) for piece in self.before), (first, token_type)]
        if second:
            row += [(piece, token_type) for piece in self.between[:1]]
            token_type = self.second_type
            row += [(piece, token_type) for piece in self.between[1:]]
            row += [(second, token_type)]
        row += [(piece, token_type) for piece in self.after]
        if self.after:
            row[-1] = self.after[-1], max(token_type, self.last_type)
        return row
