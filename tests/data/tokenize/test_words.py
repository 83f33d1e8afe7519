"""A vocabulary of words: the most frequent ones, and one unknown for all others."""

import dataclasses
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.contract.errors import UserError
from research.data.read import sentences
from research.data.read.formats.cooccurrences import Format
from research.data.tokenize import export_tokenizer, vocabulary
from tests.testing.fake_corpus import SENTINELS, SIZE, corpus_of, make_lines

LINES = [*make_lines(0), *["<mask> <unk> <s> 好。<mask> the the The", "the The"] * 20]
TEXTS = st.text(st.sampled_from("abdu kle. 。！’” 学中é\n\t<>/s"), max_size=40)


def load(cache, *, lines=LINES, size=SIZE, normalizer="none", arrays=None):
    config = SimpleNamespace(
        vocabulary="words",
        vocabulary_size=size,
        vocabulary_sample=10**9,
        sentinels=SENTINELS,
        whitespace="auto",
        normalizer=normalizer,
        alpha=0.0,
    )
    corpus = dataclasses.replace(corpus_of(lines), arrays=arrays or {})
    return vocabulary.load_or_train(config, corpus, cache)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return load(tmp_path_factory.mktemp("words"))


def spelled(text: str) -> list[str]:
    """The words of a text."""
    units = sentences.split_units(text)
    return [sentences.spell_unit(unit).strip() for unit in units]


def test_it_has_the_most_frequent_words_in_order(words):
    count = Counter(word for line in LINES for word in spelled(line))
    ranked = sorted(count, key=lambda word: (-count[word], word))
    expected = ranked[: SIZE - 5 - SENTINELS]
    found = [words.piece_text(i).strip(" ") for i in words.vocab.ordinary_ids]
    assert found == expected and len(ranked) > len(expected)
    assert words.vocab.size == SIZE and words.tokenizer_type == "words"


def test_a_vocabulary_of_pairs_has_all_words_since_pairs_do_not_tell_the_frequent(
    tmp_path,
):
    pairs = {"lines": ["the cat", "the sat", "on the"], "arrays": Format.arrays}
    size = 5 + SENTINELS + 4
    found = load(tmp_path, size=size, **pairs)
    first = found.vocab.ordinary_ids[0]
    assert found.vocab.size == size and found.piece_text(first).strip() == "the"
    words = rf"is {size - 1}, .*pairs of words .* give {size}, .*--max-words"
    with pytest.raises(UserError, match=words) as caught:
        load(tmp_path, size=size - 1, **pairs)
    assert "\n" not in str(caught.value)


def test_a_word_is_a_token_and_other_words_are_unknown(words):
    ids = {words.piece_text(i).strip(" "): i for i in words.vocab.ordinary_ids}
    unknown = 0
    for line in [*LINES, "The quick brown fox", "好。the 好。"]:
        token, starts = words.encode(line)
        expected = [ids.get(word, words.vocab.unk_id) for word in spelled(line)]
        assert token.tolist() == expected and starts.all()
        unknown += expected.count(words.vocab.unk_id)
    assert unknown > 0


def test_text_that_spells_a_special_piece_is_a_word(words):
    token, _ = words.encode("<mask> <s> <pad> 好。<mask>")
    assert not words.vocab.is_special[token].any()


def test_known_text_is_decoded(words):
    known = {words.piece_text(i).strip(" ") for i in words.vocab.ordinary_ids}
    lines = [line for line in LINES if known.issuperset(spelled(line))]
    assert len(lines) > 1
    for line in lines:
        assert words.decode(words.encode(line)[0]) == " ".join(spelled(line))


def test_a_saved_one_loads_unchanged_and_its_export_has_the_same_ids(words, tmp_path):
    words.save(tmp_path)
    loaded = vocabulary.load_vocabulary(tmp_path, SENTINELS)
    assert loaded.sha256 == words.sha256 and str(loaded.vocab) == str(words.vocab)
    tokenizer = export_tokenizer.make_tokenizer(words)

    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    for line in make_lines(3, lines=100):
        assert ids(line) == words.encode(line)[0].tolist()

    @settings(max_examples=100, deadline=None)
    @given(TEXTS)
    def check(text):
        if "<s>" not in text and "</s>" not in text:
            assert ids(text) == words.encode(text)[0].tolist()

    check()


def test_words_are_counted_as_the_normalizer_writes_them(tmp_path):
    lines = ["The the THE café cafe", "Éa éa b"] * 3
    made = load(tmp_path, lines=lines, size=5 + SENTINELS + 4, normalizer="uncased")
    found = [made.piece_text(i).strip(" ") for i in made.vocab.ordinary_ids]
    assert found == ["the", "cafe", "ea", "b"]
    assert made.encode("THE Café")[0].tolist() == made.encode("the cafe")[0].tolist()


@pytest.mark.parametrize("size", [4 + SENTINELS, 50_000])
def test_a_size_that_does_not_fit_names_the_key(tmp_path, size):
    with pytest.raises(UserError, match="vocabulary_size"):
        load(tmp_path, size=size)
