"""Runs with phases: each reads its own batches, and all are one run."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from research import objectives
from research import train as loop
from research.config.config import Config
from research.contract.errors import PreemptedError, UserError
from research.distributed import sharding
from research.objectives.losses import softmax
from research.program import compiled_phases
from research.program.flops import step_flops
from research.record.metric_writer import read_metrics
from tests.testing import tiny_runs
from tests.testing.tiny_runs import StoppingPeers, last_params, tiny_config, train

COST = dict.fromkeys(
    ("flops_per_step", "skippable_flops_per_step", "flops_per_token", "peak_bytes"), 1
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.write_corpus(tmp_path_factory.mktemp("data"))


PHASES = {
    "train.phases": [[0.5, {"data.length": 16, "train.batch": 8}]],
    "train.steps": 6,
    "train.log_every": 2,
    "train.eval_every": 0,
}


def test_each_phase_reads_the_batches_of_a_run_of_its_own_length(folder):
    program, phases = compiled_phases.build_phases(tiny_config(folder, **PHASES))
    short, long = (
        compiled_phases.build_program(
            Config.of(
                tiny_config(folder, **{"data.length": length, "train.batch": batch})
            )
        )
        for length, batch in ((16, 8), (32, 16))
    )
    marked = [
        phase._replace(step=mark) for phase, mark in zip(phases, "sl", strict=True)
    ]
    with sharding.context(program.mesh):
        found = list(compiled_phases.steps_and_batches(marked, 1))
    assert [mark for mark, _ in found] == ["s", "s", "l", "l", "l"]
    sources = (short, short, long, long, long)
    for step, (source, (_, batch)) in enumerate(zip(sources, found, strict=True), 1):
        jax.tree.map(
            np.testing.assert_array_equal, batch, source.data.train.batch(step)
        )
    both = {phase.program.data.fingerprint for phase in phases}
    assert len(both) == 2 and program.data.fingerprint not in both


@pytest.mark.parametrize("cutoffs", [[], [50]])
def test_flops_that_depend_on_the_text_are_an_upper_bound(folder, cutoffs, monkeypatch):
    monkeypatch.setattr(softmax, "CHUNK_LOGITS", 2**12)  # several chunks
    keys = {"model.cutoffs": cutoffs, "model.output_head": "table"}
    program, phases = compiled_phases.build_phases(tiny_config(folder, **PHASES | keys))
    phases = compiled_phases.compile_phases(phases)
    first, *others = compiled_phases.run_lines(program, phases, phases[-1].config)
    for line in (first, *others[-2:]):
        assert "GFLOP a step" in line and ("at most" in line) == bool(cutoffs)
    cost = compiled_phases.cost_facts(phases, 6)
    assert 0 <= cost["skippable_flops_per_step"] < cost["flops_per_step"] / 2
    assert (cost["skippable_flops_per_step"] > 0) == bool(cutoffs)
    told = program._replace(data=program.data._replace(evaluation_note="not held out"))
    lines = [*compiled_phases.run_lines(told, phases, phases[-1].config)]
    assert "not held out" in lines and "" not in (first, *others)


def test_what_a_run_has_is_told_before_its_first_step(folder, monkeypatch):
    """The first names of many classes, dimensions that the mesh cannot divide, and
    products of bfloat16 on a processor that has none."""
    program, phases = compiled_phases.build_phases(tiny_config(folder))
    monkeypatch.setattr(compiled_phases, "cost_facts", lambda *_: COST)
    options = dataclasses.replace(
        program.network.options, product_dtype="bfloat16", dtype="float32"
    )
    labels = tuple(f"label {n}" for n in range(53))
    task = objectives.make_objective("sequence_classification")
    told = program._replace(
        objective=task,
        network=program.network.clone(options=options),
        data=program.data._replace(vocab=program.data.vocab._replace(labels=labels)),
        replicated_dims=("tensor of heads",),
    )
    for has_none in (True, False):
        monkeypatch.setattr(
            compiled_phases, "has_fast_bfloat16", lambda text, no=has_none: not no
        )
        lines = [*compiled_phases.run_lines(told, phases, phases[-1].config)]
        (classes,) = (line for line in lines if "classes: " in line)
        assert classes.startswith("53 classes: label 0, ")
        assert classes.endswith("label 49 and 3 more")
        assert any(line.endswith("divide it: tensor of heads") for line in lines)
        assert has_none == any("no fast products of" in x for x in lines)


def test_a_phase_hides_other_tokens_than_evaluations(folder):
    program, (phase,) = compiled_phases.build_phases(
        Config.of(
            tiny_config(folder, **{"train.phases": [[1, {"objective.rate": 0.6}]]})
        )
    )
    hidden = [
        (of.data.train.batch(0)["weight"] > 0).sum() for of in (phase.program, program)
    ]
    assert hidden[0] > 2 * hidden[1]


@pytest.mark.parametrize(
    ("objective", "changes", "words"),
    [
        ("electra", {"objective.generator_size": 1.0}, r"parameters than .* \(generat"),
        ("lm", {"objective.temporal_penalty": 1.0}, r"loss than .* \(activation, temp"),
    ],
)
def test_a_phase_with_another_state_is_refused(folder, objective, changes, words):
    """Not after half of the run."""
    keys = {"train.phases": [[0.5, changes]]}
    if objective == "lm":
        others = dict.fromkeys(("model.heads", "model.feedforward"))
        keys |= {"model.network": "lstm"} | others
    config = tiny_config(folder, objective, **keys)
    with pytest.raises(UserError, match=rf"train\.phases: a phase has other .*{words}"):
        compiled_phases.build_phases(Config.of(config))


def test_a_run_resumes_in_any_of_its_phases(folder, tmp_path):
    """Stopped at step 1, in the first phase, and at step 5, in the last."""
    config = tiny_config(folder, **PHASES)
    result = train(Config.of(config), tmp_path / "whole")
    for nth in (2, 5):
        with pytest.raises(PreemptedError):
            peers = StoppingPeers(nth)
            loop.train(
                Config.of(config),
                tmp_path / "run",
                devices=jax.devices()[:1],
                peers=peers,
            )
    resumed = train(Config.of(config), tmp_path / "run")
    workdirs = tmp_path / "whole", tmp_path / "run"
    jax.tree.map(np.testing.assert_array_equal, *map(last_params, workdirs))
    whole, again = map(read_metrics, workdirs)
    assert again == whole and resumed["metrics"] == result["metrics"]
    tokens = [line["tokens_seen"] for line in whole if "tokens_seen" in line]
    assert tokens == [2 * 8 * 16, 3 * 8 * 16 + 16 * 32, 3 * 8 * 16 + 3 * 16 * 32]
    assert result["tokens_seen"] == tokens[-1]
    flops = [
        step_flops(phase.program)[0]
        for phase in compiled_phases.build_phases(Config.of(config))[1]
    ]
    assert result["flops_per_step"] == pytest.approx(sum(flops) / 2)
    assert result["flops_per_token"] == pytest.approx(sum(flops) * 3 / tokens[-1])
    assert result["flops_to"] == [[3, 3 * flops[0]], [6, 3 * sum(flops)]]
    assert 2 * flops[0] < flops[1]


def test_steps_of_several_lengths_cost_what_each_costs(tmp_path, capsys):
    texts = [" ".join(tiny_runs.WORDS[: n % 9 + 1]) for n in range(200)]
    rows = [{"text": text, "label": "ab"[n % 2]} for n, text in enumerate(texts)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    changes = {"data.corpus": str(tmp_path / "corpus.jsonl"), "train.steps": 8}
    changes |= {"data.length": 64, "data.length_buckets": [8]}
    config = tiny_config(tmp_path, "finetune", **changes)
    program, (phase,) = compiled_phases.build_phases(Config.of(config))
    numbers = phase.program.data.train.buckets.count_steps(0, 8)
    assert sum(numbers.values()) == 8 and all(numbers.values())
    flops = {
        length: step_flops(program._replace(abstract_batches={length: batch}))[0]
        for length, batch in program.abstract_batches.items()
    }
    assert 3 * flops[8] < flops[64]
    result = train(Config.of(config), tmp_path / "run")
    assert "2 classes: a, b\n" in capsys.readouterr().err
    total = sum(number * flops[length] for length, number in numbers.items())
    assert result["flops_per_step"] == pytest.approx(total / 8)
    assert result["tokens_seen"] == 8 * 16 * 64


@pytest.mark.parametrize("end", [0.5, 1])
def test_streams_that_continue_from_step_to_step_have_one_length(folder, end):
    """Also where no step has the length or the batch of the config."""
    changes = {"objective.mem_len": 32, "model.position": "relative"}
    changes |= PHASES | {"train.phases": [[end, {"train.batch": 8}]]}
    with pytest.raises(
        UserError, match=r"train\.phases: rows of objective lm continue"
    ):
        compiled_phases.build_phases(tiny_config(folder, "lm", **changes))
