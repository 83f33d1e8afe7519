"""What lm-evaluation-harness asks is answered by a model's scores and its texts."""

import dataclasses
import sys
from types import ModuleType, SimpleNamespace

import pytest

from research import objectives
from research.contract.errors import UserError
from research.evaluation import harness
from research.evaluation.sentence_scores import Score
from research.generation.samplers import make_sampler

RUN = SimpleNamespace(
    network=SimpleNamespace(options=SimpleNamespace(max_positions=None)),
    config=SimpleNamespace(data=SimpleNamespace(length=64)),
    objective=SimpleNamespace(writers={}),
)


class Scorer:
    """In place of the one with a model: a score that says what was asked."""

    def __init__(self, run, method, *, best):
        assert (run, method, best) == (RUN, "original", True)

    def __call__(self, texts, contexts=None, *, separator=" ", blank=False):
        assert blank
        contexts = contexts or [""] * len(texts)
        assert separator == "" or not any(contexts)
        return [
            Score(-float(len(c + t)), 1, len(t), 1, t == " b")
            for c, t in zip(contexts, texts, strict=True)
        ]


class Writer:
    """In place of a LanguageModel: it keeps the options of what it writes."""

    def __init__(self, **writing):
        self.run, self.writing, self.options = RUN, writing, []

    def generate_each(self, prompts, *, length, **options):
        assert length == 64
        self.options.append(make_sampler(self.writing, **options))
        return [
            [SimpleNamespace(text=f"{prompt}, one.\n\nQ: two")]
            if prompt
            else UserError("nothing can be written after it")
            for prompt in prompts
        ]


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
    writer = Writer()
    model = served(writer)
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
    assert [each.max_tokens for each in writer.options] == [8, 256, 256]


def test_a_request_without_an_answer_does_not_end_the_others(served, capsys):
    """It is an empty text, and standard error has the reason."""
    model, sample = served(Writer()), {"do_sample": True, "temperature": 1}
    asked = [request("A", {}), request("", {}), request("B", sample), request("C", {})]
    found = model.generate_until(asked)
    assert [text[:1] for text in found] == ["A", "", "B", "C"]
    assert "nothing can be written after it" in capsys.readouterr().err
    assert model.generate_until([request("", {})]) == [""]


CHAT = {"method": "sample", "temperature": 0.6, "top_k": 20, "top_p": 0.9}
SUMMARY = {"method": "beam", "beams": 4, "beam_rule": "huggingface"}


@pytest.mark.parametrize(
    ("writing", "asked", "expected"),
    [
        (CHAT, {"do_sample": False, "temperature": 0.0}, {"method": "greedy"}),
        (CHAT, {"do_sample": False, "temperature": 0.8}, {"method": "greedy"}),
        (CHAT, {"do_sample": True, "temperature": 0}, {"method": "greedy"}),
        (CHAT, {"temperature": 0.0}, {"method": "greedy"}),
        (CHAT, {}, {"method": "greedy"}),
        (CHAT, {"do_sample": True, "temperature": 0.8}, CHAT | {"temperature": 0.8}),
        (
            CHAT,
            {"temperature": 1, "top_p": 0.95, "top_k": 5},
            {"method": "sample", "temperature": 1, "top_p": 0.95, "top_k": 5},
        ),
        (
            {},
            {"temperature": 0.7, "max_new_tokens": 5},
            {"method": "sample", "top_k": 50, "top_p": 1.0, "max_tokens": 5},
        ),
        ({}, {"num_beams": 3, "repetition_penalty": 1.5}, {"method": "beam"}),
        (SUMMARY, {"do_sample": False}, SUMMARY),
        (SUMMARY, {"do_sample": False, "num_beams": 10}, SUMMARY | {"beams": 10}),
        (SUMMARY, {"do_sample": False, "num_beams": 1}, {"method": "greedy"}),
    ],
)
def test_a_task_is_sampled_only_if_it_says_so(served, writing, asked, expected):
    """As by lm_eval's HFLM, whatever search the model's folder chooses."""
    writer = Writer(**writing)
    served(writer).generate_until([request("A", asked)])
    (options,) = writer.options
    found = dataclasses.asdict(options) | {"method": options.name}
    assert {name: found[name] for name in expected} == expected
    assert options.repetition_penalty == asked.get("repetition_penalty", 1.0)


@pytest.mark.parametrize("asked", [{}, {"do_sample": True, "temperature": 1}])
def test_masked_diffusion_writes_by_its_own_sampler(served, monkeypatch, asked):
    """A task asks for greedy or sampled texts, which it cannot write."""
    writer = Writer()
    monkeypatch.setattr(
        RUN.objective, "writers", objectives.make_objective("masked_diffusion").writers
    )
    served(writer).generate_until([request("A", asked)])
    assert writer.options[0].name == "ancestral"


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
    model = served(SimpleNamespace(run=RUN))
    with pytest.raises(UserError, match="a model that writes text"):
        model.generate_until([request("A", {})])
    monkeypatch.setitem(sys.modules, "lm_eval.api.model", None)
    with pytest.raises(UserError, match=r"lm_eval\S* is not installed"):
        served(SimpleNamespace(run=RUN))
