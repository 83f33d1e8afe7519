"""A batch is a pure function of (data, seed, step); nothing is dropped or repeated."""

import itertools
import subprocess
import sys
import threading

import numpy as np
import pytest

from research.data.loading.examples import Part, Text
from research.data.pipeline import Pipeline, prefetch
from research.data.store import example_index
from tests.testing import toy_objectives
from tests.testing.toy_objectives import join, same

ALONE = (toy_objectives.Stream(),)
MIXED = (toy_objectives.Stream(), toy_objectives.Stream(((50,), (3, 40)), seed=1))
RAW = toy_objectives.Objective()


@pytest.fixture
def make(tmp_path):
    """Pipelines over toy streams: `make(seed=..., batch=..., ...)`."""

    def make(
        streams=ALONE,
        objective=RAW,
        *,
        batch=4,
        seed=0,
        stride=0,
        rates=None,
        **options,
    ):
        parts = [
            Part(
                s,
                example_index.build_index(s, objective.text_spec(8), stride, tmp_path),
            )
            for s in streams
        ]
        rates = dict(enumerate(rates or [1] * len(parts)))
        text = Text(
            parts,
            objective,
            toy_objectives.vocab(),
            length=8,
            seed=seed,
            rates=rates,
            batch=batch,
            **options,
        )
        return Pipeline(text, batch=batch)

    return make


@pytest.fixture(params=["one corpus", "mixture", "documents", "pairs"])
def pipeline(request, make):
    """Any pipeline, by batch size."""
    if request.param == "mixture":
        return lambda batch=4: make(MIXED, batch=batch, rates=[0.3, 0.7])
    unit = {"documents": "document", "pairs": "pair"}.get(request.param, "stream")
    return lambda batch=4: make(objective=toy_objectives.Objective(unit), batch=batch)


def first(pipeline, num):
    return join(pipeline.batch(step) for step in range(num))


def test_nothing_is_read_before_a_batch_matters(pipeline):
    steps = [11, 3, 1000, 3, 0]
    shared = pipeline()
    for step in steps:
        same(shared.batch(step), pipeline().batch(step))


def test_a_batch_is_two_of_half_the_size(pipeline):
    for step in (0, 5, 10**6):
        halves = [pipeline(4).batch(2 * step + half) for half in (0, 1)]
        same(pipeline(8).batch(step), join(halves))


@pytest.mark.parametrize("hosts", [1, 2, 4, 8])
def test_shares_of_the_hosts_are_the_batch(pipeline, hosts):
    size = 8 // hosts
    for step in (0, 3, 77):
        shares = [
            pipeline(8).batch(step, slice(host * size, (host + 1) * size))
            for host in range(hosts)
        ]
        same(pipeline(8).batch(step), join(shares))


@pytest.mark.parametrize("rows", [None, slice(2, 4)])
@pytest.mark.parametrize("start", [0, 2, 9])
def test_reading_on_equals_seeking(pipeline, start, rows):
    num = 300 // 4 + 9  # more than are made at a time, and several epochs
    batches = list(pipeline().batches(start, rows, start + num))
    assert len(batches) == num
    for step, batch in enumerate(batches, start):
        same(batch, pipeline().batch(step, rows))


def test_reading_on_has_no_end_of_its_own(pipeline):
    batches = list(itertools.islice(pipeline().batches(3), 150))
    same(batches[-1], pipeline().batch(152))


@pytest.mark.parametrize("unit", ["stream", "document"])
def test_an_epoch_reads_each_example_once_in_another_order(make, unit):
    whole = make(objective=toy_objectives.Objective(unit), batch=1)
    num = whole.num_examples
    epochs = [
        join(whole.batch(step) for step in range(epoch * num, (epoch + 1) * num))
        for epoch in range(3)
    ]
    rows = [[row.tobytes() for row in epoch["token"]] for epoch in epochs]
    assert sorted(rows[0]) == sorted(rows[1]) == sorted(rows[2])
    assert rows[0] != rows[1] != rows[2] != rows[0]
    for epoch in epochs:
        np.testing.assert_array_equal(epoch["example"], np.arange(num))
    tokens = sum(row["weight"].sum() for row in epochs[:1])
    index_ = whole.source.parts[0].index
    assert tokens == index_.length.sum()


