"""A stream holds every token of its text, for any batch and shard size."""

import dataclasses
import os
import tracemalloc
from itertools import cycle, islice, pairwise

import numpy as np
import pytest

from research.contract.batch import DOCUMENT, PARAGRAPH, SENTENCE, WORD
from research.contract.errors import UserError
from research.data.documents import Document
from research.data.read.corpus import Corpus
from research.data.store import tokenize
from research.data.store.stream import Stream, build_stream
from research.data.store.token_counts import COUNTS_FILE, token_counts
from research.data.tokenize import train_tokenizer
from research.data.tokenize.vocabulary import Vocabulary, find_special_tokens
from research.files import checksums
from tests.testing.fake_corpus import corpus_of, make_lines

DOCUMENTS = [
    "\n".join(lines) + "\n \n"
    for lines in np.array_split(np.array(make_lines(3), object), 60)
]
DOCUMENTS += ["One. Two! Three?\n\nThe Four, e.g. Five.", "我喜欢你。你呢？\nOK。", "x"]


def build(vocabulary, cache, separator="eos", texts=DOCUMENTS, **options):
    corpus = corpus_of(texts)
    return build_stream(corpus, "train", vocabulary, cache, separator, **options)


def read_all(stream):
    """All tokens and flags of a stream; each shard is read as one row."""
    edges = stream.shard_offsets
    shards = [
        stream.gather(np.array([first]), np.array([last - first]), last - first, -1)
        for first, last in pairwise(edges)
    ]
    token = np.concatenate([row[0] for row, _ in shards])
    assert len(token) == stream.num_tokens
    return token, np.concatenate([bits[0] for _, bits in shards])


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
@pytest.mark.parametrize("separator", ["eos", "none"])
def test_the_stream_holds_the_tokens_of_the_texts(
    vocabularies, tmp_path, tokenizer_type, separator
):
    vocabulary = vocabularies[tokenizer_type]
    stream = build(vocabulary, tmp_path, separator)
    token, flags = read_all(stream)
    between = [vocabulary.vocab.eos_id] if separator == "eos" else []
    assert stream.separator_length == len(between)
    assert stream.num_documents == len(DOCUMENTS)
    edges = pairwise(stream.document_offsets)
    for text, (first, last) in zip(DOCUMENTS, edges, strict=True):
        expected, words = vocabulary.encode(text)
        end = last - len(between)
        assert token[first:last].tolist() == [*expected, *between]
        assert (flags[first:end] & WORD > 0).tolist() == words.tolist()
        assert not flags[end:last].any()


def test_eos_ends_each_line(vocabularies, tmp_path):
    vocabulary = vocabularies["unigram"]
    texts = ["one line", "two lines\nof text", "an empty one\n\nis a line\n"]
    stream = build(vocabulary, tmp_path, "lines", texts)
    token, flags = read_all(stream)
    lines = [line for text in texts for line in text.split("\n")]
    encoded = [[*vocabulary.encode(line)[0], vocabulary.vocab.eos_id] for line in lines]
    assert token.tolist() == [each for line in encoded for each in line]
    assert stream.separator_length == 1 and stream.num_documents == 3
    size = np.cumsum([0, *map(len, encoded)])
    assert stream.document_offsets.tolist() == size[[0, 1, 3, 7]].tolist()
    assert not flags[token == vocabulary.vocab.eos_id].any()
    paragraphs = np.flatnonzero(flags & PARAGRAPH)
    assert paragraphs.tolist() == size[[0, 1, 2, 3, 5]].tolist()
    other = build(vocabulary, tmp_path, "eos", texts)
    assert other.fingerprint != stream.fingerprint


def test_lines_that_are_text_do_not_end_with_eos(vocabularies, tmp_path):
    literal = dataclasses.replace(vocabularies["bytebpe"], keep_whitespace=True)
    with pytest.raises(UserError, match="separator is lines, but the vocabulary keeps"):
        build(literal, tmp_path, "lines")


