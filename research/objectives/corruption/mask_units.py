"""What is chosen as a whole: tokens, words, n-grams, spans, entries of a lexicon."""

# B batch, L length, W words of a row, N words of a run

from typing import NamedTuple

import numpy as np

from research.batch import WORD, Lexicon, VocabInfo
from research.data import counter_rng
from research.data.corpora import lexicon as lexicons
from research.errors import UserError, unknown
from research.objectives.inputs.input_format import Text

UNITS = ("token", "word", "ngram", "span", "lexicon")
LONGEST = {"ngram": 3, "span": 10}
"""Words of the longest run (Lan et al. 2020, 3.1; Joshi et al. 2020, 3.1)."""

STOP = 0.2
"""The geometric law's chance that a span ends with a word (Joshi et al. 2020, 3.1)."""


def odds(unit: str, longest: int = 0) -> np.ndarray:
    """[N] float64: how likely a run of n = 1..`longest` (0: as published) words is.

    ngram: p(n) ~ 1/n (Lan et al. 2020, equation 1). span: geometric, truncated and
    renormalised, so that the mean of up to 10 is the published 3.8.
    """
    n = np.arange(1, (longest or LONGEST[unit]) + 1)
    weight = {"ngram": 1 / n, "span": STOP * (1 - STOP) ** (n - 1)}[unit]
    return weight / weight.sum()


def choose(
    key: np.ndarray,
    text: Text,
    vocab: VocabInfo,
    count: np.ndarray,
    *,
    unit: str,
    longest: int = 0,
    kinds: str = "",
) -> np.ndarray:
    """[B, L] bool: whole units of a text, never specials, at most `count` [B] tokens.

    token: `count` of them, all subsets equally likely. word: in random order, each
    that still fits. ngram, span: see `runs`. lexicon: entries in random order, each
    that still fits; then words outside of all entries.

    Args:
      longest: words of an n-gram or span; 0: as published.
      kinds: of the lexicon's entries, separated by commas. Of unit lexicon: those
        that are chosen first ("": all); of other units: entries that are one word.

    Raises:
      UserError: there is no data.lexicon, or it has no such kind.
    """
    candidate = ~vocab.is_special[text.token]
    if unit == "token":
        return counter_rng.choose_subset(key, "choose", candidate, count)
    start = (text.flags & WORD) > 0
    if unit == "lexicon":
        begins, inside = entries(text, vocab, kinds)
        chosen = counter_rng.choose_words(key, "choose", begins, inside, count)
        left, free = count - chosen.sum(axis=1), candidate & ~inside
        return chosen | counter_rng.choose_words(key, "rest", start, free, left)
    if kinds:
        begins, inside = entries(text, vocab, kinds)
        start = begins | (start & ~inside)
    if unit == "word":
        return counter_rng.choose_words(key, "choose", start, candidate, count)
    return runs(key, "choose", start, candidate, count, odds(unit, longest))


def entries(text: Text, vocab: VocabInfo, kinds: str) -> tuple[np.ndarray, np.ndarray]:
    """[B, L] bool each: an entry of the lexicon begins here; a token is of an entry.

    Raises:
      UserError: there is no data.lexicon, or it has no such kind.
    """
    known, wanted = lexicon(vocab, kinds)
    entry = lexicons.match(text.token, text.flags, text.length, known)
    begins = (entry >= 0) & wanted[entry]
    row, place = np.nonzero(begins)
    edge = np.zeros((len(entry), entry.shape[1] + 1), np.int8)
    edge[row, place] = 1
    edge[row, place + known.size[entry[begins]]] -= 1
    return begins, np.cumsum(edge[:, :-1], axis=1, dtype=np.int8) > 0


