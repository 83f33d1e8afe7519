"""A run that starts from another takes its network and vocabulary, and is checked."""

import dataclasses
import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from launch.config import load_config
from launch.config_starts import set_layers
from launch.sweeps import sweep_plan
from launch.train import parser
from research import networks, train
from research.config.config import Config
from research.config.identity import CONFIG_FILE, write_run_config
from research.contract.errors import UserError
from research.optimize import l0_gates
from research.optimize.optimizer import make_optimizer
from research.optimize.pruning import is_pruned
from research.program.setup import build_program, first_state
from research.program.start import check_start
from tests.testing.tiny_runs import (
    random_state,
    save_untrained,
    tiny_config,
    write_corpus,
)

OTHER = {
    "model.norm_placement": "post",
    "model.activation": "relu",
    "model.dropout": 0.2,
    "model.scan_unroll": 2,
    "data.sentinels": 3,
    "data.vocabulary_size": 285,
}
"""What the run has unlike the defaults, beside the sizes of `tiny_config`."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, and a run that starts others."""
    folder = write_corpus(tmp_path_factory.mktemp("start"))
    save_untrained(folder / "run", tiny_config(folder, "mlm", **OTHER))
    return folder


def load(source, workdir="", experiment="finetune", **keys):
    keys = {"train.init_from": str(source)} | keys
    return load_config(f"experiments/{experiment}.py", keys, workdir=workdir)


def test_a_layer_that_becomes_the_first_keeps_its_norm():
    """Layer 0 of a network with model.first_attention_norm=False has none there."""

    def has_norm(layers, given=None):
        keys = {"model.first_attention_norm": given} if given is not None else {}
        source = {"model.norm_placement": "pre", "train.init_layers": layers}
        loaded = load_config("experiments/finetune.py", source | keys)
        config = ConfigDict(dict(loaded.values), allow_dotted_keys=True)
        config.train.init_from = "elsewhere"
        config.model.first_attention_norm = bool(given)
        set_layers(config, {"train.init_layers", *keys})
        return config.model.first_attention_norm

    assert has_norm([1, 2]) and has_norm([1, 2], True)
    assert not has_norm([0, 2])
    for layers, given in (([2, 0], None), ([1, 2], False), ([0, 0], None)):
        with pytest.raises(
            UserError, match="so it can only come first; if it is left out"
        ):
            has_norm(layers, given)


@pytest.mark.parametrize("end", ["", "checkpoints/3"])
def test_the_network_and_the_vocabulary_are_those_of_the_run(folder, end):
    """Keys that are given win; how it is computed is the experiment's."""
    loaded = load(folder / "run" / end, **{"model.layers": 3})
    default = load_config("experiments/finetune.py")
    assert loaded.model.layers == 3 and loaded.data.sentinels == 3
    assert (loaded.model.width, loaded.model.heads) == (32, 2)
    assert (loaded.model.norm_placement, loaded.model.activation) == ("post", "relu")
    assert loaded.data.vocabulary == str(folder / "run")
    for key in ("dropout", "scan_unroll"):
        ours, other = (c.flat[f"model.{key}"] for c in (loaded, default))
        assert ours == other != OTHER[f"model.{key}"]


@pytest.mark.parametrize("name", networks.FOLDER.names())
def test_every_key_of_a_network_is_taken_or_says_how_it_is_computed(name):
    network = networks.FOLDER.part_class(name, "model.network")
    fields = {field.name for field in dataclasses.fields(network)}
    taken = {*network.parameter_keys()}
    dropout = {key for key in fields if "dropout" in key}
    assert taken == fields - dropout - {*network.computation_keys}
    assert {*network.computation_keys} <= fields


def test_a_run_of_another_network_chooses_it(tmp_path, monkeypatch):
    monkeypatch.setattr("launch.config.check_needed", lambda *_: None)
    config = load_config("experiments/lstm.py", {"model.cell_width": 48})
    write_run_config(tmp_path, config.values)
    loaded = load(tmp_path, experiment="lm")
    assert loaded.model.name == "lstm" and loaded.model.cell_width == 48
    assert loaded.data.vocabulary == "unigram"  # that run has no file of one
    given = {"model.network": "transformer"}
    assert "cell_width" not in load(tmp_path, experiment="lm", **given).values["model"]


