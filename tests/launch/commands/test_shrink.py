"""shrink: what is left is what the larger network computes without the rest."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from experiments.studies import heads as head_table
from launch.cli import DONE, MISTAKE, main
from launch.commands import evaluate, shrink
from launch.commands.shrink import parser, run
from launch.measure import network_cost, timing
from launch.reports import shrink_page
from launch.reports.figures import frontier
from research import networks
from research.checkpoints.checkpoint import path_name
from research.config.config import Config
from research.contract.batch import INPUT_ARRAYS
from research.contract.errors import UserError
from research.interop.partial_restore import find_checkpoint, load_on_host
from research.networks.shared import quantized
from research.networks.shared.quantized import INPUT_RANGE, SCALE, VALUES
from research.networks.transformer.head_gates import gate_heads
from research.program import step
from research.program.flops import count_flops
from research.program.setup import build_program, eval_batches, train_batches
from research.use.export import export_run
from research.use.inference.open_run import open_run
from research.use.shrinking import gradients, heads, ranges, recipes
from research.use.shrinking.ranges import measure_ranges
from research.use.shrinking.written_run import stored_params
from tests.testing import tiny_runs
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.model_options import model_options
from tests.testing.trees import make_params

TEXTS = ["the old river", "stone", "a small river sees the old stone"]
KEYS = {
    "data.fields": "0",
    "data.label": "1",
    "data.vocabulary": "bytebpe",
    "data.vocabulary_size": 264,
    "data.sentinels": 2,
    "train.steps": 3,
    "model.layers": 3,
    "model.heads": 4,
    "model.max_length": 32,
    "model.norm_placement": "post",
    "model.token_types": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run on a task, in `run`, and smaller ones by each recipe."""
    folder = tiny_runs.write_corpus(tmp_path_factory.mktemp("shrink"))
    rows = [("the old stone", "x"), ("a small river", "y"), ("by and by", "x")] * 8
    lines = "".join(f"{text}\t{label}\n" for text, label in rows)
    for file in files_of(folder).values():
        Path(file).write_text(lines)
    config = tiny_runs.tiny_config(folder, "finetune", **files_of(folder), **KEYS)
    tiny_runs.train(config, folder / "run")
    _shrink(folder)
    return folder


def files_of(folder):
    return {f"data.{name}": str(folder / f"{name}.tsv") for name in ("train", "valid")}


def _shrink(folder):
    for recipe, flags in {
        "heads": ("--kept=0.5", "--importance=token", "--batches=2"),
        "layers": ("--kept=0.67",),
        "prune": ("--kept=0.25",),
        "int8": ("--range=ema", "--batches=2"),
    }.items():
        own = [f"--workdir={folder}/run", f"--recipe={recipe}", *flags]
        more = [f"--beside={folder}/heads"] if recipe == "int8" else []
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stop:
            patch.setattr(timing, "TURN_SECONDS", 0.001)
            if recipe in ("layers", "prune"):
                leave_unmeasured(patch)
            main(run, parser(), [*own, *more, f"--to={folder}/{recipe}"])
        assert stop.value.code == DONE


def leave_unmeasured(patch):
    """Neither evaluates nor times what is made smaller, which takes most seconds."""
    names = ("parameters", "nonzero", "flops", "seconds_1", "seconds_32")
    cost = dict.fromkeys(names, 1.0)
    patch.setattr(network_cost, "prepare", lambda program, params: None)
    patch.setattr(network_cost, "network_costs", lambda _: [cost, cost])
    measure = shrink._measure  # of a network that lacks some, so that none is evaluated
    patch.setattr(shrink, "_measure", lambda *args: measure(*args[:2], ["all"]))


def params_of(workdir, **options):
    checkpoint = find_checkpoint(workdir)
    return load_on_host(checkpoint, "params", **options)["params"]


