"""ul2: seven denoisers with equal mixing rates, each with its mode token."""

import numpy as np
import pytest
from scipy import stats

from experiments import ul2
from research import objectives
from research.objectives.noise.spans import span_counts
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab(size=800, sentinels=160)
SIGNIFICANCE = 1e-4
DENOISERS = {  # table 1 of the paper: mode, rate, mean span
    ("R", 0.15, 3.0),
    ("R", 0.15, 8.0),
    ("S", 0.25, None),
    ("X", 0.5, 3.0),
    ("X", 0.5, 8.0),
    ("X", 0.15, 64.0),
    ("X", 0.5, 64.0),
}


def make_mixture():
    return objectives.make_objective(**ul2.get_config("base").objective)


def denoisers() -> list:
    """The denoisers, in the order of the numbers that `draw_parts` returns."""
    return list(make_mixture().members.values())


def test_the_denoisers_are_the_seven_of_the_paper():
    found = [
        (part.mode, part.rate, None if part.noise_mask == "prefix" else part.mean_span)
        for part in denoisers()
    ]
    assert len(found) == 7 and set(found) == DENOISERS
    assert {part.noise_mask for part in denoisers() if part.mode == "S"} == {"prefix"}
    assert {(part.replacement, part.target) for part in denoisers()} == {
        ("sentinel", "spans")
    }


def test_each_has_a_seventh_of_the_rows():
    step = np.zeros(14_000, np.int64)
    drawn = make_mixture().draw_parts(keys(len(step)), step)
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("length", [128, 512])
def test_rows_are_corrupted_as_their_mode_says(length):
    objective, num_rows = make_mixture(), 420
    raw = objective.text_spec(length).length
    text = texts(raw, [raw] * num_rows, VOCAB)
    batch = objective.corrupt(text, keys(num_rows), VOCAB, length)
    drawn = objective.draw_parts(keys(num_rows), text.step)
    suffix = []
    for number, part in enumerate(denoisers()):
        mine = drawn == number
        encoder, target = batch["encoder_token"][mine], batch["target"][mine]
        mode = VOCAB.sentinel_ids[-("RSX".index(part.mode) + 1)]
        assert mine.any() and (encoder[:, 0] == mode).all()
        full = part.text_spec(length).length
        scored = batch["weight"][mine] > 0
        hidden = (scored & ~VOCAB.is_special[target]).sum(axis=1)
        spans = (scored & np.isin(target, VOCAB.sentinel_ids)).sum(axis=1)
        if part.noise_mask == "prefix":
            suffix.extend(hidden)
            assert (spans == 1).all()
            continue
        expected = span_counts(full, part.rate, part.mean_span)
        assert (hidden == expected.hidden).all() and (spans == expected.spans).all()
        assert (batch["encoder_segment"][mine].sum(axis=1) == length).all()
    fraction = np.array(suffix) / (length - 2)
    error = fraction.std() / len(fraction) ** 0.5
    assert fraction.mean() == pytest.approx(0.25, abs=4 * error)
    assert fraction.max() < 0.5


def test_every_size_has_enough_sentinels():
    for size in ul2.SIZES:
        config = ul2.get_config(size)
        needed = max(part.num_sentinels(config.data.length) for part in denoisers())
        assert needed <= config.data.sentinels
