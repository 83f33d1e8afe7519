"""Scores equal log p of a known chain, and the objective's own loss; rows are alone."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks, objectives
from research.contract.errors import UserError
from research.evaluation import sentence_scores
from research.evaluation.score_windows import make_windows, num_bytes
from research.evaluation.sentence_scores import Scorer, score
from research.objectives.combined.wrapped import Wrapped
from research.objectives.noise.scoring import ScoreRows
from research.program.step import make_evaluate
from tests.testing.example_batches import keys, vocab
from tests.testing.known_chain import (
    KnownChain,
    LetterVocabulary,
    enumerated,
    log_likelihood,
    make_run,
)
from tests.testing.markov_chain import states_of
from tests.testing.model_options import model_options

TEXTS = ["abc d ef", "f", "aab bcd dfe a"]
CLOSE = {"rel": 1e-6}
"""Of float32 log-probabilities."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Batches of 16 short rows."""
    monkeypatch.setattr(sentence_scores, "BATCH_POSITIONS", 16 * 16)


def states(text):
    return states_of(LetterVocabulary().encode(text)[0])


def word_ends(text):
    """Of each token, the end of its word."""
    ends = np.cumsum([len(word) for word in text.split()])
    return np.repeat(ends, [len(word) for word in text.split()])


PARTS = {
    "causal": {"objective": "lm"},
    "masked": {"objective": "mlm", "predict_at": "previous", "weight": 15},
}
CLOZES = {
    "mlm": ("mlm", {"sentence_task": "nsp", "format": "segment_pair"}, ""),
    "mlm, next token": ("mlm", {"predict_at": "previous"}, ""),
    "unilm": ("unilm", {}, ""),
    "infoword": ("infoword", {}, ""),
    "wklm": ("wklm", {}, ""),
    "tlm, masked": ("tlm", {"languages": "2:1"}, ""),
    "joint": ("joint", {"parts": PARTS}, "masked."),
    "mix": ("mix", {"parts": {"a": {}, "b": {"rate": 0.3}}}, "b."),
}


def known_chain(name):
    """The network of an objective; some read a token one position after it."""
    behind = ("lm", "fim", "tlm", "joint", "mlm, next token")
    return KnownChain(shift=int(name in behind))


@pytest.mark.parametrize("method", ["within_word_l2r", "original"])
@pytest.mark.parametrize("case", CLOZES)
def test_pseudo_log_likelihood_is_that_of_the_chain(case, method):
    name, fields, part = CLOZES[case]
    run = make_run(objectives.make_objective(name, **fields), known_chain(case))
    found = score(run, TEXTS, method=part + method)
    for text, result in zip(TEXTS, found, strict=True):
        state, ends = states(text), word_ends(text)
        if method == "original":
            ends = np.arange(len(state)) + 1
        expected = sum(
            enumerated(state, at, np.arange(at, end)) for at, end in enumerate(ends)
        )
        assert result.log_prob == pytest.approx(expected, **CLOSE)
        assert (result.num_tokens, result.num_bytes) == (len(state), len(text))
        assert result.per_token == result.log_prob / len(state)
        assert result.per_byte == result.log_prob / len(text)


@pytest.mark.parametrize(
    ("name", "fields", "method"),
    [
        ("lm", {}, "left_to_right"),
        ("lm", {"prefix": "random"}, "left_to_right"),
        ("plm", {"num_permutations": 2}, "left_to_right"),
        ("plm", {}, "random_orders"),
        ("fim", {}, "left_to_right"),
        ("unilm", {}, "left_to_right"),
        ("tlm", {"predict": "next"}, "left_to_right"),
        ("joint", {"parts": PARTS}, "causal.left_to_right"),
        ("joint", {"parts": PARTS}, ""),  # that of the first part
    ],
)
def test_likelihoods_are_those_of_the_chain_in_any_order(name, fields, method):
    objective = objectives.make_objective(name, **fields)
    found = score(make_run(objective, known_chain(name)), TEXTS, method=method)
    for text, result in zip(TEXTS, found, strict=True):
        assert result.log_prob == pytest.approx(log_likelihood(states(text)), **CLOSE)


def test_a_long_text_is_read_in_windows_and_each_token_scored_once(monkeypatch):
    objective = objectives.make_objective("lm")
    run = make_run(objective, KnownChain(shift=1), length=8)  # windows of 5
    text = "abcdefabcd e"
    (found,) = score(run, [text])
    state = states(text)
    windows = [(0, 5, 0), (5, 10, 5), (6, 11, 10)]
    expected = 0.0
    for begin, end, first in windows:
        expected += log_likelihood(state[begin:end])
        if first > begin:
            expected -= log_likelihood(state[begin:first])
    assert found.log_prob == pytest.approx(expected, **CLOSE)
    assert (found.num_tokens, found.num_windows) == (11, 3)


def test_a_window_has_as_much_before_the_middle_as_after_it():
    def windows(before, own, after, room):
        return [*make_windows(np.repeat([0, 1, 0], [before, own, after]) > 0, room)]

    assert windows(3, 2, 4, 9) == [(0, 9, 3)]  # the whole text
    assert windows(10, 2, 10, 6) == [(8, 14, 10)]
    assert windows(1, 2, 10, 6) == [(0, 6, 1)]  # what is left before it is after it
    assert windows(10, 2, 1, 6) == [(7, 13, 10)]
    assert windows(4, 8, 4, 6) == [(4, 10, 4), (8, 14, 10)]


SMALL = vocab(size=64)


def has_own_rows(name):
    """Whether its class, not a base of it or what it wraps, makes rows for scores."""
    cls = objectives.objective_class(name)
    return cls.score_rows.__module__ == cls.__module__ and not issubclass(cls, Wrapped)


