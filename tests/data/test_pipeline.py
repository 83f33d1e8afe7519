"""A batch is a pure function of (data, seed, step); an epoch has each example once."""

import itertools
import math
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

from research.data.pipeline import Data, Pipeline
from research.data.source.prefetch import prefetch
from research.data.source.text_source import TextSource
from research.data.store import example_index
from tests.testing import toy_objectives
from tests.testing.toy_objectives import assert_same_batch, concatenate

ONE_STREAM = (toy_objectives.Stream(),)
TWO_STREAMS = (toy_objectives.Stream(), toy_objectives.Stream(((50,), (3, 40)), seed=1))
TOY = toy_objectives.Objective()
LONG_DOCUMENTS = (toy_objectives.Stream(((7, 5, 9, 2), (1, 139, 0, 33), (20, 3, 75))),)
PACKED = toy_objectives.Objective("packed", extra=52)


@pytest.fixture
def make(tmp_path):
    """make(streams, objective, batch=..., seed=..., ...) -> Pipeline."""

    def make(
        streams=ONE_STREAM,
        objective=TOY,
        *,
        batch=4,
        seed=0,
        stride=0,
        rates=None,
        **options,
    ):
        text_spec = objective.text_spec(8)
        indices = [
            example_index.build_index(s, text_spec, stride, tmp_path) for s in streams
        ]
        rates = dict(enumerate(rates or [1] * len(indices)))
        source = TextSource(
            indices,
            objective,
            toy_objectives.vocab(),
            length=8,
            seed=seed,
            rates=rates,
            batch_size=batch,
            **options,
        )
        return Pipeline(source, batch_size=batch)

    return make


@pytest.fixture(params=["one corpus", "mixture", "documents", "pairs", "packed"])
def pipeline(request, make):
    """pipeline(batch) -> Pipeline, of several units and of a mixture."""
    if request.param == "packed":
        return lambda batch=4: make(LONG_DOCUMENTS, PACKED, batch=batch)
    if request.param == "mixture":
        return lambda batch=4: make(TWO_STREAMS, batch=batch, rates=[0.3, 0.7])
    unit = {"documents": "document", "pairs": "pair"}.get(request.param, "stream")
    return lambda batch=4: make(objective=toy_objectives.Objective(unit), batch=batch)


def first_batches(pipeline, num):
    return concatenate(pipeline.batch(step) for step in range(num))


def test_a_batch_does_not_depend_on_those_read_before(pipeline):
    steps = [11, 3, 1000, 3, 0]
    shared = pipeline()
    for step in steps:
        assert_same_batch(shared.batch(step), pipeline().batch(step))


def test_a_batch_is_two_of_half_the_size(pipeline):
    for step in (0, 5, 10**6):
        halves = [pipeline(4).batch(2 * step + half) for half in (0, 1)]
        assert_same_batch(pipeline(8).batch(step), concatenate(halves))


@pytest.mark.parametrize("hosts", [1, 2, 4, 8])
def test_rows_of_the_hosts_make_up_the_batch(pipeline, hosts):
    size = 8 // hosts
    for step in (0, 3, 77):
        parts = [
            pipeline(8).batch(step, slice(host * size, (host + 1) * size))
            for host in range(hosts)
        ]
        assert_same_batch(pipeline(8).batch(step), concatenate(parts))


@pytest.mark.parametrize(
    ("start", "rows"), [(0, None), (2, slice(2, 4)), (9, slice(2, 4))]
)
def test_successive_batches_equal_seeking(monkeypatch, pipeline, start, rows):
    batch = pipeline().batch(0, rows)
    num_bytes = sum(array.nbytes for array in batch.values())
    monkeypatch.setattr("research.data.pipeline.BYTES_PER_CALL", 30 * num_bytes)
    num = 70  # the first, two calls, and a part of one; several epochs
    batches = list(pipeline().batches(start, rows, start + num))
    assert len(batches) == num
    other = pipeline()
    for step, batch in enumerate(batches, start):
        assert_same_batch(batch, other.batch(step, rows))


def test_successive_batches_never_end(monkeypatch, pipeline):
    monkeypatch.setattr("research.data.pipeline.BYTES_PER_CALL", 2**12)
    batches = list(itertools.islice(pipeline().batches(3), 150))
    assert_same_batch(batches[-1], pipeline().batch(152))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param((ONE_STREAM, TOY), id="stream"),
        pytest.param((ONE_STREAM, toy_objectives.Objective("document")), id="document"),
        pytest.param((LONG_DOCUMENTS, PACKED), id="packed"),
    ],
)
def test_an_epoch_reads_each_example_once_in_another_order(make, case):
    whole = make(*case, batch=1)
    num = whole.num_examples
    epochs = [
        concatenate(whole.batch(step) for step in range(epoch * num, (epoch + 1) * num))
        for epoch in range(3)
    ]
    rows = [[row.tobytes() for row in epoch["token"]] for epoch in epochs]
    assert sorted(rows[0]) == sorted(rows[1]) == sorted(rows[2])
    assert rows[0] != rows[1] != rows[2] != rows[0]
    for epoch in epochs:
        np.testing.assert_array_equal(epoch["example"], np.arange(num))
    tokens = sum(row["weight"].sum() for row in epochs[:1])
    assert tokens == whole.source.indices[0].length.sum()


def test_corruption_is_new_in_each_epoch_and_each_example(make):
    whole = make(batch=1)
    rows = first_batches(whole, 3 * whole.num_examples)["random"]
    assert len({row.tobytes() for row in rows}) == len(rows)


