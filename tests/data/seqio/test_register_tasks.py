"""Our seqio tasks give the same rows as the native reader."""

import subprocess
import sys

import numpy as np
import pytest
import seqio

from research import objectives
from research.config import base
from research.contract.batch import EVALUATION_STEP
from research.contract.errors import UserError
from research.data.seqio import register_tasks
from research.evaluation.items import score_predictions
from tests.testing import small_data, toy_objectives
from tests.testing.toy_objectives import assert_same_batch, concatenate

OBJECTIVES = [
    name
    for name in objectives.names()
    if not objectives.make_objective(name).text_spec(32).contiguous
    and name not in small_data.READ_ANNOTATED_TEXT
]
FIRST_OF_UNIT = {
    objectives.make_objective(name).text_spec(32).unit: name
    for name in reversed(OBJECTIVES)
}
"""Unit of text -> the first objective that reads it."""
SHORT = {
    "mixture": {*FIRST_OF_UNIT.values()},
    "one": {*FIRST_OF_UNIT.values(), "dae", "electra", "mix", "mlm", "wklm"},
}
CASES = [
    pytest.param(corpus, name, marks=[pytest.mark.long] * (name not in short))
    for corpus, short in SHORT.items()
    for name in OBJECTIVES
]
"""Two corpora are mixed before an objective sees a text: a unit of each is enough. The
arrays of one corpus's objectives that are long are named as those of others are."""


@pytest.fixture
def make(corpora, folder, lexicon):
    """make(corpus, objective, **fields of the objective) -> config."""

    def make(corpus="one", objective="mlm", **fields):
        path = corpora[corpus]
        config = small_data.config(path, folder / "cache", objective, **fields)
        config.data.lexicon = lexicon
        return config

    return make


@pytest.fixture(autouse=True)
def registry():
    """Removes what a test registered."""
    with small_data.restored_seqio_registry():
        yield


def elements(dataset, num=None):
    """One batch with the first `num` examples of a dataset, or all."""
    rows = [
        {name: np.asarray(value)[None] for name, value in row.items()}
        for row in dataset.take(num or -1).as_numpy_iterator()
    ]
    return concatenate(rows)


def assert_rows_equal(rows, native):
    """Asserts that `rows` has all arrays of `native`; it may have more."""
    for name, array in native.items():
        assert array.dtype == rows[name].dtype, name
        np.testing.assert_array_equal(array, rows[name], err_msg=name)


@pytest.mark.parametrize(("corpus", "name"), CASES)
def test_a_registered_task_gives_the_same_examples(make, corpus, name):
    config = make(corpus, name)
    data, objective = small_data.open_small(config)
    task = small_data.register_with(config, objective)
    dataset = seqio.get_dataset(
        task,
        None,
        seqio.PassThroughFeatureConverter(),
        shuffle=True,
        seed=config.seed,
        num_epochs=None,
    )
    num = 2 * data.train.num_examples + 7
    assert_rows_equal(elements(dataset, num), data.train.source.rows(np.arange(num)))


def test_order_and_corruption_depend_on_the_datasets_seed(make):
    config = make()
    _, objective = small_data.open_small(config)
    task = seqio.get_mixture_or_task(small_data.register_with(config, objective))
    config.seed = 5
    data, _ = small_data.open_small(config)
    rows = elements(task.get_dataset(seed=5))
    assert_rows_equal(rows, data.train.source.rows(np.arange(data.train.num_examples)))


@pytest.mark.parametrize("pairs", ["once", "each_copy"])
@pytest.mark.parametrize("corpus", ["one", "mixture"])
def test_pairs_corpora_steps_and_dupe_factor_are_the_same(make, corpus, pairs):
    config = make(corpus)
    config.data.update(stride=0, dupe_factor=2, pairs=pairs)
    objective = toy_objectives.Objective("pair", timed=True)
    native = small_data.open_with(config, objective)
    config.data.reader = "seqio"
    by_seqio = small_data.open_with(config, objective)
    num = 3 * native.train.num_examples
    rows = native.train.source.rows(np.arange(num))
    assert len({*rows["step"]}) > 20 and len({*rows["label"]}) == 2
    assert_rows_equal(by_seqio.train.source.rows(np.arange(num)), rows)
    for one, two in zip(
        native.eval.evaluation(), by_seqio.eval.evaluation(), strict=True
    ):
        assert (one["step"] == EVALUATION_STEP).all()
        assert_rows_equal(two, one)


