"""A vocabulary rebuilds text, encodes no text to a special id, and finds its words."""

import itertools
import json
import os
import re
import sys
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from research.contract.errors import UserError
from research.data.documents import Document
from research.data.read.corpus import Corpus, join_corpora
from research.data.tokenize import (
    tokenizer_sample,
    tokenizer_types,
    train_tokenizer,
    vocabulary,
)
from research.data.tokenize.rust_panics import panics_as_errors
from tests.testing import fake_bucket
from tests.testing.fake_corpus import SENTINELS, SIZE, corpus_of, make_lines

LOSSLESS = ("unigram", "bpe", "bytebpe")
SCRIPTS = "abz XYZ019 éß .,;!?'\"()[]_-$^ “”—…、。！？ 中文龘𠀀 かな 한 🎈☃ \n\t\u00a0"
TEXTS = st.text(st.sampled_from(SCRIPTS)) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="▁")
)


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_trained_vocabularies_have_the_same_special_ids(vocabularies, tokenizer_type):
    vocabulary = vocabularies[tokenizer_type]
    vocab = vocabulary.vocab
    assert vocabulary.tokenizer_type == tokenizer_type
    assert vocab.size == SIZE
    ids = (vocab.pad_id, vocab.bos_id, vocab.eos_id, vocab.mask_id, vocab.unk_id)
    assert ids == (0, 1, 2, 3, 4)
    assert vocab.sentinel_ids == tuple(range(5, 5 + SENTINELS))
    special = [0, 1, 2, 3, *vocab.sentinel_ids]
    assert np.flatnonzero(vocab.is_special).tolist() == special
    assert vocab.ordinary_ids.tolist() == list(range(5 + SENTINELS, SIZE))


@pytest.mark.parametrize("tokenizer_type", LOSSLESS)
def test_decode_rebuilds_any_text_up_to_white_space(vocabularies, tokenizer_type):
    @settings(max_examples=200, deadline=None)
    @given(TEXTS)
    def check(text):
        token, starts = vocabularies[tokenizer_type].encode(text)
        assert vocabularies[tokenizer_type].decode(token) == " ".join(text.split())
        assert vocabularies[tokenizer_type].vocab.unk_id not in token
        assert len(starts) == len(token)

    check()


def test_wordpiece_rebuilds_known_text_up_to_white_space(vocabularies):
    wordpiece = vocabularies["wordpiece"]
    for text in make_lines(1, lines=50):
        token, _ = wordpiece.encode(text)
        assert wordpiece.vocab.unk_id not in token
        assert wordpiece.decode(token).replace(" ", "") == text.replace(" ", "")
    assert wordpiece.vocab.unk_id in wordpiece.encode("☃")[0]


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_no_text_is_encoded_to_a_special_id(vocabularies, tokenizer_type):
    special = vocabularies[tokenizer_type].model.pieces[: 5 + SENTINELS]
    for text in (" ".join(special), "".join(special), "a<mask>b</s>", "[MASK] [CLS]"):
        token, _ = vocabularies[tokenizer_type].encode(text)
        assert not vocabularies[tokenizer_type].vocab.is_special[token].any()


@pytest.mark.parametrize("tokenizer_type", LOSSLESS)
def test_words_start_where_the_characters_say(vocabularies, tokenizer_type):
    """Compared with a rule on single characters, wherever the pieces are split."""
    piece_bytes = vocabularies[tokenizer_type].model.piece_bytes

    @settings(max_examples=200, deadline=None)
    @given(TEXTS)
    def check(text):
        token, starts = vocabularies[tokenizer_type].encode(text)
        expected = _word_start_bytes(" " + " ".join(text.split()))
        offset = np.cumsum([0, *(len(piece_bytes[i]) for i in token)])[:-1]
        assert starts.tolist() == [int(at) in expected for at in offset]

    check()


def test_wordpiece_starts_words_where_no_piece_continues(vocabularies):
    wordpiece = vocabularies["wordpiece"]
    token, starts = wordpiece.encode("bada, don't 中文pa!")
    pieces = [wordpiece.model.pieces[i] for i in token]
    assert starts.tolist() == [not piece.startswith("##") for piece in pieces]
    assert len(pieces) > sum(starts) > 8


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_training_is_deterministic_and_ignores_the_order_of_lines(
    vocabularies, tokenizer_type
):
    lines = make_lines(0)
    model = train_tokenizer.train(
        corpus_of(lines[::-1]), train_tokenizer.Options(tokenizer_type, SIZE, SENTINELS)
    )
    assert model.data == vocabularies[tokenizer_type].model.data


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_a_saved_vocabulary_loads_unchanged(vocabularies, tokenizer_type, tmp_path):
    path = vocabularies[tokenizer_type].save(tmp_path)
    for source in (path, tmp_path):
        loaded = vocabulary.load_vocabulary(source, SENTINELS)
        assert loaded.sha256 == vocabularies[tokenizer_type].sha256
        vocabs = loaded.vocab, vocabularies[tokenizer_type].vocab
        here, there = (str(vocab._replace(pieces=None)) for vocab in vocabs)
        assert here == there


