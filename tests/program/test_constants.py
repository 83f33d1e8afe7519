"""Constants: a frozen teacher is read by every step, changed by none, saved nowhere."""

import dataclasses
import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

from docs.examples.objectives import distilled
from launch.commands import evaluate
from launch.commands import score as launch_score
from launch.measure import step_speed
from research import objectives
from research import train as loop
from research.checkpoints.checkpoint import Checkpoints, finished_steps
from research.config.config import Config
from research.contract.batch import ConstantSpec
from research.contract.errors import PreemptedError, UserError
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.evaluation.sentence_scores import score
from research.files.json_files import read_json
from research.interop.partial_restore import load_on_host
from research.objectives.combined.packed_rows import PackedRows
from research.objectives.dae import dae
from research.objectives.lm import lm
from research.program.compiled_phases import _shapes, build_phases
from research.program.constants import Constants
from research.record.metric_writer import read_metrics
from research.use.inference.open_run import open_run
from tests.testing import tiny_runs
from tests.testing.example_batches import vocab
from tests.testing.tiny_runs import StoppingPeers, tiny_config

ON_TWO = {"mesh.data": 1, "mesh.fsdp": 2, "train.accumulate": 2}
"""Of 8 devices, each of which gathers two networks at once, a CPU's threads would wait
for each other."""


