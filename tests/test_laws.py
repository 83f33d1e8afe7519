"""Nothing leaks: what is hidden from a target, or in another document, cannot matter.

All comparisons here are exact: a gradient that should be absent is 0.0, and states that
should not change are equal bit by bit.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from texts import keys, symbols, texts
from variants import CASES

from research import models, objectives
from research.batch import NEVER, take, visible

OF = symbols(size=128)
OPTIONS = models.Options(
    layers=2, width=32, heads=2, feedforward=32, max_length=128, tied=False
)
LENGTH = 36
KEY = jax.random.key(0)
every = pytest.mark.parametrize(
    ("name", "fields"), [case for case in CASES if "pool" not in case.values[1]]
)


def make(objective, num_raw, seed=0):
    """An example and its batch, with the places of its rows as `example`."""
    raw = objective.reads(LENGTH).length
    example = texts(raw, [min(n, raw) for n in num_raw], OF, seed=seed)
    example = example._replace(label=np.zeros_like(example.label))
    return example, corrupt(objective, example)


def corrupt(objective, example) -> dict:
    count = len(example.length)
    batch = objective.corrupt(example, keys(count), OF, LENGTH)
    return batch | {"example": np.arange(count, dtype=np.int32)}


class Recorder:
    """A network that also keeps the states it gives, in order."""

    def __init__(self, net, kept):
        self.net, self.kept = net, kept

    def __getattr__(self, name):
        member = getattr(self.net, name)
        if name in ("generator", "discriminator"):
            return Recorder(member, self.kept)
        if name != "states":
            return member

        def states(*args, **kwargs):
            self.kept.append(member(*args, **kwargs))
            return self.kept[-1]

        return states


def network(objective, batch):
    """(params, batch) -> terms and states; and parameters of any values."""
    net = objective.network(OPTIONS, OF)

    def run(params, batch):
        kept = []
        score = lambda net: objective.loss(Recorder(net, kept), batch, KEY)[0]  # noqa: E731
        return models.apply(net, params, score), kept

    def init(batch):
        return models.init(net, lambda net: objective.loss(net, batch, KEY), KEY)

    rng = np.random.default_rng(0)
    shapes = models.unbox(jax.eval_shape(init, on_device(batch)))
    values = lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 5  # noqa: E731
    return run, jax.tree.map(values, shapes)


def on_device(batch) -> dict:
    return jax.tree.map(jnp.asarray, batch)


def token_table(params) -> tuple:
    """Keys of the leaf that holds the vectors of the tokens that are read."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    names = [tuple(key.key for key in path) for path in paths]
    (found,) = [name for name in names if name[-2:] == ("token", "rows")]
    return found


def with_table(params, path, table):
    """Other parameters, with this table."""
    name, *rest = path
    inner = with_table(params[name], rest, table) if rest else table
    return {**params, name: inner}


def groups(batch) -> dict[str, dict]:
    prefixes = [""] if "token" in batch else ["encoder_", "decoder_"]
    return {prefix: take(batch, prefix) for prefix in prefixes}


def allowed(batch) -> np.ndarray:
    """[K, places]: what each scored place of row 0 may depend on, by the rule alone.

    Places are those of all groups in turn. Sight of each group is transitive, so that
    more layers reach no further than one.
    """
    sees = {
        prefix: visible(group)[0] | np.eye(group["token"].shape[1], dtype=bool)
        for prefix, group in groups(batch).items()
    }
    for relation in sees.values():
        assert (relation == (relation.astype(int) @ relation > 0)).all()
    reads = list(sees.values())[-1]
    if "encoder_" in sees:
        across = batch["decoder_segment"][0][:, None] == batch["encoder_segment"][0]
        across &= batch["encoder_segment"][0] > 0
        reads = np.concatenate([across, reads], axis=1)
    return reads[batch["scored"][0]] if "scored" in batch else reads


@every
def test_a_loss_depends_on_what_its_place_may_see_and_on_nothing_else(name, fields):
    # Each place reads a token of its own, so that the gradient with respect to the
    # table of tokens tells the places apart.
    objective = objectives.load(name, **fields)
    _, batch = make(objective, [27])
    may_see = allowed(batch)
    own = np.arange(may_see.shape[1], dtype=np.int32)
    first = 0
    for prefix, group in groups(batch).items():
        width = group["token"].shape[1]
        batch[prefix + "token"] = own[None, first : first + width]
        first += width
    run, params = network(objective, batch)
    path = token_table(params)
    answer = "weight" if "weight" in batch else "label_weight"

    def loss(table, weight):
        here = on_device(batch) | {answer: weight}
        terms, _ = run(with_table(params, path, table), here)
        return next(iter(terms.values())).total

    @jax.jit
    def sensitivity(table, weights):
        gradient = jax.vmap(jax.grad(loss), in_axes=(None, 0))(table, weights)
        return jnp.abs(gradient).max(axis=-1)

    table = params
    for key in path:
        table = table[key]
    weight = batch[answer].reshape(-1)
    one_hot = np.eye(len(weight), dtype=np.float32)[weight > 0]
    shape = batch[answer].shape
    depends = sensitivity(table, one_hot.reshape(-1, *shape))[:, : len(own)] > 0
    np.testing.assert_array_equal(depends, may_see[weight > 0])
    assert not depends.all()


