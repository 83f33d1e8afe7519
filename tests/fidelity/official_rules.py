"""The random rules of official code on plain lists, written from its description.

Each function states the file whose rule it follows. They are slow and simple: they
stand beside our own NumPy code as another opinion on its distributions.
"""

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple


def electra_segments(
    documents: Sequence[Sequence[int]], length: int, rng: Random
) -> list[tuple[int, int]]:
    """Tokens of the first and second segment of each row.

    google-research/electra, build_pretraining_dataset.py, ExampleBuilder.

    Args:
      documents: the sentences' numbers of tokens.
    """
    rows, target = [], length

    def row(sentences):
        nonlocal target
        goal = math.inf if rng.random() < 0.1 else (target - 3) // 2
        first = second = 0
        for size in sentences:
            fits = first + size < goal
            over = not second and first < goal and rng.random() < 0.5
            if not first or fits or over:
                first += size
            else:
                second += size
        first = min(first, length - 2)
        rows.append((first, min(second, max(0, length - first - 3))))
        target = rng.randint(5, length) if rng.random() < 0.05 else length

    for sentences in documents:
        gathered = []
        for size in sentences:
            gathered.append(size)
            if sum(gathered) >= target:
                row(gathered)
                gathered = []
        if gathered:
            row(gathered)
    return rows


def electra_mask(candidates: int, draws: int, rng: Random) -> tuple[int, int]:
    """Distinct positions of a row that are drawn, and those that become masks.

    google-research/electra, pretrain/pretrain_helpers.py, mask.
    """
    drawn = [rng.randrange(candidates) for _ in range(draws)]
    masked = {position for position in drawn if rng.random() < 0.85}
    return len(set(drawn)), len(masked)


def gpt_bert_mask(length: int, rate: float, rng: Random) -> list[bool]:
    """The chosen tokens of a text, none of which was masked before.

    ltgoslo/gpt-bert, pretraining/dataset.py, SpanMaskingStrategy and apply_mask.
    """
    score: list[float] = []
    while len(score) < length:
        score += [rng.random()] * rng.randint(1, 3)
    score = score[:length]
    count = max(1, int(length * rate + rng.random()))
    limit = sorted(score)[count - 1]
    return [each <= limit for each in score]


class Pair(NamedTuple):
    """A row of two segments, and where they begin: document and sentence."""

    first: int  # tokens
    second: int
    random_next: bool
    begin: tuple[int, int]
    second_begin: tuple[int, int]


def bert_pairs(
    documents: Sequence[Sequence[int]], length: int, rng: Random, rate: float = 0.5
) -> list[Pair]:
    """One copy of the text.

    google-research/bert, create_pretraining_data.py, create_instances_from_document;
    google-research/albert's is that at rate 0 (but for the order of the segments).
    """
    rows, room = [], length - 3
    for document, sentences in enumerate(documents):
        target = rng.randint(2, room) if rng.random() < 0.1 else room
        begin = 0
        while begin < len(sentences):
            end = begin + 1
            while end < len(sentences) and sum(sentences[begin:end]) < target:
                end += 1
            num = rng.randint(1, end - begin - 1) if end - begin > 1 else 1
            first = sum(sentences[begin : begin + num])
            second = sum(sentences[begin + num : end])
            other, start = document, begin + num
            random_next = end - begin == 1 or rng.random() < rate
            here, begin = begin, begin + num if random_next else end
            if random_next:
                while other == document:
                    other = rng.randrange(len(documents))
                start, second = rng.randrange(len(documents[other])), 0
                for size in documents[other][start:]:
                    second += size
                    if second >= target - first:
                        break
            while first + second > room:
                first, second = (
                    (first - 1, second) if first > second else (first, second - 1)
                )
            rows.append(
                Pair(first, second, random_next, (document, here), (other, start))
            )
    return rows


