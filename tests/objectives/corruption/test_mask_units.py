"""Units: the laws of lengths, whole words under any tokenizer, budgets.

Chi-square tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

from pydoc_data.topics import topics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research.batch import WORD, Example
from research.data.corpora.corpus import Corpus, Document
from research.data.tokenizers import train_tokenizer, vocabulary
from research.objectives.corruption import mask_units
from research.objectives.corruption.masking import budget
from research.objectives.inputs import input_format
from tests.testing.example_batches import keys, texts, vocab

LEVEL = 1e-4
OF = vocab()
SPAN = (0.2241, 0.1792, 0.1434, 0.1147, 0.0918, 0.0734, 0.0587, 0.0470, 0.0376, 0.0301)


def choose(example, length, unit, of=OF, **fields):
    """The laid-out text, the budget of each row, and what is chosen."""
    text = input_format.single(example, of, length)
    key = keys(len(text.length))
    count = budget(text.length, 0.15, length)
    return text, count, mask_units.choose(key, text, of, count, unit=unit, **fields)


def single_words(num_rows, length) -> Example:
    """Texts in which each token is a word."""
    example = texts(length - 2, [length - 2] * num_rows, OF)
    return example._replace(flags=np.full_like(example.flags, WORD))


def lengths(chosen) -> np.ndarray:
    """Of all unbroken rows of chosen places."""
    edge = np.diff(np.pad(chosen, [(0, 0), (1, 1)]).astype(int), axis=1)
    return np.nonzero(edge < 0)[1] - np.nonzero(edge > 0)[1]


def test_lengths_are_as_published():
    np.testing.assert_allclose(mask_units.odds("ngram"), [6 / 11, 3 / 11, 2 / 11])
    np.testing.assert_allclose(mask_units.odds("span"), SPAN, atol=5e-5)
    means = [
        mask_units.odds(unit) @ (1 + np.arange(n))
        for unit, n in mask_units.LONGEST.items()
    ]
    np.testing.assert_allclose(means, [1.636, 3.797], atol=5e-4)
    np.testing.assert_allclose(mask_units.odds("ngram", 2), [2 / 3, 1 / 3])


def published(law, width, count, rng) -> tuple[np.ndarray, list[int]]:
    """What one row hides by the written procedure, where each token is a word.

    Starts in random order, a length drawn anew for each, cut to what is left of row
    and budget, left out where it meets what is there.
    """
    taken, runs, left = np.zeros(width, bool), [], count
    for start in rng.permutation(width):
        room = np.cumsum(law[: width - start])
        n = min(1 + np.searchsorted(room, rng.random() * room[-1], "right"), left)
        if n and not taken[start : start + n].any():
            taken[start : start + n] = True
            runs.append(n)
            left -= n
    return taken, runs


@pytest.mark.parametrize(
    ("unit", "mean", "most"), [("ngram", 1.578, 6), ("span", 3.63, 14)]
)
def test_runs_are_those_of_the_written_procedure(unit, mean, most):
    _, count, chosen = choose(single_words(600, 512), 512, unit)
    assert (chosen.sum(axis=1) == count).all() and count[0] == 77
    rng = np.random.default_rng(0)
    drawn = [published(mask_units.odds(unit), 510, 77, rng) for _ in range(300)]
    # Below the mean of the draws, by as much as depends on how a budget ends.
    realised = np.concatenate([runs for _, runs in drawn])
    assert realised.mean() == pytest.approx(mean, rel=0.05)
    # Runs that touch cannot be told apart afterwards, so joint lengths are compared.
    taken = np.stack([taken for taken, _ in drawn])
    table = [np.bincount(np.minimum(lengths(x), most))[1:] for x in (chosen, taken)]
    assert stats.chi2_contingency(table).pvalue > LEVEL


@pytest.mark.parametrize("unit", ["word", "ngram", "span"])
def test_inner_places_are_chosen_equally_often(unit):
    _, _, chosen = choose(single_words(3000, 62), 62, unit)
    assert stats.chisquare(chosen.sum(axis=0)[12:-12]).pvalue > LEVEL


def parts(inside, start) -> list[np.ndarray]:
    """The places of each word: from a start to the next, or to what is not inside."""
    found, open_ = [], False
    for place, (here, begins) in enumerate(zip(inside, start, strict=True)):
        if here and (begins or not open_):
            found.append([])
        if here:
            found[-1].append(place)
        open_ = here
    return [np.array(places) for places in found]


@settings(deadline=None, max_examples=40)
@given(
    st.integers(3, 70),
    st.lists(st.integers(0, 68), min_size=1, max_size=5),
    st.sampled_from(["word", "ngram", "span"]),
    st.integers(0, 2**32),
)
def test_units_are_whole_words_and_keep_the_budget(length, rows, unit, seed):
    raw = length - 2
    example = texts(raw, np.minimum(rows, raw), OF, separators=0.1, seed=seed)
    text, count, chosen = choose(example, length, unit)
    assert (chosen.sum(axis=1) <= count).all()
    for row, inside in enumerate(~OF.is_special[text.token]):
        words = parts(inside, text.flags[row] & WORD)
        assert all(len(set(chosen[row, places])) == 1 for places in words)
        assert chosen[row].sum() == sum(chosen[row, places].sum() for places in words)
        left = count[row] - chosen[row].sum()
        free = [len(places) for places in words if not chosen[row, places[0]]]
        assert min(free, default=left + 1) > left  # nothing more would have fitted


def test_a_run_stops_at_a_special_and_at_the_end():
    example = single_words(400, 24)
    token = example.token.copy()
    token[:, ::4] = OF.eos_id
    text, count, chosen = choose(example._replace(token=token), 24, "span")
    assert lengths(chosen).max() == 3
    assert (chosen.sum(axis=1) == count).all()  # no special is paid for
    assert not (chosen & OF.is_special[text.token]).any()


@pytest.fixture(scope="module")
def vocabularies():
    lines = " ".join(topics[name] for name in sorted(topics)[:8]).split("\n")
    read = lambda: [line for line in lines if line.strip()]  # noqa: E731
    corpus = Corpus("topics", lambda split: map(Document, read()), read)
    made = {}
    for kind in train_tokenizer.TOKENIZER_TYPES:
        model = train_tokenizer.train(corpus, kind, 500, 7)
        made[kind] = vocabulary.Vocabulary(
            model, vocabulary.find_special_tokens(model, 7)
        )
    return made, read()[:200]


@pytest.mark.parametrize("unit", ["word", "ngram", "span"])
@pytest.mark.parametrize("kind", train_tokenizer.TOKENIZER_TYPES)
def test_words_are_whole_under_any_tokenizer(vocabularies, kind, unit):
    # What is between two places that the text itself parts, by white space, is hidden
    # in one go unless punctuation parts it further.
    made, lines = vocabularies
    encoder = made[kind]
    of, cut = encoder.vocab, 0
    for line in lines:
        words = [word for word in line.split() if word.isalnum()]
        if not words:
            continue
        token, _ = encoder.encode(" ".join(words))
        number = np.cumsum(encoder.encode(" ".join(words))[1]) - 1
        assert number[-1] == len(words) - 1
        flags = np.where(np.diff(number, prepend=-1) > 0, WORD, 0)
        length = np.array([len(token)], np.int32)
        example = texts(len(token), length, OF)._replace(
            token=token[None].astype(np.int32), flags=flags[None].astype(np.uint8)
        )
        _, _, chosen = choose(example, len(token) + 2, unit, of)
        hit = chosen[0, 1:-1]
        for place in range(len(words)):
            assert len(set(hit[number == place])) == 1
        hidden = np.unique(number[hit])
        spelled = encoder.decode(token[hit]).split()
        assert spelled == [words[place] for place in hidden]
        cut += sum((number == place).sum() > 1 for place in hidden)
    assert cut > 10  # words of several pieces were among them


def test_a_row_does_not_know_the_others():
    example = texts(62, [62, 10, 0, 40, 62], OF, separators=0.05)
    text = input_format.single(example, OF, 64)
    key, count = keys(5), budget(text.length, 0.15, 64)
    for unit in ("ngram", "span"):
        whole = mask_units.choose(key, text, OF, count, unit=unit)
        for row in range(5):
            own = input_format.Text(*(array[row : row + 1] for array in text))
            here = slice(row, row + 1)
            alone = mask_units.choose(key[here], own, OF, count[here], unit=unit)
            np.testing.assert_array_equal(alone, whole[here])
