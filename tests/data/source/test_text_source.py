"""Rows made from text: pairs, corpora, steps, dupe_factor, contiguous streams."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from research.contract.batch import EVALUATION_STEP, NEXT, OTHER_DOCUMENT
from research.contract.errors import UserError
from research.data.pipeline import Pipeline
from research.data.rows import TextSpec
from research.data.source.text_source import TextSource
from research.data.store import example_index
from research.data.store.copies import Copies
from tests.testing import toy_objectives
from tests.testing.toy_objectives import assert_same_batch, concatenate

LONG_STREAMS = (
    toy_objectives.Stream(((70, 50, 90), (10, 200))),
    toy_objectives.Stream(((50,), (30, 45, 90)), seed=1),
)


@pytest.fixture
def make(tmp_path):
    """Pipelines over toy streams: `make(objective, batch=..., ...)`."""

    def make(
        objective,
        streams=LONG_STREAMS[:1],
        *,
        batch=4,
        rates=None,
        seed=0,
        dupe_factor=0,
        repacked=False,
    ):
        text_spec = objective.text_spec(8)
        copies = [
            Copies(partial(build_copy, tmp_path, text_spec, s), dupe_factor)
            for s in streams
        ]
        indices = [each.index(0) for each in copies]
        source = TextSource(
            indices,
            objective,
            toy_objectives.vocab(),
            length=8,
            seed=seed,
            rates=dict(enumerate(rates or [1] * len(indices))),
            batch_size=batch,
            dupe_factor=dupe_factor,
            copies=copies if repacked else (),
        )
        return Pipeline(source, batch_size=batch)

    return make


def build_copy(folder, text_spec, stream, copy):
    return example_index.build_index(stream, text_spec.replace(copy=copy), 0, folder)


@pytest.mark.parametrize("unit", ["pair", "sentence_pair", "halves"])
def test_the_spans_of_a_pair_are_concatenated(make, unit):
    data = make(toy_objectives.Objective(unit), batch=7)
    (index,) = data.source.indices
    rows = concatenate(data.evaluation())
    for n, text in enumerate(toy_objectives.example_texts(index)):
        np.testing.assert_array_equal(rows["token"][n][: len(text)], text)
        assert rows["weight"][n].sum() == len(text)
        assert rows["first_length"][n] == index.length[n]
        at = index.start[n], index.second[n]
        sizes = index.length[n], index.second_length[n]
        flags = [
            index.stream.flags[a : a + size] for a, size in zip(at, sizes, strict=True)
        ]
        np.testing.assert_array_equal(
            rows["flags"][n][: len(text)], np.concatenate(flags)
        )
    num = len(index.label)
    np.testing.assert_array_equal(rows["label"][:num], index.label)
    labels = {NEXT} if unit == "halves" else {NEXT, OTHER_DOCUMENT}
    assert {*index.label} == labels
    two = rows["first_length"][:num] < rows["weight"][:num].sum(1)
    np.testing.assert_array_equal(two, index.second_length > 0)
    assert two.all() == (unit != "halves")
    assert (rows["first_length"][num:] == 0).all() and (rows["label"][num:] == -1).all()


@pytest.mark.parametrize("unit", ["stream", "document", "sentences", "passage"])
def test_first_length_of_a_single_span_is_its_length(make, unit):
    rows = concatenate(make(toy_objectives.Objective(unit)).evaluation())
    np.testing.assert_array_equal(rows["first_length"], rows["weight"].sum(1))


def test_rows_have_their_corpus_and_their_step(make):
    objective = toy_objectives.Objective(timed=True)
    data = make(objective, LONG_STREAMS, batch=10, rates=[0.3, 0.7])
    first = data.source.sizes[0]
    for step in (0, 1, 10**7):
        rows = data.batch(step)
        assert (rows["step"] == step).all()
        np.testing.assert_array_equal(rows["corpus"], rows["example"] >= first)
    ahead = concatenate(data.batches(3, slice(2, 5), 40))["step"]
    np.testing.assert_array_equal(ahead, np.repeat(np.arange(3, 40), 3))
    rows = concatenate(data.evaluation())
    assert (rows["step"] == EVALUATION_STEP).all()
    num = data.num_examples
    np.testing.assert_array_equal(rows["corpus"][:num], np.arange(num) >= first)


@pytest.mark.parametrize("dupe_factor", [1, 3])
def test_corruption_repeats_after_dupe_factor_epochs(make, dupe_factor):
    data = make(toy_objectives.Objective(), batch=1, dupe_factor=dupe_factor)
    num = data.num_examples
    epochs = [data.source.rows(np.arange(e * num, (e + 1) * num)) for e in range(7)]
    by_text = [
        {row.tobytes(): draw.tobytes() for row, draw in zip(*pair, strict=True)}
        for pair in ((rows["token"], rows["random"]) for rows in epochs)
    ]
    for one in range(7):
        for two in range(one):
            repeated = (one - two) % dupe_factor == 0
            assert (by_text[one] == by_text[two]) == repeated
            assert (epochs[one]["token"] != epochs[two]["token"]).any()
    fresh = make(toy_objectives.Objective(), batch=1)
    assert_same_batch(fresh.source.rows(np.arange(num)), epochs[0])
    assert_same_batch(
        make(toy_objectives.Objective(), dupe_factor=7).source.rows(np.arange(7 * num)),
        concatenate(
            fresh.source.rows(np.arange(e * num, (e + 1) * num)) for e in range(7)
        ),
    )


class RandomStart(toy_objectives.Objective):
    """Rows start at random tokens of their stride."""

    def text_spec(self, length):
        return TextSpec("stream", length, random_start=True)


def test_random_starts_are_uniform_over_the_stride_and_within_the_shard(make):
    """So whatever reads only the beginning of rows reads all tokens equally often."""
    data, stream = make(RandomStart()), LONG_STREAMS[0]
    num, width = data.num_examples, 8
    rows = data.source.rows(np.arange(200 * num))
    position = {pair: n for n, pair in enumerate(pairwise(stream.token.tolist()))}
    assert len(position) == stream.num_tokens - 1
    starts = np.array([position[pair] for pair in map(tuple, rows["token"][:, :2])])
    end = stream.shard_offsets[np.searchsorted(stream.shard_offsets, starts, "right")]
    length = rows["weight"].sum(1).astype(int)
    np.testing.assert_array_equal(length, np.minimum(width, end - starts))
    token, flags = stream.gather(starts, length, width, pad=0)
    np.testing.assert_array_equal(rows["token"], token)
    np.testing.assert_array_equal(rows["flags"], flags)
    start = data.source.indices[0].start
    start = start[np.searchsorted(start, starts, side="right") - 1]
    assert (length[end - start >= width] == width).all()
    offset = np.bincount((starts - start)[end - start >= 2 * width])
    assert len(offset) == width and stats.chisquare(offset).pvalue > 1e-4
    assert_same_batch(data.batch(77), {k: v[77 * 4 : 78 * 4] for k, v in rows.items()})


CONTIGUOUS = toy_objectives.Objective(contiguous=True)


@pytest.fixture(params=["one corpus", "mixture"])
def streams(request, make):
    """Pipelines whose rows are contiguous streams, by batch size."""
    if request.param == "mixture":
        return lambda batch=5: make(
            CONTIGUOUS, LONG_STREAMS, batch=batch, rates=[0.4, 0.6]
        )
    return lambda batch=5: make(CONTIGUOUS, batch=batch)


def test_a_row_continues_where_it_ended(streams):
    data = streams()
    sizes, first = data.source.sizes, np.append(data.source._first, 10**9)
    batches = list(data.batches(0, None, 120))
    rows = np.stack([batch["example"] for batch in batches])
    sources = np.stack([batch["corpus"] for batch in batches])
    assert (sources == sources[0]).all()
    for row, source in zip(rows.T, sources[0], strict=True):
        assert ((row >= first[source]) & (row < first[source + 1])).all()
        steps = sizes[source] // (sources[0] == source).sum()
        continues = np.diff(row) == 1
        new_epoch = np.arange(1, len(row)) % steps == 0
        assert continues[~new_epoch].all() and not continues[new_epoch].all()
    for source in np.unique(sources[0]):
        own = rows[:, sources[0] == source]
        steps = sizes[source] // own.shape[1]
        for epoch in range(2, 6):
            both = own[(epoch - 2) * steps : epoch * steps].ravel() - first[source]
            assert {*both} == {*range(sizes[source])}
            assert len({*both[: len(both) // 2]}) == len(both) // 2


def test_streams_are_seekable_and_divided_among_hosts(streams):
    data = streams()
    read = list(data.batches(0, None, 60))
    for step in (59, 3, 17):
        assert_same_batch(read[step], streams().batch(step))
        parts = [streams().batch(step, slice(a, b)) for a, b in ((0, 2), (2, 5))]
        assert_same_batch(read[step], concatenate(parts))
    texts = [
        row
        for index in data.source.indices
        for row in toy_objectives.example_texts(index)
    ]
    for batch in read[::7]:
        for row, number in zip(batch["token"], batch["example"], strict=True):
            np.testing.assert_array_equal(row[: len(texts[number])], texts[number])


def test_a_contiguous_evaluation_reads_each_example_once(streams):
    for batch in (2, 5, 7):
        data = streams(batch)
        batches = list(data.evaluation())
        assert {len(rows["example"]) for rows in batches} == {batch}
        with_text = np.stack([rows["weight"].any(1) for rows in batches])
        position = np.stack([rows["example"] for rows in batches])
        assert sorted(position[with_text]) == [*range(data.num_examples)]
        source = np.stack([rows["corpus"] for rows in batches])
        for row in range(batch):
            for number in np.unique(source):
                own = position[with_text[:, row] & (source[:, row] == number), row]
                assert (np.diff(own) == 1).all()
        parts = [
            concatenate(data.evaluation(slice(i, i + 1)))["token"] for i in range(batch)
        ]
        whole = np.stack([rows["token"] for rows in batches])
        np.testing.assert_array_equal(np.stack(parts, axis=1), whole)


def test_a_corpus_with_too_few_rows_or_examples_is_refused(make):
    too_few_examples = make(CONTIGUOUS, batch=400)
    with pytest.raises(UserError, match=r"train\.batch=400 gives 400 rows"):
        too_few_examples.batch(0)
    no_rows = make(CONTIGUOUS, LONG_STREAMS, batch=2, rates=[0.01, 0.99])
    with pytest.raises(UserError, match=r"train\.batch=2 gives 0 rows"):
        no_rows.source.check_batch_size()
    make(toy_objectives.Objective(), batch=400).source.check_batch_size()


def test_contiguous_streams_use_the_same_index(make):
    assert make(CONTIGUOUS).fingerprint == make(toy_objectives.Objective()).fingerprint
    assert TextSpec("stream", 8).contiguous is False


@pytest.mark.parametrize("streams", [LONG_STREAMS[:1], LONG_STREAMS])
@pytest.mark.parametrize("dupe_factor", [0, 3])
def test_an_epoch_has_the_rows_of_its_copy(make, tmp_path, streams, dupe_factor):
    objective = toy_objectives.Objective("pair")
    settings = {"dupe_factor": dupe_factor, "repacked": True, "batch": 8}
    data = make(objective, streams, **settings)
    spec, copies = objective.text_spec(8), []
    for epoch in range(8):
        copy = epoch % dupe_factor if dupe_factor else epoch
        copies.append([build_copy(tmp_path, spec, s, copy) for s in streams])
    most = sum(len(copy[0].start) for copy in copies)
    rows = concatenate(data.batches(0, None, -(-most * len(streams) // 8)))
    for number in range(len(streams)):
        own = rows["corpus"] == number
        texts = [
            tuple(t[:n])
            for t, n in zip(
                rows["token"][own], rows["weight"][own].sum(1).astype(int), strict=True
            )
        ]
        begin = 0
        for copy in copies[:5]:
            expected = [tuple(t) for t in toy_objectives.example_texts(copy[number])]
            assert sorted(texts[begin : begin + len(expected)]) == sorted(expected)
            begin += len(expected)


def test_a_batch_of_a_repacked_text_depends_on_its_step_alone(make):
    """Read in any order, by any batch size, and by hosts that each read some rows."""
    settings = {"streams": LONG_STREAMS, "dupe_factor": 2, "repacked": True}
    objective = toy_objectives.Objective("pair", timed=True)
    rows = concatenate(make(objective, batch=6, **settings).batches(0, None, 60))
    fresh = make(objective, batch=6, **settings)
    for step in (59, 3, 31, 0, 58):
        whole = fresh.batch(step)
        here = {k: v[6 * step : 6 * step + 6] for k, v in rows.items()}
        assert_same_batch(whole, here)
        halves = [fresh.batch(step, slice(n, None, 2)) for n in (0, 1)]
        for name in whole:
            np.testing.assert_array_equal(halves[1][name], whole[name][1::2])
    other = concatenate(make(objective, batch=12, **settings).batches(0, None, 30))
    for name in rows.keys() - {"step"}:
        np.testing.assert_array_equal(other[name], rows[name])


def test_the_same_copy_has_the_same_corruption(make):
    """Rows of a text recur with their random numbers after dupe_factor epochs."""
    data = make(toy_objectives.Objective("pair"), dupe_factor=2, repacked=True, batch=1)
    copies = data.source._copies[0]
    cycle = copies.size(0) + copies.size(1)
    rows = concatenate(data.batches(0, None, 2 * cycle))
    keys = [
        sorted(map(tuple, rows["random"][n : n + cycle].tolist())) for n in (0, cycle)
    ]
    assert keys[0] == keys[1] and len(set(keys[0])) == cycle


def test_an_evaluation_reads_the_first_copy(make):
    objective = toy_objectives.Objective("pair")
    once = concatenate(make(objective).evaluation())
    repacked = concatenate(make(objective, repacked=True, dupe_factor=3).evaluation())
    np.testing.assert_array_equal(repacked["token"], once["token"])


WRONG_ARRAYS = [
    (lambda batch: {"tokem": batch["token"]}, "returns an array 'tokem' that"),
    (
        lambda batch: {"weight": batch["weight"].astype(np.float64)},
        r"'weight' as float64 \[4, 8\]; by batch_spec it is float32 \[4, 8\]",
    ),
    (
        lambda batch: {"token": batch["token"][:, :-1]},
        r"'token' as int32 \[4, 7\]; by batch_spec it is int32 \[4, 8\]",
    ),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG_ARRAYS)
def test_arrays_that_are_not_as_in_batch_spec_are_refused(make, wrong, says):
    class Wrong(toy_objectives.Objective):
        name = "toy"

        def corrupt(self, *args):
            batch = super().corrupt(*args)
            return batch | wrong(batch)

    source = make(Wrong()).source
    with pytest.raises(UserError, match=f"^objective toy: .*{says}") as error:
        source.rows(np.arange(4))
    assert "\n" not in str(error.value)


def test_an_array_that_batch_spec_names_may_not_be_missing(make):
    class Wrong(toy_objectives.Objective):
        name = "toy"

        def corrupt(self, *args):
            batch = super().corrupt(*args)
            del batch["label"]
            return batch

    says = (
        r"^objective toy: corrupt returns no array 'label'; by batch_spec it is int32"
    )
    with pytest.raises(UserError, match=says):
        make(Wrong()).source.empty_rows(1)
