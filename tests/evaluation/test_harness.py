"""What lm-evaluation-harness asks is answered by a model's scores and its texts."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from research.errors import UserError
from research.evaluation import harness
from research.evaluation.sentence_scores import Score


class Scorer:
    """In place of the one with a model: a score that says what was asked."""

    def __init__(self, run, method, *, best):
        assert (run, method, best) == ("run", "original", True)

    def __call__(self, texts, contexts=None, *, separator=" "):
        contexts = contexts or [""] * len(texts)
        assert separator == "" or not any(contexts)
        return [
            Score(-float(len(c + t)), 1, len(t), 1, t == " b")
            for c, t in zip(contexts, texts, strict=True)
        ]


def generate(prompts, **options):
    assert options in ({"max_tokens": 8}, {"max_tokens": 256})
    return [[SimpleNamespace(text=f"{prompt}, one.\n\nQ: two")] for prompt in prompts]


def request(*args):
    return SimpleNamespace(args=args)


@pytest.fixture
def served(monkeypatch):
    """A function from a model to what the harness gets, without lm_eval."""
    fake = ModuleType("lm_eval.api.model")
    fake.LM = object
    for name in ("lm_eval", "lm_eval.api"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    monkeypatch.setattr(harness, "Scorer", Scorer)
    return lambda model: harness.language_model(model, "original")


def test_requests_are_scored_and_texts_end_at_the_first_stop(served):
    model = served(SimpleNamespace(run="run", generate=generate))
    asked = [request("a", " b"), request("", "cde")]
    assert model.loglikelihood(asked) == [(-3.0, True), (-3.0, False)]
    assert model.loglikelihood_rolling([request("abcd")]) == [-4.0]
    found = model.generate_until(
        [
            request("A", {"until": ["\n\n", "one"], "max_gen_toks": 8}),
            request("B", {"until": ".", "do_sample": True, "temperature": 0}),
            request("C", {}),
        ]
    )
    assert found == ["A, ", "B, one", "C, one.\n\nQ: two"]


def test_texts_of_batches_become_vectors(monkeypatch):
    models, base = ModuleType("mteb.models"), ModuleType("mteb.models.abs_encoder")
    models.ModelMeta = SimpleNamespace(create_empty=dict)
    base.AbsEncoder = object
    for module in (ModuleType("mteb"), models, base):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    model = SimpleNamespace(encode=lambda texts, pool: [(text, pool) for text in texts])
    batches = [{"text": ["a", "b"], "id": [1, 2]}, {"text": ["c"]}]
    served = harness.text_encoder(model, "class")
    found = served.encode(batches, task_metadata=None, hf_split="test")
    assert found == [("a", "class"), ("b", "class"), ("c", "class")]
    monkeypatch.setitem(sys.modules, "mteb.models", None)
    with pytest.raises(UserError, match=r"mteb\S* is not installed"):
        harness.text_encoder(model)


def test_what_is_missing_gives_one_line(served, monkeypatch):
    model = served(SimpleNamespace(run="run"))
    with pytest.raises(UserError, match="a model that writes text"):
        model.generate_until([request("A", {})])
    monkeypatch.setitem(sys.modules, "lm_eval.api.model", None)
    with pytest.raises(UserError, match=r"lm_eval\S* is not installed"):
        served(SimpleNamespace(run="run"))