@pytest.mark.parametrize("tokenizer_type", ["unigram", "bytebpe"])
def test_it_is_saved_to_a_bucket_and_loaded(
    vocabularies, tokenizer_type, tmp_path, monkeypatch
):
    fake_bucket.install(monkeypatch, tmp_path)
    path = vocabularies[tokenizer_type].save("gs://bucket/run")
    assert str(path.parent) == "gs://bucket/run"
    for source in (path, "gs://bucket/run"):
        loaded = vocabulary.load_vocabulary(source, SENTINELS)
        assert loaded.sha256 == vocabularies[tokenizer_type].sha256
    with pytest.raises(UserError, match="no such file"):
        vocabulary.load_vocabulary("gs://bucket/none", SENTINELS)


def test_missing_sentinels_are_added_after_the_end_as_in_t5(vocabularies, tmp_path):
    path = vocabularies["unigram"].save(tmp_path)
    vocab = vocabulary.load_vocabulary(path, SENTINELS + 3).vocab
    added = vocab.sentinel_ids[SENTINELS:]
    assert added == (SIZE + 2, SIZE + 1, SIZE)
    assert vocab.size == SIZE + 3 == len(vocab.is_special)
    assert vocab.is_special[list(added)].all()
    assert vocab.ordinary_ids.max() < SIZE


def test_a_vocab_txt_keeps_its_own_special_ids(tmp_path):
    pieces = [
        "[PAD]",
        "[unused0]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "a",
        "##b",
        "!",
    ]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(pieces) + "\n")
    loaded = vocabulary.load_vocabulary(path, 2)
    vocab = loaded.vocab
    ids = (vocab.pad_id, vocab.unk_id, vocab.bos_id, vocab.eos_id, vocab.mask_id)
    assert ids == (0, 2, 3, 4, 5)
    assert vocab.sentinel_ids == (10, 9)
    assert vocab.ordinary_ids.tolist() == [6, 7, 8]
    token, starts = loaded.encode("AB! c")
    assert token.tolist() == [6, 7, 8, 2]  # no capitals among its pieces: lowercased
    assert starts.tolist() == [True, False, True, True]
    path.write_text("\r\n".join(pieces) + "\r\n", "utf-8-sig", newline="")  # Windows'
    assert vocabulary.load_vocabulary(path, 2).sha256 == loaded.sha256


def tokenizer_json(pattern="x", **more):
    """A WordPiece model with more pieces, and a normalizer that replaces a pattern."""
    pieces = {"[UNK]": 0, "a": 1} | more
    model = tokenizers.models.WordPiece(pieces, unk_token="[UNK]")
    state = json.loads(tokenizers.Tokenizer(model).to_str())
    state["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    replace = {"type": "Replace", "pattern": {"Regex": pattern}, "content": "q"}
    return json.dumps(state | {"normalizer": replace}).encode()


def test_a_panic_of_a_normalizer_is_one_line(tmp_path, capfd):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer_json("(a+)+$"))
    loaded = vocabulary.load_vocabulary(path, 0)
    print("before", file=sys.stderr, flush=True)
    assert loaded.encode("b a")[0].tolist()
    for text in ("a" * 40 + "!", " ".join(["a" * 40 + "!"] * 3)):
        with pytest.raises(
            UserError, match=r"fails on this text; .*retry-limit"
        ) as error:
            loaded.encode(text)
        assert "\n" not in str(error.value)
    print("after", file=sys.stderr, flush=True)
    assert capfd.readouterr().err == "before\nafter\n"


