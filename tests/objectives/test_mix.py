"""mix: rows are drawn by their mixing rates, and corrupted by their part as alone.

Chi-square tests have fixed seeds; each fails by chance for 1 seed in 10,000.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import networks, objectives
from research.contract.batch import EVALUATION_STEP
from research.contract.errors import UserError
from research.objectives.combined import composite, mix, shared_input
from tests.testing.example_batches import keys, rows, texts, vocab
from tests.testing.model_options import model_options

SIGNIFICANCE = 1e-4
VOCAB = vocab(size=96, sentinels=40)
LENGTH = 48
KEY = jax.random.key(0)

DENOISERS = {
    "regular": {"mixing_rate": 0.5},
    "extreme": {"mixing_rate": 0.25, "rate": 0.5},
    "long": {"mixing_rate": 0.25, "rate": 0.3, "mean_span": 12.0},
}


def make_denoisers():
    return objectives.make_objective("mix", base_objective="dae", parts=DENOISERS)


def make_batch(objective, count=60, step=0, seed=0):
    """An example, its keys and its batch."""
    width = objective.text_spec(LENGTH).length
    lengths = np.random.default_rng(seed).integers(0, width + 1, count)
    example = texts(width, lengths, VOCAB, seed=seed)
    example = example._replace(step=np.full(count, step, np.int64))
    key = keys(count, seed)
    return example, key, objective.corrupt(example, key, VOCAB, LENGTH)


def test_each_row_is_corrupted_as_by_its_part_alone():
    objective = make_denoisers()
    example, key, batch = make_batch(objective)
    drawn = objective.draw_parts(key, example.step)
    assert set(drawn) == {0, 1, 2}
    for row, number in enumerate(drawn):
        name = sorted(DENOISERS)[number]
        fields = {k: v for k, v in DENOISERS[name].items() if k != "mixing_rate"}
        part = objectives.make_objective("dae", **fields)
        text = rows(example, slice(row, row + 1))
        raw = part.text_spec(LENGTH).length
        text = text._replace(
            token=text.token[:, :raw],
            flags=text.flags[:, :raw],
            length=np.minimum(text.length, raw),
        )
        alone = part.corrupt(text, key[row : row + 1], VOCAB, LENGTH)
        for array, whole in batch.items():
            size = alone[array].shape[1]
            np.testing.assert_array_equal(whole[row, :size], alone[array][0])
            padding = VOCAB.pad_id if array.endswith(("token", "target")) else 0
            assert (whole[row, size:] == padding).all(), array


@pytest.mark.parametrize("rates", [(1, 1, 1), (0.5, 0.125, 2.0), (3, 0, 1)])
def test_rows_are_drawn_at_the_mixing_rates(rates):
    parts = {
        name: {"mixing_rate": rate} for name, rate in zip("abc", rates, strict=True)
    }
    objective = objectives.make_objective("mix", base_objective="mlm", parts=parts)
    count = 20_000
    drawn = objective.draw_parts(keys(count), np.zeros(count, np.int64))
    expected = np.array(rates) / sum(rates) * count
    found = np.bincount(drawn, minlength=3)
    assert not found[expected == 0].any()
    used = expected > 0
    assert stats.chisquare(found[used], expected[used]).pvalue > SIGNIFICANCE


def test_stages_switch_exactly_at_their_steps():
    parts = {
        "characters": {"mixing_rate": [[0, 1.0], [100, 0.0]]},
        "phrases": {"mixing_rate": [[0, 0.0], [100, 1.0], [250, 0.0]], "rate": 0.2},
        "entities": {"mixing_rate": [[250, 1.0]], "rate": 0.3},
    }
    parts["entities"]["mixing_rate"] = [[0, 0], [250, 1]]
    objective = objectives.make_objective("mix", base_objective="mlm", parts=parts)
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
        drawn = objective.draw_parts(key, np.full(50, step))
        assert (drawn == names.index(name)).all(), step
    # Rows of one call may be of two steps: several batches are made at a time.
    both = objective.draw_parts(key, np.where(np.arange(50) < 20, 99, 100))
    assert (
        both
        == np.where(np.arange(50) < 20, *map(names.index, ("characters", "phrases")))
    ).all()


@pytest.mark.parametrize(("name", "key"), [("mix", "mixing_rate"), ("joint", "weight")])
def test_it_reads_the_step_where_a_schedule_varies(name, key):
    """Or that of a part's part."""

    def reads_step(schedule):
        part = {"objective": "mlm"} if name == "joint" else {}
        parts = {"a": part, "b": part | {key: schedule}}
        objective = objectives.make_objective(name, parts=parts)
        whole = {"c": {"objective": name, "parts": parts}, "lm": {}}
        joint = objectives.make_objective("joint", parts=whole)
        assert joint.reads_step == objective.reads_step
        return objective.reads_step

    assert not any(map(reads_step, (2.0, [[0, 2.0]], [[5, 2.0], [9, 2.0]])))
    assert reads_step([[0, 2.0], [9, 1.0]])


