"""`palimpsest predict`: what the texts after the flags are."""

from types import SimpleNamespace

import pytest

from launch.commands import predict
from research.metrics import Item
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


def test_several_tables_have_their_texts_above(monkeypatch, capsys):
    """One has none: its text is in the command, the line above."""
    items = [
        Item(
            text,
            "good",
            None,
            None,
            texts=(text,),
            details={"probabilities": {"good": 1}},
        )
        for text in TEXTS
    ]
    given = SimpleNamespace(
        workdir="run", pictures="", parts=TEXTS, data="", to="", fields="", label=""
    )
    monkeypatch.setattr(predict.given_texts, "check_examples", lambda *_: None)
    monkeypatch.setattr(
        "research.use.inference.open_run.open_run", lambda source: source
    )
    for own in (items, items[:1]):
        found = SimpleNamespace(
            predict=lambda examples, own=own: own, split_examples=lambda parts: parts
        )
        monkeypatch.setattr(
            "research.use.inference.predict.Predictor", lambda run, found=found: found
        )
        predict.run(given)
        lines = capsys.readouterr().out.splitlines()
        assert lines.count("probability  class") == len(own)
        assert [line for line in lines if line in TEXTS] == TEXTS * (len(own) > 1)
