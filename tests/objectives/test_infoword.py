"""infoword: the masked n-gram, InfoNCE over the batch, sampled cross-entropy.

Seeds are fixed; at a random seed each statistical test fails with p = 1e-4.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import networks, objectives
from research.objectives.contrastive import infoword
from research.objectives.losses import contrastive
from tests.testing.example_batches import keys, texts, vocab

SIGNIFICANCE = 1e-4
VOCAB = vocab(size=96)
KEY = jax.random.key(0)


def corrupt(example, length, **fields):
    objective = objectives.make_objective("infoword", **fields)
    return objective.corrupt(example, keys(len(example.length)), VOCAB, length)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(4, 40),
    st.lists(st.integers(0, 38), min_size=1, max_size=5),
    st.integers(1, 7),
    st.sampled_from([0.0, 0.3]),
)
def test_the_text_can_be_rebuilt_from_its_ngram(length, rows, max_ngram, separators):
    lengths = np.minimum(rows, length - 2)
    example = texts(length - 2, lengths, VOCAB, separators=separators)
    batch = corrupt(example, length, max_ngram=max_ngram)
    token = batch["token"].copy()
    row, slot = np.nonzero(batch["weight"])
    token[row, batch["scored"][row, slot]] = batch["target"][row, slot]
    for row, count in enumerate(example.length):
        text = (
            [VOCAB.bos_id, *example.token[row, :count], VOCAB.eos_id] if count else []
        )
        text += [VOCAB.pad_id] * (length - len(text))
        size = (batch["ngram_segment"][row] > 0).sum() - 2
        assert (size > 0) == (batch["ngram_weight"][row] > 0)
        if not batch["ngram_weight"][row]:
            assert count < 2 or (example.token[row, :count] == VOCAB.eos_id).all()
            assert (batch["ngram_token"][row] == VOCAB.pad_id).all()
            np.testing.assert_array_equal(token[row], text)
            continue
        ngram = batch["ngram_token"][row, : size + 2]
        assert 1 <= size <= max_ngram
        assert ngram[0] == VOCAB.bos_id and ngram[-1] == VOCAB.eos_id
        # The masks of single tokens are undone above.
        masked = np.flatnonzero(token[row] == VOCAB.mask_id)
        np.testing.assert_array_equal(masked, masked[0] + np.arange(size))
        token[row, masked] = ngram[1:-1]
        np.testing.assert_array_equal(token[row], text)
        assert not VOCAB.is_special[ngram[1:-1]].any()


def test_sizes_and_positions_of_ngrams_are_uniform():
    candidate = np.ones((40_000, 12), bool)
    begin, size = infoword.choose_ngram(keys(len(candidate)), candidate, 4)
    assert stats.chisquare(np.bincount(size, minlength=5)[1:]).pvalue > SIGNIFICANCE
    for n in range(1, 5):
        found = np.bincount(begin[size == n], minlength=13 - n)
        assert len(found) == 13 - n
        assert stats.chisquare(found).pvalue > SIGNIFICANCE
    gap = np.array([[False, True, True, False, True, True, True, False]] * 6000)
    begin, size = infoword.choose_ngram(keys(len(gap)), gap, 5)
    found = set(zip(size.tolist(), begin.tolist(), strict=True))
    by_size = {1: (1, 2, 4, 5, 6), 2: (1, 4, 5), 3: (4,)}
    assert found == {(n, first) for n in by_size for first in by_size[n]}
    assert (infoword.choose_ngram(keys(3), gap[:3] & False, 5)[1] == 0).all()


def case(rows=16, width=6):
    rng = np.random.default_rng(0)
    query, answer = rng.normal(size=(2, rows, width)).astype(np.float32)
    document = rng.integers(0, 5, rows).astype(np.int32)
    document[3] = 99
    weight = (rng.random(rows) < 0.8).astype(np.float32)
    assert 0 < weight.sum() < rows
    return query, answer, document, weight


def dense(query, answer, document, weight):
    """InfoNCE row by row, by the definition: (total, weight, correct)."""
    total = count = correct = 0.0
    for row in range(len(weight)):
        others = [
            c
            for c in range(len(weight))
            if weight[c] > 0 and document[c] != document[row]
        ]
        if weight[row] == 0 or not others:
            continue
        own = np.float64(query[row]) @ np.float64(answer[row])
        rest = [np.float64(query[row]) @ np.float64(answer[c]) for c in others]
        total += weight[row] * (np.log(np.exp([own, *rest]).sum()) - own)
        count += weight[row]
        correct += weight[row] * (own > max(rest))
    return total, count, correct


def test_infonce_is_the_dense_definition():
    arrays = case()
    term, correct = jax.jit(contrastive.info_nce)(*arrays)
    total, count, expected = dense(*arrays)
    np.testing.assert_allclose(term.total, total, rtol=1e-5)
    assert term.weight == count and correct == expected and 0 < correct < count


def test_answers_of_the_same_document_are_no_negatives():
    query, answer, document, weight = case()
    weight[:] = 1

    @jax.jit
    def total(answer, row):  # the queries of all other rows are 0
        alone = jnp.where((jnp.arange(len(weight)) == row)[:, None], query, 0.0)
        return contrastive.info_nce(alone, answer, document, weight)[0].total

    grads = np.array([jax.grad(total)(answer, row) for row in range(3)])
    has_grad = np.abs(grads).max(axis=-1) > 0
    for row in range(3):
        other = document != document[row]
        other[row] = True
        np.testing.assert_array_equal(has_grad[row], other)


def test_rows_without_negatives_have_weight_0():
    query, answer, document, weight = case()
    for same, some in ((document * 0, weight), (document, weight * 0)):
        term, correct = jax.jit(contrastive.info_nce)(query, answer, same, some)
        assert term.total == term.weight == correct == 0

    def total(query, answer):
        return contrastive.info_nce(query, answer, document * 0, weight)[0].total

    grads = jax.jit(jax.grad(total, argnums=(0, 1)))(query, answer)
    assert not any(np.any(grad) or np.isnan(grad).any() for grad in grads)


def test_negatives_are_targets_of_the_batch_and_the_loss_is_the_definition():
    rng = np.random.default_rng(0)
    feature = rng.normal(size=(3, 5, 4)).astype(np.float32)
    table = rng.normal(size=(128, 4)).astype(np.float32)
    bias = rng.normal(size=128).astype(np.float32)
    target = rng.integers(10, 20, (3, 5))
    weight = (rng.random((3, 5)) < 0.6).astype(np.float32)
    target[weight == 0] = 90
    negative = contrastive.sample_negatives(KEY, target, weight, 4000)
    found = np.bincount(negative, minlength=96)
    expected = np.bincount(target[weight > 0], minlength=96)
    assert not found[expected == 0].any()
    drawn = expected > 0
    expected = expected[drawn] / expected.sum() * 4000
    assert stats.chisquare(found[drawn], expected).pvalue > SIGNIFICANCE

    negative = np.asarray(negative[:7])
    readout = networks.Readout(feature, table, bias, 96)
    term, found = jax.jit(lambda *a: contrastive.sampled_cross_entropy(readout, *a))(
        target, weight, negative
    )
    total = correct = 0.0
    for row, slot in zip(*np.nonzero(weight), strict=True):
        own = table[target[row, slot]] @ feature[row, slot] + bias[target[row, slot]]
        rest = [
            table[n] @ feature[row, slot] + bias[n]
            for n in negative
            if n != target[row, slot]
        ]
        total += np.log(np.exp([own, *rest]).sum()) - own
        correct += own > max(rest)
    np.testing.assert_allclose(term.total, total, rtol=1e-5)
    assert term.weight == weight.sum() and found == correct


def test_its_batches_cannot_be_split():
    assert not objectives.make_objective("infoword").supports_accumulation
    joint = objectives.make_objective("joint", parts={"infoword": {}, "mlm": {}})
    assert not joint.supports_accumulation
