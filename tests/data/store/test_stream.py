"""A stream holds every token of its text, however it was cut while it was made."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from research.batch import DOCUMENT, PARAGRAPH, SENTENCE, WORD
from research.data.corpora.files import Corpus, Document
from research.data.store import tokenize
from research.data.store.stream import Stream, build
from research.data.tokenizers import train_tokenizer
from research.errors import UserError
from tests.testing.fake_corpus import corpus_of, make_lines

DOCUMENTS = [
    "\n".join(lines) + "\n \n"
    for lines in np.array_split(np.array(make_lines(3), object), 60)
]
DOCUMENTS += ["One. Two! Three?\n\nThe Four, e.g. Five.", "我喜欢你。你呢？\nOK。", "x"]


def make(vocabulary, cache, separator="eos", texts=DOCUMENTS, **options):
    return build(corpus_of(texts), "train", vocabulary, cache, separator, **options)


def tokens(stream):
    """All tokens and flags of a stream; each shard is read as one row."""
    edges = stream.shard_offsets
    shards = [
        stream.gather(np.array([first]), np.array([last - first]), last - first, -1)
        for first, last in pairwise(edges)
    ]
    token = np.concatenate([row[0] for row, _ in shards])
    assert len(token) == stream.num_tokens
    return token, np.concatenate([bits[0] for _, bits in shards])


@pytest.mark.parametrize("kind", train_tokenizer.KINDS)
@pytest.mark.parametrize("separator", ["eos", "none"])
def test_the_stream_is_the_texts_tokens(vocabularies, tmp_path, kind, separator):
    vocabulary = vocabularies[kind]
    stream = make(vocabulary, tmp_path, separator)
    token, flags = tokens(stream)
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


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_units_are_encoded_as_sentencepiece_encodes_whole_texts(vocabularies, kind):
    """The library's own encoding of a line, with its own rules for white space."""
    import sentencepiece

    vocabulary = vocabularies[kind]
    library = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model.data)
    for line in make_lines(4, lines=100):
        if "。" not in line:
            assert vocabulary.encode(line)[0].tolist() == library.encode(line)


@pytest.mark.parametrize("kind", train_tokenizer.KINDS)
def test_how_it_was_cut_does_not_matter(vocabularies, tmp_path, monkeypatch, kind):
    expected = make(vocabularies[kind], tmp_path / "a")
    monkeypatch.setattr(tokenize, "BATCH", 300)
    monkeypatch.setattr(tokenize, "DISTINCT", 20)
    found = make(vocabularies[kind], tmp_path / "b", shard_tokens=500)
    assert len(found.shard_offsets) > 5
    for name in ("document_offsets", "sentence_offsets", "labels"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    for ours, theirs in zip(tokens(found), tokens(expected), strict=True):
        assert np.array_equal(ours, theirs)
    assert set(found.shard_offsets) <= set(found.document_offsets)


def test_flags_say_where_everything_starts(vocabularies, tmp_path):
    stream = make(vocabularies["unigram"], tmp_path)
    token, flags = tokens(stream)
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
    last = [decode(token[a:b]) for a, b in zip(ends[-9:-1], ends[-8:], strict=True)]
    assert last[:4] == ["One.", "Two!", "Three?", "The Four, e.g. Five."]
    assert last[4:] == ["我喜欢你。", "你呢？", "OK。", "x"]


def test_gather_reads_any_rows(vocabularies, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenize, "BATCH", 300)
    stream = make(vocabularies["bytebpe"], tmp_path, shard_tokens=700)
    token, flags = tokens(stream)
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


def test_labels_and_unknown_text_are_told(vocabularies, tmp_path, capsys):
    rows = [Document("a ba", "x"), Document("☃ ba"), Document("ba ☃☃", "y")]
    rows += [Document("ba", "x"), Document(" \n")]
    corpus = Corpus("rows", lambda split: iter(rows), lambda: "rows")
    stream = build(corpus, "valid", vocabularies["wordpiece"], tmp_path, "eos")
    assert stream.label_names == ("x", "y")
    assert stream.labels.tolist() == [0, -1, 1, 0]
    assert stream.num_unknown == 2
    said = f"2 of {stream.num_tokens} tokens are unknown"
    assert said in capsys.readouterr().err


def test_a_stream_is_made_once_for_all_that_makes_it(vocabularies, tmp_path):
    known = set()
    for separator in ("eos", "none"):
        for kind in ("unigram", "bytebpe"):
            for texts in (DOCUMENTS[:3], DOCUMENTS[:4]):
                stream = make(vocabularies[kind], tmp_path, separator, texts)
                known.add(stream.fingerprint)
    assert len(known) == 8
    corpus = corpus_of(DOCUMENTS[:4])
    object.__setattr__(corpus, "read", None)  # the text is not read again
    again = build(corpus, "train", vocabularies["bytebpe"], tmp_path, "none")
    assert again.fingerprint == stream.fingerprint


def test_memory_does_not_grow_with_the_corpus(vocabularies, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenize, "BATCH", 2**12)
    monkeypatch.setattr(tokenize, "DISTINCT", 2**8)

    def peak(times):
        def read(split):
            for n in range(times):
                for line in make_lines(n % 50, lines=20):
                    yield Document(line)

        corpus = Corpus("long", read, lambda: times)
        tracemalloc.start()
        build(corpus, "train", vocabularies["unigram"], tmp_path, "eos")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)  # tables that are made once
    assert peak(100) < 1.1 * peak(10)


def test_mistakes_are_one_line(vocabularies, tmp_path):
    vocabulary = vocabularies["unigram"]
    with pytest.raises(UserError, match=r"data\.separator.*eos"):
        make(vocabulary, tmp_path, "sep")
    with pytest.raises(UserError, match=r"train split.*data\.held_out"):
        make(vocabulary, tmp_path, texts=[" "])
    with pytest.raises(UserError, match="no whole token stream"):
        Stream.open(tmp_path)