FAMILIES = {name: {} for name in objectives.names() if has_own_rows(name)} | {
    "dae": {"label_smoothing": 0.1, "z_loss": 1e-4},
    "tlm": {"languages": "2:1"},
    "mass": {"label_smoothing": 0.1},
    "coco_lm": {},
    "retromae": {},
    "joint": {"parts": PARTS},
    "mix": {"base_objective": "dae", "parts": {"r": {"mode": "R"}, "s": {}}},
}


AS_OTHERS = ("infoword", "joint", "mix", "coco_lm", "retromae")
"""Their networks are those of mlm, lm, dae and electra."""


def random_run(name):
    """A run with a small network and random parameters."""
    objective = objectives.make_objective(name, **FAMILIES[name])
    options = model_options(layers=1, width=16, heads=2, feedforward=16, max_length=64)
    network = networks.build(options, objective.needs(SMALL), SMALL)
    batch = objective.corrupt(example_of(objective, "ab c"), keys(1), SMALL, 32)
    batch = jax.tree.map(jnp.asarray, batch | {"example": np.zeros(1, np.int32)})

    def loss(net):
        return objective.loss(net, batch | {"carry": None}, jax.random.key(0))

    shapes = jax.eval_shape(
        lambda: networks.unbox(networks.init(network, loss, jax.random.key(0)))
    )
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda x: rng.normal(size=x.shape).astype(np.float32) / 3, shapes
    )
    return make_run(objective, network, params, vocabulary=LetterVocabulary(SMALL))


def example_of(objective, text):
    """The raw text of one row, as training has it."""
    token, starts = LetterVocabulary(SMALL).encode(text)
    width = objective.text_spec(32).length
    window = sentence_scores.Window(0, token, starts.astype(np.uint8), starts)
    example, _ = sentence_scores.raw_text([window], SMALL.pad_id, width)
    return example


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n in AS_OTHERS)) for n in FAMILIES],
)
def test_a_score_does_not_depend_on_the_batch_or_its_neighbours(name, monkeypatch):
    run = random_run(name)
    best = name == "lm"
    many = Scorer(run, best=best)(TEXTS)
    monkeypatch.setattr(sentence_scores, "BATCH_POSITIONS", 16)
    alone = Scorer(run, best=best)
    for text, together in zip(TEXTS, many, strict=True):
        (result,) = alone([text])
        for estimate in ("log_prob", "std_error"):
            expected = pytest.approx(getattr(together, estimate), rel=1e-5)
            assert getattr(result, estimate) == expected
        assert result[1:-1] == together[1:-1]
    assert len({result.log_prob for result in many}) == len(TEXTS)


def test_a_score_is_minus_the_loss_of_an_evaluation():
    run = random_run("lm")
    batch = run.objective.corrupt(
        example_of(run.objective, TEXTS[0]), keys(1), SMALL, 32
    )
    evaluate = jax.jit(make_evaluate(run.objective, run.network, seed=0))
    zero = {name: (0.0, 0.0, 0.0) for name in ("lm", "accuracy")}
    sums, *_ = evaluate(
        run.params, (), zero, batch | {"example": np.zeros(1, np.int32)}
    )
    (found,) = score(run, TEXTS[:1])
    total, weight, _ = sums["lm"]
    assert found.log_prob == pytest.approx(-float(total), rel=1e-5)
    assert found.num_tokens == float(weight)


def test_losses_of_positions_are_added_in_float64():
    losses = {"weight": np.array([[2.0**24, 1.0, 1.0, 1.0]], np.float32)}
    weights = {"weight": np.ones((1, 4), np.float32)}
    _, loss, _ = sentence_scores._collect(
        ScoreRows(np.zeros(1, int), weights), weights, (losses, None)
    )
    assert loss[0] == 2.0**24 + 3


def test_what_gives_no_score_is_refused():
    blank = make_run(objectives.make_objective("lm"), KnownChain(shift=1))
    with pytest.raises(UserError, match="text 2 is blank"):
        score(blank, ["a", " "])
    for name, fields, method, words in (
        ("tagging", {}, "", "objective tagging gives texts no score; these do: bart"),
        ("mlm", {}, "left_to_right", "unknown method of scoring of objective mlm"),
        ("lm", {"direction": "both"}, "", "lm with direction both"),
        ("electra", {"task": "all_tokens"}, "", "electra with task all_tokens"),
        ("dae", {"replacement": "shuffle", "target": "whole"}, "", "dae with spans"),
        ("bart", {"infill_rate": 0.0}, "", "without infilled"),
        ("infoword", {"negatives": 4}, "", "infoword with negatives 4"),
        ("joint", {"token_types": 2}, "", "joint with token_types 2"),
        (
            "joint",
            {"parts": {"tagging": {}}},
            "",
            "objective joint gives texts no score",
        ),
    ):
        objective = objectives.make_objective(name, **fields)
        with pytest.raises(UserError, match=words):
            score(make_run(objective, KnownChain()), ["abc"], method=method)


def test_white_space_that_is_not_read_has_no_bytes():
    run = make_run(objectives.make_objective("lm"), known_chain("lm"))
    plain, spaced, line = score(run, ["abc d ef", "  abc   d ef    ", "abc d ef\n"])
    assert plain.num_bytes == 8
    assert plain[1:] == spaced[1:] == line[1:]


def test_white_space_that_is_read_has_bytes():
    keeps = SimpleNamespace(keep_whitespace=True)
    assert num_bytes(keeps, "  a   \u00e9\n") == 9