def states(workdir, params=None):
    opened = open_run(workdir)
    if params is not None:
        params = jax.tree.map(jnp.asarray, params)
    group = {
        "token": jnp.array([[5, 9, 7, 6, 8, 3]], jnp.int32),
        "position": jnp.arange(6, dtype=jnp.int32)[None],
        "segment": jnp.ones((1, 6), jnp.int32),
    }
    group |= dict.fromkeys(("rank", "reach", "token_type"), 0 * group["segment"])
    return networks.apply(
        opened.run.network,
        opened.run.params if params is None else params,
        lambda net: net.states(group),
    )


def test_a_network_without_heads_is_the_larger_one_with_their_output_at_0(folder):
    large, small = params_of(folder / "run"), params_of(folder / "heads")
    attention = large["stack"]["blocks"]["attention"]
    kernel = attention["out"]["kernel"].reshape(3, 4, -1, 32).copy()
    width = kernel.shape[2]
    kept = small["stack"]["blocks"]["attention"]["out"]["kernel"]
    assert kept.shape == (3, 2 * width, 32)  # smaller, not masked
    for layer, rows in enumerate(kept.reshape(3, 2, width, 32)):
        for head in range(4):
            stays = any(np.array_equal(kernel[layer, head], row) for row in rows)
            kernel[layer, head] *= stays
    assert (np.abs(kernel).sum((2, 3)) > 0).sum(1).tolist() == [2, 2, 2]
    attention["out"]["kernel"] = kernel.reshape(3, -1, 32)
    expected = states(folder / "run", large)
    np.testing.assert_allclose(states(folder / "heads"), expected, atol=2e-6)
    with pytest.raises(ValueError, match="head_width"):  # its layout has no such key
        export_run(folder / "heads", folder / "exported")


def test_layers_that_stay_are_every_nth(folder):
    large, small = params_of(folder / "run"), params_of(folder / "layers")
    for one, other in zip(
        jax.tree.leaves(large["stack"]["blocks"]),
        jax.tree.leaves(small["stack"]["blocks"]),
        strict=True,
    ):
        np.testing.assert_array_equal(one[np.array([0, 2])], other)
    assert states(folder / "layers").shape == (1, 6, 32)
    export_run(folder / "layers", folder / "exported_layers")
    config = json.loads((folder / "exported_layers/config.json").read_text())
    assert config["num_hidden_layers"] == 2


@pytest.mark.long
def test_a_model_in_hugging_faces_layout_is_made_smaller(folder, capsys, monkeypatch):
    """One without the head of its experiment: it is not evaluated, and that is said."""
    monkeypatch.setattr(timing, "TURN_SECONDS", 0.001)
    export_run(folder / "layers", folder / "published")
    keys = {"corpus": folder / "corpus", "cache_dir": folder / "cache", "length": 32}
    flags = [f"--config.data.{key}={value}" for key, value in keys.items()]
    own = [f"--workdir=hf:{folder}/published", f"--to={folder}/one", *flags]
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), [*own, "--recipe=layers", "--layers=1"])
    assert stop.value.code == DONE and "nothing is evaluated" in capsys.readouterr().err
    large, small = params_of(folder / "layers"), params_of(folder / "one")
    for one, other in zip(
        jax.tree.leaves(large["stack"]["blocks"]),
        jax.tree.leaves(small["stack"]["blocks"]),
        strict=True,
    ):
        np.testing.assert_array_equal(one[1:], other)
    assert states(folder / "one").shape == (1, 6, 32)
    before, after = json.loads((folder / "one/shrink.json").read_text())["networks"]
    assert after["cost"]["parameters"] < before["cost"]["parameters"]
    size = (folder / "published/model.safetensors").stat().st_size
    assert before["bytes"] == size and not before["metrics"] and not after["metrics"]


def test_pruned_weights_are_zeros(folder):
    large, small = params_of(folder / "run"), params_of(folder / "prune")
    one, other = (
        each["stack"]["blocks"]["feedforward"]["in"]["kernel"]
        for each in (large, small)
    )
    for before, after in zip(one, other, strict=True):
        left = after != 0
        assert left.mean() == pytest.approx(0.25, abs=1e-3)
        np.testing.assert_array_equal(before[left], after[left])
        assert np.abs(before[left]).min() >= np.abs(before[~left]).max()
    np.testing.assert_array_equal(
        large["token"]["embedding"], small["token"]["embedding"]
    )


