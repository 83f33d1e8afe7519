"""Nothing leaks: a target depends neither on hidden tokens nor on other documents.

All comparisons are exact: a gradient that should be absent is 0.0, and states that
should not change are equal bit by bit. No test knows an objective: the network that a
loss calls is instrumented, and every call is checked against its own arrays.
"""

# B batch, L length of a group, K scored positions, P states of a call, D width
# N positions of all calls

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.batch import NEVER, attention_mask
from tests.testing import objective_cases
from tests.testing.instrumented_network import (
    LENGTH,
    Call,
    corrupt,
    make_case,
    on_device,
    record_calls,
    target_weights,
    token_tables,
    with_token_tables,
)
from tests.testing.objective_cases import CASES, VOCAB, make_example


def own_dependencies(call: Call) -> np.ndarray:
    """[L, L] bool: the positions that each position of row 0 may depend on.

    The mask has to be transitive, so that several layers reach no further than one.
    """
    mask = np.array(attention_mask(jax.tree.map(np.asarray, call.group)))[0]
    is_key = np.arange(len(mask)) < (call.num_keys or len(mask))
    mask = is_key & (mask | np.eye(len(mask), dtype=bool))  # queries read no tokens
    assert (mask == (mask.astype(int) @ mask > 0)).all()
    return mask


def allowed_dependencies(calls: list[Call]) -> list[np.ndarray]:
    """For each call [P, N] bool: the positions that its states may depend on.

    Positions are those of all calls, concatenated; a decoder depends on the encoder
    call before it.
    """
    widths = [call.group["token"].shape[1] for call in calls]
    ends = np.cumsum([0, *widths])
    allowed, encoder = [], None
    for n, call in enumerate(calls):
        mask = np.zeros((widths[n], ends[-1]), bool)
        mask[:, ends[n] : ends[n + 1]] = own_dependencies(call)
        if call.method == "encode":
            encoder = n
        elif encoder is not None:
            segment = np.asarray(calls[encoder].group["segment"][0])
            across = np.asarray(call.group["segment"][0])[:, None] == segment
            mask[:, ends[encoder] : ends[encoder + 1]] = across & (segment > 0)
        if call.scored is not None:
            mask = mask[np.asarray(call.scored[0])]
        allowed.append(mask)
    return allowed


