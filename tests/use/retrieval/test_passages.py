"""Passages and sentences are slices of their document, whatever it is written in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.use.retrieval.passages import (
    STRIDE,
    WORDS,
    cut_document,
    sentence_spans,
    terms,
)

PARTS = (
    "river",
    "Dr.",
    "a.",
    "Stone!",
    "彼は言った。",
    "学校",
    "e\u0301",
    "\u202f",
    "🙂",
)
SPACES = (" ", "\r\n", "\n\n", "\t ", "")
TEXTS = st.lists(
    st.tuples(st.sampled_from(PARTS), st.sampled_from(SPACES)), max_size=300
)


@given(TEXTS)
def test_passages_are_slices_that_cover_the_document(parts):
    text = "".join(map("".join, parts))
    passages = list(cut_document("d", text))
    reached = 0
    for passage in passages:
        assert passage.text == text[passage.start : passage.end] == passage.text.strip()
        assert not text[reached : passage.start].strip()  # nothing is left out
        reached = max(reached, passage.end)
    assert not text[reached:].strip()


@given(TEXTS)
def test_sentences_are_slices_in_order(parts):
    text = "".join(map("".join, parts))
    spans = sentence_spans(text)
    reached = 0
    for start, end in spans:
        assert start < end and not text[reached:start].strip()
        assert text[start:end] == text[start:end].strip()
        reached = end
    assert not text[reached:].strip()


def test_a_passage_has_so_many_words_and_half_of_the_last_one():
    words = [f"w{n}" for n in range(WORDS + 60)]
    first, second, third = cut_document("d", " ".join(words))
    assert first.text.split() == words[:WORDS]
    assert second.text.split() == words[STRIDE : STRIDE + WORDS]
    assert third.text.split() == words[2 * STRIDE :]
    assert next(cut_document("d", "हिन्दी " * 150)).text.split() == ["हिन्दी"] * WORDS
    (characters, *_) = cut_document("d", "学" * 150)
    assert len(characters.text) == WORDS


def test_sentences_end_at_stops_and_blank_lines():
    text = "Dr. Low is old. He reads\n\nthe end. 彼は言った。学校へ"
    found = [text[start:end] for start, end in sentence_spans(text)]
    assert found == [
        "Dr. Low is old.",
        "He reads",
        "the end.",
        "彼は言った。",
        "学校へ",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The River-bank, 2nd!", ["the", "river", "bank", "2nd"]),
        ("学校へ行く", ["学", "校", "へ", "行", "く", "学校", "校へ", "へ行", "行く"]),
        ("Ｐython彼", ["python", "彼"]),
        ("हिन्दी भाषा, ता।", ["हिन्दी", "भाषा", "ता"]),
        ("x\u0323\u0304 ❤\ufe0f", ["x\u0323\u0304"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี", "สวั", "วัส", "สดี"]),  # deepset-ai/haystack #120
        ("Buch\xadstabe a_b", ["buchstabe", "a", "b"]),
    ],
)
def test_terms_are_words_and_neighbouring_characters(text, expected):
    assert terms(text) == expected
