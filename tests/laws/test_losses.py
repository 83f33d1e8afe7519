"""Laws of every loss: what it sums, and that nothing it scores is shown to the network.

No test knows an objective or one of its terms.
"""

# B batch, K slots of an array of weights, R raw tokens of an example

import numpy as np
import pytest

from research.data import counter_rng
from research.objectives.dae import dae
from tests.testing.example_batches import keys
from tests.testing.instrumented_network import target_weights
from tests.testing.objective_cases import (
    CASES,
    EXAMPLES,
    VOCAB,
    first_cases,
    input_prefixes,
    make_batch,
    make_example,
    make_objective,
    parametrize,
    various_lengths,
    vocab_of,
    weight_names,
)
from tests.testing.scored_case import LENGTH, ROWS, ScoredCase, scored_case


@first_cases
def test_an_untrained_network_predicts_as_one_that_sees_nothing(name, fields):
    case = scored_case(name, fields)
    _, batch = make_batch(case.objective, LENGTH)
    seeing, blind = case.score(batch), case.score(batch, sight=0)
    assert np.isfinite(seeing.gradient).all() and seeing.gradient.any()
    own = case.objective
    writes = own.family != "tasks" and (own.fills_masks or own.score_methods)
    if own.token_terms or writes:
        terms = {name.rpartition("/")[2] for name in seeing.terms}
        assert terms & {*own.token_terms}, (
            f"which of {[*seeing.terms]} is -log p of a token? token_terms names it"
        )
    for term, (total, weight, _) in seeing.differentiated().items():
        loss, expected = total / weight, blind.terms[term].total / weight
        # A text and its positive, which is like it, have vectors that are alike.
        may_be_less = own.caches_vectors and loss < expected
        assert abs(loss - expected) < 0.1 or may_be_less, (
            f"the untrained loss of {term} is {loss:.3f}, and {expected:.3f} where the "
            "network sees nothing: what it predicts depends on its input from the start"
        )


@first_cases
def test_weight_zero_has_no_gradient(name, fields):
    case = scored_case(name, fields)
    _, batch = make_batch(case.objective, LENGTH)
    batch |= {name: np.zeros_like(batch[name]) for name in weight_names(batch)}
    scored = case.score(batch, only_empty=True)
    empty = {n: t for n, t in scored.differentiated().items() if t.weight == 0}
    assert empty, "no term of the loss has the weights of the batch"
    for term, (total, _, _) in empty.items():
        assert total == 0, f"{term} is {total}, though all weights are 0"
    assert not scored.gradient.any(), (
        f"{[*empty]} have a gradient, though weights are 0"
    )


@first_cases
def test_empty_rows_have_no_gradient(name, fields):
    case = scored_case(name, fields)
    _, batch = make_batch(case.objective, LENGTH, [0] * ROWS)
    scored = case.score(batch)
    for term, (total, weight, _) in scored.terms.items():
        assert total == weight == 0, f"{term} scores rows without text"
    assert not scored.gradient.any()


@first_cases
def test_sums_over_parts_are_sums_over_the_batch(name, fields):
    # The rows of the other part become empty rows, so that shapes are the same.
    case = scored_case(name, fields)
    if not case.objective.supports_accumulation:
        pytest.skip("examples of a batch interact")
    _, batch = make_batch(case.objective, LENGTH)
    _, empty = make_batch(case.objective, LENGTH, [0] * ROWS)
    first = np.arange(ROWS) % 3 == 0
    whole, *parts = (
        case.score(_with_rows(batch, empty, ~kept))
        for kept in (np.ones(ROWS, bool), first, ~first)
    )
    for term, (total, weight, _) in whole.terms.items():
        sums = [
            sum(each) for each in zip(*(p.terms[term][:2] for p in parts), strict=True)
        ]
        addends = max(np.count_nonzero(batch[name]) for name in weight_names(batch))
        rounding = 0 if float(weight).is_integer() else addends * 2**-24  # of float32
        same = np.isclose(sums[1], weight, rtol=rounding, atol=0)
        assert same and np.isclose(sums[0], total, rtol=1e-5), (
            f"{term} of a batch is {total:.5g} of weight {weight:g}, but that of its "
            f"parts is {sums[0]:.5g} of {sums[1]:g}: a Term is a sum and its weight, "
            "never a mean"
        )
    largest = np.abs(whole.gradient).max()
    both = sum(part.gradient for part in parts)
    np.testing.assert_allclose(both, whole.gradient, atol=1e-5 * largest)


@first_cases
def test_weights_do_not_depend_on_parameters(name, fields):
    case = scored_case(name, fields)
    _, batch = make_batch(case.objective, LENGTH)
    terms, other = case.score(batch).terms, case.score(batch, 3 * case.params).terms
    assert any(terms[term].total != other[term].total for term in terms)
    for term in terms:
        assert terms[term].weight == other[term].weight, (
            f"the weight of {term} depends on the network's parameters"
        )