def test_a_task_of_other_words_starts_from_what_reads_vectors(tmp_path):
    """A translator's encoder."""
    (tmp_path / "pairs.tsv").write_text("the river\tder fluss\nan old stone\tein\n")
    (tmp_path / "tags.conll").write_text("a D\nriver N\n\nstones N\nread V\n")
    (tmp_path / "words.txt").write_text("river 2 1 0\nread 1 1 1\n")
    vectors = {"objective.vectors": str(tmp_path / "words.txt")}
    vectors |= {"objective.vectors_width": 3, "data.cache_dir": str(tmp_path / "cache")}
    words = {"data.vocabulary": "words", "data.vocabulary_size": 9}
    files = dict.fromkeys(("data.train", "data.valid"), str(tmp_path / "pairs.tsv"))
    keys = {"data.fields": "0,1", "model.width": 8, **words, **files, **vectors}
    keys |= dict.fromkeys(("model.heads", "model.feedforward"))
    config = tiny_config(tmp_path, "cove", **keys)
    source, state, _ = save_untrained(tmp_path / "run", config)
    files = dict.fromkeys(("data.train", "data.valid"), str(tmp_path / "tags.conll"))
    task = {"objective.name": "token_classification", "data.normalizer": "lower"}
    task |= {"objective.features": "vectors_last", "train.init_scope": "encoder"}
    config = load(source, **words, **files, **vectors, **task, **{"data.sentinels": 0})
    program = build_program(Config.of(config), jax.devices()[:1])
    check_start(program, config, tmp_path / "to")
    params, encoder = first_state(program, config).params, state.params["encoder"]
    for name, leaves in encoder.items():
        jax.tree.map(np.testing.assert_array_equal, params[name], leaves)


@pytest.mark.parametrize("method", ["movement", "l0"])
def test_a_run_that_prunes_starts_from_the_weights_of_another(folder, method):
    """Both methods keep weights also where they are pruned. These stay at a step with a
    rate of 0, but for the gates of L0."""
    keys = {"train.init_from": str(folder / "run"), "optimizer.learning_rate": 0.0}
    keys |= {"data.vocabulary": str(folder / "run")}
    config = tiny_config(folder, "mlm", **OTHER, **keys, **{"optimizer.prune": method})
    program = build_program(Config.of(config), jax.devices()[:1])
    state, source = first_state(program, config), random_state(program).params
    jax.tree.map(np.testing.assert_array_equal, state.params, source)
    optimizer = make_optimizer(Config.of(config).optimizer, config.train.steps)
    zeros = jax.tree.map(jnp.zeros_like, source)
    update = jax.jit(optimizer.update)
    updates, _ = update(zeros, state.opt_state, state.params)
    gate = l0_gates.gate(l0_gates.INITIAL_SCORE) if method == "l0" else 1.0
    jax.tree.map(
        lambda pruned, leaf, change, before: np.testing.assert_allclose(
            leaf + change, before * gate if pruned else before, rtol=1e-5, atol=1e-7
        ),
        is_pruned(source),
        state.params,
        updates,
        source,
    )


def test_a_run_that_has_begun_keeps_its_config(folder, tmp_path):
    """Whatever has become of the run it started from since."""
    old = load_config("experiments/finetune.py", {"model.width": 64})
    write_run_config(tmp_path, old.values)
    for source in (folder / "run", folder / "gone"):
        again = load(source, tmp_path, **{"model.width": 64})
        expected = old.flat | {"train.init_from": str(source)}
        assert again.flat == expected


SWEEP = """
def sweep(scale):
    network = {"model.norm_placement": "post", "model.width": 64}
    first = ("experiments/mlm.py", network)
    yield "experiments/lm.py", {"train.init_from": first}
    yield "experiments/lm.py", {"train.init_from": first} | network
"""