def test_integers_are_stored_read_and_multiplied(folder):
    stored = params_of(folder / "int8", keep_int8=True)
    dense = stored["stack"]["blocks"]["feedforward"]["in"]
    assert dense["kernel"][VALUES].dtype == np.int8
    assert stored["token"]["embedding"][VALUES].dtype == np.int8
    assert (dense[INPUT_RANGE] > 0).all()
    large = params_of(folder / "run")["stack"]["blocks"]["feedforward"]["in"]["kernel"]
    half = dense["kernel"][SCALE] / 1.99
    read = dense["kernel"][VALUES] * dense["kernel"][SCALE]
    assert (np.abs(large - read) <= half).all()
    # Read as float32 they are quantised anew, to the same bits.
    again = params_of(folder / "int8")
    assert again["token"]["embedding"].dtype == np.float32
    np.testing.assert_array_equal(
        states(folder / "int8"), states(folder / "int8", again)
    )
    with pytest.raises(SystemExit) as stop:
        main(evaluate.run, evaluate.parser(), [f"--workdir={folder}/int8"])
    assert stop.value.code == DONE
    (file,) = (folder / "int8").glob("evaluations/*/metrics.json")
    metrics = json.loads(file.read_text())["metrics"]
    ours = json.loads((folder / "int8/shrink.json").read_text())["networks"][-1]
    assert metrics == ours["metrics"]


def test_integers_without_heads_have_ranges_of_their_own(tmp_path, monkeypatch):
    """They are measured again: the layers read other states."""
    keys = {"model.quantization": "int8", "model.quantization_range": "ema"}
    folder = tiny_runs.write_corpus(tmp_path)
    program, smaller = (
        build_program(tiny_runs.tiny_config(folder, **keys, **own), jax.devices()[:1])
        for own in ({}, {"model.heads": 1, "model.head_width": 16})
    )
    shapes = program.abstract_state.params
    params = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)
    monkeypatch.setattr(heads, "make_importance", lambda *_: lambda _: np.ones((1, 2)))
    monkeypatch.setattr(ranges, "measure_ranges", lambda _, own, __: as_ranges(own, 7))
    shrunk = recipes.keep_heads(program, params, recipes.Request())
    own = recipes.fit(smaller, shrunk.params, recipes.Request())
    assert shrunk.keys == {"heads": 1, "head_width": 16}
    found = jax.tree_util.tree_leaves_with_path(own)
    expected = jax.tree.leaves(smaller.abstract_state.params)
    for (path, leaf), shape in zip(found, expected, strict=True):
        assert leaf.shape == shape.shape, path_name(path)
        is_range = path_name(path).endswith(INPUT_RANGE)
        assert (leaf == (7 if is_range else 1)).all(), path_name(path)


def as_ranges(params, value):
    """A range of this value for each that a network has."""
    paths = jax.tree_util.tree_leaves_with_path(params)
    found = {path_name(path): leaf for path, leaf in paths}
    return {
        name: np.full_like(leaf, value)
        for name, leaf in found.items()
        if name.endswith(INPUT_RANGE)
    }


@pytest.mark.long
def test_tuning_starts_from_integers_and_leaves_ranges_as_measured(folder):
    """Neither gradients nor weight decay change them; kernels are float32 again."""
    keys = KEYS | {"train.init_from": str(folder / "int8"), "train.eval_every": 0}
    keys |= {"optimizer.decay_params": "all", "optimizer.weight_decay": 0.5}
    config = tiny_runs.tiny_config(folder, "finetune", **files_of(folder), **keys)
    assert config.model.quantization == "int8"
    tiny_runs.train(config, folder / "tuned")
    before, after = (
        params_of(folder / name)["stack"]["blocks"]["attention"]["query"]
        for name in ("int8", "tuned")
    )
    np.testing.assert_array_equal(before[INPUT_RANGE], after[INPUT_RANGE])
    assert after["kernel"].dtype == np.float32
    assert 0 < np.abs(before["kernel"] - after["kernel"]).max() < 0.1