@pytest.fixture(autouse=True, scope="module")
def examples():
    """The objectives of docs/examples are found as if they were in the folder."""
    folder = str(Path(distilled.__file__).parent)
    objectives.__path__.append(folder)
    yield
    objectives.__path__.remove(folder)
    sys.modules.pop("research.objectives.distilled", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.write_corpus(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def teacher(folder, tmp_path_factory):
    """The workdir of a teacher, and its state."""
    workdir, state, _ = tiny_runs.save_untrained(
        tmp_path_factory.mktemp("teacher"), tiny_config(folder, "lm")
    )
    return workdir, state


SIZES = {"layers": 1, "width": 32, "heads": 2, "feedforward": 64}
"""Of the teacher."""


def student(folder, teacher, **overrides):
    keys = {"objective.name": "distilled", "objective.teacher": str(teacher)}
    keys |= {f"objective.{name}": size for name, size in SIZES.items()}
    keys |= {"train.steps": 6, "train.eval_every": 0, "train.checkpoint_every": 0}
    return tiny_config(folder, "lm", **keys | {"train.log_every": 1} | overrides)


def run(config, workdir, devices=1, *, stop_at=0):
    """Trains, or stops after a step; returns the teacher that was read."""
    programs, build = [], loop.build_phases

    def recorded(*args):
        built = build(*args)
        programs.append(built[0])
        return built

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "build_phases", recorded)
        peers = StoppingPeers(stop_at + 1) if stop_at else None
        where = dict(devices=jax.devices()[:devices], peers=peers)
        if stop_at:
            with pytest.raises(PreemptedError, match=f"after step {stop_at}"):
                loop.train(Config.of(config), workdir, **where)
        else:
            loop.train(Config.of(config), workdir, **where)
    return programs[0].constants.arrays["constants"]["teacher"]


class Runs(NamedTuple):
    """A run on one device, and one on two that was stopped and went on."""

    whole: Path
    resumed: Path
    stopped: Path  # the second one's workdir before it went on
    teachers: list  # which each of them read, after its last step


@pytest.fixture(scope="module")
def runs(folder, teacher, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    runs = Runs(*(place / name for name in Runs._fields[:3]), teachers=[])
    runs.teachers.append(run(student(folder, teacher[0]), runs.whole))
    on_two = student(folder, teacher[0], **ON_TWO)
    run(on_two, runs.resumed, 2, stop_at=3)
    shutil.copytree(runs.resumed, runs.stopped)
    runs.teachers.append(run(on_two, runs.resumed, 2))
    return runs


def test_meshes_micro_batches_and_restarts_do_not_change_what_a_student_learns(runs):
    losses = [
        [line["train/teacher"] for line in read_metrics(path) if "train/loss" in line]
        for path in (runs.whole, runs.resumed)
    ]
    assert len(losses[0]) == 6
    np.testing.assert_allclose(*losses, rtol=1e-4)
    results = [
        read_json(path / "result.json", "") for path in (runs.whole, runs.resumed)
    ]
    evaluated = [result["metrics"]["valid/teacher"] for result in results]
    np.testing.assert_allclose(*evaluated, rtol=1e-4)


def test_the_teacher_is_sharded_and_stays_as_it_is(runs, teacher):
    expected = jax.device_get(teacher[1].params)
    for found, replicated in zip(runs.teachers, (True, False), strict=True):
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
        kernel = found["stack"]["blocks"]["feedforward"]["in"]["kernel"]
        assert kernel.sharding.is_fully_replicated == replicated


def test_a_checkpoint_has_the_source_and_the_checksum_alone(runs, teacher):
    steps = runs.resumed / "checkpoints"
    folder = steps / str(next(finished_steps(steps)))
    saved = load_on_host(folder, "rest", "facts", "params")
    assert set(saved["rest"]) == {"step", "opt_state", "carry", "sums"}
    sizes = [
        sum(leaf.size for leaf in jax.tree.leaves(tree))
        for tree in (saved["params"], teacher[1].params)
    ]
    assert sizes[0] == sizes[1]
    origin = saved["facts"]["constants"]["teacher"]
    assert origin["source"] == str(teacher[0]) and len(origin["checksum"]) == 16
    provenance = read_json(runs.resumed / "provenance.json", "")
    assert provenance["constants"]["teacher"] == origin


def test_another_teacher_in_its_place_is_refused(
    runs, folder, teacher, tmp_path, monkeypatch
):
    kind = objectives.objective_class("distilled")
    for name in ("score_methods", "score_rows", "direction", "mem_len"):
        monkeypatch.setattr(kind, name, vars(Scored)[name], raising=False)
    pair = {"sentence_good": "a river sees", "sentence_bad": "sees a river"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair | {"UID": "x"}) + "\n")
    evaluation = evaluate.parser().parse_args([f"--workdir={runs.whole}"])
    flags = ["--task=blimp", f"--data={tmp_path}/pairs.jsonl"]
    scoring = launch_score.parser().parse_args([f"--workdir={runs.whole}", *flags])
    evaluation.overrides = scoring.overrides = {}
    assert evaluate.run(evaluation) == launch_score.run(scoring) == 0
    workdir, state = teacher
    checkpoints = Checkpoints(workdir, keep=2)
    facts = load_on_host(checkpoints.folder / "3", "facts")["facts"]
    changed = jax.tree.map(lambda leaf: leaf + leaf.dtype.type(1e-3), state.params)
    checkpoints.save(4, state._replace(params=changed), facts | {"step": 4})
    checkpoints.close()
    words = r"was trained with objective\.teacher=.* checksum \w{16}, but .* now"
    config = student(folder, workdir, **ON_TWO)
    for refused in (
        lambda: run(config, runs.stopped, 2),
        lambda: evaluate.run(evaluation),
        lambda: launch_score.run(scoring),
    ):
        with pytest.raises(UserError, match=words) as caught:
            refused()
        assert "\n" not in str(caught.value)
    shutil.rmtree(checkpoints.folder / "4")


@dataclasses.dataclass(frozen=True)
class Scored(distilled.Objective):
    """Its scores are those of `lm` less what the teacher expects."""

    score_methods = lm.Objective.score_methods
    score_rows = lm.Objective.score_rows
    direction, mem_len = "forward", 0


def test_scores_read_constants(runs, teacher):
    restored = open_run(runs.whole).run
    texts = ["the old river", "a small stone reads by the river and sees"]
    own = Scored(teacher=str(teacher[0]), **SIZES)
    both, plain = (
        score(restored._replace(objective=objective), texts)
        for objective in (own, lm.Objective())
    )
    for one, other in zip(both, plain, strict=True):
        assert one.log_prob < other.log_prob - 1


def test_a_step_is_compiled_and_timed_without_the_source(folder):
    config = student(folder, "nowhere", **{"mesh.data": 8})
    figures = step_speed.step_job({"name": "student"}, lambda: config, {}).prepare()()
    assert figures["tokens_per_second"] > 0 and figures["rows"] == 16


def test_a_missing_source_is_said_before_the_step_is_compiled(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(loop, "compile_phases", lambda phases: pytest.fail("compiled"))
    with pytest.raises(UserError, match=r"objective\.teacher=\S+: no checkpoint there"):
        run(student(folder, tmp_path / "nowhere"), tmp_path / "run")


def test_phases_share_constants(folder, teacher):
    phases = '[[0.5, {"data.length": 16}]]'
    config = student(folder, teacher[0], **{"train.phases": phases})
    program, phases = build_phases(Config.of(config), jax.devices()[:1])
    assert [phase.program.constants for phase in phases] == [program.constants] * 2
    for phase in phases:
        _, batch, _ = phase.program.step_shapes
        assert _shapes(batch) == _shapes(phase.program.abstract_batch)


def read(source, shape=(4, 2), vocabulary="v"):
    """Constants of one array `table` of a source."""
    spec = ConstantSpec(str(source), {"table": jax.ShapeDtypeStruct(shape, np.float32)})
    mesh = sharding.make_mesh(
        MeshOptions(**{"data": 2, "fsdp": 1, "tensor": 1}), jax.devices()[:2]
    )
    return Constants({"vectors": spec}, mesh, {"vocabulary": vocabulary})


def test_arrays_of_a_file_are_read_once_when_they_are_asked_for(tmp_path):
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    file = tmp_path / "vectors.npz"
    constants = read(file)
    np.savez(file, table=table, more=np.zeros(3))
    found = constants.arrays["constants"]["vectors"]["table"]
    np.testing.assert_array_equal(found, table)
    file.unlink()
    checksum = constants.origins["vectors"]["checksum"]
    np.savez(file, table=table)
    assert read(file).origins["vectors"]["checksum"] == checksum
    np.savez(file, table=table[::-1])
    assert read(file).origins["vectors"]["checksum"] != checksum


def test_a_source_that_cannot_be_read_is_told(folder, teacher, tmp_path):
    file = tmp_path / "vectors.npz"
    for content, words in [
        (None, "cannot be read .*No such file"),
        (b"text", "cannot be read"),
        (b"PK\x03\x04text", "cannot be read"),
        (b"\x93NUMPY\x01\x00v\x00", "cannot be read"),
        ({"table": np.full((4, 2), np.nan)}, "array table is not finite"),
        ({"table": np.full((4, 2), "x")}, "array table is of dtype <U1, no numbers"),
        ({"other": np.zeros(2)}, r"source has no table, of shape \(4, 2\)"),
        ({"table": np.zeros((2, 4))}, r"table has shape \(2, 4\) in its source"),
    ]:
        if isinstance(content, dict):
            np.savez(file, **content)
        elif content:
            file.write_bytes(content)
        with pytest.raises(UserError, match=rf"objective\.vectors.*{words}") as caught:
            read(file).origins  # noqa: B018
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="was trained on another vocabulary"):
        read(teacher[0]).origins  # noqa: B018
    with pytest.raises(UserError, match="no checkpoint there to read"):
        read(tmp_path / "nowhere").origins  # noqa: B018


NO_WORDS = vocab(size=16, sentinels=2)._replace(spelling=None)
WORDS = vocab(size=16, sentinels=2)._replace(spelling=("", "The", "rain", "naïve"))


def read_words(source, *, width=2, words=WORDS, **facts):
    """The table of vectors of words, as a task of a vocabulary asks for it."""
    objective = objectives.make_objective(
        "token_classification", vectors=str(source), vectors_width=width
    )
    mesh = sharding.make_mesh(
        MeshOptions(**{"data": 1, "fsdp": 1, "tensor": 1}), jax.devices()[:1]
    )
    specs = objective.constants(words)
    found = Constants(specs, mesh, facts).arrays["constants"]["vectors"]
    return np.asarray(found["token"]["embedding"])


def test_vectors_of_a_file_are_those_of_the_vocabularys_words(tmp_path, capsys):
    """The first vector of a word counts; a word that the file lacks has another one of
    the same size, and no other entry has any."""
    file = tmp_path / "vectors.txt"
    file.write_text("the 1 2\nnaïve 3 4\nthe 5 6\nsun -1 -2\n")
    table = read_words(file)
    assert table.shape == (128, 2)
    np.testing.assert_array_equal(table[[1, 3]], [[1, 2], [3, 4]])
    assert not table[0].any() and not table[4:].any()
    assert table[2].any() and np.abs(table[2]).max() <= 3**0.5 * 3.5
    assert "has 2 of the vocabulary's 3 words" in capsys.readouterr().err
    np.testing.assert_array_equal(table, read_words(file))


def test_vectors_that_are_drawn_are_a_seeds():
    table = read_words("random")
    np.testing.assert_array_equal(table, read_words("random:0", words=NO_WORDS))
    assert (table != read_words("random:1")).any() and np.abs(table).max() <= 0.25


@pytest.mark.parametrize("name", ["glove", "fasttext"])
def test_vectors_of_a_run_are_those_that_it_has_of_words(name, folder, tmp_path):
    """Not rows of its table: of fastText n-grams count, of GloVe both tables."""
    keys = {"data.vocabulary": "words", "data.vocabulary_size": 20, "model.width": 8}
    keys |= {f"model.{key}": None for key in ("heads", "feedforward")}
    keys |= {"data.sentinels": 0}
    if name == "glove":
        words = [f"word{number}" for number in range(15)]
        pairs = tmp_path / "pairs.cooccurrences"
        pairs.write_text("".join(f"{a}\t{b}\t1\n" for a in words for b in words))
        keys |= dict.fromkeys(("data.train", "data.valid"), str(pairs))
    config, run = tiny_config(folder, name, **keys), tmp_path / "run"
    _, state, vocabulary = tiny_runs.save_untrained(run, config)
    vocab, facts = vocabulary.vocab, load_on_host(run / "checkpoints/3", "facts")
    fingerprint = facts["facts"]["vocabulary"]
    table = read_words(run, width=8, words=vocab, vocabulary=fingerprint)
    expected = open_run(run).word_vectors
    for word, vector in zip(expected.words, expected.vectors, strict=True):
        np.testing.assert_allclose(table[vocab.spelling.index(word)], vector, rtol=1e-6)
    rows = np.asarray(state.params["token"]["embedding"])
    assert table.shape == rows.shape and np.abs(table - rows)[: vocab.size].max() > 0


@pytest.mark.parametrize(
    ("text", "keys", "error"),
    [
        ("the 1 2\n", {"width": 3}, r"of 2 numbers; set .*_width=2, not 3"),
        ("sun 1 2\n", {}, "has no word of the vocabulary"),
        ("the 1 2\n", {"words": NO_WORDS}, "set data.vocabulary=words"),
        ("the 1 nan\n", {}, "is not finite"),
    ],
)
def test_a_file_of_vectors_that_does_not_fit_is_told(text, keys, error, tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text(text)
    with pytest.raises(UserError, match=error) as caught:
        read_words(file, **keys)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"vectors": "random"}, "must be the width of vectors"),
        ({"vectors_width": 3}, "must be the width of vectors"),
        ({"vectors": "random", "vectors_width": 3, "format": "bart"}, "format bart"),
    ],
)
def test_vectors_need_a_width_and_one_stack(fields, words):
    with pytest.raises(UserError, match=words):
        objectives.make_objective("token_classification", **fields)
    with pytest.raises(UserError, match="random:N must be a whole number"):
        read_words("random:x")


def test_composites_give_a_part_its_own_constants(monkeypatch):
    specs = {"teacher": ConstantSpec("runs/teacher", {})}
    monkeypatch.setattr(dae.Objective, "constants", lambda self, vocab: specs)
    own = {"objective": "dae"}
    joint = objectives.make_objective("joint", parts={"a": own, "b": own, "lm": {}})
    mixed = objectives.make_objective(
        "mix", base_objective="dae", parts={"a": {}, "b": {}}
    )
    assert joint.constants(vocab()).keys() == {"a.teacher", "b.teacher"}
    for composite in (mixed, PackedRows(joint.members["a"])):
        assert composite.constants(vocab()).keys() == {"teacher"}
    batch = {"example": 0, "constants": {"a.teacher": 1, "b.teacher": 2}}
    assert joint.part_batch("b", batch)["constants"] == {"teacher": 2}
    assert "constants" not in joint.part_batch("lm", batch)
