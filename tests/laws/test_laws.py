"""Nothing leaks: what is hidden from a target, or in another document, cannot matter.

All comparisons here are exact: a gradient that should be absent is 0.0, and states that
should not change are equal bit by bit. Nothing here knows an objective: the network
that a loss calls is watched, and every call is held to the arrays that it was given.
"""

# B batch, L places of a group, K scored places, P states of a call, D width

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import models
from research.batch import INPUT_ARRAYS, NEVER, attention_mask
from tests.testing.instrumented_network import (
    LENGTH,
    Call,
    corrupt,
    make_case,
    on_device,
    record_calls,
    token_tables,
    with_token_tables,
)
from tests.testing.objective_cases import CASES, OF, example, trained


def closure(call: Call) -> np.ndarray:
    """[L, L] bool: which places a place of row 0 depends on, by the rule alone.

    Sight has to be transitive, so that more layers reach no further than one.
    """
    sees = np.array(attention_mask(jax.tree.map(np.asarray, call.group)))[0]
    sees[:, call.num_keys :] &= call.num_keys is None
    sees |= np.eye(len(sees), dtype=bool)
    assert (sees == (sees.astype(int) @ sees > 0)).all()
    return sees


def allowed(calls: list[Call]) -> list[np.ndarray]:
    """For each call [P, places]: what its states may depend on, by the rule alone.

    Places are those of all calls in turn; a decoder reads the encoder before it.
    """
    widths = [call.group["token"].shape[1] for call in calls]
    ends = np.cumsum([0, *widths])
    rules, encoder = [], None
    for n, call in enumerate(calls):
        rule = np.zeros((widths[n], ends[-1]), bool)
        rule[:, ends[n] : ends[n + 1]] = closure(call)
        if call.method == "encode":
            encoder = n
        elif encoder is not None:
            segment = np.asarray(calls[encoder].group["segment"][0])
            across = np.asarray(call.group["segment"][0])[:, None] == segment
            rule[:, ends[encoder] : ends[encoder + 1]] = across & (segment > 0)
        rules.append(rule if call.scored is None else rule[np.asarray(call.scored[0])])
    return rules


def answers(batch) -> dict[str, tuple[str, ...]]:
    """Weights of targets, and the arrays that say at which places they are read."""
    found = {}
    for name in batch:
        prefix = name.removesuffix("weight")
        if prefix + "target" in batch and prefix != name:
            wanted = (prefix + place for place in ("scored", "left", "right"))
            found[name] = tuple(place for place in wanted if place in batch)
    return found


@trained
def test_states_depend_on_what_they_may_see_and_on_nothing_else(name, fields):
    # The gradient with respect to the tables of tokens tells the places apart.
    objective, net, params, (batch,) = make_case(name, fields, [27])
    shapes = jax.eval_shape(
        lambda batch: record_calls(objective, net, params, batch, distinct_tokens=True),
        on_device(batch),
    )[1]
    weighed, rng = answers(batch), np.random.default_rng(1)
    still = [jnp.zeros(call.out.shape) for call in shapes]
    probes = [rng.normal(size=call.out.shape[-1]) for call in shapes]
    counted = {
        weight: terms_of(objective, net, params, batch, weight) for weight in weighed
    }

    def parts(found, nudges, batch):
        """A number for each state of row 0 of each call; the terms; the calls."""
        here = with_token_tables(params, found)
        terms, calls = record_calls(
            objective, net, here, batch, distinct_tokens=True, added=nudges
        )
        both = zip(calls, probes, strict=True)
        return [call.out[0] @ probe for call, probe in both], terms, calls

    @jax.jit
    def depends(found, batch):
        def state(found, call, place):
            values = parts(found, still, batch)[0]
            return values[call][place]

        def total(found, nudges, weight, slot):
            one = jnp.zeros_like(batch[weight]).at[0, slot].set(batch[weight][0, slot])
            terms = parts(found, nudges, batch | {weight: one})[1]
            return sum(terms[term].total for term in counted[weight])

        def touched(gradient):
            sums = [jnp.abs(leaf).max(axis=-1) for leaf in gradient.values()]
            return sum(sums) > 0

        by_state = [
            jax.vmap(lambda p, n=n: touched(jax.grad(state)(found, n, p)))(
                jnp.arange(call.out.shape[1])
            )
            for n, call in enumerate(shapes)
        ]

        def by_target(weight, slot):
            table, nudge = jax.grad(total, (0, 1))(found, still, weight, slot)
            return touched(table), [jnp.abs(leaf[0]).max(-1) > 0 for leaf in nudge]

        by_weight = {
            weight: jax.vmap(lambda k, w=weight: by_target(w, k))(
                jnp.arange(batch[weight].shape[1])
            )
            for weight in weighed
        }
        return by_state, by_weight, parts(found, still, batch)[2]

    by_state, by_weight, calls = jax.device_get(
        depends(token_tables(params), on_device(batch))
    )
    rules = allowed(calls)
    for rule, seen in zip(rules, by_state, strict=True):
        np.testing.assert_array_equal(seen[:, : rule.shape[1]], rule)
    assert not all(rule.all() for rule in rules)
    for weight, (seen, read) in by_weight.items():
        used = batch[weight][0] > 0
        for slot in np.flatnonzero(used):
            reads = np.concatenate([mine[slot] for mine in read])
            assert reads.any()
            expected = np.concatenate(rules)[reads].any(axis=0)
            np.testing.assert_array_equal(seen[slot][: len(expected)], expected)
            check_places(batch, weighed[weight], slot, calls, read)


