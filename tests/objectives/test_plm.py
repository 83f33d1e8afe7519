"""plm: attention follows the permutation, and targets are chosen as published.

Chi-square tests have fixed seeds; each fails by chance for 1 seed in 10,000.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import objectives
from research.contract.batch import NEVER, attention_mask
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab()
SIGNIFICANCE = 1e-4


def corrupt(example, length, **fields):
    objective = objectives.make_objective("plm", **fields)
    return objective.corrupt(example, keys(len(example.length)), VOCAB, length)


def targets(batch, row) -> list[int]:
    """Indices of the text's targets, in the order of their queries."""
    slots = batch["scored"][row][batch["weight"][row] > 0]
    length = batch["token"].shape[1] - batch["target"].shape[1]
    index = {n: index for index, n in enumerate(batch["position"][row, :length])}
    return [index[position] for position in batch["position"][row, slots]]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(6, 50),
    st.lists(st.floats(0, 1), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from(["single", "pair"]),
    st.sampled_from(["forward", "both"]),
    st.integers(0, 99),
)
def test_attention_of_every_pair_follows_the_permutation(
    length, fractions, parts, form, direction, seed
):
    fields = {"num_permutations": parts, "format": form, "direction": direction}
    raw = objectives.make_objective("plm", **fields).text_spec(length).length
    num_raw = [round(fraction * raw) for fraction in fractions]
    example = texts(raw, num_raw, VOCAB, seed=seed, separators=0.1)
    batch = corrupt(example, length, **fields)
    mask = attention_mask(batch)
    for row in range(len(num_raw)):
        num_tokens = int((batch["segment"][row, :length] > 0).sum())
        token = batch["token"][row]
        hidden = targets(batch, row)
        part = [
            sum(i >= num_tokens * p // parts for p in range(1, parts))
            for i in range(length)
        ]
        ranked = [i in hidden or VOCAB.is_special[token[i]] for i in range(length)]
        content = mask[row, :length, :length]
        for q in range(num_tokens):
            for k in range(num_tokens):
                if part[k] != part[q]:
                    assert content[q, k] == (part[k] < part[q])
                elif not ranked[k]:
                    assert content[q, k]
                elif not ranked[q]:
                    assert not content[q, k]
        for p in range(parts):
            among = [i for i in range(num_tokens) if ranked[i] and part[i] == p]
            order = content[np.ix_(among, among)].sum(axis=1)
            assert sorted(order) == list(range(1, len(among) + 1))  # a total order
            assert content[np.ix_(among, among)].diagonal().all()
        for slot, index in enumerate(hidden):
            expected = content[index].copy()
            expected[index] = False
            np.testing.assert_array_equal(mask[row, length + slot, :length], expected)
        assert not mask[row, :, length:].any()  # no token attends to a query
        unused = range(length + len(hidden), mask.shape[1])
        assert not mask[row, [*range(num_tokens, length), *unused]].any()


def test_a_query_has_the_position_of_its_target():
    example = texts(62, [62, 30, 0], VOCAB, separators=0.05)
    batch = corrupt(example, 64)
    for row in range(3):
        hidden = targets(batch, row)
        query = batch["scored"][row, : len(hidden)]
        np.testing.assert_array_equal(query, 64 + np.arange(len(hidden)))
        assert (batch["token"][row, query] == VOCAB.mask_id).all()
        assert (batch["rank"][row, query] == NEVER).all()
        truth = example.token[row, hidden]
        np.testing.assert_array_equal(batch["target"][row, : len(hidden)], truth)
        np.testing.assert_array_equal(batch["token"][row, hidden], truth)
        assert not VOCAB.is_special[truth].any()
        assert len(set(hidden)) == len(hidden)


def test_a_short_row_has_targets_in_proportion_to_its_length():
    batch = corrupt(texts(62, np.arange(63), VOCAB), 64)
    expected = [0] + [(n + 2) // 6 for n in range(1, 63)]
    np.testing.assert_array_equal(batch["weight"].sum(axis=1), expected)


def test_each_half_has_an_order_of_its_own():
    # Two offsets that are ranked in both halves are as likely to be in the same order
    # there as in the opposite one; were the order shared, they would always be.
    rows, half = 400, 16
    batch = corrupt(texts(30, [30] * rows, VOCAB), 32, tokens_per_target=3, max_span=0)
    ranked = batch["rank"][:, :32].reshape(rows, 2, half)
    is_ranked = ranked >= np.array([0, 33])[:, None]
    agree = []
    for rank, both in zip(ranked, is_ranked.all(axis=1), strict=True):
        offset = np.flatnonzero(both)[:2]
        if len(offset) == 2:
            agree.append(np.unique(np.diff(rank[:, offset]) > 0).size == 1)
    assert len(agree) > 100
    assert stats.binomtest(sum(agree), len(agree)).pvalue > SIGNIFICANCE
