"""Parts and answers of documents are found again in the rows of an index."""

import numpy as np
import pytest

from research.contract.batch import ANSWER_END, ANSWER_START, PART
from research.data.documents import join_parts
from research.data.read.corpus import Corpus
from research.data.rows import TextSpec
from research.data.store.example_index import build_index
from research.data.store.stream import build_stream
from research.data.tokenize.token_offsets import token_offsets

KINDS = ["unigram", "wordpiece", "bytebpe"]


def make_stream(documents, vocabulary, folder, separator="eos"):
    corpus = Corpus("parts", lambda split: iter(documents), lambda: repr(documents))
    return build_stream(corpus, "train", vocabulary, folder, separator)


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_those_of_the_pieces(vocabularies, kind):
    vocabulary = vocabularies[kind]
    text = "Überall 1920s.[8] ends,\n 'don't' a  ba。 ☃x abab"
    offsets = token_offsets(text, vocabulary)
    tokens = vocabulary.encode(text)[0]
    assert len(offsets.begin) == len(offsets.end) == len(tokens)
    assert (offsets.begin < offsets.end).all() and (np.diff(offsets.begin) >= 0).all()
    for token, begin, end in zip(tokens, *offsets, strict=True):
        piece = vocabulary.decode([token]).strip().casefold()
        assert begin >= 0 and end <= len(text)
        if piece and "\ufffd" not in piece:  # neither a space nor part of a character
            assert piece in text[begin:end].casefold()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_the_first_part_and_the_others(vocabularies, tmp_path, kind):
    vocabulary = vocabularies[kind]
    pairs = [["a ba aba", "ba"], ["ba", "a ba. ba a ba a"], ["aba ba"], ["a", "b", "c"]]
    documents = [
        join_parts(pair, "\n")._replace(label=str(len(pair))) for pair in pairs
    ]
    stream = make_stream(documents, vocabulary, tmp_path)
    index = build_index(stream, TextSpec("parts", 64), 0, tmp_path)
    rows = index.read(np.arange(4), 64, pad_id=0)
    for n, pair in enumerate(pairs):
        first, whole = vocabulary.encode(pair[0])[0], vocabulary.encode("\n".join(pair))
        assert rows["first_length"][n] == len(first)
        assert rows["token"][n, : rows["length"][n]].tolist() == whole[0].tolist()
        assert (rows["flags"][n] & PART > 0).sum() == len(pair) - 1
    assert [stream.label_names[n] for n in index.label] == ["2", "2", "1", "3"]
    cut = build_index(stream, TextSpec("parts", 5), 0, tmp_path)
    whole = index.length + index.second_length
    np.testing.assert_array_equal(cut.length + cut.second_length, np.minimum(whole, 5))
    short = np.minimum(index.length, index.second_length) <= 2
    kept = np.minimum(cut.length, cut.second_length)
    assert (kept[short] == np.minimum(index.length, index.second_length)[short]).all()
    assert cut.counts["truncated"] == np.maximum(whole - 5, 0).sum()


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_a_part_and_an_answer_begin_behind_the_ends_of_lines(
    vocabularies, tmp_path, kind
):
    vocabulary = vocabularies[kind]
    pairs = [["a ba\naba", "ba a"], ["ba\n\n", "a ba\na\n aba ba"]]
    documents = [join_parts(pair, "\n") for pair in pairs]
    begin = documents[1].text.index("aba")
    documents[1] = documents[1]._replace(answer=(begin, begin + 3))
    stream = make_stream(documents, vocabulary, tmp_path, "lines")
    index = build_index(stream, TextSpec("parts", 64), 0, tmp_path)
    rows = index.read(np.arange(2), 64, pad_id=0)
    eos = vocabulary.vocab.eos_id

    def with_eos(text):
        lines = [vocabulary.encode(line)[0] for line in text.split("\n")]
        return [token for line in lines for token in (*line, eos)]

    for n, pair in enumerate(pairs):
        size, first = rows["length"][n], rows["first_length"][n]
        assert rows["token"][n, :first].tolist() == with_eos(pair[0])
        assert [*rows["token"][n, first:size], eos] == with_eos(pair[1])
        assert np.flatnonzero(rows["flags"][n] & PART).tolist() == [first]
    begins, ends = (rows["flags"][1] & bit > 0 for bit in (ANSWER_START, ANSWER_END))
    token = rows["token"][1, begins.argmax() : ends.argmax() + 1]
    assert vocabulary.decode(token) == "aba"


def test_parts_may_have_rooms_of_their_own(vocabularies, tmp_path):
    words = [["a"] * size for size in (2, 9, 3)]
    documents = [
        join_parts([" ".join(a), " ".join(b)], "\n") for a in words for b in words
    ]
    stream = make_stream(documents, vocabularies["wordpiece"], tmp_path)
    index = build_index(stream, TextSpec("parts", 9, max_first=5), 0, tmp_path)
    sizes = [2, 5, 3]  # and of the others at most 4
    assert index.length.tolist() == [size for size in sizes for _ in words]
    assert index.second_length.tolist() == [2, 4, 3] * 3
    assert index.counts["truncated"] == 3 * (9 - 5) + 3 * (9 - 4)


