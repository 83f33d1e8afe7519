"""mlm: what is chosen, and what becomes of it.

Chi-square tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import models, objectives
from research.batch import WORD
from research.errors import UserError
from research.run.setup import zero_batch
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

LEVEL = 1e-4
OF = vocab()


def corrupt(example, length, **fields):
    objective = objectives.make_objective("mlm", **fields)
    return objective.corrupt(example, keys(len(example.length)), OF, length)


def chosen(batch) -> np.ndarray:
    """[B, L] bool: the scored places."""
    hit = np.zeros(batch["token"].shape, bool)
    row, slot = np.nonzero(batch["weight"])
    hit[row, batch["scored"][row, slot]] = True
    return hit


@settings(deadline=None, max_examples=40)
@given(
    st.integers(3, 70),
    st.lists(st.integers(0, 68), min_size=1, max_size=5),
    st.sampled_from([0.01, 0.15, 0.5, 0.95]),
    st.sampled_from(["token", "word"]),
)
def test_the_text_can_be_rebuilt_and_no_special_is_chosen(length, rows, rate, unit):
    example = texts(length - 2, np.minimum(rows, length - 2), OF, separators=0.1)
    batch = corrupt(example, length, rate=rate, unit=unit)
    token, hit = batch["token"].copy(), chosen(batch)
    assert hit.sum() == batch["weight"].sum()  # places are distinct
    token[hit] = batch["target"][batch["weight"] > 0]
    for row, count in enumerate(example.length):
        text = [OF.bos_id, *example.token[row, :count], OF.eos_id] if count else []
        np.testing.assert_array_equal(
            token[row], text + [OF.pad_id] * (length - len(text))
        )
    assert not (OF.is_special[token] & hit).any()


@pytest.mark.parametrize(("length", "count"), [(128, 20), (512, 77)])
def test_scored_places_are_berts(length, count):
    assert objectives.make_objective("mlm").batch_spec(length)["scored"].shape == (
        count,
    )


def test_as_many_are_chosen_as_the_rows_own_length_says():
    lengths = np.arange(127)
    batch = corrupt(texts(126, lengths, OF), 128)
    expected = [0] + [max(1, round(0.15 * (n + 2))) for n in lengths[1:]]
    np.testing.assert_array_equal(batch["weight"].sum(axis=1), np.minimum(expected, 20))


def test_every_place_is_chosen_equally_often():
    batch = corrupt(texts(60, [60] * 3000, OF), 62)
    count = chosen(batch)[:, 1:-1].sum(axis=0)
    assert stats.chisquare(count).pvalue > LEVEL


@pytest.mark.parametrize("unit", ["token", "word"])
def test_eighty_ten_ten_token_by_token(unit):
    batch = corrupt(texts(126, [126] * 1000, OF), 128, unit=unit)
    used, hit = batch["weight"] > 0, chosen(batch)
    target, new = batch["target"][used], batch["token"][hit]
    # A random token is the same by chance for 1 in len(ordinary).
    lucky = 0.1 / len(OF.ordinary_ids)
    masked, same = new == OF.mask_id, new == target
    count = [masked.sum(), same.sum(), (~masked & ~same).sum()]
    expected = np.array([0.8, 0.1 + lucky, 0.1 - lucky]) * len(new)
    assert stats.chisquare(count, expected).pvalue > LEVEL
    # Neighbouring fates are independent, also within a word.
    pair = used[:, 1:] & (np.diff(batch["scored"], axis=1) == 1)
    fate = np.zeros(used.shape)
    fate[used] = masked
    table = np.histogram2d(fate[:, :-1][pair], fate[:, 1:][pair], bins=2)[0]
    assert stats.chi2_contingency(table).pvalue > LEVEL


def test_random_tokens_are_uniform_whatever_the_text():
    example = texts(126, [126] * 1500, OF)
    example = example._replace(token=np.full_like(example.token, OF.ordinary_ids[0]))
    batch = corrupt(example, 128, mask=0.0, random=1.0)
    count = np.bincount(batch["token"][chosen(batch)], minlength=OF.size)
    assert set(np.flatnonzero(count)) == set(OF.ordinary_ids)
    assert stats.chisquare(count[OF.ordinary_ids]).pvalue > LEVEL


def test_words_are_chosen_whole():
    example = texts(126, [126, 60, 5] * 50, OF, separators=0.05)
    hit = chosen(corrupt(example, 128, unit="word"))[:, 1:-1]
    here = np.arange(126) < example.length[:, None]
    inside = here & ~OF.is_special[example.token]
    goes_on = inside[:, :-1] & inside[:, 1:] & ((example.flags & WORD) == 0)[:, 1:]
    assert (hit[:, :-1] == hit[:, 1:])[goes_on].all()
    full = hit[example.length == 126].sum(axis=1)
    assert (full <= 19).all() and full.mean() > 18.9  # of round(0.15 * 128)


@pytest.mark.parametrize(
    "fields",
    [{"rate": 0.0}, {"rate": 1.5}, {"mask": 0.9, "random": 0.2}, {"unit": "x"}],
)
def test_what_makes_no_sense_is_refused(fields):
    with pytest.raises(UserError, match="objective mlm"):
        objectives.make_objective("mlm", **fields)


def test_tokens_are_recovered_through_a_layer_of_its_own():
    # BERT's (dense, activation, norm, bias); a causal model has none.
    def layers(name):
        objective, key = objectives.make_objective(name), jax.random.key(0)
        options = model_options(layers=1, width=8, heads=1, feedforward=8)
        network, batch = objective.network(options, OF), objective.batch_spec(16)
        batch = zero_batch(batch, 2) | {"example": np.zeros(2, np.int32)}
        score = lambda net: objective.loss(net, batch, key)  # noqa: E731
        params = jax.eval_shape(lambda: models.init(network, score, key))
        return set(models.unbox(params).get("output", {}))

    assert layers("mlm") == {"dense", "norm", "bias"}
    assert layers("lm") == set()
