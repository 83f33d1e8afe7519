"""Rows are whole sentences, pairs are BERT's, and truncated tokens are counted."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.contract.batch import NEXT, OTHER_DOCUMENT
from research.contract.errors import UserError
from research.data import counter_rng
from research.data.rows import TextSpec
from research.data.rows.packing.sentences import find_sentences
from research.data.store import example_index
from tests.testing import toy_objectives

shards = st.lists(
    st.lists(st.integers(0, 60), min_size=1, max_size=5), min_size=1, max_size=4
)
lengths = st.integers(2, 50)
bert_units = st.sampled_from(["pair", "sentence_pair"])


def spans(built):
    """All spans of an index, as (start, end)."""
    found = list(zip(built.start, built.start + built.length, strict=True))
    if built.second is not None:
        ends = built.second + built.second_length
        found += zip(built.second, ends, strict=True)
    return found


def times_read(stream, built):
    """How often each token of the stream is read; -1 at separators in no example."""
    read = np.zeros(stream.num_tokens, int)
    for start, end in spans(built):
        read[start:end] += 1
    separators = stream.document_offsets[1:] - 1
    read[separators[read[separators] == 0]] = -1
    return read


def documents(stream, position):
    """The document of each token."""
    return np.searchsorted(stream.document_offsets, position, side="right") - 1


@given(shards, lengths, st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_a_sentence_is_a_row_if_it_is_neither_too_short_nor_too_long(
    tmp_path_factory, sizes, length, shortest
):
    stream = toy_objectives.Stream(sizes)
    text = find_sentences(stream)
    sentences = zip(text.start.tolist(), text.end.tolist(), strict=True)
    expected = [(a, b) for a, b in sentences if shortest <= b - a <= length]
    spec = TextSpec("sentence", length, shortest=shortest)
    cache = tmp_path_factory.mktemp("cache")
    if not expected:
        with pytest.raises(UserError, match=f"no sentence of {shortest} to {length}"):
            example_index.build_index(stream, spec, 0, cache)
        return
    built = example_index.build_index(stream, spec, 0, cache)
    assert spans(built) == expected
    total = int((text.end - text.start).sum())
    read = sum(b - a for a, b in expected)
    assert built.counts["skipped"] == total - read


@given(shards, lengths, st.sampled_from(["sentences", "passage"]))
@settings(max_examples=60, deadline=None)
def test_rows_hold_as_many_whole_sentences_as_fit(
    tmp_path_factory, sizes, length, unit
):
    stream = toy_objectives.Stream(sizes)
    built = example_index.build_index(
        stream, TextSpec(unit, length), 0, tmp_path_factory.mktemp("cache")
    )
    times = times_read(stream, built)
    assert (times[times >= 0] == 1).all()
    assert not any(built.counts[name] for name in ("skipped", "repeated", "truncated"))
    text = find_sentences(stream)
    size = text.end - text.start
    assert built.counts["cut"] == (size > length).sum()
    assert ((built.length > 0) & (built.length <= length)).all()
    sentence_ends = {*text.end}
    for row, (start, end) in enumerate(spans(built)):
        sentence = np.searchsorted(text.start, start, side="right") - 1
        if start != text.start[sentence]:  # a cut sentence continues
            assert (start - text.start[sentence]) % length == 0
        if end not in sentence_ends:
            assert end - start == length and size[sentence] > length
            continue
        if row + 1 < len(built.start):  # the next sentence did not fit
            after = np.searchsorted(text.start, built.start[row + 1], side="right") - 1
            edges = (
                stream.shard_offsets if unit == "sentences" else stream.document_offsets
            )
            one, other = np.searchsorted(edges, [start, built.start[row + 1]], "right")
            fits = min(text.end[after], built.start[row + 1] + length) - start <= length
            assert not fits or one != other
    last = built.start + built.length - 1
    first, last = documents(stream, built.start), documents(stream, last)
    assert unit == "sentences" or (first == last).all()


def bert_pairs(text, text_spec):
    """BERT's create_pretraining_data on lists, with our random numbers."""
    rows = []
    count = len(text.first) - 1
    body = [
        [list(range(text.start[s], text.end[s])) for s in range(*text.first[d : d + 2])]
        for d in range(count)
    ]
    for d, document in enumerate(body):
        die = counter_rng.uniform(key_of(d, 0), "target", 2)[0]
        target = text_spec.length
        if die[0] < text_spec.short_rate:
            target = 2 + int(die[1] * (text_spec.length - 1))
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
                    if len(chunk) == 1 or die[1] < text_spec.other_document_rate
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
                while len(a) + len(b) > text_spec.length:
                    (a if len(a) > len(b) else b).pop()
                rows.append((a, b, label))
                chunk, turn = [], turn + 1
            i += 1
    return rows


def joined(lists):
    return [item for each in lists for item in each]


