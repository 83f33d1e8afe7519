"""ul2: seven denoisers, each as often as another, and each as its mode says."""

import numpy as np
import pytest
from scipy import stats

from experiments import ul2
from research import objectives
from research.objectives.corruption.spans import counts
from tests.testing.example_batches import keys, texts, vocab

OF = vocab(size=800, sentinels=160)
LEVEL = 1e-4
DENOISERS = {  # table 1 of the paper: mode, rate, mean span
    ("R", 0.15, 3.0),
    ("R", 0.15, 8.0),
    ("S", 0.25, None),
    ("X", 0.5, 3.0),
    ("X", 0.5, 8.0),
    ("X", 0.15, 64.0),
    ("X", 0.5, 64.0),
}


def mixture():
    return objectives.make_objective(**ul2.get_config("base").objective)


def parts() -> list:
    """The denoisers by the number that `draw` gives."""
    shown = [dict(fields) for _, fields in mixture().parts]
    plain = [{k: v for k, v in fields.items() if k != "share"} for fields in shown]
    return [objectives.make_objective("dae", **fields) for fields in plain]


def test_there_are_the_seven_denoisers_of_the_paper():
    found = [
        (part.mode, part.rate, None if part.choose == "prefix" else part.span)
        for part in parts()
    ]
    assert len(found) == 7 and set(found) == DENOISERS
    assert {part.choose for part in parts() if part.mode == "S"} == {"prefix"}
    assert {(part.fill, part.target) for part in parts()} == {("sentinel", "spans")}


def test_each_has_a_seventh_of_the_rows():
    step = np.zeros(14_000, np.int64)
    drawn = mixture().draw(keys(len(step)), step)
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > LEVEL


@pytest.mark.parametrize("length", [128, 512])
def test_rows_are_hidden_as_their_mode_says(length):
    objective, num_rows = mixture(), 420
    raw = objective.text_spec(length).length
    text = texts(raw, [raw] * num_rows, OF)
    batch = objective.corrupt(text, keys(num_rows), OF, length)
    drawn = objective.draw(keys(num_rows), text.step)
    rest = []
    for number, part in enumerate(parts()):
        mine = drawn == number
        encoder, target = batch["encoder_token"][mine], batch["target"][mine]
        mode = OF.sentinel_ids[-("RSX".index(part.mode) + 1)]
        assert mine.any() and (encoder[:, 0] == mode).all()
        full = part.text_spec(length).length
        there = batch["weight"][mine] > 0
        hidden = (there & ~OF.is_special[target]).sum(axis=1)
        spans = (there & np.isin(target, OF.sentinel_ids)).sum(axis=1)
        if part.choose == "prefix":
            rest.extend(hidden)
            assert (spans == 1).all()
            continue
        expected = counts(full, part.rate, part.span)
        assert (hidden == expected.hidden).all() and (spans == expected.spans).all()
        assert (batch["encoder_segment"][mine].sum(axis=1) == length).all()
    share = np.array(rest) / (length - 2)
    error = share.std() / len(share) ** 0.5
    assert share.mean() == pytest.approx(0.25, abs=4 * error)
    assert share.max() < 0.5


def test_every_size_has_the_sentinels_that_it_needs():
    for size in ul2.SIZES:
        config = ul2.get_config(size)
        needed = max(part.sentinels(config.data.length) for part in parts())
        assert needed <= config.data.sentinels