def test_the_lstm_of_a_task_stays_float32(folder):
    """Its cells are no dense layers, and read no integers."""
    keys = {"objective.lstm_layers": 1, "objective.head": "linear"}
    keys |= KEYS | {"model.quantization": "int8"}
    config = tiny_runs.tiny_config(folder, "finetune", **files_of(folder), **keys)
    program = build_program(Config.of(config), jax.devices()[:1])
    params = networks.unbox(program.abstract_state.params)
    stored = jax.eval_shape(lambda own: stored_params(program, own), params)
    leaves = jax.tree.leaves(stored["features"])
    assert leaves and {leaf.dtype for leaf in leaves} == {jnp.dtype("float32")}
    assert stored["head_label"]["out"]["kernel"][VALUES].dtype == jnp.int8
    assert flops_of(program, stored) == flops_of(program, params)


def test_ranges_of_a_layer_that_runs_twice_are_not_added(folder):
    """InfoWord reads a text and an n-gram of it by one network."""
    keys = {"model.quantization": "int8", "model.quantization_range": "ema"}
    config = tiny_runs.tiny_config(folder, "infoword", **keys)
    program = build_program(Config.of(config), jax.devices()[:1])
    params = tiny_runs.random_state(program).params
    with pytest.raises(UserError, match=r"infoword runs stack/.* several times; set"):
        measure_ranges(program, params, 1)


@pytest.mark.long
def test_a_ternary_run_is_split_and_then_stored(folder, monkeypatch):
    """The float32 weights of the split run are those of the ternary one, split; made
    binary, it has both parts as integers. That both compute the same,
    tests/networks/test_quantized.py shows."""
    leave_unmeasured(monkeypatch)
    keys = KEYS | {"model.quantization": "ternary"}
    keys |= {"model.quantization_scale": "tensor"}
    config = tiny_runs.tiny_config(folder, "finetune", **files_of(folder), **keys)
    tiny_runs.save_untrained(folder / "ternary", config)
    for source, recipe in (("ternary", "split"), ("split", "binary")):
        own = [f"--workdir={folder}/{source}", f"--to={folder}/{recipe}"]
        with pytest.raises(SystemExit) as stop:
            main(run, parser(), [*own, f"--recipe={recipe}"])
        assert stop.value.code == DONE
    before, after = (
        params_of(folder / name)["stack"]["blocks"]["feedforward"]["in"]["kernel"]
        for name in ("ternary", "split")
    )
    assert after.shape == (3, 2, *before.shape[1:]) and after.dtype == np.float32
    np.testing.assert_allclose(after.sum(1), before, atol=1e-6)
    stored = params_of(folder / "binary", keep_int8=True)
    assert stored["token"]["embedding"][VALUES].shape[1] == 2
    kernel = stored["stack"]["blocks"]["feedforward"]["in"]["kernel"]
    assert kernel[SCALE].shape == (3, 2, 1, 1)  # the scales of the run, not the default
    values, scale = quantized.quantize_kernel(before, "ternary", "tensor")
    np.testing.assert_array_equal(kernel[VALUES].sum(1), 2 * values)
    np.testing.assert_array_equal(kernel[SCALE] * 2, np.stack([scale, scale], 1))
    exports = []
    for name in ("ternary", "split", "binary"):  # the values of the integers
        *_, line = export_run(folder / name, folder / f"exported_{name}")
        assert "inputs of dense layers are not rounded" in line
        path = folder / f"exported_{name}/model.safetensors"
        exports.append(load_file(path))
    for tensors in exports:
        (at,) = (n for n in tensors if n.endswith("0.intermediate.dense.weight"))
        np.testing.assert_array_equal(tensors[at].T, (values * scale)[0])
        jax.tree.map(np.testing.assert_array_equal, tensors, exports[0])