def test_what_is_printed_beside_an_encoding_is_not_lost(capfd):
    with panics_as_errors("it fails"):
        os.write(2, b"printed by a thread\n")
    with pytest.raises(KeyboardInterrupt), panics_as_errors("it fails"):
        os.write(2, b"printed before Ctrl-C\n")
        raise KeyboardInterrupt
    expected = "printed by a thread\nprinted before Ctrl-C\n"
    assert capfd.readouterr().err == expected


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("absent.model", None, "no such file"),
        ("unigrams", None, ", ".join(train_tokenizer.TRAINED_TYPES)),
        ("noise.model", b"\x00\x01 noise", "not a vocabulary file"),
        ("tokenizer.json", b"{}", "not a vocabulary file"),
        ("vocab.txt", b"a\nb\n", "[UNK]"),
        ("tokenizer.json", tokenizer_json(far=2**20), "a piece of id 1048576; ids"),
        (
            "tokenizer.json",
            tokenizer_json().replace(b'"a": 1', b'"a": 1, "b": 1'),
            "pieces have the same id",
        ),
        ("tokenizer.json", tokenizer_json("(?="), "not a vocabulary file (Oniguruma"),
    ],
)
def test_a_file_that_is_not_a_vocabulary_gives_a_one_line_error(
    tmp_path, name, data, message
):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError) as error:
        vocabulary.load_vocabulary(tmp_path / name if "." in name else name, 5)
    assert "data.vocabulary" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
@pytest.mark.parametrize("size", [2, 50_000])
def test_a_size_that_does_not_fit_names_the_key(tmp_path, tokenizer_type, size):
    config = SimpleNamespace(
        vocabulary=tokenizer_type,
        vocabulary_size=size,
        vocabulary_sample=10**9,
        sentinels=SENTINELS,
        whitespace="auto",
        normalizer="none",
        alpha=0.0,
    )
    with pytest.raises(UserError, match="vocabulary_size") as error:
        vocabulary.load_or_train(config, corpus_of(make_lines(0, 50)), tmp_path)
    assert "\n" not in str(error.value)


HAN = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
"""300 letters, each of which is a word."""


def check_advised_size(text: str, options: train_tokenizer.Options) -> None:
    """The size that the error names is one with which the text gives a vocabulary."""

    def read(split):
        yield Document(text)

    corpus = Corpus("c", read, lambda: "")
    with pytest.raises(tokenizer_types.SizeError) as error:
        train_tokenizer.train(corpus, options)
    advised = int(re.findall(r"\d+", str(error.value))[-1])
    assert advised == error.value.fits != options.size
    model = train_tokenizer.train(corpus, options._replace(size=advised))
    assert len(model.pieces) == advised


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TRAINED_TYPES)
@pytest.mark.parametrize("text", ["a", "old river", HAN])
@pytest.mark.parametrize("sentinels", [0, 100])
def test_the_size_that_an_error_advises_fits(tokenizer_type, text, sentinels):
    options = train_tokenizer.Options(tokenizer_type, 8192, sentinels)
    check_advised_size(text, options)


def test_more_sentinels_than_half_of_the_size_are_advised_a_size_that_fits():
    text = "the quick brown fox jumps over the lazy dog"
    check_advised_size(text, train_tokenizer.Options("wordpiece", 110, 100))


def test_the_cost_of_a_training_on_much_text_is_printed(capsys):
    train_tokenizer._print_cost(tokenizer_types.named("unigram"), 10**7)
    assert not capsys.readouterr().err
    train_tokenizer._print_cost(tokenizer_types.named("unigram"), 10**9)
    (line,) = capsys.readouterr().err.splitlines()
    assert "1,000 MB of text" in line and "45 min" in line and "23.0 GB" in line
    assert "data.vocabulary_sample" in line


def test_the_cache_key_depends_on_all_options():
    both = join_corpora([corpus_of(make_lines(n, 30), str(n)) for n in (1, 2)])

    def key(corpus, size=400, **sampling):
        sampling = tokenizer_sample.Options(**sampling)
        return vocabulary.cache_key(
            corpus, train_tokenizer.Options("bpe", size, 5, sampling)
        )

    keys = [key(both), key(both, 401), key(both, alpha=0.3), key(both, alpha=0.5)]
    keys += [key(both, max_bytes=2**23), key(both, keep_whitespace=True)]
    assert all(a != b for a, b in itertools.combinations(keys, 2))
    (one, *_) = both.parts
    assert key(one, alpha=0.3) == key(one)


def _word_start_bytes(text: str) -> set[int]:
    """The byte offsets in UTF-8 at which a word starts."""
    starts, offset, before = set(), 0, ""
    for character in text:
        own_word = _is_own_word(character)
        if character == " " or (before != " " and (own_word or _is_own_word(before))):
            starts.add(offset)
        offset += len(character.encode())
        before = character
    return starts


def _is_own_word(character: str) -> bool:
    """Punctuation or a CJK ideograph, as BERT's tokenizer has it."""
    code_point = ord(character)
    if any(
        first <= code_point <= last for first, last in ((33, 47), (58, 64), (91, 96))
    ):
        return True
    ideographs = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF))
    ideographs += ((0x20000, 0x2FA1F),)
    return (
        123 <= code_point <= 126
        or unicodedata.category(character).startswith("P")
        or any(first <= code_point <= last for first, last in ideographs)
    )
