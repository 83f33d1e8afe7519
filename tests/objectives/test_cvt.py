"""CVT: which texts students read, what each is scored on, and what teaches them."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from launch.config import load_config
from research import networks, objectives
from research.config.config import Config
from research.contract.batch import PART, WORD
from research.objectives.tasks.cvt import (
    STUDENTS,
    TAGGER,
    answers_of,
    cross_entropy,
    views_of,
)
from tests.testing import small_data
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options
from tests.testing.trees import make_params

VOCAB = vocab()
LENGTH = 12
TEXTS = texts(20, [20, 7, 0, 1, 9, 5], VOCAB)
TEXTS.flags[TEXTS.flags & WORD > 0] |= PART
TEXTS.arrays["tags"][3:5] = -1
DROPOUT = {"network": "lstm", "layers": 1, "joined_layers": 1, "dropout": 0.5}


def make(**fields):
    return objectives.make_objective("cvt", **fields)


def test_texts_without_tags_are_those_that_students_read():
    batch = make().corrupt(TEXTS, keys(6), VOCAB, LENGTH)
    tagger = TAGGER.corrupt(TEXTS, keys(6), VOCAB, LENGTH)
    for name, array in tagger.items():
        np.testing.assert_array_equal(batch[name], array)
    for row, size in enumerate(np.minimum(TEXTS.length, LENGTH - 2)):
        starts = (TEXTS.flags[row, :size] & WORD > 0) | (np.arange(size) == 0)
        expected = 1 + np.flatnonzero(starts) if row in (3, 4) else []
        assert np.flatnonzero(batch["unlabelled_weight"][row]).tolist() == [*expected]
    assert batch["unlabelled_weight"][4].sum() > 2


def test_a_fraction_of_the_texts_keep_their_tags_in_all_epochs():
    many = texts(4, [4] * 500, VOCAB)
    objective = make(labelled_fraction=0.3)
    first, later = (
        objective.corrupt(many, keys(500, seed), VOCAB, 6)["weight"].any(axis=1)
        for seed in (0, 1)
    )
    np.testing.assert_array_equal(first, later)
    assert abs(first.mean() - 0.3) < 4 * (0.3 * 0.7 / 500) ** 0.5
    batch = objective.corrupt(many, keys(500), VOCAB, 6)
    assert ((batch["unlabelled_weight"] > 0).any(axis=1) == ~first).all()
    assert not batch["target"][~first].any()
    evaluated = objective.for_evaluation()
    assert evaluated.corrupt(many, keys(500), VOCAB, 6)["weight"].any(axis=1).all()
    assert (evaluated.label_smoothing, evaluated.consistency) == (0, 0)


def test_each_student_is_scored_on_the_word_that_it_is_asked_of():
    """Words of one and of two pieces, then the end of the text and padding."""
    weight = np.float32([[0, 1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0]])
    teacher = np.random.default_rng(0).dirichlet(np.ones(3), weight.shape)
    found = answers_of(jnp.asarray(teacher, jnp.float32), jnp.asarray(weight))
    asked = {1: 1, 2: 2, 4: 4}
    expected = dict.fromkeys(("full", "forwards", "backwards"), asked)
    expected |= {"future": {1: 2, 3: 4}, "past": {2: 1, 4: 2}}
    for name, words in expected.items():
        answer, scored = map(np.asarray, found[name])
        assert scored[0].nonzero()[0].tolist() == [*words], name
        assert not scored[1].any()
        for position, word in words.items():
            np.testing.assert_allclose(answer[0, position], teacher[0, word], rtol=1e-6)


def test_a_student_reads_all_or_one_direction_alone():
    views = views_of(jnp.arange(8)[None, None], 2)
    sides = {"forwards": [0, 1], "backwards": [2, 3], "future": [0, 1], "past": [2, 3]}
    for name, columns in (sides | {"full": [*range(8)]}).items():
        assert views[name][0, 0].tolist() == columns
    assert views.keys() == {*STUDENTS}


def test_a_tag_is_smoothed_in_training():
    """Of four tags 0.925 and three times 0.025 (the released code)."""

    class Heads:
        def features(self, batch):
            return np.zeros((*batch["token"].shape, 4), np.float32)

        def head(self, name, states):
            logits = jnp.log(jnp.float32([0.1, 0.2, 0.3, 0.4]))
            return jnp.broadcast_to(logits, (*states.shape[:-1], 4))

    four = VOCAB._replace(labels=("a", "b", "c", "d"))
    batch = make().corrupt(TEXTS, keys(6), four, LENGTH)
    batch["target"] = np.where(batch["weight"] > 0, 2, 0)
    of_tags = make(consistency=0.0)
    terms, _ = of_tags.loss(Heads(), batch, None)
    smoothed = -np.log([0.1, 0.2, 0.3, 0.4]) @ [0.025, 0.025, 0.925, 0.025]
    assert terms.keys() == {"tag", "accuracy"} and terms["tag"].weight > 5
    assert terms["tag"].total / terms["tag"].weight == pytest.approx(smoothed)
    terms, _ = of_tags.for_evaluation().loss(Heads(), batch, None)
    assert terms["tag"].total / terms["tag"].weight == pytest.approx(-np.log(0.3))


@pytest.fixture(scope="module")
def students():
    """A function (params, key, **fields) -> the sum of students' terms, of a network
    with dropout if there is a key, and its gradient; and parameters."""
    network = networks.build(
        model_options(**DROPOUT, width=8), make().needs(VOCAB), VOCAB
    )
    batch = make().corrupt(TEXTS.rows(slice(3, 6)), keys(3), VOCAB, 8)
    batch = jax.tree.map(jnp.asarray, batch)

    @partial(jax.jit, static_argnames="objective")
    @jax.value_and_grad
    def total(params, key, objective):
        loss = lambda net: objective.loss(net, batch, None)[0]  # noqa: E731
        terms = networks.apply(network, params, loss, key)
        return sum(terms[name].total for name in STUDENTS)

    def run(params, key, **fields):
        return total(params, key, objective=make(**fields))

    score = lambda net: make().loss(net, batch, None)[0]["tag"].total  # noqa: E731
    return run, make_params(network, score)


def constant_students(params):
    """The parameters with students that give one distribution whatever they read."""
    changed = dict(params)
    for name in STUDENTS:
        head = params[f"head_{name}"]
        out = head["out"] | {"kernel": jnp.zeros_like(head["out"]["kernel"])}
        changed[f"head_{name}"] = head | {"out": out}
    return changed


def test_the_teacher_is_without_dropout_and_takes_no_gradient(students):
    run, params = students
    key, constant = jax.random.key(0), constant_students(params)
    expected, _ = run(constant, None)
    found, grad = run(constant, key)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    assert not np.any(grad["token"]["embedding"])
    assert np.any(grad["head_past"]["out"]["bias"])
    for each in (key, None):
        _, grad = run(params, each)
        assert not any(np.any(leaf) for leaf in jax.tree.leaves(grad["head_tag"]))
        assert np.any(grad["token"]["embedding"])


def test_students_may_have_a_dropout_of_their_own(students):
    run, params = students
    key = jax.random.key(0)
    without, shared = (float(run(params, each)[0]) for each in (None, key))
    none = float(run(params, key, unlabelled_dropout=0.0)[0])
    assert none == pytest.approx(without, rel=1e-5)
    assert abs(shared - without) > 1e-3 * without


def test_the_loss_of_a_distribution_is_its_cross_entropy():
    logits, answer = np.float32([[[0, 1, 2]]]), np.float32([[[0.2, 0.3, 0.5]]])
    term = cross_entropy(logits, answer, np.float32([[2]]))
    log_p = np.arange(3) - np.log(np.exp(np.arange(3)).sum())
    assert term.weight == 2
    assert float(term.total) == pytest.approx(
        -2 * float(answer[0, 0] @ log_p), rel=1e-6
    )


def test_batches_with_and_without_tags_alternate(tmp_path):
    draw, words = np.random.default_rng(0), ["ab", "cd", "abc", "ef"]
    sentences = [draw.choice(words, draw.integers(2, 9)).tolist() for _ in range(60)]
    tagged = ("\n".join(f"{w} B-{w[0]}" for w in each) for each in sentences)
    (tmp_path / "tagged.conll").write_text("\n\n".join(tagged))
    plain = (json.dumps({"text": " ".join(each)}) for each in sentences)
    (tmp_path / "texts.jsonl").write_text("\n".join(plain))
    tagged, plain = (str(tmp_path / n) for n in ("tagged.conll", "texts.jsonl"))
    keys = {"data.mixture": {tagged: 1.0, plain: 1.0}, "data.valid": tagged}
    keys |= {"data.vocabulary_size": 9, "data.length": 16, "train.batch": 8}
    keys |= {"data.cache_dir": str(tmp_path / "cache"), "data.held_out": 0.1}
    config = load_config("experiments/cvt.py:tiny", keys)
    data = small_data.open_with(config, Config.of(config).objective)
    kinds = []
    for step in range(4):
        batch = data.train.batch(step)
        sizes = (batch["segment"] > 0).sum(axis=1) - 2
        scored = [(batch[n] > 0).sum(axis=1) for n in ("weight", "unlabelled_weight")]
        kinds.append([bool((each == sizes).all()) for each in scored])
        assert not any(each.any() and (each != sizes).any() for each in scored)
    assert kinds in (
        [[True, False], [False, True]] * 2,
        [[False, True], [True, False]] * 2,
    )
    for batch in data.eval.evaluation():
        assert not batch["unlabelled_weight"].any()
