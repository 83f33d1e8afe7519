"""Flags for the tokens of spans, in which a tokenizer may join units of text."""

# S spans, T tokens, U units

import itertools
from collections.abc import Sequence

import numpy as np

from research.contract.batch import PARAGRAPH, SENTENCE, WORD
from research.data.read import sentences
from research.data.tokenize.tokenizer_models import LocatedTokens


def span_flags(spans: Sequence[str], located: LocatedTokens) -> np.ndarray:
    """WORD where a unit starts, SENTENCE and PARAGRAPH where they do within a span.

    A token belongs to the last word of which it has a character, or else to the white
    space at which it begins. A sentence whose first word shares its token with the next
    word starts at this token.

    Args:
      spans: [S] spans of `sentences.split_spans`.
      located: their tokens, at least one each.

    Returns:
      [T] uint8.
    """
    parts = list(map(sentences.split_span, spans))
    units = list(itertools.chain.from_iterable(parts))
    num_units = np.array(list(map(len, parts)), np.int64)
    first_unit = np.cumsum(num_units) - num_units  # [S]
    traits = np.array(list(map(sentences.sentence_traits, units)), np.uint8)
    size = np.array([len(sentences.spell_unit(unit)) for unit in units], np.int64)
    end = np.cumsum(size)  # [U] characters of all spans
    first = np.repeat((end - size)[first_unit], located.count)
    begins, lasts = first + located.begin, first + located.end - 1  # [T]
    owner = np.searchsorted(end, begins, side="right")  # [T]: the unit of each token
    word = np.flatnonzero(traits & sentences.BLANK == 0)
    if len(word):
        has_space = [unit[0] != sentences.NO_SPACE for unit in units]
        last = np.searchsorted((end - size + has_space)[word], lasts, "right") - 1
        owner = np.where((last >= 0) & (end[word[last]] > begins), word[last], owner)
    flags = np.zeros(len(owner), np.uint8)
    token = np.searchsorted(owner, np.arange(len(units)))  # [U]: where each starts
    has_token = np.bincount(owner, minlength=len(units)) > 0
    flags[token[has_token]] = WORD
    # A unit that the normalizer removes has no token; its traits do not count.
    following = np.append(begins, end[-1:])[token]
    traits[~has_token & (following >= end)] |= sentences.BLANK
    starts, paragraphs = sentences.find_starts(traits, first_unit)
    starts[first_unit] = paragraphs[first_unit] = False  # these depend on other spans
    flags[token[starts]] |= SENTENCE
    flags[token[paragraphs]] |= PARAGRAPH
    return flags