def test_the_page_and_its_figures(folder):
    records = json.loads((folder / "int8/shrink.json").read_text())["networks"]
    names = [Path(record["name"]).name for record in records]
    assert names == ["run", "heads", "int8"]
    run, heads_, int8 = records
    assert heads_["cost"]["parameters"] < run["cost"]["parameters"]
    assert heads_["cost"]["flops"] < run["cost"]["flops"] == int8["cost"]["flops"]
    assert int8["cost"]["parameters"] == run["cost"]["parameters"] + 3 * 6 + 2
    assert int8["bytes"] < run["bytes"]
    assert int8["metric"] == "accuracy"
    gap = np.mean(int8["scores"]) - np.mean(run["scores"])
    assert int8["difference"][0] == pytest.approx(gap)
    page = (folder / "int8/shrink.html").read_text()
    assert page.count("<svg") == 1 and "MB on disk" in page
    assert frontier([3, 1, 2, 2], [9, 5, 4, 7], 1) == [1, 3, 0]
    assert frontier([3, 1, 2], [9, 5, 4], -1) == [1, 2]


@pytest.mark.long
def test_networks_are_compared_on_the_same_text(folder, tmp_path, monkeypatch):
    """On other text the network that a run came from is measured again, the first one
    of three has no value; without labels none has."""
    monkeypatch.setattr(timing, "TURN_SECONDS", 0.001)
    (tmp_path / "other.tsv").write_text("stone\tx\nthe river\ty\nby and by\ty\n")
    (tmp_path / "none.tsv").write_text("stone\t\nthe river\t\n")
    for name, values in {"other": [False, True, True], "none": [False] * 3}.items():
        flags = [f"--workdir={folder}/heads", "--recipe=layers", "--layers=0"]
        flags += [f"--to={tmp_path}/{name}"]
        flags += [f"--config.data.valid={tmp_path}/{name}.tsv"]
        with pytest.raises(SystemExit) as stop:
            main(run, parser(), flags)
        assert stop.value.code == DONE
        records = json.loads((tmp_path / name / "shrink.json").read_text())["networks"]
        metric = records[-1]["metric"]
        _, *rows = shrink_page.table(records)
        if metric:
            assert [row[-2] != shrink_page.NONE for row in rows] == values
            assert {row[-1] for row in rows} == {shrink_page.NONE}
        assert bool(metric) == any(values)


@pytest.mark.long
def test_layers_that_stay_keep_their_teachers(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "TURN_SECONDS", 0.001)
    keys = {"objective.hidden": 1.0, "objective.layer_map": [0, 2, 1]}
    config = student(folder, "distill", **keys)
    tiny_runs.train(config, tmp_path / "student")
    flags = [f"--workdir={tmp_path}/student", "--recipe=layers", "--layers=1,2"]
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), [*flags, f"--to={tmp_path}/small"])
    assert stop.value.code == DONE
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    assert config["objective"]["layer_map"] == [2, 1]


@pytest.mark.long
def test_heads_of_a_theseus_student_are_those_of_its_own_loss(folder):
    """The teacher's layers, which take part in training, have no gates."""
    params = params_of(folder / "run")
    plain, replaced = (
        heads.make_importance(
            build_program(Config.of(config), jax.devices()[:1]), "gate", 1
        )(params)
        for config in (
            tiny_runs.tiny_config(folder, "finetune", **files_of(folder), **KEYS),
            student(folder, "theseus"),
        )
    )
    np.testing.assert_allclose(replaced, plain, rtol=1e-5)


def student(folder, name, **keys):
    """The config of a student, of as many layers as its teacher, the run."""
    keys |= {"objective.name": name, "objective.teacher": str(folder / "run")}
    keys |= {"objective.base_objective": "sequence_classification"}
    return tiny_runs.tiny_config(folder, "finetune", **files_of(folder), **KEYS, **keys)


