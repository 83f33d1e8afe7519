"""`palimpsest predict`: what the texts after the flags are."""

from types import SimpleNamespace

import pytest

from research.use.inference.predict import Predictor

TEXTS = ["He sleeps.", "She too."]


@pytest.mark.parametrize(
    ("kind", "fields", "texts", "examples"),
    [
        ("tags", "", TEXTS, TEXTS),
        ("tags", "", ["He", "sleeps"], [["He", "sleeps"]]),
        ("class", "one", TEXTS[:1], TEXTS[:1]),
        ("class", "one", TEXTS, TEXTS),
        ("class", "one,two", TEXTS, [TEXTS]),
        ("class", "", TEXTS, [TEXTS]),
        ("span", "", TEXTS, [TEXTS]),
        ("choice", "", [*TEXTS, "He."], [[*TEXTS, "He."]]),
        ("text", "one,two", TEXTS, [TEXTS]),
    ],
)
def test_texts_are_examples_or_the_parts_of_one(kind, fields, texts, examples):
    predictor = object.__new__(Predictor)
    predictor.kind, predictor.of_words = kind, kind == "tags"
    config = SimpleNamespace(data=SimpleNamespace(fields=fields))
    predictor._run = SimpleNamespace(config=config)
    assert predictor.split_examples(texts) == examples
