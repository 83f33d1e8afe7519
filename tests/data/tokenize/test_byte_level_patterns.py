"""Byte-level BPE with other patterns than GPT-2's: Llama 3's, Qwen's, GPT-NeoX's."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from research.contract.batch import DOCUMENT, PARAGRAPH, SENTENCE, WORD
from research.data.read import sentences
from research.data.store import tokenize
from research.data.store.stream import build_stream
from research.data.tokenize import export_tokenizer
from research.data.tokenize.token_offsets import (
    first_token_at,
    last_token_at,
    token_offsets,
)
from research.data.tokenize.vocabulary import load_vocabulary
from tests.testing.fake_corpus import corpus_of, make_lines

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
SPACES = [AddedToken(" " * size, normalized=True) for size in range(8, 1, -1)]
LINES = make_lines(0, 100)
CODE = [f"def {line}:\n    if (x).\n\n\treturn  12\n\n\n" for line in LINES]
SCRIPTS = "abz XYZ019 é .,;!?'\"()[]_ 。！？ 中文龘 ”’ ☃ \n\t\r\x0b\x1c\x85\xa0\u3000"
TEXTS = st.text(st.sampled_from(SCRIPTS + 9 * " " + 5 * "\n"), max_size=60)
POEM = """  A poem.  With indentation,
    and\ta tab. (Two
sentences!) The end of it.