def test_a_stage_depends_on_the_step_alone():
    # So a resumed run is corrupted like an uninterrupted one.
    rates = [[[0, 1], [100, 0]], [[0, 0], [100, 1]]]
    parts = {
        "early": {"mixing_rate": rates[0]},
        "late": {"mixing_rate": rates[1], "rate": 0.5},
    }

    def fresh():
        return objectives.make_objective("mix", base_objective="dae", parts=parts)

    reused = fresh()
    steps = (0, 99, 100, 250)
    batches = [make_batch(reused, step=step)[2] for step in steps]
    for step, batch in zip(steps, batches, strict=True):
        for name, array in make_batch(fresh(), step=step)[2].items():
            np.testing.assert_array_equal(batch[name], array)
    assert (batches[1]["weight"] != batches[2]["weight"]).any()


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 80).map(lambda n: n / 8)),
        min_size=1,
        unique_by=lambda point: point[0],
    ),
    st.integers(0, 120),
)
def test_schedules_are_piecewise_constant_or_linear(points, step):
    points = composite.parse_schedule(sorted(points), "it")
    before = [value for at, value in points if at <= step] or [points[0][1]]
    assert composite.piecewise_constant(points, np.array([step])) == before[-1]
    steps, values = zip(*points, strict=True)
    linear = composite.piecewise_linear(points, jnp.int32(step))
    np.testing.assert_allclose(linear, np.interp(step, steps, values), atol=1e-5)


def bag_of_tokens() -> SimpleNamespace:
    """A network without layers: logits depend on the input token alone."""
    table = np.random.default_rng(0).normal(size=(128, 8)).astype(np.float32)
    bias = np.where(np.arange(128) < VOCAB.size, 0.0, -1e9).astype(np.float32)

    def states(group, scored):
        token = jnp.take_along_axis(group["token"], scored, axis=1)
        return jnp.asarray(table)[token + 1]

    def readout(states):
        return networks.Readout(states, table, bias, VOCAB.size)

    return SimpleNamespace(states=states, readout=readout)


def test_its_loss_is_the_sum_of_its_parts_losses():
    parts = {"token": {"rate": 0.15}, "word": {"unit": "word", "rate": 0.4}}
    objective = objectives.make_objective("mix", base_objective="mlm", parts=parts)
    example, key, batch = make_batch(objective, count=16)
    net = bag_of_tokens()

    def run(scorer, batch):
        score = jax.jit(lambda batch: scorer.loss(net, batch, KEY)[0]["mlm"])
        return score(batch)

    whole = run(objective, batch)
    assert whole.weight == batch["weight"].sum()
    drawn, total = objective.draw_parts(key, example.step), 0.0
    for number, part in enumerate(objective.members.values()):
        own = np.flatnonzero(drawn == number)
        base, spec = objective.text_spec(LENGTH), part.text_spec(LENGTH)
        text = rows(example, own)
        text = shared_input.derive_example(text, base, spec, VOCAB.pad_id)
        total += run(part, part.corrupt(text, key[own], VOCAB, LENGTH)).total
    np.testing.assert_allclose(whole.total, total, rtol=1e-5)


def test_parts_need_the_same_arrays():
    parts = {"a": {}, "b": {"format": "bart"}}
    name = "sequence_classification"
    objective = objectives.make_objective("mix", base_objective=name, parts=parts)
    with pytest.raises(UserError, match="'a' and 'b' differ in decoder_position"):
        objective.batch_spec(LENGTH)