def test_contiguous_streams_are_refused(make):
    config, objective = make(), toy_objectives.Objective(contiguous=True)
    config.data.stride = 0
    with pytest.raises(UserError, match=r"data\.reader=native"):
        small_data.register_with(config, objective)
    assert small_data.open_with(config, objective).train.batch(0)["token"].any()
    config.data.reader = "seqio"
    with pytest.raises(UserError, match=r"data\.reader=native"):
        small_data.open_with(config, objective)


@pytest.mark.parametrize("num_shards", [2, 8])
def test_shards_make_up_the_whole(make, num_shards):
    config = make()
    data, objective = small_data.open_small(config)
    task = seqio.get_mixture_or_task(small_data.register_with(config, objective))
    whole = data.train.source.rows(np.arange(2 * data.train.num_examples))
    for index in range(num_shards):
        shard = task.get_dataset(
            shard_info=seqio.ShardInfo(index, num_shards), num_epochs=2
        )
        own = whole["example"] % num_shards == index
        assert_rows_equal(
            elements(shard), {name: rows[own] for name, rows in whole.items()}
        )


def test_evaluation_is_in_the_order_of_the_text(make):
    config = make()
    data, objective = small_data.open_small(config)
    task = seqio.get_mixture_or_task(small_data.register_with(config, objective))
    whole = concatenate(data.eval.evaluation())
    num = data.eval.num_examples
    rows = elements(task.get_dataset(split="valid", shuffle=False))
    assert_rows_equal(rows, {name: array[:num] for name, array in whole.items()})


def test_another_sequence_length_is_refused(make):
    config = make()
    _, objective = small_data.open_small(config)
    task = seqio.get_mixture_or_task(small_data.register_with(config, objective))
    shapes = {key: spec.shape for key, spec in objective.batch_spec(32).items()}
    own = task.get_dataset({key: shape[0] for key, shape in shapes.items()})
    assert_rows_equal(elements(task.get_dataset(), 3), elements(own, 3))
    with pytest.raises(UserError, match="token"):
        task.get_dataset({"token": 16})
    with pytest.raises(UserError, match="targets"):
        task.get_dataset({"targets": 16})


def test_encoder_decoder_tasks_have_inputs_and_targets(make):
    config = make(objective="dae")
    data, objective = small_data.open_small(config)
    rows = elements(
        seqio.TaskRegistry.get(
            small_data.register_with(config, objective)
        ).get_dataset()
    )
    np.testing.assert_array_equal(rows["inputs"], rows["encoder_token"])
    scored = rows["weight"] > 0
    np.testing.assert_array_equal(rows["targets"][scored], rows["target"][scored])
    assert (rows["targets"][~scored] == data.vocab.pad_id).all()


def test_names_have_corpus_objective_and_a_length_if_not_default(make):
    assert base.get_config().data.length == register_tasks.DEFAULT_LENGTH
    config = make("mixture")
    objective = objectives.make_objective(**config.objective)
    assert small_data.register_with(config, objective) == "mix:mlm:32"
    config = make()
    assert small_data.register_with(config, objective).endswith("_one:mlm:32")
    config.data.length = register_tasks.DEFAULT_LENGTH
    assert small_data.register_with(config, objective).endswith("_one:mlm")
    assert {len(name.split(":")) for name in seqio.TaskRegistry.names()} == {2, 3}


def test_a_name_of_a_users_task_is_refused(make):
    config = make()
    objective = objectives.make_objective(**config.objective)
    name = small_data.register_with(config, objective)
    assert small_data.register_with(config, objective) == name
    register_tasks.OWN_TASKS.clear()
    with pytest.raises(UserError, match="name"):
        small_data.register_with(config, objective)


