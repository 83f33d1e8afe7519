"""The registry's way reads the same bytes, and any task of its is read."""

import subprocess
import sys

import numpy as np
import pytest
import seqio

from experiments import base
from research import objectives
from research.batch import EVALUATION_STEP
from research.data.pipeline import open_data
from research.data.seqio import tasks
from research.errors import UserError
from tests.testing import small_data, toy_objectives
from tests.testing.toy_objectives import join, same

OBJECTIVES = [
    name
    for name in objectives.names()
    if not objectives.make_objective(name).text_spec(32).contiguous
]


@pytest.fixture
def make(corpora, folder, lexicon):
    """make(corpus, objective) -> config."""

    def make(corpus="one", objective="mlm", **fields):
        path = corpora[corpus]
        config = small_data.config(path, folder / "cache", objective, **fields)
        config.data.lexicon = lexicon
        return config

    return make


@pytest.fixture(autouse=True)
def registry():
    """What a test registers is gone after it."""
    with small_data.clean_registry():
        yield


def elements(dataset, num=None):
    """The examples of a dataset as one batch."""
    rows = [
        {name: np.asarray(value)[None] for name, value in row.items()}
        for row in dataset.take(num or -1).as_numpy_iterator()
    ]
    return join(rows)


def agree(native, rows):
    for name, array in native.items():
        assert array.dtype == rows[name].dtype, name
        np.testing.assert_array_equal(array, rows[name], err_msg=name)


