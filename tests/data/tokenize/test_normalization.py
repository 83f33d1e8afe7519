"""A vocabulary's normalizer holds in training, in texts, in streams and in exports."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.contract.batch import DOCUMENT, PARAGRAPH, SENTENCE, WORD
from research.data.read import sentences
from research.data.store.stream import build_stream
from research.data.tokenize import (
    export_tokenizer,
    normalization,
    tokenizer_sample,
    train_tokenizer,
)
from research.data.tokenize.masked_text import encode_with_masks
from research.data.tokenize.vocabulary import (
    Vocabulary,
    cache_key,
    find_special_tokens,
    load_vocabulary,
)
from tests.testing.fake_corpus import SENTINELS, SIZE, corpus_of, make_lines

ACCENTS = str.maketrans("aeiou", "áÈîÖŭ")
LINES = [
    line.translate(ACCENTS) if n % 2 else line for n, line in enumerate(make_lines(0))
]
ROWS = ([("A", 0)], [("A", 0), ("B", 0)])
KINDS = (*train_tokenizer.TOKENIZER_TYPES, "bytebpe keep")
NAMES = normalization.NORMALIZERS[1:]
LETTERS = [*"aÁÈ eŭ ÖBß. ÅçŞ İſ Ω中é。学ﬁ①² \t\n", "e\u0301", "o\u0323\u0308"]
TEXTS = st.lists(st.sampled_from(LETTERS), max_size=30).map("".join)


def plain(text: str, name: str) -> str:
    """What a normalizer makes of a text, by Python's tables."""
    if name == "nfkc":
        return unicodedata.normalize("NFKC", text)
    if name != "lower":
        letters = unicodedata.normalize("NFD", text)
        text = "".join(c for c in letters if unicodedata.category(c) != "Mn")
    return text if name == "accents" else "".join(map(str.lower, text))


@pytest.fixture(
    scope="module",
    params=[(kind, name) for kind in train_tokenizer.TOKENIZER_TYPES for name in NAMES],
    ids=" ".join,
)
def trained(request) -> tuple[Vocabulary, str]:
    """A vocabulary of each type with each normalizer, and the normalizer's name."""
    kind, name = request.param
    kind, _, keep = kind.partition(" ")
    sampling = tokenizer_sample.Options(keep_whitespace=bool(keep))
    options = train_tokenizer.Options(kind, SIZE, SENTINELS, sampling, name)
    model = train_tokenizer.train(corpus_of(LINES), options)
    special = find_special_tokens(model, SENTINELS)
    return Vocabulary(model, special, sampling.keep_whitespace), name


def test_a_text_has_the_ids_of_its_plain_form(trained):
    vocabulary, name = trained
    for line in LINES[:60]:
        token, starts = vocabulary.encode(line)
        expected, expected_starts = vocabulary.encode(plain(line, name))
        assert token.tolist() == expected.tolist()
        assert starts.tolist() == expected_starts.tolist()
        shown, spelled = vocabulary.decode(token), plain(line, name)
        assert shown.replace(" ", "") == spelled.replace(" ", "")


def test_it_is_trained_on_plain_text(trained):
    vocabulary, name = trained
    pieces = [vocabulary.piece_text(i) for i in vocabulary.vocab.ordinary_ids]
    pieces = [piece for piece in pieces if len(piece) > 1 and "\ufffd" not in piece]
    assert all(piece == plain(piece, name) for piece in pieces)
    has_capitals = any(piece != piece.lower() for piece in pieces)
    assert has_capitals == (name not in ("lower", "uncased"))


def test_exported_ids_are_those_of_the_vocabulary(trained, tmp_path):
    vocabulary, name = trained
    whitespace = "keep" if vocabulary.keep_whitespace else "auto"
    export_tokenizer.write_tokenizer(tmp_path, vocabulary, rows=ROWS, max_length=9)
    again = load_vocabulary(tmp_path, SENTINELS, whitespace)
    tokenizer = export_tokenizer.make_tokenizer(vocabulary)

    def check(text):
        expected = vocabulary.encode(text)[0].tolist()
        assert tokenizer.encode(text, add_special_tokens=False).ids == expected
        assert again.encode(text)[0].tolist() == expected

    for line in LINES[:60]:
        check(line)
    if name in normalization.BY_CHARACTER:
        settings(max_examples=150, deadline=None)(given(TEXTS)(check))()


def test_sentences_and_words_start_where_the_text_says(trained, tmp_path):
    vocabulary, _ = trained
    text = "Ein Wort, bé Öl. Über Bada dun!\nÄnne.\nklein. no. Étéß! IST Klein."
    built = build_stream(corpus_of([text]), "train", vocabulary, tmp_path, "none")
    _, flags = built.gather(np.array([0]), np.array([built.num_tokens]), 200, 0)
    found = (flags & SENTENCE > 0).sum(), (flags & PARAGRAPH > 0).sum()
    assert found == (5, 3)
    assert (flags & DOCUMENT > 0).sum() == 1
    words = sum(len(sentences.split_units(line)) for line in text.split("\n"))
    assert (flags & WORD > 0).sum() >= words


def test_text_beside_masks_is_normalized(trained):
    vocabulary, name = trained
    mask = vocabulary.vocab.mask_id
    one, two = (encode_with_masks(vocabulary, f"{a} [MASK] {b}") for a, b in PAIRS)
    assert mask in one
    assert (one == two) == (name == "uncased")


PAIRS = (("BÁ du", "KLÉ"), ("ba DÚ", "kle"))


def test_the_cache_key_of_a_vocabulary_without_one_is_as_it_was():
    options = train_tokenizer.Options("bpe", SIZE, SENTINELS)
    key = cache_key(corpus_of(LINES), options)
    assert "normalizer" not in key
    keys = [cache_key(corpus_of(LINES), options._replace(normalizer=n)) for n in NAMES]
    assert [each["normalizer"] for each in keys] == [*NAMES]
