"""An exported tokenizer gives the vocabulary's own ids and puts special tokens."""

import io
import itertools
import json
import sys
import unicodedata

import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from research.data.tokenize import export_tokenizer, train_tokenizer
from research.data.tokenize.tokenizer_models import SentencePieceModel
from research.data.tokenize.vocabulary import (
    Vocabulary,
    find_special_tokens,
    load_vocabulary,
)
from tests.testing.fake_corpus import corpus_of, make_lines

TEXTS = (
    "Le cœur a ses raisons, que la raison ne connaît point.",
    "Straßenbahn  fährt\tum 8.30 Uhr…",
    "彼は言った。「はい。」次の日、学校へ行った！  终于 好了。好",
    "그는 학교에 갔다. ¿Qué pasó? 🎈",
    "",
)
STOPS = "。！？｡"
ROWS = ([("A", 0)], [("A", 0), ("B", 0)])
LETTERS = st.text(st.sampled_from("abdu kle. 。！’” 学中é\n\t<>/s"), max_size=40)


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_ids_are_those_of_the_vocabulary(vocabularies, tokenizer_type):
    vocabulary = vocabularies[tokenizer_type]
    tokenizer = export_tokenizer.make_tokenizer(vocabulary)
    assert tokenizer.get_vocab_size() == vocabulary.vocab.size

    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    for text in [*TEXTS, *make_lines(3, lines=100)]:
        assert ids(text) == vocabulary.encode(text)[0].tolist()

    @settings(max_examples=100, deadline=None)
    @given(LETTERS)
    def check(text):
        if "<s>" not in text and "</s>" not in text:
            assert ids(text) == vocabulary.encode(text)[0].tolist()

    check()


@pytest.mark.parametrize("normalizer", ["none", "nfkc", "uncased"])
@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_any_character_has_the_ids_of_the_vocabulary(tokenizer_type, normalizer):
    """Control and format characters, spaces, marks and punctuation, of the others one
    in 397; within a word and by themselves."""
    options = train_tokenizer.Options(tokenizer_type, 400, 2, normalizer=normalizer)
    model = train_tokenizer.train(corpus_of([*make_lines(0), *TEXTS]), options)
    vocabulary = Vocabulary(model, find_special_tokens(model, 2))
    tokenizer = export_tokenizer.make_tokenizer(vocabulary)
    characters = [
        character
        for character in map(chr, range(sys.maxunicode + 1))
        if (category := unicodedata.category(character)) != "Cs"
        if category in ("Cc", "Cf") or category[0] in "ZMP" or ord(character) % 397 == 0
    ]
    texts = [f"ba{each}du {each} {each}du" for each in characters if each not in STOPS]
    found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    units = list(map(vocabulary.split, texts))
    encoded = vocabulary.encode_units(list(itertools.chain.from_iterable(units)))
    ends = np.cumsum(encoded.count)[np.cumsum([len(each) for each in units]) - 1]
    expected = np.split(encoded.token, ends[:-1])
    differ = [
        text
        for text, one, other in zip(texts, found, expected, strict=True)
        if one.ids != other.tolist()
    ]
    assert not differ


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("long\x85but", "longbut"),
        ("ends\x0cand", "endsand"),
        ("a \x96 b", "a b"),
        ("ze\u200bro", "zero"),
        ("\ufeffa \x00b", "a b"),
        ("a\u2028b\xa0c\u3000d", "a b c d"),
        ("\uf0b7 one", "one"),  # as transformers; BERT's own code keeps it
    ],
)
def test_wordpiece_cleans_text_as_bert(vocabularies, text, expected):
    """google-research/bert, tokenization.py: _clean_text."""
    wordpiece = vocabularies["wordpiece"]
    cleaned, _ = wordpiece.encode(expected)
    assert wordpiece.encode(text)[0].tolist() == cleaned.tolist()


@pytest.mark.parametrize("tokenizer_type", train_tokenizer.TOKENIZER_TYPES)
def test_what_is_exported_is_read_again(vocabularies, tmp_path, tokenizer_type):
    vocabulary = vocabularies[tokenizer_type]
    export_tokenizer.write_tokenizer(tmp_path, vocabulary, rows=ROWS, max_length=9)
    again = load_vocabulary(tmp_path, 0)
    for text in [*TEXTS, *make_lines(3, lines=100)]:
        (token, starts), (own, own_starts) = again.encode(text), vocabulary.encode(text)
        assert token.tolist() == own.tolist()
        assert starts.tolist() == own_starts.tolist()
        assert again.decode(token) == vocabulary.decode(token)
    for role in ("pad_id", "bos_id", "eos_id", "mask_id", "unk_id"):
        assert getattr(again.vocab, role) == getattr(vocabulary.vocab, role)


@pytest.mark.parametrize(
    ("single", "pair"),
    [
        ("b A e", "b A e B e"),
        ("A e", "A e B e"),
        ("A e b", "A e B e b"),
        ("b A e", "b A e e B e"),
        ("b A e", "b A m B e"),
        ("s A e", "s A e B e"),
        ("A", "A B"),
    ],
)
def test_special_tokens_stand_where_the_rows_have_them(
    vocabularies, tmp_path, single, pair
):
    vocabulary = vocabularies["wordpiece"]
    vocab = vocabulary.vocab
    ids = {"b": vocab.bos_id, "e": vocab.eos_id, "m": vocab.mask_id}
    ids |= {"s": int(vocab.sentinel_ids[0])}
    rows = tuple(
        [(ids.get(name, name), 0) for name in row.split()] for row in (single, pair)
    )
    export_tokenizer.write_tokenizer(tmp_path, vocabulary, rows=rows, max_length=64)
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = {"A": make_lines(5, lines=1)[0], "B": make_lines(6, lines=1)[0]}
    parts = {name: vocabulary.encode(text)[0].tolist() for name, text in texts.items()}
    parts |= {name: [piece] for name, piece in ids.items()}

    def expected(names):
        return [token for name in names.split() for token in parts[name]]

    assert tokenizer.encode(texts["A"]).ids == expected(single)
    assert tokenizer.encode(texts["A"], texts["B"]).ids == expected(pair)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["model_max_length"] == 64
    assert config["padding_side"] == ("left" if single == "A e b" else "right")
    assert tokenizer.token_to_id(config["mask_token"]) == vocab.mask_id


def test_a_piece_across_a_chinese_full_stop_is_not_used():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["好。か"] * 40),
        model_writer=model,
        model_type="bpe",
        vocab_size=9,
        split_by_unicode_script=False,
        minloglevel=2,
    )
    parsed = SentencePieceModel(model.getvalue())
    assert any("。" in piece[:-1] for piece in parsed.pieces)
    vocabulary = Vocabulary(parsed, find_special_tokens(parsed, 0))
    tokenizer = export_tokenizer.make_tokenizer(vocabulary)
    expected = vocabulary.encode("好。か")[0].tolist()
    assert tokenizer.encode("好。か", add_special_tokens=False).ids == expected