@objective_cases.pattern_cases
def test_states_depend_exactly_on_what_the_arrays_allow(name, fields):
    # Each position reads its own token, whose embedding's gradient identifies it.
    objective, net, params, (batch,) = make_case(name, fields, [27])
    record = partial(record_calls, objective, net, distinct_tokens=True)
    shapes = jax.eval_shape(partial(record, params), on_device(batch))[1]
    weights, rng = target_weights(batch), np.random.default_rng(1)
    zeros = [jnp.zeros(call.out.shape) for call in shapes]
    probes = [rng.normal(size=call.out.shape[-1]) for call in shapes]
    table = token_tables(params)

    @jax.jit  # traced once for all gradients
    def evaluate(table, nudges, batch):
        """A number for each state of row 0 of each call; the totals and the weights of
        the terms of the loss; the calls."""
        changed = with_token_tables(params, table)
        terms, calls = record(changed, batch, added=nudges)
        terms = {name: term for name, term in terms.items() if term.coef}
        both = zip(calls, probes, strict=True)
        states = [call.out[0] @ probe for call, probe in both]
        totals = {name: term.total for name, term in terms.items()}
        return states, totals, {n: term.weight for n, term in terms.items()}, calls

    def with_target(batch, weight, slot):
        """The batch of which this weight has only this target, none where it is -1."""
        only = jnp.arange(batch[weight].shape[1])[None] == slot
        return batch | {weight: batch[weight] * only}

    @jax.jit
    def dependencies(batch, selections):
        *_, term_weights, calls = evaluate(table, zeros, batch)

        def has_weight(weight):
            none = evaluate(table, zeros, with_target(batch, weight, -1))[2]
            return {term: none[term] != term_weights[term] for term in none}

        has = {weight: has_weight(weight) for weight in weights}

        def selected(table, nudges, selection):
            """A state, or the terms that the weight of a target is part of."""
            slots = dict(zip(weights, selection[len(shapes) :], strict=True))
            changed = batch
            for weight, slot in slots.items():
                one = with_target(batch, weight, slot)[weight]
                changed |= {weight: jnp.where(slot < 0, batch[weight], one)}
            states, totals, *_ = evaluate(table, nudges, changed)
            for at, state in zip(selection, states, strict=False):
                yield jnp.where(jnp.arange(len(state)) == at, state, 0).sum()
            for weight, slot in slots.items():
                for term, total in totals.items():
                    yield jnp.where(has[weight][term] & (slot >= 0), total, 0)

        def reads(selection):
            """The tokens and, by call, the states that what is selected depends on."""
            number = lambda *args: sum(selected(*args, selection))  # noqa: E731
            grads, nudges = jax.grad(number, (0, 1))(table, zeros)
            tokens = sum(jnp.abs(leaf).max(axis=-1) for leaf in grads.values()) > 0
            return tokens, [jnp.abs(leaf[0]).max(axis=-1) > 0 for leaf in nudges]

        return jax.lax.map(reads, selections), calls

    counts = [call.out.shape[1] for call in shapes]
    selections = one_at_a_time([*counts, *(batch[w].shape[1] for w in weights)])
    (found, read), calls = jax.device_get(dependencies(on_device(batch), selections))
    allowed = allowed_dependencies(calls)
    for mask, at in zip(allowed, selections, strict=False):
        np.testing.assert_array_equal(found[at >= 0, : mask.shape[1]], mask)
    assert not all(mask.all() for mask in allowed)
    for weight, at in zip(weights, selections[len(calls) :], strict=True):
        for n in np.flatnonzero((at >= 0) & (batch[weight][0, at] > 0)):
            of_calls = [of_call[n] for of_call in read]
            states = np.concatenate(of_calls)
            assert states.any()
            expected = np.concatenate(allowed)[states].any(axis=0)
            np.testing.assert_array_equal(found[n][: len(expected)], expected)
            check_positions(batch, weights[weight], at[n], calls, of_calls)


def one_at_a_time(counts: list[int]) -> list[np.ndarray]:
    """For each count its indices, one a row, and -1 in the rows of the other counts.

    [2, 1] gives [0, 1, -1] and [-1, -1, 0].
    """
    ends = np.cumsum([0, *counts])
    rows = np.arange(ends[-1])[None] - ends[:-1, None]
    return list(np.where((rows >= 0) & (rows < np.array(counts)[:, None]), rows, -1))


def check_positions(batch, arrays, slot, calls, read) -> None:
    """A target is scored only at the positions that the batch gives for it."""
    given = {int(batch[array][0, slot]) for array in arrays} or {int(slot)}
    for call, of_call in zip(calls, read, strict=True):
        if call.method == "states" and of_call.any():
            at = np.flatnonzero(of_call)
            at = at if call.scored is None else np.asarray(call.scored[0])[at]
            assert set(at.tolist()) <= given


HIDDEN_FIELDS = {"direction", "prefix", "max_span", "num_permutations", "rate"}
HIDDEN_CASES = [
    case
    for case in CASES
    if case.values[0] in ("lm", "mlm", "plm", "dae", "electra", "unilm", "tlm")
    and not case.values[1].keys() - HIDDEN_FIELDS
]
"""Cases in which every target is hidden from all states that predict it."""

ALL_MASKED = {"mask_fraction": 1.0, "random_fraction": 0.0}
HIDDEN_CASES.append(pytest.param("mass", ALL_MASKED, id="mass masked"))


