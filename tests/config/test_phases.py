"""Phases: which steps have which config, and what is refused."""

import pytest

from launch.config import load_config
from research.config.config import Config
from research.config.phases import run_phases
from research.contract.errors import UserError

BUCKETS = "data.length_buckets=[32, 64]"


def values(spec, *overrides):
    """(stop, length, batch, dropout) of each phase."""
    phases = run_phases(Config.of(load_config(f"experiments/{spec}", overrides)))
    return [
        (
            phase.stop,
            phase.config.data.length,
            phase.config.train.batch,
            phase.config.model.dropout,
        )
        for phase in phases
    ]


def test_published_phases():
    """Devlin et al. 2019, A.2; Cui et al. 2021; Lewis et al. 2020, section 5.1."""
    bert = [(900_000, 128, 256, 0.1), (1_000_000, 512, 256, 0.1)]
    assert values("bert.py:base") == values("mbert.py:base") == bert
    wwm = [(100_000, 128, 2560, 0.1), (200_000, 512, 384, 0.1)]
    assert values("bert_wwm.py:base") == wwm
    bart = [(450_000, 512, 8000, 0.1), (500_000, 512, 8000, 0.0)]
    assert values("bart.py:large") == bart
    assert values("structbert.py:base") == [(1_000_000, 512, 256, 0.1)]


def test_a_run_without_phases_has_its_own_config():
    config = load_config("experiments/mlm.py")
    assert [phase.config is config for phase in run_phases(Config.of(config))] == [True]


def test_phases_are_fractions_of_any_number_of_steps():
    phases = 'train.phases=[[0.25, {"data.length": 16}], [0.5, {}]]'
    found = values("mlm.py", phases, "train.steps=10")
    assert found == [(2, 16, 32, 0.0), (5, 128, 32, 0.0), (10, 128, 32, 0.0)]


def test_length_buckets_of_a_phase_are_those_below_its_length():
    phases = 'train.phases=[[0.5, {"data.length": 48}]]'
    config = load_config("experiments/finetune.py", [phases, BUCKETS])
    found = [
        [*phase.config.data.length_buckets] for phase in run_phases(Config.of(config))
    ]
    assert found == [[32], [32, 64]]


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        ("0.9", r"train\.phases must be a JSON list, not '0.9'$"),
        (
            "[[.9,{}]]",
            r"must be a JSON list, not .*; JSON has a digit before the point",
        ),
        ("[0.9]", r"train\.phases: 0\.9 is not a phase; write \[end, changes\]"),
        ("[[0.5, {}], [0.5, {}]]", "ascending fractions"),
        ("[[1.5, {}]]", "ascending fractions"),
        ("[[0.0001, {}]]", "phase 1 of 2 must have a step, .* at step 0 of"),
        ("[[0.9999, {}]]", "phase 2 of 2 must have a step, .* at step 1000 of"),
        ('[[0.5, {"model.width": 8}]]', "unknown key of train.phases 'model.width'"),
        ('[[0.5, {"objective.rate": 1.5}]]', "mlm: rate must be above 0 and below 1"),
        ('[[0.5, {"objective.unit": "word"}]]', "unknown key of train.phases"),
        ('[[0.5, {"data.length": "x"}]]', r"train\.phases: .*length"),
        ('[[0.5, {"data.length": 0}]]', "data.length must be at least 1 and at most"),
        (
            '[[0.5, {"model.dropout": 1.5}]]',
            "model.dropout must be at least 0 and below 1",
        ),
    ],
)
def test_what_is_wrong_is_named(phases, words):
    with pytest.raises(UserError, match=words):
        values("mlm.py", f"train.phases={phases}")