def terms_of(objective, net, params, batch, weight) -> list[str]:
    """The terms that this weight counts for."""

    @jax.jit
    def weights(batch):
        terms = record_calls(objective, net, params, batch)[0]
        return {name: term.weight for name, term in terms.items() if term.coef}

    some = weights(on_device(batch))
    none = weights(on_device(batch | {weight: np.zeros_like(batch[weight])}))
    return [name for name in some if some[name] != none[name]]


def check_places(batch, places, slot, calls, read) -> None:
    """A target is read at the places that the batch names for it, and only there."""
    named = {int(batch[place][0, slot]) for place in places} or {int(slot)}
    for call, mine in zip(calls, read, strict=True):
        if call.method == "states" and mine[slot].any():
            at = np.flatnonzero(mine[slot])
            at = at if call.scored is None else np.asarray(call.scored[0])[at]
            assert set(at.tolist()) <= named


SECRETS = [
    case
    for case in CASES
    if case.values[0] in ("lm", "mlm", "plm", "dae", "electra", "unilm", "tlm")
    and "secret" not in case.values[1]
    and not case.values[1].keys() - {"direction", "prefix", "span", "parts", "rate"}
]
"""Cases all of whose targets are hidden from every state that must recover them."""

SECRETS.append(pytest.param("mass", {"mask": 1.0, "random": 0.0}, id="mass masked"))


@pytest.mark.parametrize(("name", "fields"), SECRETS)
def test_the_state_of_a_target_does_not_know_it(name, fields):
    # Each token of the text is changed in turn, under the same noise; where it is a
    # target, the state that must recover it stays as it was.
    lengths = [50, 20, 50, 9]
    objective, net, params, (batch,) = make_case(name, fields, lengths)
    text = example(objective, LENGTH, lengths)
    text = text._replace(label=np.maximum(text.label, 0))
    memory = batch["carry"]
    (answer,) = answers(batch)
    prefix = answer.removesuffix("weight")

    @jax.jit
    def run(batch):
        calls = record_calls(objective, net, params, batch | {"carry": memory})[1]
        return next(call.out for call in calls if call.method == "states")

    def states(batch):
        return np.asarray(run(on_device({**batch, "carry": memory})))

    before = states(batch)
    scored = batch[answer] > 0
    scored &= ~OF.is_special[batch[prefix + "target"]]
    if "scored" in batch:  # a token that was chosen but left as it is, is no secret
        there = np.take_along_axis(batch["token"], batch["scored"], axis=1)
        scored &= there != batch["target"]
    covered, moved = np.zeros_like(scored), np.zeros_like(scored)
    for place in range(text.token.shape[1]):
        token = text.token.copy()
        token[:, place] = OF.ordinary_ids[token[:, place] % len(OF.ordinary_ids)]
        here = place < text.length
        token[~here] = text.token[~here]
        other = corrupt(objective, text._replace(token=token))
        after = states(other)
        mine = scored & (other[prefix + "target"] != batch[prefix + "target"])
        np.testing.assert_array_equal(after[mine], before[mine])
        covered |= mine
        moved |= (after != before).any(axis=-1)
    np.testing.assert_array_equal(covered, scored)
    assert moved.any(axis=1).all()


def pack(first: dict, second: dict) -> dict:
    """Two groups side by side: rows of two documents, with segments of their own.

    Queries that nobody reads stay behind all other places.
    """
    after = second | {"segment": np.where(second["segment"], second["segment"] + 9, 0)}
    joined = {
        name: np.concatenate([first[name], after[name]], axis=1)
        for name in INPUT_ARRAYS
    }
    order = np.argsort(joined["rank"][0] == NEVER, stable=True)
    return {name: array[:, order] for name, array in joined.items()}


def part(net, path):
    for name in path:
        net = getattr(net, name)
    return net


@trained
def test_packed_documents_do_not_know_each_other(name, fields):
    # The stacks that the loss calls are called again, on two documents a row.
    seeds = range(3)
    lengths = [34, 20, 7]
    objective, net, params, batches = make_case(name, fields, lengths, seeds)
    trace = jax.jit(lambda batch: record_calls(objective, net, params, batch)[1])
    first, other, second = (
        jax.device_get(trace(on_device(batch))) for batch in batches
    )
    doubled = [2 * call.num_keys if call.num_keys else None for call in first]

    def packed(one):
        both = zip(one, second, strict=True)
        return [pack(call.group, after.group) for call, after in both]

    theirs = [group["segment"] > 9 for group in packed(first)]
    rng = np.random.default_rng(0)
    probes = [
        np.where(here[..., None], rng.normal(size=(*here.shape, call.out.shape[-1])), 0)
        for here, call in zip(theirs, first, strict=True)
    ]

    def states(net, groups):
        kept, memory = [], None
        for call, group, count in zip(first, groups, doubled, strict=True):
            stack = part(net, call.path)
            if call.method == "encode":
                memory = stack.encode(group)
                kept.append(memory.states)
            elif memory is not None:
                kept.append(stack.states(group, memory))
            else:
                kept.append(stack.states(group, num_keys=count))
        return kept

    @jax.jit
    def score(groups):
        def total(params):
            kept = models.apply(net, params, lambda net: states(net, groups))
            both = zip(kept, probes, strict=True)
            return sum(jnp.sum(state * probe) for state, probe in both), kept

        gradient, kept = jax.grad(total, has_aux=True)(params)
        return kept, gradient

    kept, gradient = score(packed(first))
    kept_changed, gradient_changed = score(packed(other))
    for here, before, after in zip(theirs, kept, kept_changed, strict=True):
        np.testing.assert_array_equal(before[here], after[here])
        assert here.any()
        assert not np.array_equal(before[~here], after[~here])
    jax.tree.map(np.testing.assert_array_equal, gradient, gradient_changed)
    assert any(np.any(leaf) for leaf in jax.tree.leaves(gradient))