@pytest.mark.parametrize(("name", "fields"), HIDDEN_CASES)
def test_the_state_of_a_target_does_not_depend_on_it(name, fields):
    # Each token of the text is changed in turn, under the same noise; where it is a
    # target, the state that predicts it does not change.
    lengths = [50, 20, 50, 9]
    objective, net, params, (batch,) = make_case(name, fields, lengths)
    text = make_example(objective, LENGTH, lengths)
    text = text._replace(label=np.maximum(text.label, 0))
    carry = batch["carry"]
    (weight_name,) = target_weights(batch)
    prefix = weight_name.removesuffix("weight")

    @jax.jit
    def run(batch):
        calls = record_calls(objective, net, params, batch | {"carry": carry})[1]
        return next(call.out for call in calls if call.method == "states")

    def states(batch):
        return np.asarray(run(on_device({**batch, "carry": carry})))

    before = states(batch)
    scored = batch[weight_name] > 0
    scored &= ~VOCAB.is_special[batch[prefix + "target"]]
    if "scored" in batch:  # a target that was chosen but left unchanged is not hidden
        read = np.take_along_axis(batch["token"], batch["scored"], axis=1)
        scored &= read != batch["target"]
    tested, moved = np.zeros_like(scored), np.zeros_like(scored)
    for index in range(text.token.shape[1]):
        token = text.token.copy()
        ordinary = VOCAB.ordinary_ids
        token[:, index] = ordinary[token[:, index] % len(ordinary)]
        valid = index < text.length
        token[~valid] = text.token[~valid]
        other = corrupt(objective, text._replace(token=token))
        after = states(other)
        changed = scored & (other[prefix + "target"] != batch[prefix + "target"])
        np.testing.assert_array_equal(after[changed], before[changed])
        tested |= changed
        moved |= (after != before).any(axis=-1)
    np.testing.assert_array_equal(tested, scored)
    assert moved.any(axis=1).all()


def pack(first: dict, second: dict) -> dict:
    """Two groups side by side: rows of two documents, with segments of their own.

    Queries that are no keys stay behind all other positions.
    """
    after = second | {"segment": np.where(second["segment"], second["segment"] + 9, 0)}
    joined = {
        name: np.concatenate([first[name], after[name]], axis=1) for name in first
    }
    order = np.argsort(joined["rank"][0] == NEVER, stable=True)
    return {name: array[:, order] for name, array in joined.items()}


def submodule(net, path):
    for name in path:
        net = getattr(net, name)
    return net


@objective_cases.stack_cases
def test_packed_documents_do_not_depend_on_each_other(name, fields):
    # The stacks that the loss calls are called again, on two documents a row.
    seeds = range(3)
    lengths = [34, 20, 7]
    objective, net, params, batches = make_case(name, fields, lengths, seeds)
    record = jax.jit(lambda batch: record_calls(objective, net, params, batch)[1])
    first = jax.eval_shape(record, on_device(batches[0]))
    # The states are not returned: a stack whose states no other one reads is dead code.
    read = jax.jit(lambda batch: [call.group for call in record(batch)])
    groups, other, second = (
        jax.device_get(read(on_device(batch))) for batch in batches
    )
    num_keys = [2 * call.num_keys if call.num_keys else None for call in first]

    def packed(groups):
        return [pack(a, b) for a, b in zip(groups, second, strict=True)]

    of_second = [group["segment"] > 9 for group in packed(groups)]
    rng = np.random.default_rng(0)
    probes = [
        np.where(own[..., None], rng.normal(size=(*own.shape, call.out.shape[-1])), 0)
        for own, call in zip(of_second, first, strict=True)
    ]

    def run(net, groups):
        states, encoded = [], None
        for call, group, count in zip(first, groups, num_keys, strict=True):
            stack = submodule(net, call.path)
            if call.method == "encode":
                encoded = stack.encode(group)
                states.append(encoded.states)
            elif encoded is not None:
                states.append(stack.states(group, encoded=encoded))
            else:
                states.append(stack.states(group, num_keys=count))
        return states

    @jax.jit
    def score(groups):
        def total(params):
            states = networks.apply(net, params, lambda net: run(net, groups))
            both = zip(states, probes, strict=True)
            return sum(jnp.sum(state * probe) for state, probe in both), states

        grad, states = jax.grad(total, has_aux=True)(params)
        return states, grad

    states, grad = score(packed(groups))
    other_states, other_grad = score(packed(other))
    for own, before, after in zip(of_second, states, other_states, strict=True):
        np.testing.assert_array_equal(before[own], after[own])
        assert own.any()
        assert not np.array_equal(before[~own], after[~own])
    jax.tree.map(np.testing.assert_array_equal, grad, other_grad)
    assert any(np.any(leaf) for leaf in jax.tree.leaves(grad))