def lexicon(vocab: VocabInfo, kinds: str) -> tuple[Lexicon, np.ndarray]:
    """The lexicon, and [E] bool: the entries of kinds separated by commas ("": all).

    Raises:
      UserError: there is none, or it has no such kind.
    """
    known = vocab.lexicon
    if known is None:
        raise UserError(
            f"the objective reads {kinds or 'entries'} from data.lexicon, which is "
            "empty; it names a file with lines of an entry, a tab and its kind"
        )
    named = [kind.strip() for kind in kinds.split(",")] if kinds else known.type_names
    for kind in named:
        if kind not in known.type_names:
            raise unknown("kind of data.lexicon", kind, known.type_names)
    return known, np.isin(
        known.entry_type, [known.type_names.index(kind) for kind in named]
    )


def runs(
    key: np.ndarray,
    role: str,
    start: np.ndarray,
    candidate: np.ndarray,
    budget: np.ndarray,
    odds: np.ndarray,
    *,
    shorter: bool = True,
) -> np.ndarray:
    """[B, L] bool: runs of whole words, tried at the words of a row in random order.

    How many words a run has is drawn from `odds`, but never more than there are up to
    a special or the text's end. Where it exceeds what is left of the budget it gives
    up words until it fits. What still does not fit, or meets a run that is already
    there, is skipped (google-research/albert, create_pretraining_data.py; that code
    lets n-grams cross a special).

    Args:
      start, candidate: [B, L] bool; words are those of `noise.words`.
      budget: [B] tokens.
      odds: [N] of 1..N words.
      shorter: whether a run may give up words; else it is skipped.
    """
    words = _table(start, candidate, more=len(odds))
    order = words.shuffled(counter_rng.random_bits(key, role, start.shape[1]))
    draw = counter_rng.uniform(key, f"{role} words", start.shape[1])
    law, ahead = np.cumsum(odds), np.arange(len(odds))
    taken = np.zeros(words.held.shape, bool)
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
        most = law[joined.sum(axis=1) - 1]
        asked = np.searchsorted(law[:-1], draw[live, begin] * most, side="right") + 1
        size = words.end[at] - begin[:, None]
        fits = joined & (size <= left[live, None]) & (ahead < asked[:, None])
        num = fits.sum(axis=1)
        good = (num > 0) & ~(taken[at] & fits).any(axis=1)
        good &= shorter | (num == asked)
        taken[at] |= fits & good[:, None]
        left[live] -= np.where(good, size[np.arange(len(live)), num - 1], 0)
    chosen = np.zeros(start.shape, bool)
    chosen[candidate] = np.repeat(taken[words.held], words.size)
    return chosen


class _Table(NamedTuple):
    """The words of rows in order, and columns of none at the right: [B, W + N] each."""

    held: np.ndarray  # bool: a word
    begin: np.ndarray  # place of its first token
    end: np.ndarray  # place after its last token
    joined: np.ndarray  # bool: it begins where the word before it ends
    count: np.ndarray  # [B]
    size: np.ndarray  # tokens of all words in turn

    def shuffled(self, score: np.ndarray) -> np.ndarray:
        """[B, W] words in the order of scores [B, L] uint64 at their first tokens."""
        word = np.arange(self.count.max(initial=0), dtype=np.uint64)
        score = np.take_along_axis(score, self.begin[:, : len(word)], axis=1)
        score = score & ~counter_rng.INDEX_MASK | word
        score[~self.held[:, : len(word)]] = counter_rng.MAX_UINT64
        score.sort(axis=1)
        return (score & counter_rng.INDEX_MASK).astype(np.intp)


def _table(start: np.ndarray, candidate: np.ndarray, more: int) -> _Table:
    """The words [B, L] bool, with `more` columns at the right."""
    first, size = counter_rng.find_words(start, candidate)
    row, place = np.divmod(first, start.shape[1])
    count = np.bincount(row, minlength=len(start))
    held = np.arange(count.max(initial=0) + more) < count[:, None]
    begin, end = np.zeros((2, *held.shape), np.int64)
    begin[held], end[held] = place, place + size
    joined = np.zeros(held.shape, bool)
    joined[:, 1:] = held[:, 1:] & (begin[:, 1:] == end[:, :-1])
    return _Table(held, begin, end, joined, count, size)
