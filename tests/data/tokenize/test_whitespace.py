"""White space that is kept: any text is rebuilt, and cut as GPT-2's tokenizer does."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from research.contract.batch import DOCUMENT, PARAGRAPH, SENTENCE, WORD
from research.contract.errors import UserError
from research.data.read import sentences
from research.data.source.build import load_corpus
from research.data.store import stream
from research.data.tokenize import model_files, vocabulary
from tests.testing.fake_corpus import SENTINELS, SIZE, corpus_of, make_lines

SCRIPTS = "abz XYZ019 éß .,;!?'\"()[]_ 。！？ 中文龘 ”’」「 ☃ "
SCRIPTS += "\t\n\r\x0b\x1c\x1f\x85\xa0\u2028\u3000"
TEXTS = st.text(st.sampled_from(SCRIPTS)) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="▁")
)
CODE = [f"def {line}:\n    if x:\n\treturn  y\n\n" for line in make_lines(0)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> vocabulary.Vocabulary:
    """A vocabulary that keeps white space, as byte-level BPE does by default."""
    cache = tmp_path_factory.mktemp("kept")
    return vocabulary.load_or_train(data("bytebpe"), corpus_of(CODE), cache)


def read_all(built: stream.Stream):
    """All tokens and flags of a stream of one shard."""
    num = built.num_tokens
    token, flags = built.gather(np.array([0]), np.array([num]), num, -1)
    return token[0], flags[0]


def data(tokenizer_type, whitespace="auto"):
    return SimpleNamespace(
        vocabulary=tokenizer_type,
        vocabulary_size=SIZE,
        vocabulary_sample=10**9,
        sentinels=SENTINELS,
        whitespace=whitespace,
        normalizer="none",
        alpha=0.0,
    )


def test_decode_rebuilds_every_text(kept):
    @settings(max_examples=200, deadline=None)
    @given(TEXTS)
    def check(text):
        token, starts = kept.encode(text)
        assert kept.decode(token) == text
        assert kept.vocab.unk_id not in token
        assert len(starts) == len(token) and starts[:1].all()

    check()


def test_texts_are_cut_as_the_library_cuts_them_whole(kept):
    """With GPT-2's pattern, which the library applies to the whole text."""
    library = tokenizers.Tokenizer.from_str(kept.model.data.decode())
    library.encode_special_tokens = True

    @settings(max_examples=300, deadline=None)
    @given(TEXTS)
    @example("a   b\n\n  c \n")
    @example(CODE[0])
    def check(text):
        expected = library.encode(text, add_special_tokens=False).ids
        assert kept.encode(text)[0].tolist() == expected

    check()


def test_indentation_and_empty_lines_have_pieces(kept):
    assert {b"\n   ", b"\n\n"} & set(kept.model.piece_bytes)


@given(TEXTS)
def test_literal_units_are_the_text(text):
    units = sentences.split_literally(text)
    assert "".join(map(sentences.spell_unit, units)) == text


POEM = """  A poem.  With indentation,
    and\ta tab. (Two
sentences!) The end of it.

\tOf a new stanza: e.g. this.   我喜欢你。你呢？
"""
SENTENCES = [
    "  A poem. ",
    " With indentation,\n   ",
    " and\ta tab.",
    " (Two\n",
    "sentences!)",
    " The end of it.\n\n\t",
    "Of a new stanza: e.g. this.  ",
    " 我喜欢你。",
    "你呢？\n",
]
PARAGRAPHS = [0, 2, 4, 6]


def test_words_sentences_and_paragraphs_are_known(kept, tmp_path):
    texts = [POEM, "\n\n\nx", POEM]
    built = stream.build_stream(corpus_of(texts), "train", kept, tmp_path, "eos")
    token, flags = read_all(built)
    documents = list(pairwise(built.document_offsets.tolist()))
    for text, (first, last) in zip(texts, documents, strict=True):
        assert kept.decode(token[first : last - 1]) == text
        assert (flags[first : last - 1] & WORD > 0).tolist() == (
            kept.encode(text)[1].tolist()
        )
    (first, last), blank, _ = documents
    starts = (first + np.flatnonzero(flags[first:last] & SENTENCE)).tolist()
    found = [kept.decode(token[a:b]) for a, b in pairwise([*starts, last - 1])]
    assert found == SENTENCES
    paragraphs = [n for n, at in enumerate(starts) if flags[at] & PARAGRAPH]
    assert paragraphs == PARAGRAPHS
    assert np.flatnonzero(flags & DOCUMENT).tolist() == [d[0] for d in documents]
    # A document that begins with empty lines has no sentence without a word.
    assert np.flatnonzero(flags[slice(*blank)] & (SENTENCE | PARAGRAPH)).tolist() == [0]


def test_words_start_where_white_space_or_punctuation_is(kept):
    text = "\n  two words,\nfour\tnot 5"
    token, starts = kept.encode(text)
    at = np.cumsum([0, *(len(kept.model.piece_bytes[i]) for i in token)])[:-1]
    found = [text[a:b] for a, b in pairwise([*at[starts], len(text)])]
    assert found == ["\n ", " two", " words", ",", "\n", "four", "\t", "not", " 5"]


def test_documents_of_a_txt_keep_their_lines(kept, tmp_path):
    text = "Two lines,\n   the second indented.\n"
    (tmp_path / "a.txt").write_text(f"{text}\n{text}")
    corpus = load_corpus(str(tmp_path / "a.txt"), 0.0)
    built = stream.build_stream(corpus, "train", kept, tmp_path / "cache", "none")
    assert kept.decode(read_all(built)[0]) == text + text


def test_streams_are_cached_by_what_becomes_of_white_space(kept, tmp_path):
    collapsed = vocabulary.Vocabulary(kept.model, kept.vocab)
    assert kept.sha256 == collapsed.sha256
    one, two = (
        stream.build_stream(corpus_of([POEM]), "train", each, tmp_path, "none")
        for each in (kept, collapsed)
    )
    assert one.fingerprint != two.fingerprint
    assert one.num_tokens > two.num_tokens


def test_a_vocabulary_of_bytes_alone_can_be_trained(tmp_path):
    config = data("bytebpe")
    config.vocabulary_size, config.sentinels = 5 + 256, 0
    only_bytes = vocabulary.load_or_train(config, corpus_of(CODE), tmp_path)
    assert only_bytes.encode("a\n é")[0].size == len("a\n é".encode())


def test_a_prefix_space_of_the_model_is_not_added(kept):
    text = kept.model.data.decode()
    assert '"add_prefix_space":false' in text.replace(" ", "")
    prefixed = model_files.parse_model(
        text.replace('"add_prefix_space":false', '"add_prefix_space":true').encode(),
        "tokenizer.json",
    )
    assert prefixed.encode(["a", "\n"]).token.tolist() == (
        kept.model.encode(["a", "\n"]).token.tolist()
    )


def test_white_space_that_cannot_be_kept_gives_a_one_line_error(tmp_path):
    with pytest.raises(UserError, match=r"data\.whitespace is keep.*collapse") as error:
        vocabulary.load_or_train(
            data("wordpiece", "keep"), corpus_of(make_lines(0)), tmp_path
        )
    assert "\n" not in str(error.value)
    plain = vocabulary.load_or_train(
        data("wordpiece"), corpus_of(make_lines(0)), tmp_path
    )
    assert not plain.keep_whitespace
