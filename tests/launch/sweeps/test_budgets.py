"""Budgets: steps follow from the config alone, whatever the machine."""

import itertools
import math
from pathlib import Path

import jax
import pytest

from experiments.sweeps import objectives
from launch.config import load_config
from launch.measure import aot_compile
from launch.sweeps import budgets, shared_keys
from research import objectives as objectives_of_text
from research.contract.errors import UserError

LM = "experiments/lm.py"
KEYS = {
    "data.vocabulary_size": 256,
    "data.length": 32,
    "data.vocabulary": (LM, {}),  # another trial's
    "model.layers": 1,
    "model.width": 32,
    "model.heads": 2,
    "model.feedforward": 64,
    "train.batch": 8,
}


@pytest.fixture(scope="module")
def step_flops():
    return budgets.step_flops(LM, KEYS)


def test_budgets_are_of_trials_with_their_shared_keys(step_flops):
    gated = {"model.activation": "swiglu"}
    with shared_keys.given(gated | {"model.layers": "4"}):
        found = budgets.step_flops(LM, KEYS)
    assert found == budgets.step_flops(LM, KEYS | gated) > step_flops


def test_a_steps_flops_are_those_that_compile_reports(step_flops):
    own = {key: value for key, value in KEYS.items() if key != "data.vocabulary"}
    devices = jax.devices()[:1]
    facts = aot_compile.compile_facts(load_config(LM, own), "cpu:1", devices)
    assert step_flops == facts["flops_per_step"]


def test_steps_do_not_depend_on_mesh_memory_or_vocabulary_file(step_flops, tmp_path):
    (tmp_path / "spm.model").write_bytes(b"")
    keys = KEYS | {"mesh.data": 64, "mesh.fsdp": 4, "model.remat": "full"}
    keys |= {"train.accumulate": 2, "data.vocabulary": str(tmp_path / "spm.model")}
    keys |= {"data.cache_dir": str(tmp_path)}
    assert budgets.step_flops(LM, keys) == step_flops


def test_steps_spend_the_budget(step_flops):
    tokens = 8 * 32
    assert budgets.steps_for_tokens(LM, KEYS, 10 * tokens) == 10
    assert budgets.steps_for_tokens(LM, KEYS, 10.4 * tokens) == 10
    assert budgets.steps_for_flops(LM, KEYS, 7 * step_flops) == 7
    rate = {"tokens_per_second": 1000}
    assert budgets.steps_for_seconds(LM, KEYS, 60, **rate) == round(60_000 / tokens)


def test_tokens_are_those_of_the_text_where_noise_shortens_it():
    """By T5's formula 64 positions hold 70 tokens with 15 % in spans of 3."""
    parts = {"short": {"rate": 0.15}, "none": {"rate": 0.01, "mixing_rate": 3}}
    mix = {"objective.name": "mix", "objective.base_objective": "dae"}
    mixed = KEYS | mix | {"data.length": 64, "objective.parts": parts}
    experiment = "experiments/dae.py"
    found = budgets.tokens_per_step(experiment, KEYS | {"data.length": 64})
    assert found == 8 * 70
    rare = objectives_of_text.make_objective("dae", rate=0.01).text_spec(64).length
    mean = (70 + 3 * rare) / 4
    assert budgets.tokens_per_step(experiment, mixed) == 8 * max(mean, 64)
    assert budgets.tokens_per_step("experiments/mlm.py", KEYS) == 8 * 32
    parts["none"]["mixing_rate"] = [[0, 1], [9, 2]]
    with pytest.raises(UserError, match="the tokens of a row differ by step"):
        budgets.tokens_per_step(experiment, mixed)


def test_a_budget_that_buys_no_step_or_a_run_of_phases_is_refused():
    with pytest.raises(UserError, match=r"lm.py: the budget is 0.39 of one step"):
        budgets.steps_for_tokens(LM, KEYS, 100)
    phases = {"train.phases": [[0.9, {"data.length": 16}]]}
    with pytest.raises(UserError, match=r"leave out train.phases"):
        budgets.steps_for_tokens(LM, KEYS | phases, 1e6)


@pytest.mark.parametrize("name", ["elmo", "cvt", "fasttext"])
def test_words_stay_words_where_flops_are_counted(name):
    """The networks read how words are spelled; whatever file has them."""
    keys = {"data.vocabulary": "a/run"}
    assert budgets.step_flops(f"experiments/{name}.py:tiny", keys) > 0


@pytest.mark.parametrize("budget", [math.nan, math.inf])
def test_a_budget_that_is_no_number_is_refused(budget):
    with pytest.raises(UserError, match=r"lm\.py: the budget must be finite; got"):
        budgets.steps_for_tokens(LM, KEYS, budget)


def test_a_step_without_products_has_no_budget_of_flops():
    with pytest.raises(UserError, match="this one has none; use a budget of tokens"):
        budgets.steps_for_flops("experiments/glove.py:tiny", {}, 1e9)


def test_a_sweep_of_equal_flops_gives_each_family_what_lm_spends(monkeypatch):
    cost = {"lm": 4e9, "mlm": 2e9, "plm": 2.5e9, "dae": 3.9e9, "electra": 3e9}
    monkeypatch.setattr(
        budgets, "step_flops", lambda experiment, keys: cost[Path(experiment).stem]
    )
    equal, tokens = (
        dict(itertools.islice(objectives.sweep("smoke", budget), 5 * 3))  # seeds
        for budget in ("flops", "tokens")
    )
    total = tokens["experiments/lm.py"]["train.steps"]
    for family, flops in cost.items():
        file = f"experiments/{family}.py"
        steps = equal[file].pop("train.steps")
        assert abs(steps * flops - total * cost["lm"]) <= flops / 2
        assert equal[file] | {"train.steps": total} == tokens[file]
