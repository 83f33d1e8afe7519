"""What an example tells beside its text: spans, corpus, step; dupe_factor; streams."""

import numpy as np
import pytest

from research.batch import EVALUATION_STEP, NEXT, NONADJACENT, OTHER_DOCUMENT, TextSpec
from research.data.loading.examples import Part, Text
from research.data.loading.permutation import follow
from research.data.pipeline import Pipeline
from research.data.store import example_index
from research.errors import UserError
from tests.testing import toy_objectives
from tests.testing.toy_objectives import join, same

LONG = (
    toy_objectives.Stream(((70, 50, 90), (10, 200))),
    toy_objectives.Stream(((50,), (30, 45, 90)), seed=1),
)


@pytest.fixture
def make(tmp_path):
    """Pipelines over toy streams: `make(objective, batch=..., ...)`."""

    def make(
        objective, streams=LONG[:1], *, batch=4, rates=None, seed=0, dupe_factor=0
    ):
        parts = [
            Part(s, example_index.build_index(s, objective.text_spec(8), 0, tmp_path))
            for s in streams
        ]
        rates = dict(enumerate(rates or [1] * len(parts)))
        told = {
            "seed": seed,
            "rates": rates,
            "batch": batch,
            "dupe_factor": dupe_factor,
        }
        text = Text(parts, objective, toy_objectives.vocab(), length=8, **told)
        return Pipeline(text, batch=batch)

    return make


@pytest.mark.parametrize("unit", example_index.PAIR_UNITS)
def test_both_spans_of_a_pair_are_read_one_after_the_other(make, unit):
    data = make(toy_objectives.Objective(unit), batch=7)
    (part,) = data.source.parts
    rows = join(data.evaluation())
    for n, text in enumerate(toy_objectives.texts(part)):
        np.testing.assert_array_equal(rows["token"][n][: len(text)], text)
        assert rows["weight"][n].sum() == len(text)
        assert rows["first"][n] == part.index.length[n]
        at = part.index.start[n], part.index.second[n]
        sizes = part.index.length[n], part.index.second_length[n]
        flags = [
            part.stream.flags[a : a + size] for a, size in zip(at, sizes, strict=True)
        ]
        np.testing.assert_array_equal(
            rows["flags"][n][: len(text)], np.concatenate(flags)
        )
    num = len(part.index.label)
    np.testing.assert_array_equal(rows["label"][:num], part.index.label)
    assert {*part.index.label} == {
        NEXT,
        OTHER_DOCUMENT,
    } and NONADJACENT not in part.index.label
    assert (rows["first"][:num] < rows["weight"][:num].sum(1)).all()
    assert (rows["first"][num:] == 0).all() and (rows["label"][num:] == -1).all()


@pytest.mark.parametrize("unit", ["stream", "document", "sentences", "passage"])
def test_one_span_is_first_as_a_whole(make, unit):
    rows = join(make(toy_objectives.Objective(unit)).evaluation())
    np.testing.assert_array_equal(rows["first"], rows["weight"].sum(1))


def test_rows_know_their_corpus_and_their_step(make):
    told = toy_objectives.Objective(timed=True)
    data = make(told, LONG, batch=10, rates=[0.3, 0.7])
    first = data.source.sizes[0]
    for step in (0, 1, 10**7):
        rows = data.batch(step)
        assert (rows["step"] == step).all()
        np.testing.assert_array_equal(rows["source"], rows["example"] >= first)
    ahead = join(data.batches(3, slice(2, 5), 40))["step"]
    np.testing.assert_array_equal(ahead, np.repeat(np.arange(3, 40), 3))
    rows = join(data.evaluation())
    assert (rows["step"] == EVALUATION_STEP).all()
    num = data.num_examples
    np.testing.assert_array_equal(rows["source"][:num], np.arange(num) >= first)


@pytest.mark.parametrize("dupe_factor", [1, 3])
def test_copies_of_the_noise_come_round_again(make, dupe_factor):
    data = make(toy_objectives.Objective(), batch=1, dupe_factor=dupe_factor)
    num = data.num_examples
    epochs = [data.rows(np.arange(e * num, (e + 1) * num)) for e in range(7)]
    by_text = [
        {row.tobytes(): noise.tobytes() for row, noise in zip(*pair, strict=True)}
        for pair in ((rows["token"], rows["noise"]) for rows in epochs)
    ]
    for one in range(7):
        for two in range(one):
            alike = (one - two) % dupe_factor == 0
            assert (by_text[one] == by_text[two]) == alike
            assert (epochs[one]["token"] != epochs[two]["token"]).any()
    fresh = make(toy_objectives.Objective(), batch=1)
    same(fresh.rows(np.arange(num)), epochs[0])
    same(
        make(toy_objectives.Objective(), dupe_factor=7).rows(np.arange(7 * num)),
        join(fresh.rows(np.arange(e * num, (e + 1) * num)) for e in range(7)),
    )


