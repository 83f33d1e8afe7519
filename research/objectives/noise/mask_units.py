"""Units of masking: tokens, words, n-grams, spans, entries of a lexicon."""

# B batch, L length, W words of a row, N words of a run

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from research.contract.batch import WORD, Lexicon, VocabInfo
from research.contract.errors import UserError, unknown
from research.data import counter_rng
from research.data.read import lexicon as lexicons
from research.objectives.layout.input_format import Text

SPAN_P = 0.2
"""Parameter of the geometric distribution of span lengths (Joshi et al. 2020, 3.1)."""


class Unit(NamedTuple):
    """What is chosen as a whole."""

    line: str  # what it is, for users
    choose: Callable[..., np.ndarray]  # with the positional arguments of `choose_runs`
    longest: int = 1  # the published maximum of its words, or of a tile's tokens
    weight: Callable[[np.ndarray], np.ndarray] = np.ones_like  # n = 1..longest [N] ->
    # relative frequency of units of n words
    of_words: bool = True  # it starts where a word does; False: at any candidate
    takes_weights: bool = False  # may be drawn in proportion to weights of tokens
    reads_lexicon: bool = False  # entries of the lexicon are chosen first
    starts: Callable[..., np.ndarray] | None = None  # as `tile_starts`, for units that
    # partition the row: the budget counts ordinary tokens, and the last may exceed it

    def lengths(self, max_words: int = 0) -> np.ndarray:
        """[N] float64: probabilities of n = 1..N words; max_words 0: N is `longest`."""
        weight = self.weight(1.0 + np.arange(max_words or self.longest))
        return weight / weight.sum()

    def surplus(self, max_words: int = 0) -> int:
        """Tokens that the last unit of a row may have beyond its budget."""
        return (max_words or self.longest) - 1 if self.starts else 0