@pytest.mark.parametrize("corpus", ["one", "mixture"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_registry_gives_the_same_examples(make, corpus, name):
    config = make(corpus, name)
    data, objective = small_data.open_small(config)
    task = tasks.register(config, objective)
    dataset = seqio.get_dataset(
        task,
        None,
        seqio.PassThroughFeatureConverter(),
        shuffle=True,
        seed=config.seed,
        num_epochs=None,
    )
    num = 2 * data.train.num_examples + 7
    agree(data.train.rows(np.arange(num)), elements(dataset, num))


def test_order_and_noise_of_the_registry_depend_on_its_seed(make):
    config = make()
    _, objective = small_data.open_small(config)
    task = seqio.get_mixture_or_task(tasks.register(config, objective))
    config.seed = 5
    data, _ = small_data.open_small(config)
    rows = elements(task.get_dataset(seed=5))
    agree(data.train.rows(np.arange(data.train.num_examples)), rows)


@pytest.mark.parametrize("corpus", ["one", "mixture"])
def test_registry_tells_spans_corpora_steps_and_copies(make, corpus):
    config = make(corpus)
    config.data.update(stride=0, dupe_factor=2)
    objective = toy_objectives.Objective("pair", timed=True)
    native = open_data(config, objective)
    config.data.reader = "seqio"
    other = open_data(config, objective)
    num = 3 * native.train.num_examples
    rows = native.train.rows(np.arange(num))
    assert len({*rows["step"]}) > 20 and len({*rows["label"]}) == 2
    agree(rows, other.train.rows(np.arange(num)))
    for one, two in zip(native.eval.evaluation(), other.eval.evaluation(), strict=True):
        assert (one["step"] == EVALUATION_STEP).all()
        agree(one, two)


def test_streams_are_not_in_the_registry(make):
    config, objective = make(), toy_objectives.Objective(contiguous=True)
    config.data.stride = 0
    with pytest.raises(UserError, match=r"data\.reader=native"):
        tasks.register(config, objective)
    assert open_data(config, objective).train.batch(0)["token"].any()
    config.data.reader = "seqio"
    with pytest.raises(UserError, match=r"data\.reader=native"):
        open_data(config, objective)


@pytest.mark.parametrize("num_shards", [2, 8])
def test_shards_of_the_registry_are_the_whole(make, num_shards):
    config = make()
    data, objective = small_data.open_small(config)
    task = seqio.get_mixture_or_task(tasks.register(config, objective))
    whole = data.train.rows(np.arange(2 * data.train.num_examples))
    for index in range(num_shards):
        shard = task.get_dataset(
            shard_info=seqio.ShardInfo(index, num_shards), num_epochs=2
        )
        own = whole["example"] % num_shards == index
        agree({name: rows[own] for name, rows in whole.items()}, elements(shard))


def test_evaluation_through_the_registry_is_in_order(make):
    config = make()
    data, objective = small_data.open_small(config)
    task = seqio.get_mixture_or_task(tasks.register(config, objective))
    whole = join(data.eval.evaluation())
    num = data.eval.num_examples
    rows = elements(task.get_dataset(split="valid", shuffle=False))
    agree({name: array[:num] for name, array in whole.items()}, rows)


def test_only_its_own_lengths_are_taken(make):
    config = make()
    _, objective = small_data.open_small(config)
    task = seqio.get_mixture_or_task(tasks.register(config, objective))
    shapes = {key: spec.shape for key, spec in objective.batch_spec(32).items()}
    own = task.get_dataset({key: shape[0] for key, shape in shapes.items()})
    agree(elements(own, 3), elements(task.get_dataset(), 3))
    with pytest.raises(UserError, match="token"):
        task.get_dataset({"token": 16})
    with pytest.raises(UserError, match="targets"):
        task.get_dataset({"targets": 16})


def test_encoder_decoder_tasks_have_inputs_and_targets(make):
    config = make(objective="dae")
    data, objective = small_data.open_small(config)
    rows = elements(
        seqio.TaskRegistry.get(tasks.register(config, objective)).get_dataset()
    )
    np.testing.assert_array_equal(rows["inputs"], rows["encoder_token"])
    scored = rows["weight"] > 0
    np.testing.assert_array_equal(rows["targets"][scored], rows["target"][scored])
    assert (rows["targets"][~scored] == data.vocab.pad_id).all()


def test_names_say_corpus_objective_and_an_unusual_length(make):
    assert base.get_config().data.length == tasks.DEFAULT_LENGTH
    config = make("mixture")
    objective = objectives.make_objective(**config.objective)
    assert tasks.register(config, objective) == "mix:mlm:32"
    config = make()
    assert tasks.register(config, objective).endswith("_one:mlm:32")
    config.data.length = tasks.DEFAULT_LENGTH
    assert tasks.register(config, objective).endswith("_one:mlm")
    assert {len(name.split(":")) for name in seqio.TaskRegistry.names()} == {2, 3}


def test_a_name_that_is_taken_is_left_alone(make):
    config = make()
    objective = objectives.make_objective(**config.objective)
    name = tasks.register(config, objective)
    assert tasks.register(config, objective) == name
    tasks.OWN.clear()
    with pytest.raises(UserError, match="name"):
        tasks.register(config, objective)


@pytest.mark.parametrize("corpus", ["one", "mixture"])
@pytest.mark.parametrize("name", ["mlm", "dae"])
def test_reader_seqio_gives_the_same_batches(make, corpus, name):
    config = make(corpus, name)
    native, _ = small_data.open_small(config)
    config.data.reader = "seqio"
    other, _ = small_data.open_small(config)
    assert other.fingerprint == native.fingerprint
    assert other.train.num_examples == native.train.num_examples
    for step in (0, 1, 60, 61, 2):
        agree(native.train.batch(step), other.train.batch(step))
    shares = [other.train.batch(70, slice(i, i + 4)) for i in (0, 4)]
    agree(native.train.batch(70), join(shares))
    read = zip(native.train.batches(3), other.train.batches(3), range(40), strict=False)
    for one, two, _ in read:
        agree(one, two)
    for one, two in zip(native.eval.evaluation(), other.eval.evaluation(), strict=True):
        agree(one, two)


def test_data_task_names_a_corpus_and_reads_it_natively(make, corpora):
    config = make()
    native, _ = small_data.open_small(config)
    config.data.corpus = "embedded"
    config.data.task = f"{corpora['one']}:mlm"
    named, _ = small_data.open_small(config)
    same(native.train.batch(3), named.train.batch(3))
    config.data.task += ":32"
    same(native.train.batch(3), small_data.open_small(config)[0].train.batch(3))
    assert tasks.OWN == {}
    config = make("mixture")
    mixed, _ = small_data.open_small(config)
    config.data.task = "mix:mlm"
    same(mixed.train.batch(3), small_data.open_small(config)[0].train.batch(3))


def test_only_a_foreign_task_or_reader_brings_in_tensorflow(make, corpora, folder):
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


def test_python_ends_while_a_task_is_being_read(make, corpora, folder):
    """Else TensorFlow's threads and Python's end wait for each other."""
    code = f"""
import sys, time
from tests.testing import small_data
from research.objectives.mlm import Objective
corrupt = Objective.corrupt
Objective.corrupt = lambda *args: time.sleep(0.3) or corrupt(*args)
config = small_data.config({corpora["one"]!r}, {str(folder / "cache")!r})
config.data.reader = "seqio"
batches = small_data.open_small(config)[0].train.batches()
next(batches)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=90)
