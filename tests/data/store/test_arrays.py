"""Arrays that a format gives are found again in the rows of an index."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from research.contract.batch import DOCUMENT, PART, PIECE, empty_examples
from research.contract.errors import UserError
from research.data.documents import TAGS, ArrayType, Document, join_parts
from research.data.read.corpus import Corpus
from research.data.rows import UNITS, TextSpec
from research.data.source import build
from research.data.store import stream as streams
from research.data.store import tokenize
from research.data.store.example_index import build_index
from research.data.store.stream import build_stream
from research.data.tokenize.token_offsets import token_offsets

KINDS = ["unigram", "wordpiece", "bytebpe"]
TYPES = {
    "score": ArrayType("token", np.float32),
    "entity": ArrayType("part", np.int32),
    "image": ArrayType("document", np.uint16),
}
REGIONS = {"regions": ArrayType("document", (np.int16, (1, 2)))}
PARTS = [
    ["a ba. Aba", "ba aba. Ba"],
    ["x"],
    ["ba", "a", "Aba ba. A ba a. Ba"],
    ["aba ba. Ba a b. A", "b"],
] * 3


def make_documents():
    """Documents whose arrays tell where each character is."""
    for number, parts in enumerate(PARTS):
        document = join_parts(parts, " ")
        yield document._replace(
            arrays={
                "score": np.arange(len(document.text)) + 100.5 * number,
                "entity": [10 * number + n for n in range(len(parts))],
                "image": number + 40_000,
            }
        )


def make_stream(documents, vocabulary, folder, types=TYPES, **options):
    documents = [*documents]
    corpus = Corpus(
        "arrays", lambda split: iter(documents), lambda: repr(documents), arrays=types
    )
    return build_stream(corpus, "train", vocabulary, folder, "eos", **options)


def expected_tokens(vocabulary):
    """Of all tokens of the stream, in order: (token, score, entity, image)."""
    rows = []
    for number, document in enumerate(make_documents()):
        offsets = token_offsets(document.text, vocabulary)
        tokens = vocabulary.encode(document.text)[0]
        for token, begin in zip(tokens, offsets.begin, strict=True):
            part = sum(start <= begin for start in document.starts)
            values = document.arrays["score"][begin], 10 * number + part
            rows.append((token, *values, number + 40_000))
        rows.append((vocabulary.vocab.eos_id, 0, rows[-1][2], number + 40_000))
    return rows


def spec_of(unit):
    """Rows of 11 tokens; second spans are of other documents, too."""
    spec = TextSpec(unit, 11)
    has_rate = "other_document_rate" in spec.__dataclass_fields__
    return spec.replace(other_document_rate=0.5) if has_rate else spec


@pytest.mark.parametrize("unit", UNITS.names())
@pytest.mark.parametrize("kind", ["wordpiece", "bytebpe"])
def test_each_token_of_a_row_has_its_values(
    vocabularies, tmp_path, monkeypatch, unit, kind
):
    monkeypatch.setattr(tokenize, "MAX_BATCH_CHARS", 30)
    vocabulary = vocabularies[kind]
    stream = make_stream(make_documents(), vocabulary, tmp_path, shard_tokens=30)
    assert len(stream.meta["shards"]) > 1
    expected = expected_tokens(vocabulary)
    spec = spec_of(unit)
    index = build_index(stream, spec, 0, tmp_path)
    num, pad = len(index.start), vocabulary.vocab.pad_id
    rows = index.read(np.arange(num), spec.width, pad, arrays=(*TYPES,))
    plain = index.read(np.arange(num), spec.width, pad)
    assert plain["arrays"] == {} and (plain["token"] == rows["token"]).all()
    assert {name: array.dtype for name, array in rows["arrays"].items()} == {
        name: each.stored for name, each in TYPES.items()
    }
    for row in range(num):
        length = rows["length"][row]
        arrays = (array[row] for array in rows["arrays"].values())
        found = [*zip(rows["token"][row], *arrays, strict=True)]
        assert found[length:] == [(pad, 0, -1, 0)] * (spec.width - length)
        for first, size, begin in _spans(index, row):
            assert found[first : first + size] == expected[begin : begin + size]


def test_the_end_of_a_line_has_no_value(vocabularies, tmp_path):
    vocabulary = vocabularies["wordpiece"]
    document = join_parts(["a ba\nba", "aba"], "\n")
    arrays = {"score": np.arange(len(document.text)) + 1.5, "entity": [3, 4]}
    types = {name: TYPES[name] for name in arrays}
    documents = [document._replace(arrays=arrays)]
    corpus = Corpus(
        "lines", lambda split: iter(documents), lambda: repr(documents), arrays=types
    )
    stream = build_stream(corpus, "train", vocabulary, tmp_path, "lines")
    row = [0], [stream.num_tokens], stream.num_tokens
    token, _ = stream.gather(*row, 0)
    found = stream.gather_arrays([*types], *row)
    begin = iter(token_offsets(document.text, vocabulary).begin)
    is_end = token[0] == vocabulary.vocab.eos_id
    assert is_end.sum() == 3
    expected = [0 if end else next(begin) + 1.5 for end in is_end]
    assert found["score"][0].tolist() == expected
    second = np.flatnonzero(is_end)[1] + 1
    assert found["entity"][0].tolist() == [
        3 if n < second else 4 for n in range(len(expected))
    ]


@pytest.mark.parametrize(
    "unit", [unit for unit in UNITS.names() if not TextSpec(unit, 8).has_pieces]
)
def test_a_row_has_the_array_of_its_first_document(
    vocabularies, tmp_path, monkeypatch, unit
):
    monkeypatch.setattr(tokenize, "MAX_BATCH_CHARS", 30)
    vocabulary = vocabularies["bytebpe"]
    regions = np.arange(6 * len(PARTS), dtype=np.float32).reshape(-1, 2, 3)
    documents = [
        each._replace(arrays={"regions": own.tolist()})
        for each, own in zip(make_documents(), regions, strict=True)
    ]
    types = {"regions": ArrayType("document", (np.float32, (2, 3)))}
    stream = make_stream(documents, vocabulary, tmp_path, types, shard_tokens=30)
    assert len(stream.meta["shards"]) > 1
    spec = spec_of(unit)
    index = build_index(stream, spec, 0, tmp_path)
    row = np.arange(len(index.start))
    fields = index.read(row, spec.width, 0, arrays=("regions",))
    found = fields["arrays"]["regions"]
    assert found.dtype == np.float32 and len({*fields["document"]}) > 3
    np.testing.assert_array_equal(found, regions[fields["document"]])
    packed = TextSpec("packed", 11, arrays=("regions",))
    with pytest.raises(UserError, match="'regions' is of a whole document"):
        build._check_arrays(packed, {}, [SimpleNamespace(arrays=types)], "x")
    empty = empty_examples(3, 11, 0, {"regions": types["regions"].stored})
    assert empty.arrays["regions"].shape == (3, 2, 3)
    assert empty.rows([0, 2]).arrays["regions"].shape == (2, 2, 3)


@pytest.mark.parametrize(
    ("per", "dtype"),
    [("token", (np.float32, (2, 3))), ("document", (np.float32, (3,)))],
)
def test_only_documents_have_arrays_and_these_are_no_vectors(per, dtype):
    with pytest.raises(ValueError, match="only a document's value is an array"):
        ArrayType(per, dtype)


def _spans(index, row):
    """(first column, tokens, first token of the stream) of the spans of a row."""
    if index.pieces is not None:
        pieces = range(index.pieces.first[row], index.pieces.first[row + 1])
        spans = [(index.pieces.start[n], index.pieces.length[n]) for n in pieces]
    else:
        spans = [(index.start[row], index.length[row])]
        if index.second is not None:
            spans.append((index.second[row], index.second_length[row]))
    first = 0
    for begin, size in spans:
        yield first, size, begin
        first += size


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_labels(vocabularies, tmp_path, kind):
    vocabulary = vocabularies[kind]
    words, tags = ["a", "babab", "x.y", "☃", "b"], ("O", "B", "I", "O", "B")
    documents = [
        join_parts(words, " ")._replace(arrays={"tags": tags}),
        Document("c", arrays={"tags": ("X",)}),
        Document("d"),
    ]
    stream = make_stream(documents, vocabulary, tmp_path, TAGS)
    assert stream.label_names == ("O", "B", "I", "X")
    index = build_index(stream, TextSpec("document", 64), 0, tmp_path)
    rows = index.read(np.arange(3), 64, 0, arrays=("tags",))
    flags, found = rows["flags"], rows["arrays"]["tags"]
    starts = np.flatnonzero(flags[0] & (PART | DOCUMENT))
    assert [stream.label_names[n] for n in found[0, starts]] == list(tags)
    sizes = [len(vocabulary.encode(word)[0]) for word in words]
    if kind != "unigram":  # whose pieces of a word do not depend on the words around
        assert starts.tolist() == np.cumsum([0, *sizes[:-1]]).tolist()
    length = rows["length"]
    assert (found[1, : length[1]] == 3).all() and (found[1, length[1] :] == -1).all()
    assert (found[2] == -1).all()
    known = index.name_table(("B", "I", "O"))
    assert known[found[0, starts]].tolist() == [2, 0, 1, 2, 0] and known[3] == -1
    tags_file = stream.path / stream.meta["shards"][0]["name"] / "tags.bin"
    tags_file.write_bytes(np.int32([9] * stream.num_tokens).tobytes())
    assert "tags.bin" in stream.find_damage()


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("score", [1.0, 2.0], r"float64\[2\], not float32\[1\] .* each character"),
        ("score", ["1"], r".*not float32\[1\]"),
        ("entity", [1, 2], r"int64\[2\], not int32\[1\] .* each part"),
        ("entity", [1.5], r"float64\[1\], not int32"),
        ("image", 2**16, r"int64\[\], not uint16\[\] .* the document"),
        ("image", [1], r".*not uint16\[\]"),
        ("image", -1, ".*not uint16"),
        ("regions", [1, 2], r"int64\[2\], not int16\[1, 2\] .* the document"),
        ("regions", [[1, 0.5]], r"float64\[1, 2\], not int16"),
    ],
)
def test_values_of_another_type_or_number_are_refused(
    vocabularies, tmp_path, name, values, message
):
    document = Document("a", id="f.toy:7", arrays={name: values})
    with pytest.raises(UserError, match=rf"f\.toy:7: array {name} is {message}"):
        make_stream([document], vocabularies["bytebpe"], tmp_path, TYPES | REGIONS)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("scores", [1.0], r"unknown array of f\.toy:7 'scores'; .*score"),
        ("regions", [[1, 2], [3]], r"f\.toy:7: array regions: .*inhomogeneous"),
    ],
)
def test_arrays_that_are_none_are_one_line(
    vocabularies, tmp_path, name, values, message
):
    document = Document("a", id="f.toy:7", arrays={name: values})
    with pytest.raises(UserError, match=message) as caught:
        make_stream([document], vocabularies["bytebpe"], tmp_path, TYPES | REGIONS)
    assert "\n" not in str(caught.value)


def test_a_label_of_a_document_is_stored(vocabularies, tmp_path):
    types = {"kind": ArrayType("document", str)}
    documents = [
        Document(text, id=text, arrays={"kind": kind})
        for text, kind in (("a", "cat"), ("ba", "dog"), ("a ba", "cat"))
    ]
    stream = make_stream(documents, vocabularies["bytebpe"], tmp_path, types)
    first, one = stream.document_offsets[:-1], np.ones(3, np.int64)
    found = stream.gather_arrays(["kind"], first, one, 1)["kind"][:, 0]
    assert [stream.label_names[n] for n in found] == ["cat", "dog", "cat"]


def test_work_shards_are_joined_with_their_arrays(vocabularies, tmp_path):
    documents = [
        each._replace(arrays={**each.arrays, "tags": [str(n % 5)] * (1 + num)})
        for n, each in enumerate(make_documents())
        for num in [len(each.starts)]
    ]
    types = TYPES | TAGS
    vocabulary = vocabularies["bytebpe"]
    whole = make_stream(documents, vocabulary, tmp_path, types)

    def part(number, name):
        own = documents[number::2]
        return Corpus(name, lambda split: iter(own), lambda: repr(own), arrays=types)

    shards = (part(0, "even"), part(1, "odd"))
    joined = dataclasses.replace(shards[0], work_shards=shards, arrays=types)
    joined = dataclasses.replace(joined, fingerprint=lambda: "joined")
    built = streams.build_stream(joined, "train", vocabulary, tmp_path, "eos")
    names = (*types,)

    def by_document(stream):
        start = stream.document_offsets[:-1]
        size = np.diff(stream.document_offsets)
        token, _ = stream.gather(start, size, 40, 0)
        found = stream.gather_arrays(names, start, size, 40)
        labels = np.array([*stream.label_names, ""])
        found["tags"] = labels[found["tags"]]
        return [
            (token[n].tolist(), *(found[name][n].tolist() for name in names))
            for n in range(len(start))
        ]

    rows = by_document(whole)
    assert by_document(built) == rows[0::2] + rows[1::2]


def test_packed_rows_keep_the_flags_of_their_pieces(vocabularies, tmp_path):
    stream = make_stream(make_documents(), vocabularies["bytebpe"], tmp_path)
    index = build_index(stream, TextSpec("packed", 40), 0, tmp_path)
    rows = index.read(np.arange(len(index.start)), 41, 0, arrays=("image",))
    starts = rows["flags"] & PIECE > 0
    assert starts.sum() == stream.num_documents > len(starts)
    assert sorted(rows["arrays"]["image"][starts]) == [40_000 + n for n in range(12)]