def test_flops_are_of_one_forward_pass_without_a_teacher(folder):
    """Two of each weight and each of 32 tokens, two for each pair of tokens in both
    products of attention; less where the last layer computes the first token alone."""
    of_task = tiny_runs.tiny_config(folder, "finetune", **files_of(folder), **KEYS)
    none = {"objective.soft": 0.0, "objective.hard": 0.0, "objective.hidden": 1.0}
    plain, distilled, replaced, headless = (
        flops_of(build_program(Config.of(config), jax.devices()[:1]))
        for config in (
            of_task,
            student(folder, "distill"),
            student(folder, "theseus"),
            student(folder, "distill", **none),
        )
    )
    assert plain == distilled == replaced
    weights, pairs = 4 * 32**2 + 2 * 32 * 64, 32**2
    whole = 3 * (2 * 32 * weights + 2 * 2 * 32 * pairs)
    assert whole / 2 < plain < whole == headless


def flops_of(program, params=None):
    batch = next(iter(eval_batches(program)))
    row = {
        name: array if name in program.constants.abstract else array[:1]
        for name, array in batch.items()
    }
    params = params or networks.unbox(program.abstract_state.params)
    return count_flops(network_cost.make_forward(program), params, row)


def test_importance_of_a_head_is_that_of_its_gate_or_its_tokens():
    """reference/compression_modern.md, D7, and the derivative by a factor."""
    out = jnp.array([[[[1.0, 2.0]], [[0.0, 1.0]]]])
    grad = jnp.array([[[[0.5, -1.0]], [[2.0, 3.0]]]])
    gate = jnp.ones((1, 2))
    value, pull = jax.vjp(gate_heads, out, gate)
    np.testing.assert_array_equal(value, out)
    of_out, of_gate = pull(grad)
    np.testing.assert_array_equal(of_out, grad)
    np.testing.assert_allclose(of_gate, [[1.5, 4.5]])
    by_factor = jax.grad(lambda factor: jnp.sum(out * factor * grad))(1.0)
    assert by_factor == of_gate[0, 0]
    importance = np.array([[3.0, 4.0, 0.0], [1.0, 2.0, 3.0]])
    assert heads.most_important(importance, 2).tolist() == [[0, 1], [1, 2]]


def test_the_loss_of_gates_is_that_of_a_step(folder):
    """Each term is a mean: by a gate, the derivative is that by the rows of the
    output's kernel that read its head, times these rows."""
    keys = {"objective.format": "segment_pair", "objective.sentence_task": "nsp"}
    config = tiny_runs.tiny_config(folder, "mlm", **{"model.token_types": 2, **keys})
    program = build_program(Config.of(config), jax.devices()[:1])
    params, gates = tiny_runs.random_state(program).params, jnp.ones((1, 2, 2))
    (found,) = gradients.make_gradients(program, heads._with_gates)(params, gates, 1)
    (batch,) = train_batches(program, 0, 1)
    key = jax.random.key(program.seed)
    grads, sums, _ = jax.jit(
        lambda params, batch: step.gradient(
            program.objective,
            program.network,
            params,
            batch | {"carry": ()},
            key=key,
            dropout_key=None,
        )
    )(params, batch)
    assert sums["mlm"][1] > 2 * sums["nsp"][1] > 0
    kernel, by_kernel = (
        tree["stack"]["blocks"]["attention"]["out"]["kernel"]
        for tree in (params, grads)
    )
    expected = (kernel * by_kernel).reshape(1, 2, -1).sum(-1)
    np.testing.assert_allclose(found[..., 0], expected, rtol=1e-4, atol=1e-6)


GATED = {"attention_gate": True, "position": "disentangled", "layer_mixing": "layers"}


def test_gates_and_distances_lose_the_heads_that_a_layer_loses():
    group = {name: np.arange(6, dtype=np.int32)[None] for name in INPUT_ARRAYS}
    group["segment"] = np.ones_like(group["token"])
    small = {"layers": 2, "width": 16, "feedforward": 24, "head_width": 4, **GATED}
    run = lambda net: net.states(group)  # noqa: E731
    vocabulary, needs = vocab(), networks.Needs(pattern="causal")
    whole, less = (
        networks.build(model_options(heads=heads, **small), needs, vocabulary)
        for heads in (4, 2)
    )
    params = make_params(whole, run)
    stay = np.array([[0, 2], [1, 2]])
    out = params["stack"]["blocks"]["attention"]["out"]["kernel"]
    for layer, gone in enumerate([(1, 3), (0, 3)]):
        for head in gone:
            out[layer, 4 * head : 4 * head + 4] = 0
    left = heads.keep_heads(params, stay, 4)
    both = apply(whole, params, run), apply(less, left, run)
    np.testing.assert_allclose(*both, atol=2e-6)