@pytest.mark.parametrize("name", ["lm", "mlm", "plm", "dae", "electra"])
def test_the_state_of_a_target_does_not_know_it(name):
    # Each token of the text is changed in turn, under the same noise; where it is a
    # target, the state that must recover it stays as it was.
    objective = objectives.load(name)
    example, batch = make(objective, [50, 20, 50, 9])
    run, params = network(objective, batch)
    states = jax.jit(lambda batch: run(params, batch)[1][0])
    before = np.asarray(states(on_device(batch)))

    scored = batch["weight"] > 0
    scored &= ~OF.special[batch["target"]]
    if "scored" in batch:  # a token that was chosen but left as it is, is no secret
        there = np.take_along_axis(batch["token"], batch["scored"], axis=1)
        scored &= there != batch["target"]
    covered, moved = np.zeros_like(scored), np.zeros_like(scored)
    for place in range(example.token.shape[1]):
        token = example.token.copy()
        token[:, place] = OF.ordinary[token[:, place] % len(OF.ordinary)]
        here = place < example.length
        token[~here] = example.token[~here]
        other = corrupt(objective, example._replace(token=token))
        after = np.asarray(states(on_device(other)))
        mine = scored & (other["target"] != batch["target"])
        np.testing.assert_array_equal(after[mine], before[mine])
        covered |= mine
        moved |= (after != before).any(axis=-1)
    np.testing.assert_array_equal(covered, scored)
    assert moved.any(axis=1).all()


def pack(first: dict, second: dict) -> dict:
    """Two batches side by side: rows of two documents, with a segment each.

    Queries that nobody reads stay behind all other places.
    """
    batch, shift = {"example": first["example"]}, 0
    for prefix, group in groups(first).items():
        both = take(second, prefix)
        both = both | {"segment": 2 * both["segment"]}
        joined = {
            name: np.concatenate([group[name], both[name]], axis=1) for name in group
        }
        order = np.argsort(joined["rank"][0] == NEVER, stable=True)
        shift = group["token"].shape[1]
        batch |= {prefix + name: array[:, order] for name, array in joined.items()}
    for name in ("target", "weight"):
        if name in first:
            batch[name] = np.concatenate([first[name], second[name]], axis=1)
    if "scored" in first:
        both = np.concatenate([first["scored"], shift + second["scored"]], axis=1)
        batch["scored"] = np.argsort(order)[both].astype(np.int32)
    if "label" in first:  # a row has one label: the second document's
        batch |= {name: second[name] for name in ("label", "label_weight")}
        batch["scored"] = batch["scored"][:, 1:]
    return batch


def of_second(batch, states) -> np.ndarray:
    """[B, P] bool: which of the states [B, P, D] belong to the second document."""
    group = list(groups(batch).values())[-1]
    segment = group["segment"]
    if states.shape[1] != segment.shape[1]:
        segment = np.take_along_axis(segment, batch["scored"], axis=1)
    return segment == 2


@every
def test_packed_documents_do_not_know_each_other(name, fields):
    objective = objectives.load(name, **fields)
    lengths = [34, 20, 7]
    (_, first), (_, other), (_, second) = (
        make(objective, lengths, seed=seed) for seed in range(3)
    )
    packed, changed = pack(first, second), pack(other, second)
    run, params = network(objective, packed)
    shapes = jax.eval_shape(lambda batch: run(params, batch)[1], on_device(packed))
    mine = [of_second(packed, shape) for shape in shapes]
    rng = np.random.default_rng(0)
    probes = [
        (rng.normal(size=shape.shape) * here[..., None]).astype(np.float32)
        for here, shape in zip(mine, shapes, strict=True)
    ]

    @jax.jit
    def score(batch):
        def total(params):
            kept = run(params, batch)[1]
            both = zip(kept, probes, strict=True)
            return sum(jnp.sum(state * probe) for state, probe in both), kept

        gradient, kept = jax.grad(total, has_aux=True)(params)
        return kept, gradient

    kept, gradient = score(on_device(packed))
    kept_changed, gradient_changed = score(on_device(changed))
    for here, before, after in zip(mine, kept, kept_changed, strict=True):
        np.testing.assert_array_equal(before[here], after[here])
        assert here.any()
        if before.shape[1] > 1:
            assert not np.array_equal(before[~here], after[~here])
    jax.tree.map(np.testing.assert_array_equal, gradient, gradient_changed)
    assert any(np.any(leaf) for leaf in jax.tree.leaves(gradient))
