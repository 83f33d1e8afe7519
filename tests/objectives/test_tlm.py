"""tlm: positions, token types and targets of one language, or of two in a row.

Seeds are fixed; at a random seed each statistical test fails with p = 1e-4.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import objectives
from research.contract.batch import INPUT_ARRAYS, PARAGRAPH, PART
from research.contract.errors import UserError
from tests.testing.example_batches import keys, texts, vocab

SIGNIFICANCE = 1e-4
VOCAB = vocab()


def corrupt(example, length, **fields):
    objective = objectives.make_objective("tlm", **fields)
    return objective.corrupt(example, keys(len(example.length)), VOCAB, length)


def parallel(sizes, width, *, corpus=0):
    """Texts whose sides have these numbers of tokens: [(x, y), ...]."""
    sizes = np.array(sizes, np.int32)
    example = texts(width, sizes.sum(axis=1), VOCAB)
    flags = example.flags.copy()
    flags[:, 0] |= PARAGRAPH
    for row, (first, second) in enumerate(sizes):
        if second:
            flags[row, first] |= PARAGRAPH
    return example._replace(flags=flags, corpus=np.full(len(sizes), corpus, np.int32))


def restored(batch) -> np.ndarray:
    """[B, L]: the text before it was masked."""
    token = batch["token"].copy()
    row, slot = np.nonzero(batch["weight"])
    token[row, batch["scored"][row, slot]] = batch["target"][row, slot]
    return token


@pytest.mark.parametrize(
    ("predict", "method"), [("masked", "original"), ("next", "left_to_right")]
)
def test_a_scored_text_is_read_as_one_side(predict, method):
    example = parallel([(5, 0)], 16)
    objective = objectives.make_objective("tlm", predict=predict, languages="3:1")
    batch = objective.corrupt(example, keys(1), VOCAB, 16)
    scored = np.arange(16)[None] < 5
    text, rows, *_ = objective.score_rows(example, scored, VOCAB, 16, method)
    assert rows["weight"].sum() == 5
    if predict == "masked":
        rows["token"], batch["token"] = restored(rows), restored(batch)
    for name in INPUT_ARRAYS:
        np.testing.assert_array_equal(rows[name], batch[name][text], name)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1))
def test_positions_restart_and_token_types_are_languages(sizes):
    example = parallel(sizes, 44)
    batch = corrupt(example, 48, languages="3:1")
    token = restored(batch)
    for row, (first, second) in enumerate(sizes):
        x, y, _ = np.split(example.token[row], [first, first + second])
        sides = [
            [VOCAB.eos_id, *x, VOCAB.eos_id],
            [VOCAB.eos_id, *y, VOCAB.eos_id] if second else [],
        ]
        here = sum(map(len, sides))
        assert token[row, :here].tolist() == sides[0] + sides[1]
        assert (token[row, here:] == VOCAB.pad_id).all()
        assert batch["segment"][row].tolist() == [1] * here + [0] * (48 - here)
        positions = [*range(first + 2), *range(len(sides[1]))]
        assert batch["position"][row, :here].tolist() == positions
        types = [3] * (first + 2) + [1] * len(sides[1])
        assert batch["token_type"][row].tolist() == types + [0] * (48 - here)


def test_either_side_is_first_and_a_row_without_a_second_stays():
    sizes = [(5, 9)] * 400 + [(5, 0)] * 20
    example = parallel(sizes, 20)
    batch = corrupt(example, 24, languages="3:1", order="random")
    token = restored(batch)
    swapped = batch["token_type"][:, 0] == 1
    test = stats.binomtest(int(swapped[:400].sum()), 400)
    assert test.pvalue > SIGNIFICANCE and not swapped[400:].any()
    for row, (_, second) in enumerate(sizes):
        x, y = example.token[row, :5], example.token[row, 5 : 5 + second]
        sides = [(3, x), (1, y)] if second else [(3, x)]
        sides = sides[::-1] if swapped[row] else sides
        text = [t for _, side in sides for t in (VOCAB.eos_id, *side, VOCAB.eos_id)]
        types = [n for n, side in sides for _ in range(len(side) + 2)]
        position = [i for _, side in sides for i in range(len(side) + 2)]
        here = len(text)
        assert token[row, :here].tolist() == text
        assert batch["token_type"][row, :here].tolist() == types
        assert batch["position"][row, :here].tolist() == position


def test_streams_and_single_sides_have_no_order():
    example = parallel([(6, 8)] * 300, 20)
    for fields in ({"languages": "2"}, {"side": "first"}):
        one, other = (
            corrupt(example, 20, order=order, **fields) for order in ("given", "random")
        )
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)


def test_each_token_of_both_sides_is_masked_by_itself_and_no_special():
    batch = corrupt(parallel([(20, 40)] * 2000, 60), 64)
    number = batch["weight"].sum(axis=1).astype(int)
    spread = np.bincount(number, minlength=61)  # of 60 tokens, but not of the first
    expected = 2000 * stats.binom.pmf(np.arange(61), 60, 0.15)
    bins = [slice(0, 6), *(slice(n, n + 1) for n in range(6, 14)), slice(14, 61)]
    observed = [spread[each].sum() for each in bins]
    assert stats.chisquare(observed, [expected[e].sum() for e in bins]).pvalue > 1e-4
    position = batch["scored"][batch["weight"] > 0]
    count = np.bincount(position, minlength=64)
    assert not count[[0, 21, 22, 63]].any()
    assert stats.chisquare(np.delete(count, [0, 21, 22, 63])).pvalue > SIGNIFICANCE


def test_rare_tokens_are_masked_more_often():
    """As in XLM's code, which draws from a batch in turn, with weights
    count ** -alpha."""
    common, rare = VOCAB.ordinary_ids[:2]
    example = parallel([(10, 10)] * 3000, 20)
    token = np.where(np.arange(20) % 5 == 0, rare, common).astype(np.int32)
    example = example._replace(token=np.tile(token, (3000, 1)))
    count = np.zeros(VOCAB.size, np.int64)
    count[[common, rare]] = 1600, 400
    count[VOCAB.eos_id] = 10**9  # a separator is never chosen, and so does not count
    vocabulary = VOCAB._replace(token_count=count)
    objective = objectives.make_objective("tlm", rate=0.3, sample_alpha=0.5)
    batch = objective.corrupt(example, keys(3000), vocabulary, 24)
    chosen = batch["target"][batch["weight"] > 0]
    num_rare = int((chosen == rare).sum())

    rng, pool = np.random.default_rng(0), np.tile(token, 3000)
    weight = count[pool] ** -0.5
    drawn = rng.choice(
        len(pool), 3000 * 24 * 3 // 10, replace=False, p=weight / weight.sum()
    )
    official = (pool[drawn] == rare).mean()
    assert len(chosen) == pytest.approx(3000 * 24 * 0.3, rel=0.02)
    assert num_rare / len(chosen) == pytest.approx(official, abs=0.01)
    assert stats.binomtest(num_rare, len(chosen), 0.2).pvalue < 1e-9
    with pytest.raises(UserError, match=r"sample_alpha is 0\.5"):
        no_counts = VOCAB._replace(token_count=None)
        objective.corrupt(example, keys(3000), no_counts, 24)


def test_unk_is_not_masked_by_counts():
    """In XLM's code (trainer.py, mask_scores) entries without a count have no weight,
    which unk never has; it counts among the tokens of which a fraction is chosen."""
    example = parallel([(20, 20)] * 500, 40)
    example.token[:, ::2] = VOCAB.unk_id
    count = np.ones(VOCAB.size, np.int64)
    count[VOCAB.unk_id] = 10**6
    vocabulary = VOCAB._replace(token_count=count)
    for alpha, unknown in ((0.5, False), (0.0, True)):
        objective = objectives.make_objective("tlm", sample_alpha=alpha)
        batch = objective.corrupt(example, keys(500), vocabulary, 44)
        target = batch["target"][batch["weight"] > 0]
        assert (target == VOCAB.unk_id).any() == unknown
        assert len(target) / 500 / 44 == pytest.approx(0.15, abs=0.02)


def test_text_in_one_language_is_read_as_it_is():
    """A stream of L tokens, of which the first is never chosen (XLM, mask_out)."""
    example = texts(24, [24, 24, 9, 0] * 100, VOCAB, separators=0.1)
    example = example._replace(corpus=np.ones(400, np.int32))
    batch = corrupt(example, 24, languages="0:1 2", rate=0.4)
    assert (restored(batch) == example.token).all()
    assert (batch["position"] == np.arange(24)).all()
    here = np.arange(24) < example.length[:, None]
    assert (batch["segment"] == here).all() and (batch["token_type"] == 2 * here).all()
    assert not (batch["scored"][batch["weight"] > 0] == 0).any()
    assert not VOCAB.is_special[batch["target"][batch["weight"] > 0]].any()


@pytest.mark.parametrize(
    ("languages", "units"),
    [
        ("0:1", ["document"] * 3),
        ("0:1 0 1", ["document", "stream", "stream"]),
        ("0 1 2", ["stream"] * 3),
    ],
)
def test_a_corpus_in_one_language_is_a_stream(languages, units):
    objective = objectives.make_objective("tlm", languages=languages)
    spec = objective.text_spec(24)
    assert [spec.of_corpus(number).unit for number in range(3)] == units
    lengths = {spec.of_corpus(n).length for n, u in enumerate(units) if u == "stream"}
    assert lengths <= {24}


@pytest.mark.parametrize("languages", ["0:1", "2"])
def test_next_tokens_are_predicted_from_those_before(languages):
    example = parallel([(5, 9), (20, 0)], 20)
    batch = corrupt(example, 24, languages=languages, predict="next")
    token, num = batch["token"], batch["segment"].sum(axis=1)
    assert (batch["weight"].sum(axis=1) == num - 1).all()
    assert (batch["target"][batch["weight"] > 0] != VOCAB.pad_id).all()
    used = batch["weight"] > 0
    assert (batch["target"][used] == token[:, 1:][used]).all()
    assert (batch["scored"] == np.arange(23) * used).all()
    for name in ("position", "rank", "reach"):
        assert (batch[name] == np.arange(24)).all()


@pytest.mark.parametrize("side", ["first", "second", "one"])
def test_one_side_alone(side):
    sizes = [(5, 9), (9, 5), (7, 0)] * 200
    batch = corrupt(parallel(sizes, 20), 24, side=side)
    assert batch["position"].max() == 23  # at padding; nothing is shifted
    second = batch["token_type"].max(axis=1) == 1
    for row, (first, other) in enumerate(sizes):
        size = other if second[row] else first
        assert batch["segment"][row].sum() == size + 2
        assert (batch["position"][row] == np.arange(24)).all()
    two = np.array([other > 0 for _, other in sizes])
    assert not second[~two].any()
    if side == "one":
        assert stats.binomtest(int(second[two].sum()), 400).pvalue > SIGNIFICANCE
    else:
        assert (second[two] == (side == "second")).all()


def test_each_corpus_has_its_languages():
    for corpus, token_types in enumerate([{0, 2}, {2, 5}]):
        example = parallel([(6, 6)] * 3, 20, corpus=corpus)
        batch = corrupt(example, 24, languages="0:2 5:2")
        assert set(batch["token_type"][batch["segment"] > 0]) == token_types


@pytest.mark.parametrize("name", ["tlm", "xnlg", "mix"])
@pytest.mark.parametrize(
    ("entries", "fits"), [(1, True), (2, False), (3, True), (4, False)]
)
def test_languages_are_of_all_corpora_or_of_each(name, entries, fits):
    fields = {"languages": " ".join(["0:1", "0", "1", "1:0"][:entries])}
    if name == "mix":
        fields = {"base_objective": "tlm", "parts": {"a": fields}}
    objective = objectives.make_objective(name, **fields)
    if fits:
        objective.check_corpora(3)
    else:
        with pytest.raises(UserError, match=f"has {entries} entries for 3 corpora"):
            objective.check_corpora(3)


def test_sides_with_several_lines_are_divided_where_the_second_part_begins():
    example = parallel([(5, 7), (9, 4), (4, 3)], 24)
    flags = example.flags.copy()
    flags[:, [3, 6]] |= PARAGRAPH
    for row, first in enumerate((5, 9)):  # the last text has no parts
        flags[row, first] |= PART
    flags[0, 8] |= PART
    batch = corrupt(example._replace(flags=flags), 24, languages="3:1")
    found = (batch["token_type"] == 3).sum(axis=1) - 2
    assert found.tolist() == [5, 9, 3]
    row = example._replace(flags=flags).rows([1])
    assert (corrupt(row, 12)["token_type"] == 0).all()  # the second side is beyond


def test_a_text_that_is_too_long_is_truncated():
    batch = corrupt(parallel([(10, 30), (40, 5)], 45), 24)
    assert batch["segment"].sum(axis=1).tolist() == [24, 22]
    assert (batch["token_type"].sum(axis=1) == [12, 0]).all()
    assert (restored(batch)[:, [23, 21]][[0, 1], [0, 1]] == VOCAB.eos_id).all()
