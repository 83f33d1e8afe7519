"""plm's rows as XLNet has them: two segments, and text that runs backwards.

Statistical tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import objectives
from research.batch import SENTENCE, WORD
from research.errors import UserError
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

OF = vocab(size=1024)
LEVEL = 1e-4


def load(**fields):
    return objectives.make_objective("plm", **{"format": "pair"} | fields)


def sentences(objective, length, num_raw, seed=0):
    """Texts whose tokens tell their place in them, with sentences of 1 to 9 tokens."""
    raw = objective.text_spec(length).length
    made = texts(raw, np.minimum(num_raw, raw), OF, seed=seed)
    token = np.where(
        made.token == OF.pad_id, OF.pad_id, OF.ordinary_ids[np.arange(raw)]
    )
    rng = np.random.default_rng(seed)
    starts = rng.random(made.flags.shape) < 0.2
    flags = np.where(starts, WORD | SENTENCE, made.flags & WORD)
    flags[made.token == OF.pad_id] = 0
    return made._replace(token=token.astype(np.int32), flags=flags.astype(np.uint8))


def row_of(batch, length, row):
    """The tokens, kinds and positions of one row's text."""
    here = batch["segment"][row, :length] > 0
    return tuple(
        batch[name][row, :length][here] for name in ("token", "token_type", "position")
    )


def corrupt(objective, example, length, seed=0):
    return objective.corrupt(example, keys(len(example.length), seed), OF, length)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(8, 60),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(["forward", "both"]),
    st.integers(0, 999),
)
def test_a_row_is_text_in_two_segments_and_the_class_token(
    length, parts, far, direction, seed
):
    objective = load(parts=parts, far=far, direction=direction)
    raw = objective.text_spec(length).length
    num_raw = np.random.default_rng(seed).integers(0, raw + 1, 5)
    num_raw[:2] = 0, raw
    example = sentences(objective, length, num_raw, seed)
    batch = corrupt(objective, example, length, seed)
    for row, count in enumerate(num_raw):
        token, kind, position = row_of(batch, length, row)
        if not count:
            assert not len(token)
            continue
        near = min(count, length - 3)
        assert token[-1] == OF.bos_id and kind[-1] == 2
        ends = np.flatnonzero(token == OF.eos_id)
        first, second = token[: ends[0]], token[ends[0] + 1 : -2]
        assert len(first) + len(second) == near
        step = position[1] - position[0]
        assert (np.diff(position) == step).all()
        assert step == 1 or (step == -1 and direction == "both")
        # Places of the text, which the tokens tell, run the same way.
        at, there = (np.searchsorted(OF.ordinary_ids, side) for side in (first, second))
        assert (np.diff(at) == step).all() and (np.diff(there) == step).all()
        assert at[0] == (0 if step > 0 else near - 1)
        if len(ends) == 1:  # too short for two
            assert set(kind[:-1]) == {0}
            continue
        expected = [0] * (len(first) + 1) + [1] * (len(second) + 1) + [2]
        np.testing.assert_array_equal(kind, expected)
        before = (near + 3) * (parts - 1) // parts
        assert len(first) > before
        follows = there[0] == at[-1] + step
        if not follows:  # of what is beyond the row, from a sentence's start if it can
            assert far and min(there) >= near and max(there) < count
        else:
            assert far < 1 or count < near + len(second)
        check_seam(example, row, at, there, follows, step, (before, near))


def check_seam(example, row, at, there, follows, step, edge):
    """The second segment begins with a sentence, if any does that it could be."""
    starts = np.flatnonzero(example.flags[row] & SENTENCE)
    # Read backwards, a sentence begins at the token before another one's start.
    begins = set(starts) if step > 0 else {start - 1 for start in starts}
    before, near = edge
    if follows:
        inside = range(before + 1, near)
        could = {n if step > 0 else near - 1 - n for n in inside} & begins
        assert not could or there[0] in could
    elif there[0] not in begins:
        count = example.length[row]
        earlier = range(near, there[0]) if step > 0 else range(there[0], count - 1)
        assert not begins & set(earlier)


