"""How log-probabilities are computed: the pipeline's backends, as rows.

causal          the text as tokenized; a token is predicted from the state before it,
                so the first token never is.
mlm             a row for each scored token, which is masked; predicted at its position.
mntp            the same, predicted at the position before it.
enc_dec_mask    the encoder reads the text with the token masked, the decoder bos and
                mask; predicted from the decoder's last state.
enc_dec_prefix  the encoder reads the prefix and a mask; the decoder bos, mask and the
                completion, each of whose tokens is scored.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from research.contract.errors import UserError
from research.evaluation.babylm.tokenizer import Tokenizer

MASKS = 3
"""Masks after a context whose next word is asked for (reading/run.py)."""


class Candidate(NamedTuple):
    """A text whose end is scored."""

    text: str
    completion: str  # a suffix of the text
    prefix: str | None = None  # what enc_dec_prefix's encoder reads; None: nothing


class Row(NamedTuple):
    """A row of a network, and the tokens that are scored in it."""

    token: list[int]  # of the network, or of its decoder
    scored: list[int]  # positions
    target: list[int]  # the token to predict at each of them
    encoder: Sequence[int] = ()  # of an encoder-decoder


Rows = Callable[[Tokenizer, Candidate], Iterator[Row]]


def _scored(tokens, candidate: Candidate) -> list[int]:
    """The tokens whose last character is in the completion; specials have none."""
    start = len(candidate.text) - len(candidate.completion)
    return [at for at, end in enumerate(tokens.ends) if end > start]


def causal(tokenizer: Tokenizer, candidate: Candidate) -> Iterator[Row]:
    """One row, in which each token is predicted from those before it."""
    tokens = tokenizer.encode(candidate.text)
    scored = [at for at in _scored(tokens, candidate) if at]
    yield Row(tokens.ids, [at - 1 for at in scored], [tokens.ids[at] for at in scored])


def _masked(tokenizer: Tokenizer, candidate: Candidate, back: int) -> Iterator[Row]:
    tokens, mask = tokenizer.encode(candidate.text), tokenizer.special("mask")
    for at in _scored(tokens, candidate):
        ids = [*tokens.ids[:at], mask, *tokens.ids[at + 1 :]]
        if back and not at:  # if no bos is added, it is read from the end
            if tokenizer.ids["bos"] is None and tokenizer.ids["cls"] is None:
                continue
            yield Row(ids, [len(ids) - 1], [tokens.ids[at]])
        else:
            yield Row(ids, [at - back], [tokens.ids[at]])


def mlm(tokenizer: Tokenizer, candidate: Candidate) -> Iterator[Row]:
    """A row for each scored token, masked and predicted at its mask."""
    return _masked(tokenizer, candidate, 0)


def mntp(tokenizer: Tokenizer, candidate: Candidate) -> Iterator[Row]:
    """Like `mlm`, but predicted at the position before the mask."""
    return _masked(tokenizer, candidate, 1)


def enc_dec_mask(tokenizer: Tokenizer, candidate: Candidate) -> Iterator[Row]:
    """Like `mlm`, with rows of the encoder: the decoder predicts the masked token."""
    decoder = [tokenizer.special("bos")]
    if tokenizer.ids["bos"] is not None:
        decoder.append(tokenizer.special("mask"))
    for row in mlm(tokenizer, candidate):
        yield Row(decoder, [len(decoder) - 1], row.target, row.token)


def _encoder(tokenizer: Tokenizer, text: str | None) -> list[int]:
    """cls, the text, mask and eos; the tokenizer may lack the first and the last."""
    ids = tokenizer.encode(text, specials=False).ids if text is not None else []
    ids = [tokenizer.ids["cls"], *ids, tokenizer.special("mask"), tokenizer.ids["eos"]]
    return [token for token in ids if token is not None]


def enc_dec_prefix(tokenizer: Tokenizer, candidate: Candidate) -> Iterator[Row]:
    """One row: the encoder reads the prefix and a mask, the decoder the completion."""
    target = tokenizer.encode(candidate.completion, specials=False).ids
    start = [tokenizer.special("bos"), tokenizer.special("mask")]
    scored = [1 + number for number in range(len(target))]
    encoder = _encoder(tokenizer, candidate.prefix)
    yield Row([*start, *target[:-1]], scored, target, encoder)


ROWS: dict[str, Rows] = {
    "causal": causal,
    "mlm": mlm,
    "mntp": mntp,
    "enc_dec_mask": enc_dec_mask,
    "enc_dec_prefix": enc_dec_prefix,
}

PATTERNS = {
    "causal": ("causal", "general"),
    "mlm": ("full", "general"),
    "mntp": ("full", "general"),
}
"""Backend of one stack -> the attention patterns of networks that can serve it."""


def reading_backend(backend: str) -> str:
    """The backend's name in reading: one for both of an encoder-decoder."""
    return "enc_dec" if backend.startswith("enc_dec") else backend


def word_rows(
    tokenizer: Tokenizer, backend: str, context: str, word: str
) -> Iterator[Row]:
    """Rows whose scores add up to log p(word | context) in reading.

    The word's tokens follow the context without a space. Each token but the first is
    read back as text, cut anew, and its first token is scored, as
    reading/evaluation_functions.py does (get_p2 and get_p of each backend).
    """
    for number, token in enumerate(tokenizer.encode(word, specials=False).ids):
        text, target = tokenizer.decode(token), token
        if number:
            pieces = tokenizer.encode(text, specials=False).ids
            if not pieces:
                raise UserError(f"the tokenizer has no token for {text!r} of {word!r}")
            target = pieces[0]
        yield _next_token(tokenizer, backend, context, target)
        context += text


def _next_token(tokenizer: Tokenizer, backend: str, context: str, target: int) -> Row:
    """The row that scores one token after a context."""
    if backend.startswith("enc_dec"):
        bos = [tokenizer.special("bos")]
        return Row(bos, [0], [target], _encoder(tokenizer, context))
    if backend == "causal":
        ids = tokenizer.encode(context).ids
        return Row(ids, [len(ids) - 1], [target])
    mask = tokenizer.special("mask")
    ids = tokenizer.encode(context + tokenizer.names["mask"] * MASKS).ids
    # If the last token is not a mask, one special token is assumed to follow the masks.
    at = len(ids) - MASKS - (ids[-1] != mask) - (backend == "mntp")
    return Row(ids, [at], [target])