def _shapes(objective):
    """Traces the loss, and returns the shapes of the parameters."""
    options = model_options(layers=1, width=32, heads=2, feedforward=16, token_types=2)
    network = networks.build(options, objective.needs(VOCAB), VOCAB)
    _, _, batch = make_batch(objective, count=2)
    batch = jax.tree.map(jnp.asarray, batch | {"example": np.arange(2)})
    constants = {
        name: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), spec.arrays)
        for name, spec in objective.constants(VOCAB).items()
    }
    batch |= {"constants": networks.unbox(constants)}

    def init():
        return networks.init(network, lambda net: objective.loss(net, batch, KEY), KEY)

    return jax.eval_shape(init)


def test_fields_that_the_loss_reads_are_equal_in_all_parts():
    parts = {"a": {"coef": 50.0}, "b": {"coef": 10.0}}
    objective = objectives.make_objective("mix", base_objective="electra", parts=parts)
    with pytest.raises(UserError, match=r"coef is 50.0 in 'a', 10.0 in 'b'"):
        _shapes(objective)
    # Parts may differ in fields that the loss does not read.
    parts = {"a": {"coef": 5.0}, "b": {"coef": 5.0, "rate": 0.3, "mask_fraction": 1.0}}
    _shapes(objectives.make_objective("mix", base_objective="electra", parts=parts))


DISTILLED = {"teacher": "runs/one", "teacher_model": {"width": 32, "heads": 2}}


@pytest.mark.parametrize(
    ("base", "one", "other", "words"),
    [
        (
            "distill",
            {**DISTILLED, "base_objective": "dae", "base": {"label_smoothing": 0.1}},
            {**DISTILLED, "base_objective": "dae", "base": {"label_smoothing": 0.2}},
            "label_smoothing is 0.1 in 'a', 0.2 in 'b'",
        ),
        ("distill", DISTILLED, {**DISTILLED, "soft": 3.0}, "soft is 1.0 in 'a', 3.0"),
        (
            "joint",
            {"parts": {"mlm": {"weight": 1.0}}},
            {"parts": {"mlm": {"weight": 9.0}}},
            "schedules is {'mlm': .*1.0.* in 'a', {'mlm': .*9.0",
        ),
        (
            "joint",
            {"parts": {"x": {"objective": "electra", "coef": 1.0}}},
            {"parts": {"x": {"objective": "electra", "coef": 2.0}}},
            "coef is 1.0 in 'a', 2.0 in 'b'",
        ),
    ],
)
def test_so_are_those_that_it_reads_of_its_members(base, one, other, words):
    parts = {"a": one, "b": other}
    mixed = objectives.make_objective("mix", base_objective=base, parts=parts)
    with pytest.raises(UserError, match=words):
        _shapes(mixed)


def test_members_may_differ_in_what_the_loss_does_not_read():
    one, other = ({"parts": {"mlm": {"rate": rate}}} for rate in (0.1, 0.4))
    parts = {"a": one, "b": other}
    mixed = objectives.make_objective("mix", base_objective="joint", parts=parts)
    assert _shapes(mixed)
    parts = {"a": DISTILLED, "b": {**DISTILLED, "base": {"rate": 0.4}}}
    mixed = objectives.make_objective("mix", base_objective="distill", parts=parts)
    assert _shapes(mixed)


def test_parts_have_one_teacher():
    parts = {"a": DISTILLED, "b": {**DISTILLED, "teacher": "runs/two"}}
    mixed = objectives.make_objective("mix", base_objective="distill", parts=parts)
    with pytest.raises(UserError, match=r"constants.*'a' and 'b' differ"):
        mixed.constants(VOCAB)


def test_no_objective_has_a_field_that_parts_reserve():
    for name in objectives.names():
        fields = objectives.objective_class(name).__dataclass_fields__
        assert not {"mixing_rate", "weight", "objective"} & set(fields), name


def test_the_default_base_objective_is_mlm():
    assert type(mix.Objective().members["all"]) is objectives.objective_class("mlm")