def test_half_of_the_second_segments_are_from_elsewhere():
    objective = load()
    length, rows = 40, 4000
    raw = objective.text_spec(length).length
    batch = corrupt(objective, sentences(objective, length, [raw] * rows), length)
    follows = 0
    for row in range(rows):
        token, _, _ = row_of(batch, length, row)
        place = np.searchsorted(OF.ordinary_ids, token)
        (seam,) = np.flatnonzero(token == OF.eos_id)[:1]
        follows += place[seam + 1] == place[seam - 1] + 1
    assert stats.binomtest(follows, rows, 0.5).pvalue > LEVEL


def test_half_of_the_rows_run_backwards():
    objective = objectives.make_objective("plm", direction="both")
    batch = corrupt(objective, texts(10, [10] * 4000, OF), 12)
    backward = batch["position"][:, 0] > batch["position"][:, 1]
    assert stats.binomtest(int(backward.sum()), 4000, 0.5).pvalue > LEVEL


@pytest.mark.parametrize("form", ["single", "pair"])
def test_spans_begin_with_a_word_of_the_text_either_way(form):
    # Words of three tokens; by chance one run in three would begin with a word.
    objective = load(format=form, direction="both", far=0.0)
    length = 509 if form == "pair" else 510
    example = sentences(objective, 512, [length] * 40)
    flags = np.where(np.arange(length) % 3 == 0, WORD, 0).astype(np.uint8)
    example = example._replace(flags=np.tile(flags, (40, 1)))
    batch = corrupt(objective, example, 512)
    share = {}
    for way in (1, -1):
        rows = np.flatnonzero(np.diff(batch["position"][:, :2], axis=1)[:, 0] == way)
        begins = []
        for row in rows:
            hidden = set(batch["target"][row] - OF.ordinary_ids[0])
            begins += [at % 3 == 0 for at in hidden if at - 1 not in hidden]
        share[way] = np.mean(begins)
        assert len(rows) > 10
    assert min(share.values()) > 0.6


def test_rows_go_on_after_the_reused_part():
    assert load().text_spec(512).stride == 256
    assert load().text_spec(512).length == 509 + 4 * 512
    assert load(far=0.0).text_spec(512).length == 509
    assert load(parts=1).text_spec(512).stride == 509
    plain = objectives.make_objective("plm").text_spec(512)
    assert plain == ("stream", 510, 0.0, 0.0, 0.0, False, 0, False)


def test_single_tokens_are_any_of_the_text():
    # BART's simplified permuted LM: 2 of 10 tokens, all pairs of them alike.
    objective = objectives.make_objective("plm", span=0, parts=1)
    batch = corrupt(objective, texts(10, [10] * 6000, OF), 12)
    assert batch["weight"].all()
    place = np.take_along_axis(batch["position"], batch["scored"], axis=1)
    _, count = np.unique(place, axis=0, return_counts=True)
    assert len(count) == 45
    assert stats.chisquare(count).pvalue > LEVEL


def test_too_few_kinds_are_an_error():
    small = {"layers": 1, "width": 8, "heads": 1}
    with pytest.raises(UserError, match=r"model.token_types is 2.* 3"):
        load().network(model_options(**small, token_types=2), OF)
    objectives.make_objective("plm").network(model_options(**small, token_types=2), OF)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"one_in": 0}, "at least 1"),
        ({"span": -1}, "span at least 0"),
        ({"far": 1.5}, "far is a share"),
        ({"format": "triple"}, "single or pair"),
        ({"direction": "backward"}, "forward or both"),
    ],
)
def test_fields_that_cannot_be_are_an_error(fields, said):
    with pytest.raises(UserError, match=said):
        load(**fields)