\tOf a new stanza: e.g. this.   我喜欢你。你呢？
"""


def split(pattern):
    isolated = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([isolated, level])


FAMILIES = {
    "llama3": (split(LLAMA3), [], "spans"),
    "qwen": (split(QWEN), [AddedToken("<think>", normalized=False)], "spans"),
    "neox": (GPT2, SPACES, "spans"),
    "phrases": (GPT2, [AddedToken("b. X")], "texts"),
}


def train(name):
    """A tokenizer of a family, trained on text with pieces of white space."""
    before, added, _ = FAMILIES[name]
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = None if name == "llama3" else normalizers.NFC()
    tokenizer.pre_tokenizer, tokenizer.decoder = before, decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=500,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CODE, trainer)
    tokenizer.add_tokens(added)
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True)])  # ModernBERT's
    return tokenizer


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """Its name, its official tokenizer, and the vocabulary of its file."""
    folder, tokenizer = tmp_path_factory.mktemp("family"), train(request.param)
    tokenizer.save(str(folder / "tokenizer.json"))
    return request.param, tokenizer, load_vocabulary(folder, 0)


def texts_check(check):
    """Runs a check of a text on examples and on made-up texts."""
    check = example("bar).\n\nreturn")(example("\n    y\n")(example(POEM)(check)))
    check = example(CODE[0])(example("好。か。好\n12345 b. X  <think>\n")(check))
    settings(max_examples=150, deadline=None)(given(TEXTS)(check))()


def test_ids_are_those_of_the_whole_text(family):
    name, official, vocabulary = family
    assert vocabulary.keep_whitespace and vocabulary.model.cuts == FAMILIES[name][2]

    def check(text):
        expected = official.encode(text, add_special_tokens=False).ids
        token, starts = vocabulary.encode(text)
        assert token.tolist() == expected
        assert len(starts) == len(token) and starts[:1].all()
        normal = official.normalizer
        text = normal.normalize_str(text) if normal else text
        assert vocabulary.decode(token) == text

    texts_check(check)


def test_pieces_of_white_space_are_used(family):
    name, _, vocabulary = family
    found = [vocabulary.piece_text(i) for i in vocabulary.encode(CODE[0])[0]]
    joined = {"llama3": ").\n\n", "qwen": ").\n\n", "neox": "    "}
    assert name not in joined or joined[name] in found
    tokens = vocabulary.encode("ᚠ")[0]  # of which no piece is the whole letter
    named = "".join(map(vocabulary.piece_name, tokens.tolist())).strip()
    assert named in ("<0xE1><0x9A><0xA0>", "ᚠ")
    special = int(vocabulary.vocab.eos_id)
    assert vocabulary.piece_name(special) == str(vocabulary.model.pieces[special])


def test_spans_are_the_text_and_whole_units():
    @settings(max_examples=150, deadline=None)
    @given(TEXTS)
    def check(text):
        spans = [sentences.spell_unit(each) for each in sentences.split_spans(text)]
        assert "".join(spans) == text
        units = map(sentences.spell_unit, sentences.split_literally(text))
        of_spans = [unit for span in spans for unit in sentences.split_literally(span)]
        assert [sentences.spell_unit(unit) for unit in of_spans] == list(units)

    check()


def read(vocabulary, texts, folder):
    """Tokens and flags of each text in a stream."""
    stream = build_stream(corpus_of(texts), "train", vocabulary, folder, "none")
    num = stream.num_tokens
    token, flags = stream.gather(np.array([0]), np.array([num]), num, -1)
    documents = pairwise(stream.document_offsets.tolist())
    return stream, [(token[0, a:b], flags[0, a:b]) for a, b in documents]


def test_a_stream_has_the_ids_of_whole_texts_and_starts_of_sentences(family, tmp_path):
    _, official, vocabulary = family
    texts = [POEM, "\n\n\nx", *CODE[:20], POEM]
    stream, found = read(vocabulary, texts, tmp_path)
    for text, (token, flags) in zip(texts, found, strict=True):
        assert token.tolist() == official.encode(text).ids
        assert (flags & WORD > 0).tolist() == vocabulary.encode(text)[1].tolist()
        assert np.flatnonzero(flags & DOCUMENT).tolist() == [0]
    for token, flags in (found[0], found[-1]):
        starts = np.flatnonzero(flags & SENTENCE)
        parts = [vocabulary.decode(each) for each in np.split(token, starts)[1:]]
        assert [part.strip() for part in parts] == [
            "A poem.",
            "With indentation,",
            "and\ta tab.",
            "(Two",
            "sentences!)",
            "The end of it.",
            "Of a new stanza: e.g. this.",
            "我喜欢你。",
            "你呢？",
        ]
        paragraphs = np.flatnonzero(flags & PARAGRAPH)
        assert np.searchsorted(starts, paragraphs).tolist() == [0, 2, 4, 6]
    starts = [first for _, flags in found for first in np.flatnonzero(flags & SENTENCE)]
    assert len(stream.sentence_offsets) == 1 + len(starts)


def test_batches_and_known_spans_do_not_change_a_stream(family, tmp_path, monkeypatch):
    _, _, vocabulary = family
    texts = [POEM, *CODE[:20], POEM]
    _, expected = read(vocabulary, texts, tmp_path / "a")
    monkeypatch.setattr(tokenize, "MAX_BATCH_CHARS", 150)
    monkeypatch.setattr(tokenize, "MAX_KNOWN_TOKENS", 100)
    _, found = read(vocabulary, texts, tmp_path / "b")
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("keep_whitespace", [True, False])
def test_the_exported_tokenizer_has_these_ids(family, keep_whitespace):
    own = dataclasses.replace(family[2], keep_whitespace=keep_whitespace)
    exported = export_tokenizer.make_tokenizer(own)

    def check(text):
        expected = own.encode(text)[0].tolist()
        assert exported.encode(text, add_special_tokens=False).ids == expected

    for text in (POEM, *CODE[:20], *LINES[:20], "12345 (1). a"):
        check(text)
    if keep_whitespace:
        texts_check(check)


def test_tokens_stand_for_their_characters(family):
    _, _, vocabulary = family
    for text in ("cafe\u0301 bar).\n\n    return  12\n\ty(x). Z", POEM):
        token, _ = vocabulary.encode(text)
        offsets = token_offsets(text, vocabulary)
        assert len(offsets.begin) == len(token)
        for word in ("bar", "12", "y(", "tab", "(Two"):
            if word in text:
                begin = text.index(word)
                first = first_token_at(offsets, begin)
                last = last_token_at(offsets, begin + len(word) - 1)
                shown = vocabulary.decode(token[first : last + 1])
                assert shown.strip().startswith(word)
                assert offsets.begin[first] == begin


def test_only_special_pieces_have_no_text(family):
    """Also where an added token spells white space or text."""
    _, official, vocabulary = family
    special = [
        each["special"] for each in json.loads(official.to_str())["added_tokens"]
    ]
    assert sum(special) == sum(vocabulary.model.is_control) == 2
    for piece in ("    ", "<think>"):
        if (number := official.token_to_id(piece)) is not None:
            assert vocabulary.piece_text(number) == piece
            assert number in vocabulary.vocab.ordinary_ids
    assert vocabulary.decode([official.token_to_id("<|endoftext|>")]) == ""


def test_a_stream_of_other_ids_is_not_taken_from_the_cache(family, tmp_path):
    _, _, vocabulary = family
    new, _ = read(vocabulary, [POEM], tmp_path)
    vocabulary.model.version, current = 1, vocabulary.model.version
    old, _ = read(vocabulary, [POEM], tmp_path)
    vocabulary.model.version = current
    assert new.fingerprint != old.fingerprint
