"""`palimpsest predict`: what the texts after the flags are."""

import pytest

from launch.commands import predict
from research.metrics import Item
from research.use.inference import open_run
from research.use.inference import predict as predictors


@pytest.mark.parametrize(
    ("of_words", "parts", "examples"),
    [
        (True, ["He sleeps."], ["He sleeps."]),
        (True, ["He sleeps.", "She too."], ["He sleeps.", "She too."]),
        (True, ["He", "sleeps"], [["He", "sleeps"]]),
        (False, ["He sleeps.", "She too."], [["He sleeps.", "She too."]]),
    ],
)
def test_texts_of_a_tagger_are_sentences_or_words(
    of_words, parts, examples, monkeypatch, capsys
):
    class Predictor:
        def __init__(self, model):
            self.of_words = of_words

        def predict(self, given):
            assert given == examples
            return [Item("1", each, None, None) for each in given]

    monkeypatch.setattr(open_run, "open_run", lambda source: source)
    monkeypatch.setattr(predictors, "Predictor", Predictor)
    predict.run(predict.parser().parse_args(["--workdir=run", *parts]))
    assert capsys.readouterr().out == "\n\n".join(map(str, examples)) + "\n"