def choose_units(
    key: np.ndarray,
    text: Text,
    vocab: VocabInfo,
    count: np.ndarray,
    *,
    unit: str,
    max_words: int = 0,
    entry_types: str = "",
    candidates: str = "ordinary",
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """[B, L] bool: randomly chosen whole units of a text, at most `count` [B] tokens.

    Units that partition the row may exceed that, see `Unit.surplus`.

    Args:
      unit: one of `UNITS`.
      max_words: words of the longest run, or tokens of a tile; 0: as published.
      entry_types: types of the lexicon, separated by commas. With unit lexicon, entries
        of these types are chosen first ("": all); with other units they count as one
        word.
      candidates: one of `masking.TOKEN_SETS`.
      weight: [B, L], with a unit that `takes_weights`: tokens are drawn one by one in
        proportion to it; None: all equally likely.

    Raises:
      UserError: there is no data.lexicon, or it has no such entry.
    """
    own = UNITS[unit]
    start, candidate, entry = find_units(
        text, vocab, unit, entry_types=entry_types, candidates=candidates
    )
    if weight is not None:
        return counter_rng.choose_by_weight(key, "choose", candidate * weight, count)
    lengths = own.lengths(max_words)
    if not own.reads_lexicon:
        return own.choose(key, "choose", start, candidate, count, lengths)
    chosen = counter_rng.choose_words(key, "choose", start, entry, count)
    left, free = count - chosen.sum(axis=1), candidate & ~entry
    return chosen | own.choose(key, "rest", start, free, left, lengths)


def find_units(
    text: Text,
    vocab: VocabInfo,
    unit: str,
    *,
    entry_types: str = "",
    candidates: str = "ordinary",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[B, L] bool each: unit starts, tokens that may be chosen, tokens of entries.

    Units are the words of `counter_rng.find_words`. Args: see `choose_units`.

    Raises:
      UserError: there is no data.lexicon, or it has no such entry.
    """
    if candidates == "ordinary":
        candidate = ~vocab.is_special[text.token]
    else:
        candidate = np.arange(text.token.shape[1]) < text.length[:, None]
    own, inside = UNITS[unit], np.zeros_like(candidate)
    if not own.of_words:
        return candidate, candidate, inside
    start = (text.flags & WORD) > 0
    if entry_types or own.reads_lexicon:
        begins, inside = find_entries(text, vocab, entry_types)
        start = begins | (start & ~inside)
    return start, candidate, inside


def find_entries(
    text: Text, vocab: VocabInfo, entry_types: str
) -> tuple[np.ndarray, np.ndarray]:
    """[B, L] bool each: where entries of the lexicon begin, and tokens in an entry.

    Raises:
      UserError: there is no data.lexicon, or it has no such entry.
    """
    lexicon, selected = select_entries(vocab, entry_types)
    arrays = text.token, text.flags, text.length
    entry = lexicons.match(*arrays, lexicon, eos_id=vocab.eos_id)
    begins = (entry >= 0) & selected[entry]
    row, position = np.nonzero(begins)
    edge = np.zeros((len(entry), entry.shape[1] + 1), np.int8)
    edge[row, position] = 1
    edge[row, position + lexicon.size[entry[begins]]] -= 1
    return begins, np.cumsum(edge[:, :-1], axis=1, dtype=np.int8) > 0


LINES = "lines entry<TAB>type"


def select_entries(vocab: VocabInfo, entry_types: str) -> tuple[Lexicon, np.ndarray]:
    """The lexicon, and [E] bool: which entries have one of the types ("": all).

    Raises:
      UserError: there is no data.lexicon, or it has no such entry.
    """
    lexicon = vocab.lexicon
    if lexicon is None:
        raise UserError(
            f"the objective needs {entry_types or 'entries'} of data.lexicon, which is "
            "empty or not there; set it to a file with lines entry<TAB>type"
        )
    known = lexicon.type_names
    names = [name.strip() for name in entry_types.split(",")] if entry_types else known
    for name in names:
        if name not in known:
            raise unknown("objective.entry_types (of data.lexicon)", name, known)
    selected = np.isin(lexicon.entry_type, [known.index(name) for name in names])
    if not selected.any():
        raise UserError(
            f"data.lexicon has no entry of type {', '.join(names)} that is used: they "
            "are not in the vocabulary, or already entries of another type"
        )
    return lexicon, selected


def choose_runs(
    key: np.ndarray,
    role: str,
    start: np.ndarray,
    candidate: np.ndarray,
    budget: np.ndarray,
    lengths: np.ndarray,
    *,
    shorten: bool = True,
) -> np.ndarray:
    """[B, L] bool: runs of whole words, which start at words in random order.

    The number of words of a run is drawn from `lengths`, and limited to the words
    before the next special or the text's end. A run that exceeds the rest of the budget
    is shortened until it fits. If it still does not fit, or overlaps an earlier run, it
    is skipped (google-research/albert, create_pretraining_data.py; that code lets
    n-grams cross a special).

    Args:
      start, candidate: [B, L] bool; words are those of `counter_rng.find_words`.
      budget: [B] tokens.
      lengths: [N] probabilities of 1..N words.
      shorten: False: runs that exceed the rest of the budget are skipped.
    """
    words = _word_table(start, candidate, extra=len(lengths))
    order = words.shuffled(counter_rng.random_bits(key, role, start.shape[1]))
    draw = counter_rng.uniform(key, f"{role} words", start.shape[1])
    cumulative, ahead = np.cumsum(lengths), np.arange(len(lengths))
    taken = np.zeros(words.exists.shape, bool)
    left, live = np.array(budget, np.int64), np.arange(len(start))
    for turn in range(order.shape[1]):
        live = live[(left[live] > 0) & (turn < words.count[live])]
        if not len(live):
            break
        word = order[live, turn]
        begin = words.begin[live, word]
        at = live[:, None], word[:, None] + ahead
        joined = words.joined[at] | (ahead == 0)
        joined = np.logical_and.accumulate(joined, axis=1)
        total = cumulative[joined.sum(axis=1) - 1]
        drawn = draw[live, begin] * total
        drawn = np.searchsorted(cumulative[:-1], drawn, side="right") + 1
        size = words.end[at] - begin[:, None]
        fits = joined & (size <= left[live, None]) & (ahead < drawn[:, None])
        num = fits.sum(axis=1)
        accepted = (num > 0) & ~(taken[at] & fits).any(axis=1)
        accepted &= shorten | (num == drawn)
        taken[at] |= fits & accepted[:, None]
        left[live] -= np.where(accepted, size[np.arange(len(live)), num - 1], 0)
    chosen = np.zeros(start.shape, bool)
    chosen[candidate] = np.repeat(taken[words.exists], words.size)
    return chosen


def choose_spans(
    key: np.ndarray,
    role: str,
    start: np.ndarray,
    candidate: np.ndarray,
    budget: np.ndarray,
    lengths: np.ndarray,
) -> np.ndarray:
    """[B, L] bool: spans of whole words, each starting with the word of a random token.

    The token is any candidate that is not yet chosen. The number of words of a span is
    drawn from `lengths`; words that are already chosen count, so spans may touch and
    merge. A span ends before a special or the text's end, and in the middle of a word
    if the budget ends there (facebookresearch/SpanBERT, masking.py,
    PairWithSpanMaskingScheme).

    Args:
      start, candidate: [B, L] bool; words are those of `counter_rng.find_words`.
      budget: [B] tokens; exactly as many are chosen, if the row has as many candidates.
      lengths: [N] probabilities of 1..N words.
    """
    words = _word_table(start, candidate, extra=len(lengths))
    bits = counter_rng.random_bits(key, role, start.shape[1])
    order = words.shuffled(_least_of_words(bits, candidate, words))
    draw = counter_rng.uniform(key, f"{role} words", start.shape[1])
    cumulative = np.cumsum(lengths)[:-1]
    ahead, taken = np.arange(len(lengths)), np.zeros(words.exists.shape, bool)
    left, live = np.array(budget, np.int64), np.arange(len(start))
    last = np.zeros(len(start), np.int64)  # the last word of the last span
    for turn in range(order.shape[1]):
        live = live[(left[live] > 0) & (turn < words.count[live])]
        if not len(live):
            break
        word = order[live, turn]
        at = live[:, None], word[:, None] + ahead
        joined = words.joined[at] | (ahead == 0)
        joined = np.logical_and.accumulate(joined, axis=1)
        drawn = draw[live, words.begin[live, word]]
        num = np.searchsorted(cumulative, drawn, side="right") + 1
        new = joined & (ahead < num[:, None]) & ~taken[at]
        new &= ~taken[live, word][:, None]
        size = np.where(new, words.end[at] - words.begin[at], 0)
        new &= np.cumsum(size, axis=1) - size < left[live, None]
        taken[at] |= new
        left[live] -= np.where(new, size, 0).sum(axis=1)
        over = live[left[live] < 0]
        last[over] = (word + np.where(new, ahead, 0).max(axis=1))[left[live] < 0]
    chosen = np.zeros(start.shape, bool)
    chosen[candidate] = np.repeat(taken[words.exists], words.size)
    row, position = np.arange(len(start)), np.arange(start.shape[1])
    end = words.end[row, last][:, None]
    cut = (position < end) & (position >= end + np.minimum(left, 0)[:, None])
    return chosen & ~cut


def tile_starts(key: np.ndarray, candidate: np.ndarray, most: int) -> np.ndarray:
    """[B, L] bool: starts of tiles of 1..most tokens, all lengths equally likely.

    The first begins with the first candidate [B, L] of a row.
    """
    length = candidate.shape[1]
    size = 1 + (counter_rng.uniform(key, "tile", length) * most).astype(np.int64)
    begin = np.argmax(candidate, axis=1)[:, None] + np.cumsum(size, axis=1) - size
    row, tile = np.nonzero(begin < length)
    starts = np.zeros((len(key), length), bool)
    starts[row, begin[row, tile]] = True
    return starts


def choose_tiles(key: np.ndarray, role: str, *at: np.ndarray) -> np.ndarray:
    """[B, L] bool: tiles in random order until there are `budget` [B] tokens.

    All tokens of the last tile are chosen, up to N - 1 beyond the budget, which is at
    least 1. Tiles partition the row; their tokens that are not candidates [B, L] are
    left out (ltgoslo/gpt-bert, pretraining/dataset.py, SpanMaskingStrategy and
    apply_mask, without its counts of earlier masks). Args: see `choose_runs`.
    """
    _, candidate, budget, lengths = at
    length = candidate.shape[1]
    begins = tile_starts(key, candidate, len(lengths))
    index = np.where(begins, np.arange(length), 0)
    index = np.maximum.accumulate(index, axis=1)
    score = counter_rng.uniform(key, role, length)
    score = np.take_along_axis(score, index, axis=1)
    score = np.where(candidate, score, np.inf)
    last = np.clip(budget, 1, length)[:, None] - 1
    limit = np.take_along_axis(np.sort(score, axis=1), last, axis=1)
    return candidate & (score <= limit)


def _tokens(key: np.ndarray, role: str, *at: np.ndarray) -> np.ndarray:
    _, candidate, budget, _ = at
    return counter_rng.choose_subset(key, role, candidate, budget)


def _words(key: np.ndarray, role: str, *at: np.ndarray) -> np.ndarray:
    start, candidate, budget, _ = at
    return counter_rng.choose_words(key, role, start, candidate, budget)


UNITS = {
    "token": Unit(
        "tokens, all subsets equally likely",
        _tokens,
        of_words=False,
        takes_weights=True,
    ),
    "word": Unit("words in random order, each that still fits", _words),
    "ngram": Unit(
        "runs of n words, p(n) ~ 1 / n (Lan et al. 2020, 3.1, equation 1)",
        choose_runs,
        3,
        lambda n: 1 / n,
    ),
    # with at most 10 words the mean is the published 3.8
    "span": Unit(
        "runs of words, of geometric length, truncated (Joshi et al. 2020, 3.1)",
        choose_spans,
        10,
        lambda n: SPAN_P * (1 - SPAN_P) ** (n - 1),
    ),
    "lexicon": Unit(
        "entries of data.lexicon in random order, then words outside all entries",
        _words,
        reads_lexicon=True,
    ),
    "tile": Unit(
        "tiles of one to three tokens (ltgoslo/gpt-bert, SpanMaskingStrategy)",
        choose_tiles,
        3,
        of_words=False,
        starts=tile_starts,
    ),
}
"""`unit` of objectives that mask -> how it is chosen."""

SINGLE_UNITS = tuple(
    name for name, u in UNITS.items() if u.longest == 1 and not u.reads_lexicon
)
"""Units of one token or word each, of any text."""


class _WordTable(NamedTuple):
    """The words of each row in order, then N columns without words: [B, W + N]."""

    exists: np.ndarray  # bool
    begin: np.ndarray  # position of its first token
    end: np.ndarray  # position after its last token
    joined: np.ndarray  # bool: it directly follows the word before it
    count: np.ndarray  # type: ignore[assignment]  # [B]: number of words of a row
    size: np.ndarray  # number of tokens of each word, row by row

    def shuffled(self, score: np.ndarray) -> np.ndarray:
        """[B, W]: words ordered by the scores [B, L] uint64 at their first tokens."""
        word = np.arange(self.count.max(initial=0), dtype=np.uint64)
        score = np.take_along_axis(score, self.begin[:, : len(word)], axis=1)
        score = score & ~counter_rng.INDEX_MASK | word
        score[~self.exists[:, : len(word)]] = counter_rng.MAX_UINT64
        score.sort(axis=1)
        return (score & counter_rng.INDEX_MASK).astype(np.intp)


def _least_of_words(
    bits: np.ndarray, candidate: np.ndarray, words: _WordTable
) -> np.ndarray:
    """[B, L] uint64: the minimum of the bits of a word's tokens, at its first token."""
    least = np.zeros_like(bits)
    if len(words.size):
        row = np.nonzero(words.exists)[0]
        first = words.begin[words.exists]
        edges = np.cumsum(words.size) - words.size
        least[row, first] = np.minimum.reduceat(bits[candidate], edges)
    return least


def _word_table(start: np.ndarray, candidate: np.ndarray, extra: int) -> _WordTable:
    """The table of the words that `start` and `candidate` [B, L] bool define.

    Args:
      extra: N, the number of columns without words.
    """
    first, size = counter_rng.find_words(start, candidate)
    row, position = np.divmod(first, start.shape[1])
    count = np.bincount(row, minlength=len(start))
    exists = np.arange(count.max(initial=0) + extra) < count[:, None]
    begin, end = np.zeros((2, *exists.shape), np.int64)
    begin[exists], end[exists] = position, position + size
    joined = np.zeros(exists.shape, bool)
    joined[:, 1:] = exists[:, 1:] & (begin[:, 1:] == end[:, :-1])
    return _WordTable(exists, begin, end, joined, count, size)