def key_of(document, turn):
    return counter_rng.row_key(0, np.array([document]), np.array([turn]))


@given(shards, lengths, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0, 0.4]))
@settings(max_examples=60, deadline=None)
def test_pairs_equal_those_of_berts_script(sizes, length, other, short):
    text = find_sentences(toy_objectives.Stream(sizes))
    text_spec = TextSpec("pair", length, other_document_rate=other, short_rate=short)
    if len(text.first) < 3:
        with pytest.raises(UserError, match="two documents"):
            text_spec.pairs(text)
        return
    made, expected = text_spec.pairs(text), bert_pairs(text, text_spec)
    assert made.label.tolist() == [label for _, _, label in expected]
    assert made.length.tolist() == [len(a) for a, _, _ in expected]
    assert made.second_length.tolist() == [len(b) for _, b, _ in expected]
    for row, (a, b, _) in enumerate(expected):
        # `make_pairs` truncates either end, `bert_pairs` only the back.
        assert 0 <= made.start[row] - a[0] <= made.truncated
        assert 0 <= made.second[row] - b[0] <= made.truncated


def electra_rows(text, length, short_rate):
    """ELECTRA's ExampleBuilder on lists, with our random numbers: the sentences of each
    row, and how many tokens its first segment aims at."""
    rows = []
    for d, (begin, end) in enumerate(itertools.pairwise(text.first)):
        chunk, turn = [], 0
        for s in range(begin, end):
            chunk.append(list(range(text.start[s], text.end[s])))
            die = counter_rng.uniform(key_of(d, turn), "target", 2)[0]
            target = 5 + int(die[1] * (length - 4)) if die[0] < short_rate else length
            if sum(map(len, chunk)) < target and s < end - 1:
                continue
            one = counter_rng.uniform(key_of(d, turn), "halves", 1)[0, 0] < 0.1
            rows.append((chunk, 100_000 if one else (target - 3) // 2))
            chunk, turn = [], turn + 1
    return rows


@given(shards, st.integers(6, 60), st.sampled_from([0, 0.5]))
@settings(max_examples=60, deadline=None)
def test_halves_equal_those_of_electras_script(sizes, length, short):
    text = find_sentences(toy_objectives.Stream(sizes))
    if not len(text.start):
        return
    spec = TextSpec("halves", length - 2, short_rate=short)
    made, truncated = spec.pairs(text), 0
    expected = electra_rows(text, length, short)
    assert len(made.start) == len(expected)
    for row, (chunk, half) in enumerate(expected):
        tokens = joined(chunk)
        both = made.length[row] + made.second_length[row]
        assert both == min(len(tokens), spec.width)
        assert made.start[row] == tokens[0]
        if made.second_length[row]:
            assert made.second[row] == made.start[row] + made.length[row]
            assert made.length[row] == min(half, len(tokens) - 1)
        else:  # the first segment cannot be over
            assert len(tokens) < half or both == 1
        truncated += max(len(tokens) - length + 3 - (not made.second_length[row]), 0)
    assert made.truncated == truncated


@given(shards, lengths, bert_units)
@settings(max_examples=60, deadline=None)
def test_only_truncation_skips_text(tmp_path_factory, sizes, length, unit):
    stream = toy_objectives.Stream(sizes)
    text = find_sentences(stream)
    if len(text.first) < 3:
        return
    text_spec = TextSpec(unit, length, other_document_rate=0.3, nonadjacent_rate=0.3)
    built = example_index.build_index(
        stream, text_spec, 0, tmp_path_factory.mktemp("cache")
    )
    read = times_read(stream, built)
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


def test_impossible_pairs_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"data\.length leaves 1 tokens"):
        example_index.build_index(
            toy_objectives.Stream(), TextSpec("pair", 1), 0, tmp_path
        )
    with pytest.raises(UserError, match="two documents"):
        example_index.build_index(
            toy_objectives.Stream(((9,),)), TextSpec("pair", 8), 0, tmp_path
        )


def test_the_cache_key_of_pairs_holds_every_option(tmp_path):
    stream, text_spec = toy_objectives.Stream(), TextSpec("pair", 8)
    specs = [
        text_spec,
        text_spec.replace(other_document_rate=0.5),
        text_spec.replace(nonadjacent_rate=0.5),
        text_spec.replace(short_rate=0.5),
        text_spec.replace(unit="sentence_pair"),
        TextSpec("halves", 8),
    ]
    built = [example_index.build_index(stream, each, 0, tmp_path) for each in specs]
    assert len({each.fingerprint for each in built}) == len(specs)
    again = example_index.build_index(
        stream, text_spec.replace(label="class"), 0, tmp_path
    )
    assert again.fingerprint == built[0].fingerprint
    assert isinstance(again.second, np.memmap)
    passages = example_index.build_index(stream, TextSpec("passage", 8), 0, tmp_path)
    assert passages.second is None