def _with_rows(batch: dict, other: dict, rows: np.ndarray) -> dict:
    """The batch with some rows [B] bool of another one."""
    return {
        name: np.where(rows.reshape(-1, *[1] * (array.ndim - 1)), other[name], array)
        for name, array in batch.items()
    }


TARGET_CASES = [
    case
    for case in CASES
    if target_weights(make_objective(*case.values).batch_spec(LENGTH))
]
FIRST_TARGETS = {case.values[0]: case for case in reversed(TARGET_CASES)}
target_cases = parametrize(
    TARGET_CASES,
    lambda case: (
        case is not FIRST_TARGETS[case.values[0]] or case.values[0] in EXAMPLES
    ),
)
"""Every case that has targets; all but the first of an objective of research are
long."""


@target_cases
def test_no_target_is_seen_by_what_predicts_it(name, fields):
    # Each token of a text is changed in turn, under the same noise. Where it is a
    # target, the loss of the new input for the old target is the old loss, bit by bit.
    case = scored_case(name, fields)
    objective = case.objective
    text = make_example(objective, LENGTH, various_lengths(objective, LENGTH))
    text = text._replace(label=np.maximum(text.label, 0))
    batch = objective.corrupt(text, keys(ROWS), vocab_of(objective), LENGTH)
    for weight in target_weights(batch).keys() - {"region_weight"}:  # of pictures
        terms = _terms_of(case, batch, weight)
        shown = all(
            term.rpartition("/")[2] in objective.shown_answers for term in terms
        )
        if shown and {*objective.shown_answers.values()} == {dae.SHUFFLED}:
            return  # no token is hidden
        check_targets(case, text, batch, weight, terms, may_be_shown=shown)


def _terms_of(case: ScoredCase, batch: dict, weight: str) -> list[str]:
    """The terms of the loss that an array of weights is part of.

    Totals are linear in weights, but for those that say which positions are words.
    """
    before = case.score(batch).differentiated()
    for factor in (2, 0):
        after = case.score(batch | {weight: factor * batch[weight]}).terms
        terms = [name for name in before if before[name].total != after[name].total]
        if terms:
            return terms
    raise AssertionError(f"no term of the loss has the weights {weight}")


def check_targets(case, text, batch, weight, terms, *, may_be_shown) -> None:
    """Asserts that no target of an array of weights is part of its own prediction.

    may_be_shown: rows whose input shows the changed token are left out.
    """
    prefix = weight.removesuffix("weight")
    target, scored = batch[prefix + "target"], batch[weight] > 0
    none = {name: np.zeros_like(batch[name]) for name in weight_names(batch)}
    answers = {n: batch[n] for n in batch if n.startswith(f"{prefix}target")}
    row = np.arange(ROWS)

    def loss(arrays, slots):
        only = none | answers | {weight: batch[weight] * slots}
        found = case.score(arrays | only).terms
        return [found[term].total for term in terms]

    tested = np.zeros_like(scored)
    vocabulary = vocab_of(case.objective)
    for other_text in _changed_texts(case.objective, text):
        other = case.objective.corrupt(other_text, keys(ROWS), vocabulary, LENGTH)
        changed = scored & (other[prefix + "target"] != target)
        if may_be_shown:
            changed &= ~_shows_change(batch, other)[:, None]
        tested |= changed
        rows = changed.any(axis=1)
        if loss(batch, changed) == loss(_with_rows(batch, other, rows), changed):
            continue
        for r in np.flatnonzero(rows):
            one = changed & (row == r)[:, None]
            if loss(batch, one) != loss(_with_rows(batch, other, row == r), one):
                slot = int(np.flatnonzero(one[r])[0])
                scored_at = batch.get(prefix + "scored", slot + np.zeros_like(target))
                raise AssertionError(
                    f"position {scored_at[r, slot]} sees its own target: row {r}, "
                    f"{prefix}target {slot}, term {' and '.join(terms)}. Another token "
                    "in its place in the text changes what is predicted there"
                )
        raise AssertionError(f"targets of {weight} are seen from other rows")
    assert tested.any(), f"the input shows every {prefix}target: none is predicted"
    if not may_be_shown:
        missed = scored & ~tested & ~VOCAB.is_special[target]
        assert not missed.any(), (
            f"row {missed.any(axis=1).argmax()}: {prefix}target does not change with "
            "the text"
        )


