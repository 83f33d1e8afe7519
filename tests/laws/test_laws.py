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

from research import networks
from research.contract.batch import NEVER, attention_mask
from tests.testing import objective_cases
from tests.testing.instrumented_network import (
    Call,
    make_case,
    on_device,
    record_calls,
    target_weights,
    token_tables,
    with_token_tables,
)


def own_dependencies(call: Call, num_layers: int) -> np.ndarray:
    """[L, L] bool: the positions that each position of row 0 may depend on.

    The mask has to be transitive, so that several layers reach no further than one; an
    objective whose mask is not (a tree) is tested on a network of one layer.
    """
    mask = np.array(attention_mask(jax.tree.map(np.asarray, call.group)))[0]
    is_key = np.arange(len(mask)) < (call.num_keys or len(mask))
    mask = is_key & (mask | np.eye(len(mask), dtype=bool))  # queries read no tokens
    through = mask.astype(int) @ mask > 0
    for query, key in np.argwhere(through & ~mask) if num_layers > 1 else ():
        raise AssertionError(
            f"row 0: position {query} sees position {key} through another one, which "
            "attends to it"
        )
    return mask


def allowed_dependencies(calls: list[Call], num_layers: int) -> list[np.ndarray]:
    """For each call [P, N] bool: the positions that its states may depend on.

    Positions are those of all calls, concatenated; a decoder depends on the encoder
    call before it, and blocks that predict tokens after the next on all calls before
    them, as far as they see in their own.
    """
    widths = [call.group["token"].shape[1] for call in calls]
    ends = np.cumsum([0, *widths])
    allowed, encoder = [], None
    for n, call in enumerate(calls):
        mask = np.zeros((widths[n], ends[-1]), bool)
        mask[:, ends[n] : ends[n + 1]] = own_dependencies(call, num_layers)
        if call.method == "encode":
            encoder = n
        elif encoder is not None:
            segment = np.asarray(calls[encoder].group["segment"][0])
            across = np.asarray(call.group["segment"][0])[:, None] == segment
            mask[:, ends[encoder] : ends[encoder + 1]] = across & (segment > 0)
        if call.method == "future_outputs":
            own = mask[:, ends[n] : ends[n + 1]].copy()
            for m, earlier in enumerate(calls[: n + 1]):
                mask[:, ends[m] : ends[m + 1]] = own & earlier.reads_tokens
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
        """A number for each state of row 0 of each call; the totals of the terms of the
        loss; the calls."""
        changed = with_token_tables(params, table)
        terms, calls = record(changed, batch, added=nudges)
        terms = {name: term for name, term in terms.items() if term.coef}
        both = zip(calls, probes, strict=True)
        states = [call.out[0] @ probe for call, probe in both]
        totals = {name: term.total for name, term in terms.items()}
        return states, totals, calls

    def with_target(batch, weight, slot):
        """The batch of which this weight has only this target, none where it is -1."""
        only = jnp.arange(batch[weight].shape[1])[None] == slot
        return batch | {weight: batch[weight] * only}

    @jax.jit
    def dependencies(batch, selections):
        def scaled(factors):
            """`evaluate` of the batch with its weights times these factors."""
            both = zip(weights, factors, strict=True)
            return evaluate(table, zeros, batch | {w: f * batch[w] for w, f in both})

        # One program for all: with each of the weights twice, without it, as they are.
        eye = jnp.eye(len(weights))
        factors = jnp.concatenate([1 + eye, 1 - eye, jnp.ones((1, len(weights)))])
        _, sums, calls = jax.lax.map(scaled, factors)
        calls = jax.tree.map(lambda leaf: leaf[-1], calls)
        differs = {term: of_term[:-1] != of_term[-1] for term, of_term in sums.items()}

        def has_weight(n):
            at = n, n + len(weights)
            twice, none = ({term: d[i] for term, d in differs.items()} for i in at)
            # A CRF's weights say only which positions are words.
            is_factor = jnp.any(jnp.array(list(twice.values())))
            return {t: jnp.where(is_factor, twice[t], none[t]) for t in twice}

        has = {weight: has_weight(n) for n, weight in enumerate(weights)}

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
            tables = [jnp.abs(leaf).max(axis=-1) for leaf in grads.values()]
            most = max(map(len, tables))  # of two towers they differ in size
            tokens = sum(jnp.pad(each, (0, most - len(each))) for each in tables)
            return tokens > 0, [jnp.abs(leaf[0]).max(axis=-1) > 0 for leaf in nudges]

        return jax.lax.map(reads, selections), calls

    counts = [call.out.shape[1] for call in shapes]
    selections = one_at_a_time([*counts, *(batch[w].shape[1] for w in weights)])
    (found, read), calls = jax.device_get(dependencies(on_device(batch), selections))
    allowed = allowed_dependencies(calls, net.options.layers)
    for call, mask, at in zip(calls, allowed, selections, strict=False):
        depends = found[at >= 0, : mask.shape[1]]
        padding = np.asarray(call.group["segment"])[0] == 0
        padding = (
            padding if call.scored is None else padding[np.asarray(call.scored[0])]
        )
        depends[padding] |= mask[padding]  # whether padding reads itself is left open
        check_dependencies(".".join((*call.path, call.method)), depends, mask)
    assert not all(mask.all() for mask in allowed)
    for weight, at in zip(weights, selections[len(calls) :], strict=True):
        for n in np.flatnonzero((at >= 0) & (batch[weight][0, at] > 0)):
            of_calls = [of_call[n] for of_call in read]
            states = np.concatenate(of_calls)
            assert states.any(), f"the target {at[n]} of {weight} reads no state"
            expected = np.concatenate(allowed)[states].any(axis=0)
            depends = found[n][: len(expected)]
            check_dependencies(f"the loss of {weight}", depends[None], expected[None])
            check_positions(batch, weights[weight], at[n], calls, of_calls)


