"""Rows are whole sentences, pairs are BERT's, and what is lost is counted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.batch import NEXT, NONADJACENT, OTHER_DOCUMENT, TextSpec
from research.data import counter_rng
from research.data.store import example_index, packing
from research.errors import UserError
from tests.testing import toy_objectives

shards = st.lists(
    st.lists(st.integers(0, 60), min_size=1, max_size=5), min_size=1, max_size=4
)
lengths = st.integers(2, 50)


def spans(built):
    """All spans of an index, as (start, end)."""
    found = list(zip(built.start, built.start + built.length, strict=True))
    if built.second is not None:
        ends = built.second + built.second_length
        found += zip(built.second, ends, strict=True)
    return found


def times(stream, built):
    """How often each token of the stream is read; -1 at separators nobody reads."""
    read = np.zeros(stream.num_tokens, int)
    for start, end in spans(built):
        read[start:end] += 1
    separators = stream.document_offsets[1:] - 1
    read[separators[read[separators] == 0]] = -1
    return read


def documents(stream, place):
    """The document of each token."""
    return np.searchsorted(stream.document_offsets, place, side="right") - 1


@given(shards, lengths, st.sampled_from(["sentences", "passage"]))
@settings(max_examples=60, deadline=None)
def test_rows_hold_as_many_whole_sentences_as_fit(tmp_path_factory, sizes, most, unit):
    stream = toy_objectives.Stream(sizes)
    built = example_index.build(
        stream, TextSpec(unit, most), 0, tmp_path_factory.mktemp("cache")
    )
    assert (times(stream, built)[times(stream, built) >= 0] == 1).all()
    assert not any(built.counts[name] for name in ("skipped", "repeated", "truncated"))
    text = packing.sentences(stream)
    size = text.end - text.start
    assert built.counts["cut"] == (size > most).sum()
    assert ((built.length > 0) & (built.length <= most)).all()
    whole = {*text.end}
    for row, (start, end) in enumerate(spans(built)):
        sentence = np.searchsorted(text.start, start, side="right") - 1
        if start != text.start[sentence]:  # a sentence that is cut goes on
            assert (start - text.start[sentence]) % most == 0
        if end not in whole:
            assert end - start == most and size[sentence] > most
            continue
        if row + 1 < len(built.start):  # the next sentence did not fit
            after = np.searchsorted(text.start, built.start[row + 1], side="right") - 1
            edges = (
                stream.shard_offsets if unit == "sentences" else stream.document_offsets
            )
            here, there = np.searchsorted(edges, [start, built.start[row + 1]], "right")
            fits = min(text.end[after], built.start[row + 1] + most) - start <= most
            assert not fits or here != there
    last = built.start + built.length - 1
    one, last = documents(stream, built.start), documents(stream, last)
    assert unit == "sentences" or (one == last).all()


def literal(text, reads):
    """create_pretraining_data as it is written, on lists; its dice are ours."""
    rows = []
    count = len(text.first) - 1
    body = [
        [list(range(text.start[s], text.end[s])) for s in range(*text.first[d : d + 2])]
        for d in range(count)
    ]
    for d, document in enumerate(body):
        die = counter_rng.uniform(key_of(d, 0), "target", 2)[0]
        target = reads.length
        if die[0] < reads.short_rate:
            target = 2 + int(die[1] * (reads.length - 1))
        chunk, i, turn = [], 0, 0
        while i < len(document):
            chunk.append(document[i])
            if i == len(document) - 1 or sum(map(len, chunk)) >= target:
                die = counter_rng.uniform(key_of(d, turn), "pair", 5)[0]
                a_end = 1
                if len(chunk) >= 2:
                    a_end = 1 + int(die[0] * (len(chunk) - 1))
                a, b = joined(chunk[:a_end]), []
                label = (
                    OTHER_DOCUMENT
                    if len(chunk) == 1 or die[1] < reads.other_document_rate
                    else NEXT
                )
                if label == OTHER_DOCUMENT:
                    other = int(die[2] * (count - 1))
                    other += other >= d
                    first = int(die[4] * len(body[other]))
                    for sentence in body[other][first:]:
                        b += sentence
                        if len(b) >= target - len(a):
                            break
                    i -= len(chunk) - a_end
                else:
                    b = joined(chunk[a_end:])
                while len(a) + len(b) > reads.length:
                    (a if len(a) > len(b) else b).pop()
                rows.append((a, b, label))
                chunk, turn = [], turn + 1
            i += 1
    return rows


def joined(lists):
    return [item for each in lists for item in each]


def key_of(document, turn):
    return counter_rng.row_key(packing.SEED, np.array([document]), np.array([turn]))


@given(shards, lengths, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0, 0.4]))
@settings(max_examples=60, deadline=None)
def test_pairs_are_those_of_the_written_script(sizes, length, other, short):
    text = packing.sentences(toy_objectives.Stream(sizes))
    reads = TextSpec("pair", length, other_document_rate=other, short_rate=short)
    if len(text.first) < 3:
        with pytest.raises(UserError, match="two documents"):
            packing.pairs(text, reads)
        return
    made, expected = packing.pairs(text, reads), literal(text, reads)
    assert made.label.tolist() == [label for _, _, label in expected]
    assert made.length.tolist() == [len(a) for a, _, _ in expected]
    assert made.second_length.tolist() == [len(b) for _, b, _ in expected]
    for row, (a, b, _) in enumerate(expected):
        # The script drops tokens at either end; the lists here only at the back.
        assert 0 <= made.start[row] - a[0] <= made.truncated
        assert 0 <= made.second[row] - b[0] <= made.truncated


@given(shards, lengths, st.sampled_from(example_index.PAIRS))
@settings(max_examples=60, deadline=None)
def test_no_sentence_is_lost_but_by_truncation(tmp_path_factory, sizes, length, unit):
    stream = toy_objectives.Stream(sizes)
    text = packing.sentences(stream)
    if len(text.first) < 3:
        return
    reads = TextSpec(unit, length, other_document_rate=0.3, nonadjacent_rate=0.3)
    built = example_index.build(stream, reads, 0, tmp_path_factory.mktemp("cache"))
    read = times(stream, built)
    assert built.counts["skipped"] == (read == 0).sum()
    assert built.counts["repeated"] == np.maximum(read - 1, 0).sum()
    if not built.counts["truncated"]:
        assert built.counts["skipped"] == 0
    assert built.counts["skipped"] <= built.counts["truncated"]
    both = built.length + built.second_length
    assert (built.length > 0).all() and (built.second_length > 0).all()
    assert (both <= length).all() and built.counts["cut"] == 0
    first, second = (
        (documents(stream, start), documents(stream, start + size - 1))
        for start, size in (
            (built.start, built.length),
            (built.second, built.second_length),
        )
    )
    assert (first[0] == first[1]).all() and (second[0] == second[1]).all()
    np.testing.assert_array_equal(first[0] != second[0], built.label == OTHER_DOCUMENT)


def wide(sizes=(40,) * 300, seed=0, sentence=5):
    """A stream of documents of even sentences, so that nothing depends on sizes."""
    stream = toy_objectives.Stream((sizes,), seed=seed)
    starts = [
        np.arange(start, end - 1, sentence)
        for start, end in zip(
            stream.document_offsets, stream.document_offsets[1:], strict=False
        )
    ]
    stream.sentence_offsets = np.append(np.concatenate(starts), stream.num_tokens)
    return stream


def sentence_numbers(text, made):
    """Of each pair: the last sentence of A and the first one of B."""
    last = np.searchsorted(text.start, made.start + made.length - 1, side="right") - 1
    return last, np.searchsorted(text.start, made.second, side="right") - 1


@pytest.mark.parametrize("unit", example_index.PAIRS)
def test_labels_say_how_the_second_span_stands_to_the_first(unit):
    text = packing.sentences(wide())
    made = packing.pairs(
        text, TextSpec(unit, 20, other_document_rate=0.3, nonadjacent_rate=0.3)
    )
    assert not made.truncated
    one, two = sentence_numbers(text, made)
    document = np.searchsorted(text.first, one, side="right")
    same = document == np.searchsorted(text.first, two, side="right")
    np.testing.assert_array_equal(same, made.label != OTHER_DOCUMENT)
    np.testing.assert_array_equal(two == one + 1, made.label == NEXT)
    assert (two[made.label == NONADJACENT] > one[made.label == NONADJACENT] + 1).all()


@pytest.mark.parametrize("unit", example_index.PAIRS)
@pytest.mark.parametrize(("other", "far"), [(0.5, 0.0), (0.3, 0.3), (0.0, 0.0)])
def test_labels_come_at_their_rates(unit, other, far):
    """Of pairs that had the choice, within 4.5 standard deviations (p < 1e-5)."""
    text = packing.sentences(wide((40,) * 500))
    made = packing.pairs(
        text, TextSpec(unit, 20, other_document_rate=other, nonadjacent_rate=far)
    )
    begin = np.searchsorted(text.start, made.start)
    document = np.searchsorted(text.first, begin, side="right")
    left = text.first[document] - begin
    free = left > 5  # A and B of at most 4 sentences, one to skip, one for B
    count = free.sum()
    assert count > 300
    for label, rate in (
        (OTHER_DOCUMENT, other),
        (NONADJACENT, far),
        (NEXT, 1 - other - far),
    ):
        found = (made.label[free] == label).sum()
        assert abs(found - rate * count) <= 4.5 * np.sqrt(count * rate * (1 - rate))
    assert (made.label[left == 1] == OTHER_DOCUMENT).all()


def test_the_first_segment_ends_at_any_sentence_and_other_text_starts_at_any():
    """Chi-square over cuts, starts and hundreds of documents, at level 1e-4."""
    text = packing.sentences(wide((40,) * 2000))
    made = packing.pairs(text, TextSpec("pair", 25, other_document_rate=0.5))
    full = np.searchsorted(text.start, made.start) % 8 <= 3  # 5 sentences are left
    cuts = np.bincount(made.length[full] // 5, minlength=5)[1:5]
    second = sentence_numbers(text, made)[1][made.label == OTHER_DOCUMENT]
    starts, hundreds = np.bincount(second % 8), np.bincount(second // 800)
    for counts, bound in ((cuts, 21.1), (starts, 29.9), (hundreds, 50.8)):
        expected = counts.sum() / len(counts)
        assert ((counts - expected) ** 2 / expected).sum() < bound


def test_a_share_of_documents_is_packed_shorter():
    text = packing.sentences(wide((400,) * 1500, sentence=1))
    made = packing.pairs(text, TextSpec("pair", 20, short_rate=0.25))
    both = made.length + made.second_length
    document = np.searchsorted(
        text.first, np.searchsorted(text.start, made.start), "right"
    )
    first = np.unique(document, return_index=True)[1]
    target = both[first]
    share = (target < 20).mean()
    rate = 0.25 * 18 / 19  # 2 .. 20, and 20 is not shorter
    assert abs(share - rate) < 4.5 * np.sqrt(rate * (1 - rate) / 1500)
    assert (np.bincount(target, minlength=21)[2:20] > 0).all()


def test_truncation_takes_from_both_ends_alike():
    """Tokens that the front of a side loses are as many heads of a fair coin."""
    text = packing.sentences(wide((600,) * 400, sentence=150))
    made = packing.pairs(text, TextSpec("sentence_pair", 60))
    assert (made.length == 30).all() and (made.second_length == 30).all()
    assert made.truncated == 240 * len(made.start)
    for start in (made.start, made.second):
        lost = start - text.start[np.searchsorted(text.start, start, side="right") - 1]
        assert abs(lost.mean() - 60) < 4.5 * np.sqrt(30 / len(lost))
        assert abs(lost.var() - 30) < 4.5 * 30 * np.sqrt(2 / len(lost))


def test_odd_rows_give_the_first_side_the_odd_token():
    text = packing.sentences(wide((20,) * 50, sentence=10))
    made = packing.pairs(text, TextSpec("sentence_pair", 7))
    assert {*made.length} == {4} and {*made.second_length} == {3}


def test_packing_is_a_function_of_text_and_reads():
    text = packing.sentences(wide())
    reads = TextSpec("pair", 20, other_document_rate=0.5, short_rate=0.1)
    twice = [packing.pairs(text, reads) for _ in range(2)]
    for one, two in zip(*twice, strict=True):
        np.testing.assert_array_equal(one, two)
    other = packing.pairs(text, reads._replace(other_document_rate=0.4))
    assert len(other.start) != len(twice[0].start)


def test_pairs_that_cannot_be_are_told(tmp_path):
    with pytest.raises(UserError, match=r"data\.length leaves 1 tokens"):
        example_index.build(toy_objectives.Stream(), TextSpec("pair", 1), 0, tmp_path)
    with pytest.raises(UserError, match="two documents"):
        example_index.build(
            toy_objectives.Stream(((9,),)), TextSpec("pair", 8), 0, tmp_path
        )


def test_the_cache_knows_pairs_by_all_that_makes_them(tmp_path):
    stream, reads = toy_objectives.Stream(), TextSpec("pair", 8)
    asked = [
        reads,
        reads._replace(other_document_rate=0.5),
        reads._replace(nonadjacent_rate=0.5),
        reads._replace(short_rate=0.5),
        reads._replace(unit="sentence_pair"),
    ]
    built = [example_index.build(stream, each, 0, tmp_path) for each in asked]
    assert len({each.fingerprint for each in built}) == len(asked)
    again = example_index.build(stream, reads._replace(contiguous=True), 0, tmp_path)
    assert again.fingerprint == built[0].fingerprint
    assert isinstance(again.second, np.memmap)
    assert (
        example_index.build(stream, TextSpec("passage", 8), 0, tmp_path).second is None
    )