STREAMS = toy_objectives.Objective(contiguous=True)


@pytest.fixture(params=["one corpus", "mixture"])
def streams(request, make):
    """Pipelines whose rows are contiguous streams, by batch size."""
    if request.param == "mixture":
        return lambda batch=5: make(STREAMS, LONG, batch=batch, rates=[0.4, 0.6])
    return lambda batch=5: make(STREAMS, batch=batch)


def test_a_row_goes_on_where_it_was(streams):
    data = streams()
    sizes, first = data.source.sizes, np.append(data.source._first, 10**9)
    batches = list(data.batches(0, None, 120))
    rows = np.stack([batch["example"] for batch in batches])
    sources = np.stack([batch["source"] for batch in batches])
    assert (sources == sources[0]).all()
    for row, source in zip(rows.T, sources[0], strict=True):
        assert ((row >= first[source]) & (row < first[source + 1])).all()
        steps = sizes[source] // (sources[0] == source).sum()
        goes_on = np.diff(row) == 1
        turn = np.arange(1, len(row)) % steps == 0  # another epoch
        assert goes_on[~turn].all() and not goes_on[turn].all()
    for source in np.unique(sources[0]):
        own = rows[:, sources[0] == source]
        steps = sizes[source] // own.shape[1]
        for epoch in range(2, 6):
            both = own[(epoch - 2) * steps : epoch * steps].ravel() - first[source]
            assert {*both} == {*range(sizes[source])}
            assert len({*both[: len(both) // 2]}) == len(both) // 2


def test_streams_are_seekable_and_shared_by_hosts(streams):
    data = streams()
    read = list(data.batches(0, None, 60))
    for step in (59, 3, 17):
        same(read[step], streams().batch(step))
        shares = [streams().batch(step, slice(a, b)) for a, b in ((0, 2), (2, 5))]
        same(read[step], join(shares))
    texts = [row for part in data.source.parts for row in toy_objectives.texts(part)]
    for batch in read[::7]:
        for row, place in zip(batch["token"], batch["example"], strict=True):
            np.testing.assert_array_equal(row[: len(texts[place])], texts[place])


def test_an_evaluation_in_streams_reads_each_example_once(streams):
    for batch in (2, 5, 7):
        data = streams(batch)
        batches = list(data.evaluation())
        assert {len(rows["example"]) for rows in batches} == {batch}
        here = np.stack([rows["weight"].any(1) for rows in batches])
        place = np.stack([rows["example"] for rows in batches])
        assert sorted(place[here]) == [*range(data.num_examples)]
        source = np.stack([rows["source"] for rows in batches])
        for row in range(batch):
            for number in np.unique(source):
                own = place[:, row][here[:, row] & (source[:, row] == number)]
                assert (np.diff(own) == 1).all()
        shares = [join(data.evaluation(slice(i, i + 1)))["token"] for i in range(batch)]
        whole = np.stack([rows["token"] for rows in batches])
        np.testing.assert_array_equal(np.stack(shares, axis=1), whole)


@pytest.mark.parametrize("rows, num", [(1, 1), (3, 3), (4, 11), (5, 100)])
def test_follow_is_a_walk_through_even_parts(rows, num):
    step = np.arange(6 * (num // rows))
    for row in range(rows):
        epoch, place = follow(step, np.full_like(step, row), rows=rows, num=num)
        np.testing.assert_array_equal(epoch, step // (num // rows))
        begin = row * (num // rows) + epoch % 2 * (num % rows)
        np.testing.assert_array_equal(place, begin + step % (num // rows))
        assert place.max() < num


def test_a_batch_that_has_no_streams_is_told(make):
    few = make(STREAMS, batch=400)
    with pytest.raises(UserError, match=r"train\.batch=400 gives 400 rows"):
        few.batch(0)
    without = make(STREAMS, LONG, batch=2, rates=[0.01, 0.99])
    with pytest.raises(UserError, match=r"train\.batch=2 gives 0 rows"):
        without.source.check()
    make(toy_objectives.Objective(), batch=400).source.check()


def test_streams_are_read_from_the_same_index(make):
    assert make(STREAMS).fingerprint == make(toy_objectives.Objective()).fingerprint
    assert TextSpec("stream", 8).contiguous is False