def spanbert_mask(starts: Sequence[bool], rng: Random) -> list[bool]:
    """Which tokens are masked, of tokens that start a word or not.

    facebookresearch/SpanBERT, pretraining/fairseq/data/masking.py,
    PairWithSpanMaskingScheme: an anchor is any unmasked token; the span begins with its
    word, and ends where the budget does.
    """
    num, budget = len(starts), math.ceil(0.15 * len(starts))
    sizes = range(1, 11)
    masked = [False] * num
    count = 0
    while count < budget:
        words = rng.choices(sizes, [0.2 * 0.8 ** (n - 1) for n in sizes])[0]
        position = rng.randrange(num)
        if masked[position]:
            continue
        while position and not starts[position]:
            position -= 1
        while position < num and count < budget:
            words -= starts[position] or not masked[position - 1]
            if words < 0:
                break
            count += not masked[position]
            masked[position] = True
            position += 1
    return masked


def albert_mask(words: Sequence[int], budget: int, rng: Random) -> list[bool]:
    """Which words are masked, of words with numbers of tokens.

    google-research/albert, create_pretraining_data.py, create_masked_lm_predictions.
    """
    masked, left = [False] * len(words), budget
    for first in rng.sample(range(len(words)), len(words)):
        if not left:
            break
        most = min(3, len(words) - first)
        sizes = range(1, most + 1)
        num = rng.choices(sizes, [1 / n for n in sizes])[0]
        while num > 1 and sum(words[first : first + num]) > left:
            num -= 1
        span = slice(first, first + num)
        if sum(words[span]) > left or any(masked[span]):
            continue
        masked[span] = [True] * num
        left -= sum(words[span])
    return masked


def xlnet_mask(starts: Sequence[bool], goal: int, rng: Random) -> list[bool]:
    """Which tokens of a half row are targets.

    zihangdai/xlnet, data_utils.py, _sample_mask: an n-gram has n tokens, since the test
    for its end looks at its first token; what is missing is filled up with single
    tokens.
    """
    num, sizes = len(starts), range(1, 6)
    masked, here, found = [False] * num, 0, 0
    while here < num and found < goal:
        size = rng.choices(sizes, [1 / n for n in sizes])[0]
        size = min(size, goal - found)
        left = rng.randrange(6 * size)
        begin = here + left
        while begin < num and not starts[begin]:
            begin += 1
        end = begin + size
        if end >= num:
            break
        masked[begin:end] = [True] * size
        found += size
        here = end + 6 * size - left
    for position in rng.sample(range(num), num):
        if found < goal and not masked[position]:
            masked[position] = True
            found += 1
    return masked


def bart_masks(num_words: int, rng: Random, mean: float = 3.0) -> tuple[int, int, int]:
    """Masks that replace spans, masks that are inserted, and words that remain.

    facebookresearch/fairseq, fairseq/data/denoising_dataset.py, add_whole_word_mask.
    """
    budget, sizes = math.ceil(0.3 * num_words), []
    ks = range(30)
    weights = [math.exp(-mean) * mean**k / math.factorial(k) for k in ks]
    while sum(sizes) < budget:
        sizes.append(rng.choices(ks, weights)[0])
    sizes[-1] -= sum(sizes) - budget
    spans = [size for size in sizes if size]
    begins = rng.sample(range(num_words), len(spans))
    # All spans grow by a word at a time; one that reaches another goes on inside it.
    is_mask = set(begins)
    hidden = set()
    for begin, size in zip(begins, spans, strict=True):
        hidden |= set(range(begin + 1, min(begin + size, num_words)))
    masks = len(is_mask - hidden)
    return masks, len(sizes) - len(spans), num_words - len(hidden | is_mask)


def mass_begin(num_tokens: int, rng: Random) -> tuple[int, int]:
    """First position of the span and the number of positions it may have.

    microsoft/MASS, MASS-unsupNMT/src/trainer.py, shuffle_segments: positions are those
    after the first token, the last of which is the end of the sentence.
    """
    size = round(num_tokens * 0.5)
    last = num_tokens - size
    draw = rng.random()
    begin = 1 if draw >= 0.8 else last if draw >= 0.6 else rng.randint(1, last)
    return begin, last