def test_seed_changes_order_and_corruption(make):
    one, other = (first_batches(make(seed=seed), 5) for seed in (0, 1))
    assert (one["token"] != other["token"]).any()
    assert (one["random"] != other["random"]).all()


@pytest.mark.parametrize("streams", [ONE_STREAM, TWO_STREAMS])
def test_objectives_with_one_seed_and_stride_read_the_same_text(make, streams):
    rates = [0.5, 1.5][: len(streams)]
    short = make(streams, stride=8, rates=rates)
    long = make(streams, toy_objectives.Objective(extra=5), stride=8, rates=rates)
    for step in (0, 4, 1000):
        one, other = short.batch(step), long.batch(step)
        np.testing.assert_array_equal(one["token"], other["token"][:, :8])
        np.testing.assert_array_equal(one["example"], other["example"])
        np.testing.assert_array_equal(one["random"], other["random"])


def test_mixture_keeps_its_rates_and_reads_each_corpus_completely(make):
    mixed = make(TWO_STREAMS, rates=[0.3, 0.7], batch=10)
    starts = [make([stream]).num_examples for stream in TWO_STREAMS]
    rows = first_batches(mixed, 60)
    from_second = rows["example"] >= starts[0]
    np.testing.assert_array_equal(from_second.reshape(60, 10).sum(1), 7)
    for second, num in ((False, starts[0]), (True, starts[1])):
        own = rows["token"][from_second == second]
        epochs = len(own) // num
        assert epochs > 1
        read = [sorted(map(bytes, own[e * num : (e + 1) * num])) for e in range(epochs)]
        assert all(epoch == read[0] for epoch in read)


def test_evaluation_reads_each_example_once_in_order(pipeline):
    batches = list(pipeline().evaluation())
    assert {len(batch["example"]) for batch in batches} == {4}
    whole, num = concatenate(batches), pipeline().num_examples
    assert len(whole["example"]) == -(-num // 4) * 4 > num
    assert (whole["weight"][num:] == 0).all()
    assert (whole["weight"][:num].sum(1) > 0).all()
    np.testing.assert_array_equal(whole["example"][:num], np.arange(num))
    text = [
        row
        for index in pipeline().source.indices
        for row in toy_objectives.example_texts(index)
    ]
    read = [row[: len(own)] for row, own in zip(whole["token"], text, strict=False)]
    for row, own in zip(read, text, strict=True):
        np.testing.assert_array_equal(row, own)
    np.testing.assert_array_equal(whole["weight"][:num].sum(1), [*map(len, text)])


def test_evaluation_does_not_depend_on_batch_size_seed_or_history(make):
    used = make(batch=4)
    used.batch(5)
    num = used.num_examples
    reference = {k: v[:num] for k, v in concatenate(make(batch=1).evaluation()).items()}
    for other in (used, used, make(batch=5, seed=9)):
        rows = concatenate(other.evaluation())
        assert_same_batch(
            reference, {name: array[:num] for name, array in rows.items()}
        )


def test_rows_of_the_hosts_make_up_the_evaluation(pipeline):
    hosts = [list(pipeline().evaluation(slice(i, i + 2))) for i in (0, 2)]
    for whole, *parts in zip(pipeline().evaluation(), *hosts, strict=True):
        assert_same_batch(whole, concatenate(parts))


def test_labels_are_indices_into_those_of_vocab_info(make):
    reordered = toy_objectives.Stream(labels=("b", "a"))
    plain = toy_objectives.Stream(labels=("a", "b"))
    one, other = (
        concatenate(make([s], toy_objectives.Objective("document")).evaluation())[
            "label"
        ]
        for s in (plain, reordered)
    )
    np.testing.assert_array_equal(np.array([1, 0, -1])[one], other)
    assert set(one) == {-1, 0, 1}


def test_fingerprint_depends_on_the_data_but_not_on_the_seed(make):
    prints = [
        make().fingerprint,
        make([toy_objectives.Stream(seed=3)]).fingerprint,
        make(stride=4).fingerprint,
        make(TWO_STREAMS, rates=[1, 2]).fingerprint,
        make(TWO_STREAMS, rates=[2, 1]).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert make(seed=5, batch=2).fingerprint == prints[0]


def test_prefetch_gives_the_same_items_and_makes_them_ahead():
    made = []

    def items():
        for item in range(20):
            made.append(item)
            yield item

    ahead = prefetch(items(), depth=2)
    assert next(ahead) == 0
    for _ in range(1000):
        if len(made) == 4:
            break
        threading.Event().wait(0.005)
    assert len(made) == 4  # one taken, two queued, one waiting for the queue
    assert list(ahead) == list(range(1, 20))


def test_prefetch_raises_an_error_in_place_of_its_item():
    def items():
        yield 1
        raise OSError("the disk is gone")

    ahead = prefetch(items())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)


def test_prefetch_ends_its_thread():
    before = threading.active_count()
    ahead = prefetch(itertools.count())
    assert next(ahead) == 0
    assert threading.active_count() == before + 1
    ahead.close()
    assert threading.active_count() == before


def test_reading_text_needs_neither_tensorflow_nor_jax():
    code = (
        "import sys, research.data.pipeline as p; "
        "bad = {'jax', 'tensorflow', 'seqio', 'flax'} & set(sys.modules); "
        "sys.exit(str(bad) if bad else 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("count", "entropy"), [(None, 0.0), ([0, 0], 0.0), ([0, 2, 2], math.log(2))]
)
def test_the_entropy_of_tokens_is_that_of_their_frequencies(count, entropy):
    count = None if count is None else np.array(count)
    vocab = types.SimpleNamespace(token_count=count)
    data = Data(vocab, None, None, "", {})
    assert data.token_entropy == pytest.approx(entropy)