def check_dependencies(name: str, depends: np.ndarray, allowed: np.ndarray) -> None:
    """Asserts that states [P, N] bool depend on the positions that they may see."""
    for state, position in np.argwhere(depends != allowed)[:1]:
        verb = "depends" if depends[state, position] else "does not depend"
        raise AssertionError(
            f"state {state} of {name} {verb} on the token at position {position} of "
            "all inputs: not what segment, rank and reach say"
        )


def one_at_a_time(counts: list[int]) -> list[np.ndarray]:
    """For each count its indices, one a row, and -1 in the rows of the other counts.

    [2, 1] gives [0, 1, -1] and [-1, -1, 0].
    """
    ends = np.cumsum([0, *counts])
    rows = np.arange(ends[-1])[None] - ends[:-1, None]
    return list(np.where((rows >= 0) & (rows < np.array(counts)[:, None]), rows, -1))


def check_positions(batch, arrays, slot, calls, read) -> None:
    """A target is scored only at the positions that the batch gives for it.

    Blocks that predict tokens after the next read states at others, too.
    """
    given = {int(batch[array][0, slot]) for array in arrays} or {int(slot)}
    pairs = [pair for pair in zip(calls, read, strict=True) if pair[1].any()]
    if pairs and pairs[-1][0].method == "future_outputs":
        pairs = pairs[-1:]
    for call, of_call in pairs:
        if call.method in ("states", "outputs", "future_outputs"):
            at = np.flatnonzero(of_call)
            at = at if call.scored is None else np.asarray(call.scored[0])[at]
            assert set(at.tolist()) <= given, (
                f"the target {slot} is scored at positions {at}, not at {given}"
            )


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

    def stack_calls(batch):
        calls = record_calls(objective, net, params, batch)[1]
        return [call for call in calls if call.method != "future_outputs"]

    record = jax.jit(stack_calls)
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
                keys = {"num_keys": count} if count else {}  # of networks with queries
                result = getattr(stack, call.method)(group, **keys)
                result = getattr(result, "states", result)
                states.append(result[-1] if call.method == "layers" else result)
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
    # Texts that a row's key chooses, as kepler's descriptions, are the same in both.
    changed = [
        any(not np.array_equal(one[name], two[name]) for name in one)
        for one, two in zip(groups, other, strict=True)
    ]
    assert any(changed)
    for n, own in enumerate(of_second):
        before, after = states[n], other_states[n]
        assert own.any()
        np.testing.assert_array_equal(before[own], after[own])
        assert np.array_equal(before[~own], after[~own]) != changed[n]
    jax.tree.map(np.testing.assert_array_equal, grad, other_grad)
    assert any(np.any(leaf) for leaf in jax.tree.leaves(grad))