def test_a_trial_has_the_config_of_its_plan_before_and_after_its_parent(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("launch.config.check_needed", lambda *_: None)
    monkeypatch.chdir(tmp_path)  # where ids of trials are folders
    experiments = Path(__file__).parents[2] / "experiments"
    (tmp_path / "experiments").symlink_to(experiments)
    file = tmp_path / "sweep.py"
    file.write_text(SWEEP)
    plans = []
    for _ in range(2):
        options = {"scale": "smoke", "shared": {}}
        plans.append(sweep_plan.make_plan(str(file), tmp_path, **options))
        parent, *children = plans[-1]
        for trial in children:
            args = parser().parse_args(trial.arguments)
            loaded = load_config(args.config, args.overrides).flat
            folders = {key: str(p.folder) for key, p in trial.parents.items()}
            assert loaded == trial.config | folders
        config = load_config(parent.experiment, parent.overrides)
        parent.folder.mkdir(exist_ok=True)
        write_run_config(parent.folder, config.values)
        (parent.folder / "tokenizer.model").touch()
    assert [t.id for t in plans[0]] == [t.id for t in plans[1]]
    (child,) = children  # with its parent's network, whether it sets that or not
    assert child.config["model.norm_placement"] == "post"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"model.width": 64},
            r"train.init_from=.* has shape \(.*32.*\) there and \(.*64.*\) in this "
            "config; model.width is 32 there and 64 here$",
        ),
        ({"train.init_scope": "stac"}, "train.init_scope='stac': .* no such part"),
        ({"train.init_scope": "token/embedding/x"}, "has no such part; there is none"),
        ({"train.init_scope": "stack"}, "no parameter there has a name"),
        ({"data.vocabulary": "bytebpe"}, "data.vocabulary to that run's workdir"),
    ],
)
def test_a_start_is_refused_before_anything_is_compiled(
    folder, tmp_path, monkeypatch, changes, words
):
    def compile_phases(phases):
        raise AssertionError("compiles")

    monkeypatch.setattr(train, "compile_phases", compile_phases)
    start = {"train.init_from": str(folder / "run")}
    vocabulary = {"data.vocabulary": str(folder / "run")}
    config = tiny_config(folder, "lm", **OTHER | vocabulary | start | changes)
    with pytest.raises(UserError, match=words):
        train.train(Config.of(config), tmp_path / "new")
    with pytest.raises(AssertionError, match="compiles"):
        train.train(tiny_config(folder, "lm", **OTHER | vocabulary | start), tmp_path)


def test_a_run_has_the_buckets_of_t5s_bias_that_its_parameters_had(folder, tmp_path):
    """A prefix LM from a causal LM, an encoder-decoder from an encoder, a teacher."""
    t5 = {"model.position": "t5"}
    for name, objective in (("causal", "lm"), ("encoder", "mlm")):
        save_untrained(tmp_path / name, tiny_config(folder, objective, **t5))

    def check(objective, source, **keys):
        start = {"data.vocabulary": str(tmp_path / source)}
        key = "objective.teacher" if "objective.name" in keys else "train.init_from"
        start[key] = str(tmp_path / source)
        config = tiny_config(folder, objective, **start, **t5, **keys)
        check_start(
            build_program(Config.of(config), jax.devices()[:1]),
            config,
            tmp_path / "new",
        )

    prefix = {"objective.prefix": "random"}
    words = "buckets of stack/relative are one_way there and two_way here; {} needs "
    words += "position_buckets one_way$"
    with pytest.raises(UserError, match=f"init_from=.* {words.format('model')}"):
        check("lm", "causal", **prefix)
    check("lm", "causal")
    check("lm", "causal", **prefix, **{"model.position_buckets": "one_way"})
    two_way = {"model.position_buckets": "two_way"}
    with pytest.raises(UserError, match=r"decoder/relative are two_way there and one"):
        check("dae", "encoder")
    check("dae", "encoder", **two_way)
    distill = {"objective.name": "distill", "objective.base_objective": "lm"}
    distill["objective.base"] = {"prefix": "random"}
    teacher = "objective.teacher_model"
    with pytest.raises(UserError, match=f"teacher=.* {words.format(teacher)}"):
        check("mlm", "causal", **distill)
    keys = {"width": 32, "heads": 2, "layers": 1, "feedforward": 64, "position": "t5"}
    keys["position_buckets"] = "one_way"
    check("mlm", "causal", **distill, **{teacher: keys})


def test_a_start_from_a_run_whose_config_was_edited_is_refused(folder, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "run")
    path = tmp_path / "run" / CONFIG_FILE
    content = json.loads(path.read_text())
    content["model"]["heads"] = 4
    path.write_text(json.dumps(content))
    start = {"train.init_from": str(tmp_path / "run")}
    start["data.vocabulary"] = str(tmp_path / "run")
    config = tiny_config(folder, "lm", **OTHER | start)
    with pytest.raises(UserError, match=r"config\.json was changed"):
        train.train(Config.of(config), tmp_path / "new")
