"""A run's program: what of the config reaches its compiled functions."""

import jax
import numpy as np
import pytest

from launch.config import load_config
from research.config.config import Config
from research.contract.errors import UserError
from research.distributed import sharding
from research.objectives.lm import lm
from research.program.setup import build_program
from tests.testing.example_batches import keys as row_keys
from tests.testing.example_batches import texts, vocab
from tests.testing.tiny_runs import random_state


def make_program(keys, experiment="experiments/lm.py"):
    small = {"data.length": 8, "train.batch": 2, "model.layers": 1}
    config = load_config(experiment, small | keys)
    return build_program(Config.of(config), jax.devices()[:1], vocab())


def test_one_trace_gives_shapes_and_initial_values(monkeypatch):
    traces, loss = [], lm.Objective.loss

    def counted(*args):
        traces.append(args)
        return loss(*args)

    monkeypatch.setattr(lm.Objective, "loss", counted)
    program = make_program({})
    with sharding.context(program.mesh):
        program.init.trace(jax.eval_shape(lambda: jax.random.key(0)))
    assert len(traces) == 1


def test_dropout_at_one_place_alone_is_part_of_the_step():
    def step(rate):
        program = make_program({"model.attention_dropout": rate})
        lowered = program.step.lower(*program.step_shapes)
        return lowered.as_text()

    assert step(0.1) != step(0.0) == step(-1.0)


def test_a_step_is_compiled_once_for_all_seeds():
    steps = [
        program.step.lower(*program.step_shapes).as_text()
        for program in (make_program({"seed": seed}) for seed in (0, 1))
    ]
    assert steps[0] == steps[1]


def test_a_frozen_body_gives_features_and_takes_no_gradient():
    """The step changes all of the head, and costs less than one that tunes the body."""
    keys = {"objective.name": "token_classification", "objective.features": "mix"}
    keys |= {"model.width": 16, "model.heads": 2, "optimizer.warmup_steps": 0}
    frozen = {"optimizer.frozen": "token,embeddings,stack"}
    tuned, program = (
        make_program(keys | more, "experiments/finetune.py") for more in ({}, frozen)
    )
    tuned_flops, flops = (
        each.step.lower(*each.step_shapes).cost_analysis()["flops"]
        for each in (tuned, program)
    )
    assert flops < 0.6 * tuned_flops
    state = random_state(program)
    before = jax.device_get(state.params)
    batch = program.objective.corrupt(
        texts(6, [6, 4], vocab()), row_keys(2), vocab(), 8
    )
    with sharding.context(program.mesh):
        batch = sharding.to_devices(
            batch | {"example": np.arange(2, dtype=np.int32)}, program.abstract_batch
        )
        after = jax.device_get(program.step(state, batch, program.key_data()).params)
    for part, params in before.items():
        same = jax.tree.map(np.array_equal, params, after[part])
        is_body = part in ("token", "embeddings", "stack")
        assert {*jax.tree.leaves(same)} == {is_body}, part


def test_an_evaluation_may_have_more_mems_than_training():
    """Transformer-XL is trained with 150 and evaluated with 640 (Dai et al. 2019)."""
    lens = {"objective.mem_len": 8, "objective.eval_mem_len": 20}
    program = make_program(lens | {"model.position": "relative"})
    state, carry = program.abstract_state, program.abstract_eval_carry
    assert state.carry["state"].shape == (2, 1, 8, 256)
    assert carry["state"].shape == (2, 1, 20, 256)
    sums = {name: state.sums[name] for name in ("lm", "accuracy")}
    batch = program.abstract_batch
    after = jax.eval_shape(program.evaluate, state.params, carry, sums, batch)[1]
    assert after["state"].shape == (2, 1, 20, 256)


@pytest.mark.parametrize(
    ("name", "length", "least"),
    [("mlm", 2, 3), ("t5", 1, 2), ("plm", 5, 6)],
)
def test_a_length_without_room_is_refused_before_any_text_is_opened(
    name, length, least
):
    config = load_config(f"experiments/{name}.py")
    changes = {"data.length": length, "data.corpus": "no such text"}
    with pytest.raises(UserError, match=f"length is {length}, .* at least {least} "):
        config.with_values(changes)


def test_mems_of_an_evaluation_alone_are_refused():
    with pytest.raises(UserError, match="eval_mem_len needs mem_len above 0"):
        load_config("experiments/lm.py", {"objective.eval_mem_len": 20})
    parts = {"lm": {"mem_len": 8, "eval_mem_len": 20}}
    with pytest.raises(UserError, match=r"part .lm. .* cannot have other mems"):
        keys = {"objective.name": "joint", "objective.parts": parts}
        load_config("experiments/lm.py", keys)


WRONG_RESULTS = [
    (lambda terms, carry: terms, r"loss returns a dict; .* pair \(terms, carry\)"),
    (lambda terms, carry: (terms["lm"], carry), "the terms of loss are a Term; they"),
    (lambda terms, carry: ({"lm": terms["lm"].total}, carry), "loss returns 'lm' as"),
    (
        lambda terms, carry: (
            {"lm": terms["lm"]._replace(total=jax.numpy.ones(2))},
            carry,
        ),
        "loss returns 'lm' as",
    ),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG_RESULTS)
def test_a_loss_that_returns_something_else_is_refused(monkeypatch, wrong, says):
    loss = lm.Objective.loss
    monkeypatch.setattr(lm.Objective, "loss", lambda *args: wrong(*loss(*args)))
    with pytest.raises(UserError, match=f"^objective lm: .*{says}") as error:
        make_program({})
    assert "\n" not in str(error.value)