@pytest.mark.parametrize("tail", [0, 1, 6, 8, 9, 50])
def test_a_single_text_may_keep_its_end(vocabularies, tmp_path, tail):
    vocabulary = vocabularies["wordpiece"]
    texts = ["a b b a b a a b a a a b", "b a a b b b a a", "a b"]
    documents = [join_parts([text], "\n") for text in texts]
    documents.append(join_parts([texts[0], "b"], "\n"))
    stream = make_stream(documents, vocabulary, tmp_path)
    spec = TextSpec("parts", 8, tail=tail, separators=2)
    index = build_index(stream, spec, 0, tmp_path)
    rows = index.read(np.arange(4), 8, 0)
    long, fits, short = (vocabulary.encode(text)[0].tolist() for text in texts)
    assert (len(long), len(fits), len(short)) == (12, 8, 2)
    kept = min(tail, 8)
    expected = [long[: 8 - kept] + long[12 - kept :], fits, short, [*long[:5], long[1]]]
    for n, text in enumerate(expected):
        assert rows["token"][n, : rows["length"][n]].tolist() == text
    assert rows["first_length"].tolist() == [8 if kept == 8 else 8 - kept, 8, 2, 5]
    assert (rows["flags"][:3] & PART == 0).all() and rows["flags"][3, 5] & PART
    assert index.counts["truncated"] == 4 + 7 and index.counts["repeated"] == 0


@pytest.mark.parametrize("stride", [1, 3, 50])
def test_windows_cover_the_other_parts_at_a_stride(vocabularies, tmp_path, stride):
    vocabulary = vocabularies["unigram"]
    context = " ".join(["ba", "a", "aba"] * 20)
    document = join_parts(["a ba a ba a", context], "\n")
    answer = len("a ba a ba a\n") + 30
    document = document._replace(answer=(answer, answer + 6))
    stream = make_stream(
        [document, join_parts(["a", "ba"], "\n")], vocabulary, tmp_path
    )
    spec = TextSpec("parts", 24, stride=stride, max_first=4)
    index = build_index(stream, spec, 0, tmp_path)
    size = len(vocabulary.encode(context)[0])
    own = index.start == 0
    assert (~own).sum() == 1 and (index.length[own] == 4).all()
    begin = index.second[own] - index.second[0]
    length = index.second_length[own]
    assert begin.tolist() == [min(stride, 20) * n for n in range(len(begin))]
    assert (length[:-1] == 20).all() and begin[-1] + length[-1] == size
    assert (begin[:-1] + 20 < size).all()  # the last window alone has the end
    rows = index.read(np.arange(len(index.start)), 24, 0)
    starts, ends = (rows["flags"] & bit > 0 for bit in (ANSWER_START, ANSWER_END))
    whole = starts.any(axis=1) & ends.any(axis=1)
    assert whole.any() or stride == 50  # windows without overlap cut answers
    for token, first, last in zip(
        rows["token"][whole],
        starts[whole].argmax(1),
        ends[whole].argmax(1),
        strict=True,
    ):
        text = vocabulary.decode(token[first : last + 1])
        assert document.text[answer : answer + 6].strip() in text


@pytest.mark.parametrize("stride", [1, 3, 5, 8, 50])
def test_chunks_cover_a_single_text_at_a_stride(vocabularies, tmp_path, stride):
    vocabulary = vocabularies["wordpiece"]
    texts = ["a b", "a b b a b a a b a a a b b a b a b b a", "b a a b b b a a"]
    parts = [[text] for text in texts] + [[texts[1], "b"]]
    documents = [
        join_parts(each, "\n")._replace(label=str(len(each))) for each in parts
    ]
    stream = make_stream(documents, vocabulary, tmp_path)
    index = build_index(stream, TextSpec("parts", 8, stride=stride), 0, tmp_path)
    rows = index.read(np.arange(len(index.start)), 8, 0)
    short, long, fits = (vocabulary.encode(text)[0].tolist() for text in texts)
    step, chunks = min(stride, 8), []
    while not chunks or len(chunks[-1]) + step * (len(chunks) - 1) < len(long):
        chunks.append(long[step * len(chunks) :][:8])
    expected = [short, *chunks, fits, [*long[:7], short[1]]]  # a pair is not cut
    found = zip(rows["token"], rows["length"], strict=True)
    assert [token[:size].tolist() for token, size in found] == expected
    assert rows["first_length"].tolist() == [len(row) for row in expected[:-1]] + [7]
    names = [stream.label_names[label] for label in index.label]
    assert names == ["1"] * (len(chunks) + 2) + ["2"]
    assert index.counts["truncated"] == len(long) + 1 - 8
