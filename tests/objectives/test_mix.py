"""mix: which part hides a row, and that it does so as it would alone.

Chi-square tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import models, objectives
from research.batch import EVALUATION_STEP
from research.errors import UserError
from research.objectives import mix
from research.objectives.inputs import composite, shared_input
from tests.testing.example_batches import keys, rows, texts, vocab
from tests.testing.model_options import model_options

LEVEL = 1e-4
OF = vocab(size=96, sentinels=40)
LENGTH = 48
KEY = jax.random.key(0)

DENOISERS = {
    "regular": {"share": 0.5},
    "extreme": {"share": 0.25, "rate": 0.5},
    "long": {"share": 0.25, "rate": 0.3, "span": 12.0},
}


def denoisers():
    return objectives.make_objective("mix", of="dae", parts=DENOISERS)


def made(objective, count=60, step=0, seed=0):
    """An example, its keys and its batch."""
    width = objective.text_spec(LENGTH).length
    lengths = np.random.default_rng(seed).integers(0, width + 1, count)
    example = texts(width, lengths, OF, seed=seed)
    example = example._replace(step=np.full(count, step, np.int64))
    key = keys(count, seed)
    return example, key, objective.corrupt(example, key, OF, LENGTH)


def test_each_row_is_hidden_by_its_part_as_it_would_be_alone():
    objective = denoisers()
    example, key, batch = made(objective)
    drawn = objective.draw(key, example.step)
    assert set(drawn) == {0, 1, 2}
    for row, number in enumerate(drawn):
        name = sorted(DENOISERS)[number]
        fields = {k: v for k, v in DENOISERS[name].items() if k != "share"}
        part = objectives.make_objective("dae", **fields)
        text = rows(example, slice(row, row + 1))
        raw = part.text_spec(LENGTH).length
        text = text._replace(
            token=text.token[:, :raw],
            flags=text.flags[:, :raw],
            length=np.minimum(text.length, raw),
        )
        alone = part.corrupt(text, key[row : row + 1], OF, LENGTH)
        for array, whole in batch.items():
            size = alone[array].shape[1]
            np.testing.assert_array_equal(whole[row, :size], alone[array][0])
            rest = OF.pad_id if array.endswith(("token", "target")) else 0
            assert (whole[row, size:] == rest).all(), array


def test_arrays_are_as_large_as_the_largest_parts():
    objective = denoisers()
    alone = {
        name: objectives.make_objective(
            "dae", **{k: v for k, v in fields.items() if k != "share"}
        )
        for name, fields in DENOISERS.items()
    }
    largest = max(part.batch_spec(LENGTH)["target"].shape for part in alone.values())
    assert objective.batch_spec(LENGTH)["target"].shape == largest
    longest = max(part.text_spec(LENGTH).length for part in alone.values())
    assert objective.text_spec(LENGTH).length == longest


def test_without_parts_it_is_the_module():
    objective, alone = (
        objectives.make_objective("mix", of="dae"),
        objectives.make_objective("dae"),
    )
    assert objective.text_spec(LENGTH) == alone.text_spec(LENGTH)
    assert objective.batch_spec(LENGTH) == alone.batch_spec(LENGTH)
    example, key, batch = made(objective)
    for name, array in alone.corrupt(example, key, OF, LENGTH).items():
        np.testing.assert_array_equal(batch[name], array)


@pytest.mark.parametrize("shares", [(1, 1, 1), (0.5, 0.125, 2.0), (3, 0, 1)])
def test_shares_are_kept(shares):
    parts = {name: {"share": share} for name, share in zip("abc", shares, strict=True)}
    objective = objectives.make_objective("mix", of="mlm", parts=parts)
    count = 20_000
    drawn = objective.draw(keys(count), np.zeros(count, np.int64))
    expected = np.array(shares) / sum(shares) * count
    found = np.bincount(drawn, minlength=3)
    assert not found[expected == 0].any()
    used = expected > 0
    assert stats.chisquare(found[used], expected[used]).pvalue > LEVEL


def test_the_part_does_not_depend_on_what_it_hides():
    # A part that is drawn more often for some noise than for other would be biased.
    objective = objectives.make_objective(
        "mix", of="mlm", parts={"a": {}, "b": {"unit": "word"}}
    )
    count = 20_000
    key = keys(count)
    drawn = objective.draw(key, np.zeros(count, np.int64))
    alone = objectives.make_objective("mlm", rate=0.01)
    place = alone.corrupt(texts(6, [6] * count, OF), key, OF, 8)["scored"][:, 0]
    table = np.zeros((2, 8))
    np.add.at(table, (drawn, place), 1)
    assert stats.chi2_contingency(table[:, 1:7]).pvalue > LEVEL


def test_stages_switch_exactly_at_their_steps():
    parts = {
        "characters": {"share": [[0, 1.0], [100, 0.0]]},
        "phrases": {"share": [[0, 0.0], [100, 1.0], [250, 0.0]], "rate": 0.2},
        "entities": {"share": [[250, 1.0]], "rate": 0.3},
    }
    parts["entities"]["share"] = [[0, 0], [250, 1]]
    objective = objectives.make_objective("mix", of="mlm", parts=parts)
    names = sorted(parts)
    key = keys(50)
    for step, name in [
        (0, "characters"),
        (99, "characters"),
        (100, "phrases"),
        (249, "phrases"),
        (250, "entities"),
        (EVALUATION_STEP, "entities"),
    ]:
        drawn = objective.draw(key, np.full(50, step))
        assert (drawn == names.index(name)).all(), step
    # Rows of one call may be of two steps: batches are made several at a time.
    both = objective.draw(key, np.where(np.arange(50) < 20, 99, 100))
    assert (
        both
        == np.where(np.arange(50) < 20, *map(names.index, ("characters", "phrases")))
    ).all()


def test_a_stage_is_that_of_the_step_whatever_was_made_before():
    # So a run that goes on in the middle hides as one that was never stopped.
    share = [[[0, 1], [100, 0]], [[0, 0], [100, 1]]]
    parts = {"early": {"share": share[0]}, "late": {"share": share[1], "rate": 0.5}}

    def fresh():
        return objectives.make_objective("mix", of="dae", parts=parts)

    one = fresh()
    steps = (0, 99, 100, 250)
    walked = [made(one, step=step)[2] for step in steps]
    for step, batch in zip(steps, walked, strict=True):
        for name, array in made(fresh(), step=step)[2].items():
            np.testing.assert_array_equal(batch[name], array)
    assert (walked[1]["weight"] != walked[2]["weight"]).any()


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 80).map(lambda n: n / 8)),
        min_size=1,
        unique_by=lambda point: point[0],
    ),
    st.integers(0, 120),
)
def test_a_schedule_holds_its_last_value_or_goes_straight_to_the_next(points, step):
    points = composite.schedule(sorted(points), "it")
    before = [value for at, value in points if at <= step] or [points[0][1]]
    assert composite.held(points, np.array([step])) == before[-1]
    steps, values = zip(*points, strict=True)
    between = composite.between(points, jnp.int32(step))
    np.testing.assert_allclose(between, np.interp(step, steps, values), atol=1e-5)


def bag_of_tokens() -> SimpleNamespace:
    """A network without layers: a token says what it is likely to hide."""
    table = np.random.default_rng(0).normal(size=(128, 8)).astype(np.float32)
    bias = np.where(np.arange(128) < OF.size, 0.0, -1e9).astype(np.float32)

    def states(group, scored):
        token = jnp.take_along_axis(group["token"], scored, axis=1)
        return jnp.asarray(table)[token + 1]

    def readout(states):
        return models.Readout(states, table, bias, OF.size)

    return SimpleNamespace(states=states, readout=readout)


def test_its_loss_is_the_sum_of_its_parts_losses():
    parts = {"token": {"rate": 0.15}, "word": {"unit": "word", "rate": 0.4}}
    objective = objectives.make_objective("mix", of="mlm", parts=parts)
    example, key, batch = made(objective, count=16)
    net = bag_of_tokens()

    def run(scorer, batch):
        score = jax.jit(lambda batch: scorer.loss(net, batch, KEY)[0]["mlm"])
        return score(batch)

    whole = run(objective, batch)
    assert whole.weight == batch["weight"].sum()
    drawn, total = objective.draw(key, example.step), 0.0
    for number, part in enumerate(objective._made.values()):
        own = np.flatnonzero(drawn == number)
        base, read = objective.text_spec(LENGTH), part.text_spec(LENGTH)
        text = shared_input.share(rows(example, own), base, read, OF.pad_id)
        total += run(part, part.corrupt(text, key[own], OF, LENGTH)).total
    np.testing.assert_allclose(whole.total, total, rtol=1e-5)


@pytest.mark.parametrize(
    "of, parts, said",
    [
        ("mix", {}, "of is a module"),
        ("mlm", {"a": {"share": [[0, 1], [9, 0]]}}, "0 at step 9"),
        ("mlm", {"a": {"share": [[9, 1], [0, 1]]}}, "steps that ascend"),
        ("mlm", {"a": {"share": "often"}}, "share of part 'a' is a number"),
        ("mlm", {"a": {"rate": 7}}, "part 'a': objective mlm: rate"),
        ("mlm", {"a": 3}, "parts map names to fields"),
    ],
)
def test_what_is_not_right_is_refused(of, parts, said):
    with pytest.raises(UserError, match=said):
        objectives.make_objective("mix", of=of, parts=parts)


def test_parts_make_the_same_arrays():
    parts = {"a": {}, "b": {"architecture": "encdec"}}
    objective = objectives.make_objective("mix", of="classify", parts=parts)
    with pytest.raises(UserError, match="'a' and 'b' differ in decoder_position"):
        objective.batch_spec(LENGTH)


def test_what_the_loss_reads_is_the_same_in_all_parts():
    parts = {"a": {"coef": 50.0}, "b": {"coef": 10.0}}
    objective = objectives.make_objective("mix", of="electra", parts=parts)
    options = model_options(layers=1, width=16, heads=2, feedforward=16)
    network = objective.network(options, OF)
    _, _, batch = made(objective, count=2)
    batch = jax.tree.map(jnp.asarray, batch | {"example": np.arange(2)})

    def init():
        return models.init(network, lambda net: objective.loss(net, batch, KEY), KEY)

    with pytest.raises(UserError, match=r"coef is 50.0 in 'a', 10.0 in 'b'"):
        jax.eval_shape(init)
    # Where only the host reads a field, parts may differ.
    parts = {"a": {"coef": 5.0}, "b": {"coef": 5.0, "rate": 0.3, "mask": 1.0}}
    objective = objectives.make_objective("mix", of="electra", parts=parts)
    _, _, batch = made(objective, count=2)
    batch = jax.tree.map(jnp.asarray, batch | {"example": np.arange(2)})
    jax.eval_shape(init)


def test_no_objective_has_a_field_that_parts_use():
    for name in objectives.names():
        fields = objectives.objective_class(name).__dataclass_fields__
        assert not {"share", "weight", "objective"} & set(fields), name


def test_the_module_that_is_mixed_is_the_one_that_scores():
    assert type(mix.Objective()._made["all"]) is objectives.objective_class("mlm")
