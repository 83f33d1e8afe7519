"""plm's rows as in XLNet: two segments, and backward rows.

Statistical tests have fixed seeds; each fails by chance for 1 seed in 10,000.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import networks, objectives
from research.contract.batch import SENTENCE, WORD
from research.contract.errors import UserError
from research.data.rows import TextSpec
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab(size=1024)
SIGNIFICANCE = 1e-4


def plm_pair(**fields):
    return objectives.make_objective("plm", **{"format": "pair"} | fields)


def sentences(objective, length, num_raw, seed=0):
    """Texts whose n-th token is the n-th ordinary id, with random sentences."""
    raw = objective.text_spec(length).length
    example = texts(raw, np.minimum(num_raw, raw), VOCAB, seed=seed)
    token = np.where(
        example.token == VOCAB.pad_id, VOCAB.pad_id, VOCAB.ordinary_ids[np.arange(raw)]
    )
    rng = np.random.default_rng(seed)
    starts = rng.random(example.flags.shape) < 0.2
    flags = np.where(starts, WORD | SENTENCE, example.flags & WORD)
    flags[example.token == VOCAB.pad_id] = 0
    return example._replace(token=token.astype(np.int32), flags=flags.astype(np.uint8))


def row_of(batch, length, row):
    """The tokens, token types and positions of one row's text."""
    valid = batch["segment"][row, :length] > 0
    return tuple(
        batch[name][row, :length][valid] for name in ("token", "token_type", "position")
    )


def corrupt(objective, example, length, seed=0):
    return objective.corrupt(example, keys(len(example.length), seed), VOCAB, length)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(8, 60),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(["forward", "both"]),
    st.integers(0, 999),
)
def test_a_row_is_text_in_two_segments_and_the_class_token(
    length, parts, nonadjacent_rate, direction, seed
):
    objective = plm_pair(
        num_permutations=parts, nonadjacent_rate=nonadjacent_rate, direction=direction
    )
    raw = objective.text_spec(length).length
    num_raw = np.random.default_rng(seed).integers(0, raw + 1, 5)
    num_raw[:2] = 0, raw
    example = sentences(objective, length, num_raw, seed)
    batch = corrupt(objective, example, length, seed)
    for row, count in enumerate(num_raw):
        token, token_type, position = row_of(batch, length, row)
        if not count:
            assert not len(token)
            continue
        near = min(count, length - 3)
        assert token[-1] == VOCAB.bos_id and token_type[-1] == 2
        ends = np.flatnonzero(token == VOCAB.eos_id)
        first, second = token[: ends[0]], token[ends[0] + 1 : -2]
        assert len(first) + len(second) == near
        step = position[1] - position[0]
        assert (np.diff(position) == step).all()
        assert step == 1 or (step == -1 and direction == "both")
        # Indices in the text, which the tokens encode, have the same direction.
        first, second = (
            np.searchsorted(VOCAB.ordinary_ids, part) for part in (first, second)
        )
        assert (np.diff(first) == step).all() and (np.diff(second) == step).all()
        assert first[0] == (0 if step > 0 else near - 1)
        if len(ends) == 1:  # too short for two
            assert set(token_type[:-1]) == {0}
            continue
        expected = [0] * (len(first) + 1) + [1] * (len(second) + 1) + [2]
        np.testing.assert_array_equal(token_type, expected)
        before = (near + 3) * (parts - 1) // parts
        assert len(first) > before
        check_segments(example, row, first, second, (before, near))


def check_segments(example, row, first, second, edge):
    """XLNet's cuts and its trimming, from the indices of both segments in the text."""
    (before, near), count = edge, int(example.length[row])
    starts = np.flatnonzero(example.flags[row] & SENTENCE)
    starts = starts[starts > 0]
    order = np.arange(count)
    if first[0]:  # backward: a sentence begins at the token before the next one's start
        starts = starts - 1
        order = np.concatenate([order[:near][::-1], order[near:][::-1]])
    starts = np.sort(np.argsort(order)[starts])  # in reading order
    begin = int(np.flatnonzero(order == second[0])[0])
    cuts = [start for start in starts if before < start < near]
    end = next((start for start in starts if start >= near), count)
    end = near if first[0] else end
    sizes = len(first) - before, len(second)
    if begin < near:  # the second segment follows
        assert begin in cuts or not (cuts or count > near)
        assert sizes == trimmed(begin - before, end - begin, near - before)
        return
    follows = next((start for start in starts if start >= begin), count)
    assert begin in starts or not set(range(near, begin)) & set(starts)
    assert sum(sizes) == near - before and follows <= count
    assert len(first) in cuts or sizes[0] >= sizes[1]  # the longer one was trimmed


def trimmed(first: int, second: int, room: int) -> tuple[int, int]:
    """While both exceed the room, the longer segment, or else the second, loses one."""
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_half_of_the_second_segments_do_not_follow_the_first():
    objective = plm_pair()
    length, rows = 40, 4000
    raw = objective.text_spec(length).length
    batch = corrupt(objective, sentences(objective, length, [raw] * rows), length)
    follows = 0
    for row in range(rows):
        token, _, _ = row_of(batch, length, row)
        index = np.searchsorted(VOCAB.ordinary_ids, token)
        (end,) = np.flatnonzero(token == VOCAB.eos_id)[:1]
        follows += index[end + 1] < length - 3
    assert stats.binomtest(follows, rows, 0.5).pvalue > SIGNIFICANCE


def test_half_of_the_rows_are_backward():
    objective = objectives.make_objective("plm", direction="both")
    batch = corrupt(objective, texts(10, [10] * 4000, VOCAB), 12)
    backward = batch["position"][:, 0] > batch["position"][:, 1]
    assert stats.binomtest(int(backward.sum()), 4000, 0.5).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("form", ["single", "pair"])
def test_spans_begin_with_a_word_in_either_direction(form):
    # Words of three tokens; by chance one run in three would begin with a word.
    objective = plm_pair(format=form, direction="both", nonadjacent_rate=0.0)
    length = 509 if form == "pair" else 510
    example = sentences(objective, 512, [length] * 40)
    flags = np.where(np.arange(length) % 3 == 0, WORD, 0).astype(np.uint8)
    example = example._replace(flags=np.tile(flags, (40, 1)))
    batch = corrupt(objective, example, 512)
    fraction = {}
    for step in (1, -1):
        rows = np.flatnonzero(np.diff(batch["position"][:, :2], axis=1)[:, 0] == step)
        begins = []
        for row in rows:
            hidden = set(batch["target"][row] - VOCAB.ordinary_ids[0])
            begins += [at % 3 == 0 for at in hidden if at - 1 not in hidden]
        fraction[step] = np.mean(begins)
        assert len(rows) > 10
    assert min(fraction.values()) > 0.6


def test_the_next_row_starts_after_the_reused_part():
    assert plm_pair().text_spec(512).stride == 256
    assert plm_pair().text_spec(512).length == 509 + 4 * 512
    assert plm_pair(nonadjacent_rate=0.0).text_spec(512).length == 509
    assert plm_pair(num_permutations=1).text_spec(512).stride == 509
    single = objectives.make_objective("plm").text_spec(512)
    assert single == TextSpec("stream", 510)


def test_too_few_token_types_are_an_error():
    options = model_options(layers=1, width=8, heads=1, token_types=2)
    with pytest.raises(UserError, match=r"model.token_types is 2.* 3"):
        networks.build(options, plm_pair().needs(VOCAB), VOCAB)
    one_type = objectives.make_objective("plm")
    networks.build(options, one_type.needs(VOCAB), VOCAB)