def test_noise_is_new_in_each_epoch_and_each_example(make):
    whole = make(batch=1)
    rows = first(whole, 3 * whole.num_examples)["noise"]
    assert len({row.tobytes() for row in rows}) == len(rows)


def test_seed_changes_order_and_noise(make):
    one, other = (first(make(seed=seed), 5) for seed in (0, 1))
    assert (one["token"] != other["token"]).any()
    assert (one["noise"] != other["noise"]).all()


@pytest.mark.parametrize("streams", [ALONE, MIXED])
def test_objectives_with_one_seed_and_stride_read_the_same_text(make, streams):
    rates = [0.5, 1.5][: len(streams)]
    short = make(streams, stride=8, rates=rates)
    long = make(streams, toy_objectives.Objective(extra=5), stride=8, rates=rates)
    for step in (0, 4, 1000):
        one, other = short.batch(step), long.batch(step)
        np.testing.assert_array_equal(one["token"], other["token"][:, :8])
        np.testing.assert_array_equal(one["example"], other["example"])
        np.testing.assert_array_equal(one["noise"], other["noise"])


def test_mixture_draws_at_its_rates_and_reads_each_corpus_through(make):
    mixed = make(MIXED, rates=[0.3, 0.7], batch=10)
    starts = [make([stream]).num_examples for stream in MIXED]
    rows = first(mixed, 60)
    from_second = rows["example"] >= starts[0]
    np.testing.assert_array_equal(from_second.reshape(60, 10).sum(1), 7)
    for second, num in ((False, starts[0]), (True, starts[1])):
        own = rows["token"][from_second == second]
        epochs = len(own) // num
        assert epochs > 1
        seen = [sorted(map(bytes, own[e * num : (e + 1) * num])) for e in range(epochs)]
        assert all(epoch == seen[0] for epoch in seen)


def test_evaluation_reads_each_example_once_in_order(pipeline):
    batches = list(pipeline().evaluation())
    assert {len(batch["example"]) for batch in batches} == {4}
    whole, num = join(batches), pipeline().num_examples
    assert len(whole["example"]) == -(-num // 4) * 4 > num
    assert (whole["weight"][num:] == 0).all()
    assert (whole["weight"][:num].sum(1) > 0).all()
    np.testing.assert_array_equal(whole["example"][:num], np.arange(num))
    text = [
        row for part in pipeline().source.parts for row in toy_objectives.texts(part)
    ]
    read = [row[: len(own)] for row, own in zip(whole["token"], text, strict=False)]
    for row, own in zip(read, text, strict=True):
        np.testing.assert_array_equal(row, own)
    np.testing.assert_array_equal(whole["weight"][:num].sum(1), [*map(len, text)])


def test_evaluation_does_not_depend_on_batch_size_seed_or_history(make):
    used = make(batch=4)
    used.batch(5)
    num = used.num_examples
    reference = {k: v[:num] for k, v in join(make(batch=1).evaluation()).items()}
    for other in (used, used, make(batch=5, seed=9)):
        rows = join(other.evaluation())
        same(reference, {name: array[:num] for name, array in rows.items()})


def test_hosts_share_the_evaluation(pipeline):
    shares = [list(pipeline().evaluation(slice(i, i + 2))) for i in (0, 2)]
    for whole, *parts in zip(pipeline().evaluation(), *shares, strict=True):
        same(whole, join(parts))


def test_labels_are_those_of_the_symbols(make):
    turned = toy_objectives.Stream(labels=("b", "a"))
    plain = toy_objectives.Stream(labels=("a", "b"))
    one, other = (
        join(make([s], toy_objectives.Objective("document")).evaluation())["label"]
        for s in (plain, turned)
    )
    np.testing.assert_array_equal(np.array([1, 0, -1])[one], other)
    assert set(one) == {-1, 0, 1}


def test_fingerprint_tells_data_apart_and_not_seeds(make):
    prints = [
        make().fingerprint,
        make([toy_objectives.Stream(seed=3)]).fingerprint,
        make(stride=4).fingerprint,
        make(MIXED, rates=[1, 2]).fingerprint,
        make(MIXED, rates=[2, 1]).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert make(seed=5, batch=2).fingerprint == prints[0]


def test_prefetch_gives_the_same_items_ahead():
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
    assert len(made) == 4  # one taken, two that wait, one in hand
    assert list(ahead) == list(range(1, 20))


def test_prefetch_raises_what_went_wrong_where_it_did():
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
