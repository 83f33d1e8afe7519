"""Spaces that a normalizer makes of other characters, as SentencePiece has them."""

import io
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from research.contract.batch import DOCUMENT, SENTENCE
from research.data.documents import Document
from research.data.read.corpus import Corpus
from research.data.read.lexicon import load_lexicon
from research.data.store.stream import build_stream
from research.data.tokenize import export_tokenizer, tokenizer_models
from research.data.tokenize.token_offsets import token_offsets
from research.data.tokenize.vocabulary import load_or_train, load_vocabulary
from tests.testing.fake_corpus import SIZE, corpus_of, make_lines

LETTERS = "the cat. 好。学é"
LINES = [*make_lines(1, 200), *["the cat 好。 学！ é \u0308"] * 50]
WHITE = "\u200b\ufeff\u200e"
"""Zero width space, byte order mark, left-to-right mark: spaces to T5 and XLNet."""
TEXTS = st.text(st.sampled_from(LETTERS + 3 * WHITE + 6 * " " + "\u00a8\x01"))
EXAMPLES = [
    "the \u200bcat",
    "\ufeffthe cat",
    "the\u200b cat",
    "the \u200b cat",
    "the\u200bcat \u200e",
    "好。\u200b好 好。\u200b \u200b学。\u200b\u200e学\u200b",
    "a\x01b \x01 the \u00a8a",
    "\u200b",
    "",
]

CONTROLS = "the\x1ccat\x85\x1d the\x0bcat\x1f"
"""Control characters that `str.split` takes for white space."""


def train(path, **options):
    """SentencePiece's own processor of a model with its default rules, saved."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=200,
        character_coverage=1.0,
        minloglevel=2,
        **options,
    )
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.fixture(scope="module", params=["unigram", "bpe", "xlm-r"])
def family(request, tmp_path_factory):
    """A vocabulary of a file, and the ids that the library of the file gives."""
    folder = tmp_path_factory.mktemp("family")
    if request.param == "xlm-r":
        train(folder / "sentencepiece.bpe.model")
        vocabulary = load_vocabulary(folder, 0)
        official = tokenizers.Tokenizer.from_str(vocabulary.model.data.decode())
        ids = lambda text: official.encode(text, add_special_tokens=False).ids  # noqa: E731
        return vocabulary, ids
    processor = train(folder / "tokenizer.model", model_type=request.param)
    return load_vocabulary(folder, 0), processor.encode


def test_ids_are_those_of_the_whole_text(family):
    vocabulary, official = family

    def check(text):
        token, starts = vocabulary.encode(text)
        assert token.tolist() == official(text)
        assert len(starts) == len(token) and starts[:1].all()
        offsets = token_offsets(text, vocabulary)
        assert len(offsets.begin) == len(token)
        assert (offsets.begin < offsets.end).all()

    for text in EXAMPLES:
        check(text)
    settings(max_examples=200, deadline=None)(given(TEXTS)(check))()


@pytest.mark.parametrize("separator", ["eos", "none"])
def test_a_stream_has_them_and_no_document_is_empty(family, tmp_path, separator):
    vocabulary, official = family
    texts = [
        "The cat. \u200b The cat.\n\u200b\nthe",
        "\u200b",
        "\x01\n\n \u200b",
        "the",
    ]
    texts += [text for text in EXAMPLES if text] + ["\u200b"]
    stream = build_stream(corpus_of(texts), "train", vocabulary, tmp_path, separator)
    num = stream.num_tokens
    token, flags = stream.gather(np.array([0]), np.array([num]), num, -1)
    documents = list(pairwise(stream.document_offsets.tolist()))
    ends = [vocabulary.vocab.eos_id] if separator == "eos" else []
    for text, (first, last) in zip(texts, documents, strict=True):
        expected = official(text) or [vocabulary.vocab.unk_id]
        assert token[0, first:last].tolist() == expected + ends
    starts = np.flatnonzero(flags[0] & DOCUMENT).tolist()
    assert starts == [first for first, _ in documents]
    first, last = documents[0]
    parts = np.split(token[0, first:last], np.flatnonzero(flags[0, :last] & SENTENCE))
    shown = [vocabulary.decode(part).strip() for part in parts[1:]]
    assert [each.replace("\ufffd", "T") for each in shown] == [
        "The cat.",
        "The cat.",
        "the",
    ]


def test_a_part_without_tokens_has_no_flag(family, tmp_path):
    """On the next document, or on the word before."""
    vocabulary, _ = family
    document = Document("the cat \u200b", starts=(8,))
    corpus = Corpus("parts", lambda split: iter([document, Document("a")]), lambda: "")
    stream = build_stream(corpus, "train", vocabulary, tmp_path, "none")
    assert stream.part_offsets.tolist() == []


def test_a_lexicon_has_no_entry_without_tokens(family, tmp_path):
    vocabulary, official = family
    path = tmp_path / "lexicon.tsv"
    path.write_text("\u200b\ta\nthe cat\ta\n")
    lexicon = load_lexicon(str(path), vocabulary)
    assert lexicon.token.tolist() == [official("the cat")]


def test_an_exported_tokenizer_has_the_ids_of_the_file(family):
    vocabulary, _ = family
    exported = export_tokenizer.make_tokenizer(vocabulary)
    texts = EXAMPLES
    if isinstance(vocabulary.model, tokenizer_models.SentencePieceModel):
        texts = [*EXAMPLES, CONTROLS]  # which its normalizer removes
    for text in texts:
        expected = vocabulary.encode(text)[0].tolist()
        assert exported.encode(text, add_special_tokens=False).ids == expected


@pytest.mark.parametrize("kind", ["unigram", "bpe", "bytebpe", "words"])
def test_an_exported_tokenizer_has_the_ids_of_nfkc(tmp_path, kind):
    """NFKC makes a space and an accent of U+00A8."""
    config = SimpleNamespace(
        vocabulary=kind,
        vocabulary_size=SIZE,
        vocabulary_sample=10**9,
        sentinels=0,
        whitespace="collapse",
        normalizer="nfkc",
        alpha=0.0,
    )
    vocabulary = load_or_train(config, corpus_of(LINES), tmp_path)
    exported = export_tokenizer.make_tokenizer(vocabulary)

    def check(text):
        expected = vocabulary.encode(text)[0].tolist()
        assert exported.encode(text, add_special_tokens=False).ids == expected

    for text in (*EXAMPLES, CONTROLS, "the \u00a8a a\u00a8 \u00a8"):
        check(text)
    settings(max_examples=100, deadline=None)(given(TEXTS)(check))()


def test_only_normalizers_that_change_text_recreate_streams(family, vocabularies):
    assert family[0].model.version > 1 and family[0].model.drops_units
    for kind in ("unigram", "bpe", "bytebpe"):
        model = vocabularies[kind].model
        assert model.version == 1 and not model.drops_units


def test_words_are_encoded_in_their_order():
    found = tokenizer_models._encode_by_space(
        [" a", "b", "_c", " d", "e"],
        lambda texts: [[text, "word"] for text in texts],
        lambda texts: [[text, "joined"] for text in texts],
        lambda text: text.replace("_", " "),
    )
    assert [text for text, _ in found] == ["a", "b", "_c", "d", "e"]
    assert [kind for _, kind in found] == ["word", "joined", "word", "word", "joined"]
