"""Ages of words are the middles of their curves; a word without one counts for none."""

import numpy as np
import pytest

from research.contract.errors import UserError
from research.evaluation.babylm.acquisition import (
    MONTHS,
    child_age,
    model_age,
    read_children,
    score_acquisition,
    sigmoid,
)
from research.evaluation.babylm.rules import RULES

SEEN = np.array([1, 2, 3, 5, 10, 30, 100]) * 10**6
AGES = np.array([*map(int, MONTHS)])


def test_an_age_is_the_middle_of_a_sigmoid():
    assert child_age(sigmoid(AGES, 1, 0.8, 22.5, 0), AGES) == pytest.approx(22.5)
    surprisal = 9 - sigmoid(np.log10(SEEN + 1), 6, 5, 7, 0)
    age = model_age(SEEN, surprisal, 9, bounded=True)
    assert age == pytest.approx(7, abs=0.02)


@pytest.mark.parametrize("shares", [[0.2] * 15, [0.4, 0.6] + [np.nan] * 13])
def test_a_word_that_too_few_children_say_has_no_age(shares):
    assert child_age(shares, AGES) is None


@pytest.mark.parametrize(
    "surprisal",
    [
        [9] * 7,
        [3, 4, 5, 6, 7, 8, 9],
        [5.5, 4.4, 7.9, 8.9, 8.6, 7.6, 5.7],  # the search does not converge
    ],
)
def test_a_word_that_a_model_does_not_learn_has_no_age(surprisal):
    assert model_age(SEEN, surprisal, 9.7, bounded=False) is None


def test_words_that_lack_an_age_are_left_out():
    """One that is not among the children's words, and one that they do not say."""
    middles = {"dog": 17, "cat": 20, "cow": 23, "zoo": 26}
    children = {
        word: sigmoid(AGES, 1, 0.8, middle, 0) for word, middle in middles.items()
    }
    children |= {"ox": [0.1] * 15}
    results = [
        {"step": f"chck_{seen // 10**6}M", "target_word": word, "surprisal": float(y)}
        for number, word in enumerate([*middles, "ox", "gnu"])
        for seen, y in zip(
            SEEN,
            9 - sigmoid(np.log10(SEEN + 1), 6, 5, 6.7 + number / 10, 0),
            strict=True,
        )
    ]
    found = score_acquisition(results, children, RULES["babylm_2026"], lambda word: 9.0)
    assert found.words == tuple(middles)
    np.testing.assert_allclose(found.child, [*middles.values()], atol=1e-4)
    assert found.score == found.r == pytest.approx(1, abs=0.01)


def test_a_file_of_children_that_is_none_is_refused(tmp_path):
    path = tmp_path / "cdi_human.csv"
    with pytest.raises(UserError, match=r"cdi_human\.csv: no such file"):
        read_children(path)
    path.write_text("word,16,17\ndog,0.1,0.2\n")
    with pytest.raises(UserError, match="must have columns word and 16 to 30"):
        read_children(path)