@pytest.mark.parametrize(
    ("corpus", "name"),
    [
        *(("one", name) for name in ("mlm", "dae", "packed")),
        *(("mixture", name) for name in ("mlm", "packed")),
        pytest.param("mixture", "dae", marks=pytest.mark.long),  # of mlm's unit
    ],
)
def test_reader_seqio_gives_the_same_batches(make, corpus, name):
    config = make(corpus, name if name != "packed" else "mlm")
    if name == "packed":
        config.data.update(length=96, stride=0, packing="best_fit")
    native, _ = small_data.open_small(config)
    config.data.reader = "seqio"
    by_seqio, _ = small_data.open_small(config)
    assert by_seqio.fingerprint == native.fingerprint
    assert by_seqio.train.num_examples == native.train.num_examples
    for step in (0, 1, 60, 61, 2):
        assert_rows_equal(by_seqio.train.batch(step), native.train.batch(step))
    parts = [by_seqio.train.batch(70, slice(i, i + 4)) for i in (0, 4)]
    assert_rows_equal(concatenate(parts), native.train.batch(70))
    successive = (data.train.batches(3, None, 43) for data in (native, by_seqio))
    for one, two in zip(*successive, strict=True):
        assert_rows_equal(two, one)
    for one, two in zip(
        native.eval.evaluation(), by_seqio.eval.evaluation(), strict=True
    ):
        assert_rows_equal(two, one)


def test_data_task_names_a_corpus_and_reads_it_natively(make, corpora):
    config = make()
    native, _ = small_data.open_small(config)
    config.data.corpus = "embedded"
    config.data.task = f"{corpora['one']}:mlm"
    named, _ = small_data.open_small(config)
    assert_same_batch(native.train.batch(3), named.train.batch(3))
    config.data.task += ":32"
    assert_same_batch(
        native.train.batch(3), small_data.open_small(config)[0].train.batch(3)
    )
    assert register_tasks.OWN_TASKS == {}
    config = make("mixture")
    mixed, _ = small_data.open_small(config)
    config.data.task = "mix:mlm"
    assert_same_batch(
        mixed.train.batch(3), small_data.open_small(config)[0].train.batch(3)
    )


def test_only_a_users_task_or_the_seqio_reader_imports_tensorflow(
    make, corpora, folder
):
    code = f"""
import sys
from tests.testing import small_data
config = small_data.config({corpora["one"]!r}, {str(folder / "cache")!r})
config.data.task = {corpora["one"] + ":mlm"!r}
small_data.open_small(config)[0].train.batch(0)
assert "tensorflow" not in sys.modules and "seqio" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.long
def test_python_exits_while_a_task_is_being_read(make, corpora, folder):
    """Regression: TensorFlow's threads and Python's exit waited for each other."""
    code = f"""
import sys, time
from tests.testing import small_data
from research.objectives.mlm.mlm import Objective
corrupt = Objective.corrupt
Objective.corrupt = lambda *args: time.sleep(0.3) or corrupt(*args)
config = small_data.config({corpora["one"]!r}, {str(folder / "cache")!r})
config.data.reader = "seqio"
batches = small_data.open_small(config)[0].train.batches()
next(batches)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=90)


@pytest.mark.parametrize("corpus", ["one", "mixture"])
def test_predictions_are_scored_as_those_of_the_native_reader(make, corpus):
    config = make(corpus, "sequence_classification")
    scores = []
    for reader in ("native", "seqio"):
        config.data.reader = reader
        data, objective = small_data.open_small(config)
        rows = concatenate(data.eval.evaluation())
        logits = np.stack([rows["token"].sum(1) % n for n in (2, 3, 5)], 1) * 1.0
        scores.append(score_predictions(objective, [{"logits": logits}], data))
    assert scores[0] == scores[1]
    assert len(scores[0].items) == data.eval.num_examples
    assert "f1" in scores[0].metrics