def test_heads_of_all_layers_leave_a_tenth_at_a_time():
    """Importance is measured anew after each tenth, and no head comes back."""
    asked = []

    def measure(stay):
        asked.append(stay.sum())
        return np.arange(20.0).reshape(2, 10) * (1 if len(asked) % 2 else -1)

    half, few = head_table.by_tenths(measure, (2, 10), [0.75, 0.5])
    assert asked == [20, 18, 16, 15, 13, 11]
    # Two of the lowest, two of the highest, one, two ...
    assert half.sum(axis=1).tolist() == [7, 8] and few.sum() == 10
    assert not (few & ~half).any() and not half[0, :3].any() and not half[1, 8:].any()
    (first,) = head_table.by_layer(np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]]), [0.67])
    assert first.tolist() == [[True, False, True], [False, True, True]]


@pytest.mark.long
def test_the_table_of_heads_agrees_with_the_smaller_run(folder, capsys):
    flags = [f"--workdir={folder}/run", "--kept", "0.5", "--batches=2"]
    with pytest.raises(SystemExit) as stop:
        main(head_table.run, head_table.parser(), flags)
    assert stop.value.code == DONE
    out = capsys.readouterr().out
    records = json.loads((folder / "heads/shrink.json").read_text())["networks"]
    before, after = (record["metrics"]["accuracy"] for record in records)
    assert f"accuracy with all heads: {100 * before:.1f}; seeds: 1" in out
    assert f"| each layer, by token | {100 * (after - before):+.1f} |" in out
    assert "| a tenth at a time, by gate |" in out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--recipe=heads", "--kept=0"], "a fraction above 0 and at most 1, not 0"),
        (["--recipe=layers", "--layers=2,9"], "layers 0 to 2"),
        (["--recipe=layers", "--layers=2,1"], "ascending numbers of layers"),
        (["--recipe=layers", "--layers=1", "--kept=.5"], "give one"),
        (["--recipe=int8", "--kept=0.5"], "--kept is not read by --recipe=int8"),
        (["--recipe=int8", "--beside=nowhere"], "nowhere has no shrink.json"),
        (["--recipe=split"], "but model.quantization is none"),
    ],
)
def test_wrong_flags_are_one_line(folder, capsys, flags, says):
    own = [f"--workdir={folder}/run", f"--to={folder}/wrong", *flags]
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), own)
    error = capsys.readouterr().err
    assert stop.value.code == MISTAKE and says in error
    assert error.splitlines()[-1].startswith("error: ") and "Traceback" not in error
    assert not (folder / "wrong").exists()


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_a_recipe_is_told_by_help_and_refuses_flags_that_it_does_not_read(name):
    recipe, values = recipes.RECIPES[name], {"layers": "1", "kept": "0.5"}
    actions = {action.dest: action for action in parser()._actions}
    assert f"{name}, {recipe.line}" in actions["recipe"].help
    assert {*recipe.reads} <= {*recipes.Request._fields}
    for field in recipes.Request._fields:
        value = next(iter(actions[field].choices or [values.get(field, "2")]))
        own = ["--workdir=run", "--to=to", f"--recipe={name}", f"--{field}={value}"]
        args = parser().parse_args(own)
        if field in recipe.reads:
            assert [*shrink._request(args)] == [field]
        else:
            with pytest.raises(UserError, match=f"--{field} is not read by"):
                shrink._request(args)


def test_each_quantization_has_a_recipe():
    assert {*quantized.QUANTIZATIONS} - {"none"} <= {*recipes.RECIPES}