@pytest.mark.parametrize("tokenizer_type", ["unigram", "bpe"])
def test_units_are_encoded_as_sentencepiece_encodes_whole_texts(
    vocabularies, tokenizer_type
):
    """Compared with the library's encoding of lines, with its own white space rules."""
    import sentencepiece

    vocabulary = vocabularies[tokenizer_type]
    library = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model.data)
    for line in make_lines(4, lines=100):
        if "。" not in line:
            assert vocabulary.encode(line)[0].tolist() == library.encode(line)


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_batch_and_shard_sizes_do_not_change_the_tokens(
    vocabularies, tmp_path, monkeypatch, tokenizer_type
):
    expected = build(vocabularies[tokenizer_type], tmp_path / "a")
    monkeypatch.setattr(tokenize, "MAX_BATCH_CHARS", 300)
    monkeypatch.setattr(tokenize, "MAX_KNOWN_UNITS", 20)
    found = build(vocabularies[tokenizer_type], tmp_path / "b", shard_tokens=500)
    assert len(found.shard_offsets) > 5
    for name in ("document_offsets", "sentence_offsets", "labels"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    for one, other in zip(read_all(found), read_all(expected), strict=True):
        assert np.array_equal(one, other)
    assert set(found.shard_offsets) <= set(found.document_offsets)


def test_flags_mark_where_words_sentences_and_paragraphs_start(vocabularies, tmp_path):
    stream = build(vocabularies["unigram"], tmp_path)
    token, flags = read_all(stream)
    for inner, outer in (
        (WORD, SENTENCE),
        (SENTENCE, PARAGRAPH),
        (PARAGRAPH, DOCUMENT),
    ):
        assert (flags[flags & outer > 0] & inner).all()
    starts = {
        bit: np.flatnonzero(flags & bit) for bit in (SENTENCE, PARAGRAPH, DOCUMENT)
    }
    assert starts[DOCUMENT].tolist() == stream.document_offsets[:-1].tolist()
    assert starts[SENTENCE].tolist() == stream.sentence_offsets[:-1].tolist()
    assert stream.sentence_offsets[-1] == stream.num_tokens == len(token)
    lines = sum(bool(line.strip()) for text in DOCUMENTS for line in text.split("\n"))
    assert len(starts[PARAGRAPH]) == lines
    decode = vocabularies["unigram"].decode
    ends = stream.sentence_offsets
    last = [decode(token[a:b]) for a, b in pairwise(ends[-9:])]
    assert last[:4] == ["One.", "Two!", "Three?", "The Four, e.g. Five."]
    assert last[4:] == ["我喜欢你。", "你呢？", "OK。", "x"]


def test_gather_returns_any_rows(vocabularies, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenize, "MAX_BATCH_CHARS", 300)
    stream = build(vocabularies["bytebpe"], tmp_path, shard_tokens=700)
    token, flags = read_all(stream)
    assert len(stream.shard_offsets) > 5
    draw = np.random.default_rng(0)
    shard = draw.integers(0, len(stream.shard_offsets) - 1, 200)
    first, last = stream.shard_offsets[shard], stream.shard_offsets[shard + 1]
    start = draw.integers(first, last)
    length = np.minimum(draw.integers(0, 40, 200), last - start)
    rows, bits = stream.gather(start, length, 32, pad=-7)
    assert rows.dtype == np.int32 and bits.dtype == np.uint8
    for n in range(200):
        size = min(length[n], 32)
        assert rows[n, :size].tolist() == token[start[n] :][:size].tolist()
        assert bits[n, :size].tolist() == flags[start[n] :][:size].tolist()
        assert (rows[n, size:] == -7).all() and (bits[n, size:] == 0).all()


def test_labels_are_stored_and_unknown_text_is_counted(vocabularies, tmp_path, capsys):
    rows = [Document("a ba", "x"), Document("☃ ba"), Document("ba ☃☃", "y")]
    rows += [Document("ba", "x"), Document(" \n")]
    corpus = Corpus("rows", lambda split: iter(rows), lambda: "rows")
    stream = build_stream(corpus, "valid", vocabularies["wordpiece"], tmp_path, "eos")
    assert stream.label_names == ("x", "y")
    assert stream.labels.tolist() == [0, -1, 1, 0]
    assert stream.num_unknown == 2
    line = f"2 of {stream.num_tokens} tokens are unknown"
    assert line in capsys.readouterr().err


def test_a_stream_is_built_once_per_text_vocabulary_and_separator(
    vocabularies, tmp_path
):
    fingerprints = set()
    for separator in ("eos", "none"):
        for tokenizer_type in ("unigram", "bytebpe"):
            for texts in (DOCUMENTS[:3], DOCUMENTS[:4]):
                stream = build(vocabularies[tokenizer_type], tmp_path, separator, texts)
                fingerprints.add(stream.fingerprint)
    assert len(fingerprints) == 8
    corpus = corpus_of(DOCUMENTS[:4])
    object.__setattr__(corpus, "read", None)  # the text is not read again
    again = build_stream(corpus, "train", vocabularies["bytebpe"], tmp_path, "none")
    assert again.fingerprint == stream.fingerprint


def test_all_tokens_are_counted_once(vocabularies, tmp_path, monkeypatch):
    for name in ("MAX_CHECKED", "COUNTED_TOGETHER"):
        monkeypatch.setattr(f"research.data.store.stream.{name}", 10)
    stream = build(vocabularies["unigram"], tmp_path, "eos", shard_tokens=100)
    token, _ = read_all(stream)
    size = vocabularies["unigram"].vocab.size
    count = np.bincount(token, minlength=size)
    np.testing.assert_array_equal(token_counts(stream, tmp_path), count)
    with monkeypatch.context() as patch:
        patch.delattr(Stream, "count_tokens")  # the tokens are not read again
        np.testing.assert_array_equal(token_counts(stream, tmp_path), count)
    (file,) = tmp_path.glob(f"counts/*/{COUNTS_FILE}")
    overwrite(file, -1, 10**6, np.int64)
    np.testing.assert_array_equal(token_counts(stream, tmp_path), count)


def test_vocabularies_that_differ_in_sentinels_share_a_stream(
    vocabularies, tmp_path, monkeypatch
):
    """Each takes its own number of ids for the legal ones."""
    model = vocabularies["unigram"].model
    few, many = (Vocabulary(model, find_special_tokens(model, n)) for n in (7, 90))
    assert many.vocab.size == few.vocab.size + 83
    streams = [build(each, tmp_path) for each in (few, many, few)]
    assert len({stream.fingerprint for stream in streams}) == 1
    for vocabulary, stream in zip((few, many, few), streams, strict=True):
        size, last = vocabulary.vocab.size, vocabulary.vocab.size - 1
        token, _ = stream.gather(np.array([0]), np.array([2]), 3, pad=last)
        assert token[0, 2] == last
        assert len(token_counts(stream, tmp_path)) == size
        with pytest.raises(UserError, match="beyond its vocabulary"):
            stream.gather(np.array([0]), np.array([2]), 3, pad=size)
    monkeypatch.delattr(Stream, "count_tokens")  # each has its counts in the cache
    assert len(token_counts(streams[1], tmp_path)) == many.vocab.size


def test_memory_does_not_grow_with_the_corpus(vocabularies, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenize, "MAX_BATCH_CHARS", 2**12)
    monkeypatch.setattr(tokenize, "MAX_KNOWN_UNITS", 2**8)
    monkeypatch.setattr(checksums, "CHUNK_BYTES", 2**12)
    monkeypatch.setattr(checksums, "NUM_THREADS", 1)
    texts = [make_lines(n, lines=20) for n in range(40)]

    def peak(times):
        def read(split):
            for lines in islice(cycle(texts), times):
                yield from map(Document, lines)

        corpus = Corpus("long", read, lambda: times)
        tracemalloc.start()
        build_stream(corpus, "train", vocabularies["unigram"], tmp_path, "eos")
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak_bytes

    peak(1)  # fills tables that are computed once
    num_chars = sum(len(line) for lines in texts for line in lines)
    assert peak(4 * len(texts)) - peak(len(texts)) < 3 * num_chars / 4


@pytest.fixture(scope="module")
def built(vocabularies, tmp_path_factory):
    """A cache with one stream, and the stream."""
    cache = tmp_path_factory.mktemp("streams")
    return cache, build(vocabularies["unigram"], cache)


def overwrite(file, number, value, dtype):
    """Writes one number, and hides it: time of change, size and inode are as before."""
    before = file.stat()
    array = np.memmap(file, dtype, "r+")
    array[number] = value
    array.flush()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("name", "value", "dtype"),
    [
        ("token", 60_000, np.uint16),
        ("documents", -1, np.int64),
        ("documents", 10**9, np.int64),
        ("sentences", 0, np.int64),  # they descend
        ("labels", 7, np.int32),
    ],
)
def test_numbers_out_of_their_range_are_found_though_the_file_looks_unchanged(
    built, vocabularies, tmp_path, capsys, name, value, dtype
):
    _, expected = built
    cache = tmp_path / "cache"
    build(vocabularies["unigram"], cache)
    (file,) = cache.glob(f"stream/*/00000/{name}.bin")
    overwrite(file, 3, value, dtype)
    again = build(vocabularies["unigram"], cache)
    told = capsys.readouterr().err
    assert f"00000/{name}.bin has numbers out of their range; it is made" in told
    for found, wanted in zip(read_all(again), read_all(expected), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_bytes_that_were_flipped_are_found(built, vocabularies, tmp_path, capsys):
    _, expected = built
    build(vocabularies["unigram"], tmp_path)
    (file,) = tmp_path.glob("stream/*/00000/token.bin")
    np.memmap(file, np.uint16, "r+")[5] ^= 1  # a legal token
    again = build(vocabularies["unigram"], tmp_path)
    assert "token.bin has other bytes; it is made again" in capsys.readouterr().err
    np.testing.assert_array_equal(read_all(again)[0], read_all(expected)[0])


def test_rows_with_tokens_beyond_the_vocabulary_are_refused(vocabularies, tmp_path):
    stream = build(vocabularies["unigram"], tmp_path)
    (file,) = tmp_path.glob("stream/*/00000/token.bin")
    np.memmap(file, np.uint16, "r+")[5] = 60_000  # while a run reads it
    stream.gather(np.array([6]), np.array([9]), 9, 0)
    with pytest.raises(UserError, match=r"beyond its vocabulary.*; delete"):
        stream.gather(np.array([0]), np.array([9]), 9, 0)
    with pytest.raises(UserError, match=r"beyond its vocabulary.*; delete"):
        stream.count_tokens()


def test_wrong_arguments_give_one_line_errors(vocabularies, tmp_path):
    vocabulary = vocabularies["unigram"]
    with pytest.raises(AssertionError, match="sep"):
        build(vocabulary, tmp_path, "sep")
    with pytest.raises(
        UserError,
        match=r"^'.*' has no text: it has only white space, or rows without text",
    ):
        build(vocabulary, tmp_path, texts=[" "])
    with pytest.raises(UserError, match="not a complete token stream"):
        Stream.open(tmp_path, {}, 1)