def _changed_texts(objective, text):
    """The text with another token at each place in turn, or with another tag there."""
    ordinary = VOCAB.ordinary_ids
    is_ordinary = ~VOCAB.is_special[text.token]
    index = np.searchsorted(ordinary, text.token)
    beside = np.where(index == len(ordinary) - 1, index - 1, index ^ 1)
    beside = np.where(is_ordinary, ordinary[beside % len(ordinary)], text.token)
    kind = objective.text_spec(LENGTH).label_type
    array = kind.array if kind else ""
    if array:
        tag = text.arrays[array]
        other = np.where(tag >= 0, (tag + 1) % len(vocab_of(objective).labels), -1)
    for place in range(text.token.shape[1]):
        here = np.arange(text.token.shape[1]) == place
        if array:
            tags = np.where(here, other, tag).astype(np.int32)
            yield text._replace(arrays={**text.arrays, array: tags})
        else:
            token = np.where(here, beside, text.token).astype(np.int32)
            yield text._replace(token=token)


def _shows_change(batch: dict, other: dict) -> np.ndarray:
    """[B] bool: tokens of an input differ, other than those that a decoder has read, or
    a pass of its own that predicts no token."""
    others = ("decoder_", "match_")
    prefixes = [p for p in input_prefixes(batch) if not p.endswith(others)]
    pairs = ((batch[p + "token"], other[p + "token"]) for p in prefixes)
    return np.any([(a != b).any(axis=1) for a, b in pairs], axis=0)


LABEL_CASES = [
    case
    for case in CASES
    for spec in [make_objective(*case.values).batch_spec(LENGTH)]
    if set(weight_names(spec)) - set(target_weights(spec))
]
FIRST_LABELS = {case.values[0]: case for case in reversed(LABEL_CASES)}
label_cases = parametrize(
    LABEL_CASES, lambda case: case is not FIRST_LABELS[case.values[0]]
)
"""Every case that scores something else than targets; all but the first are long."""

STEPS, RATE = 90, 3e-3
SPREAD = 0.2
"""Standard deviation that is added to initial parameters, of which most are so small
that a network hardly sees how its input is laid out."""
SEES_NOTHING = 0.75
"""A loss that is less than this fraction of that without input is a leak."""


@label_cases
def test_labels_are_not_learned_from_text_without_signal(name, fields):
    # All tokens of the text are the same, so that the network sees how it is laid out
    # and no more. Its loss is no less than that of one that sees nothing.
    case = scored_case(name, fields)
    batches = [_batch_without_signal(case.objective, n) for n in range(STEPS)]
    shown = case.objective.shown_answers
    labels = {
        name
        for name, term in case.score(batches[0]).differentiated().items()
        if term.total > 0 and name.rpartition("/")[2] not in shown
    }
    if not labels:
        pytest.skip("; ".join(shown.values()))
    blind = trained_losses(case, batches[::2], sight=0.0, rate=10 * RATE)
    seeing = trained_losses(case, batches, sight=1.0, rate=RATE)
    for term in labels:
        assert seeing[term] > SEES_NOTHING * blind[term], (
            f"the input shows the labels of {term}: its loss on text without signal is "
            f"{seeing[term]:.3f} after training, and {blind[term]:.3f} without input"
        )


def _batch_without_signal(objective, number: int) -> dict:
    """Full rows of one repeated token; labels do not depend on it, targets have no
    weight."""
    width = objective.text_spec(LENGTH).width
    text = make_example(objective, LENGTH, [width] * ROWS, seed=number)
    token = np.where(VOCAB.is_special[text.token], text.token, VOCAB.ordinary_ids[0])
    key = counter_rng.row_key(0, np.full(ROWS, number), np.arange(ROWS))
    text = text._replace(token=token.astype(np.int32))
    batch = objective.corrupt(text, key, vocab_of(objective), LENGTH)
    return batch | {name: 0 * batch[name] for name in target_weights(batch)}


def trained_losses(
    case: ScoredCase, batches: list, *, sight: float, rate: float
) -> dict[str, float]:
    """The losses of terms on the last third of the batches, each before it is learned.

    Trained with Adam from initial values that are spread. Without sight only biases are
    left to learn.
    """
    rng = np.random.default_rng(0)
    params = case.params + SPREAD * rng.normal(size=case.params.shape)
    mean, square, sums = np.zeros_like(params), np.zeros_like(params), {}
    for step, batch in enumerate(batches, 1):
        scored = case.score(batch, params.astype(np.float32), sight=sight)
        mean += 0.1 * (scored.gradient - mean)
        square += 0.02 * (scored.gradient**2 - square)
        scale = np.sqrt(square / (1 - 0.98**step)) + 1e-8
        params -= rate * mean / (1 - 0.9**step) / scale
        if step > len(batches) * 2 // 3:
            for name, term in scored.differentiated().items():
                sums.setdefault(name, []).append((term.total, term.weight))
    totals = {name: np.sum(each, axis=0) for name, each in sums.items()}
    return {name: total / weight for name, (total, weight) in totals.items() if weight}
