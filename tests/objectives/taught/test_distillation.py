"""Losses of a student against a teacher: golden values, and the dense definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research.networks import Layers, Readout
from research.objectives.losses import softmax
from research.objectives.taught import distillation

STUDENT, TEACHER = np.array([1.0, 1.0, -1.0]), np.array([2.0, 0.0, -2.0])


def test_divergence_of_three_classes():
    """Values and gradient computed by hand in float64."""
    at = jnp.float32(STUDENT), jnp.float32(TEACHER)
    np.testing.assert_allclose(distillation.divergence(*at), 0.349319, atol=1e-6)
    value, grad = jax.jit(jax.value_and_grad(distillation.divergence))(*at, 2.0)
    np.testing.assert_allclose(value, 0.478519, atol=1e-6)
    np.testing.assert_allclose(grad, [-0.485844, 0.355181, 0.130664], atol=1e-6)
    term = distillation.class_divergence(
        jnp.stack([at[0]] * 2), jnp.stack([at[1]] * 2), jnp.array([0.0, 3.0]), 2.0
    )
    np.testing.assert_allclose(term[:2], [3 * 0.478519, 3], rtol=1e-5)


def test_divergence_of_labels_of_which_a_text_has_any_number():
    """Each has its own probability: what all logits have in common counts."""
    student, teacher = np.full((2, 3), -1.0), np.array([[1.0, 0.0, -1.0]] * 2)
    p, q = (1 / (1 + np.exp(-x[0] / 2)) for x in (teacher, student))
    expected = 4 * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum()
    pair, weight = (jnp.float32(student), jnp.float32(teacher)), jnp.array([0.0, 3.0])
    term = distillation.class_divergence(*pair, weight, 2.0, independent=True)
    np.testing.assert_allclose(term[:2], [3 * expected, 3], rtol=1e-5)


def readout(rng, shape, width, rows=40, size=37):
    """A readout of random numbers, whose last rows pad the vocabulary."""
    feature, table = rng.normal(size=(*shape, width)), rng.normal(size=(rows, width))
    bias = np.where(np.arange(rows) < size, rng.normal(size=rows), -1e9)
    return Readout(*map(jnp.float32, (feature, table, bias)), size)


@pytest.mark.parametrize("limit", [2**22, 2 * 40 * 6])
def test_divergence_of_tokens_is_that_of_all_logits(limit, monkeypatch):
    """In one chunk and in three, by value, by gradient and without one."""
    monkeypatch.setattr(softmax, "CHUNK_LOGITS", limit)
    rng, shape = np.random.default_rng(0), (2, 7)
    student, teacher = readout(rng, shape, 5), readout(rng, shape, 3)
    weight = jnp.float32(rng.integers(0, 3, shape))

    def dense(feature, table, bias):
        own = softmax.compute_logits(feature, table, bias)
        other = softmax.compute_logits(*teacher[:3])
        return 3 * jnp.sum(weight * distillation.divergence(own, other, 1.7))

    def chunked(feature, table, bias):
        own = Readout(feature, table, bias, student.size)
        term = distillation.vocabulary_divergence(own, teacher, weight, 1.7)
        assert term.weight.shape == ()
        return 3 * term.total

    values, grads = zip(
        *(
            jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(*student[:3])
            for loss in (dense, chunked)
        ),
        strict=True,
    )
    np.testing.assert_allclose(values[1], values[0], rtol=1e-5)
    np.testing.assert_allclose(jax.jit(chunked)(*student[:3]), values[0], rtol=1e-5)
    for own, expected in zip(grads[1], grads[0], strict=True):
        np.testing.assert_allclose(own, expected, atol=2e-5)
    assert not np.asarray(grads[1][0])[np.asarray(weight) == 0].any()


def test_a_teachers_rows_beyond_the_vocabulary_have_no_probability():
    """Its softmax includes them (T5), the student's does not."""
    rng, weight = np.random.default_rng(0), jnp.ones((2, 7))
    student, teacher = readout(rng, (2, 7), 5), readout(rng, (2, 7), 3, size=40)
    without = teacher._replace(bias=teacher.bias.at[37:].set(-1e9))
    found, expected = (
        distillation.vocabulary_divergence(student, each, weight, 1.7).total
        for each in (teacher, without)
    )
    assert found == expected < 1e3


def test_no_array_has_all_logits(monkeypatch):
    """Of neither network: the largest array of the jaxpr is that of a chunk."""
    monkeypatch.setattr(softmax, "CHUNK_LOGITS", 1)
    rng, shape = np.random.default_rng(0), (2, 64)
    student, teacher = (readout(rng, shape, 4) for _ in range(2))
    weight = jnp.ones(shape)

    def loss(feature):
        own = student._replace(feature=feature)
        return distillation.vocabulary_divergence(own, teacher, weight, 1.0).total

    text = str(jax.make_jaxpr(jax.value_and_grad(loss))(student.feature))
    assert "f32[2,8,40]" in text
    assert "f32[2,64,40]" not in text


def test_cosine_distance():
    one, other = jnp.array([[1.0, 2, 2], [0, 0, 0]]), jnp.array([[2.0, 0, 1]] * 2)
    distance = jax.jit(lambda weight: distillation.cosine_distance(one, other, weight))
    term = distance(jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(term[:2], [0.403715, 1], atol=1e-6)
    loss = lambda one: distillation.cosine_distance(one, other, jnp.ones(2)).total  # noqa: E731
    assert np.isfinite(jax.jit(jax.grad(loss))(one)).all()


def test_squared_errors_are_means_over_elements_and_sums_over_layers():
    rng = np.random.default_rng(0)
    one, other = jnp.float32(rng.normal(size=(2, 3, 2, 4, 5)))
    weight = jnp.array([[1.0, 1, 1, 0], [1, 0, 0, 0]])
    for normalize in (False, True):
        term = distillation.squared_error(one, other, weight, normalize=normalize)
        a, b = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (one, other))
        a, b = (a, b) if normalize else (one, other)
        kept = np.asarray((a - b) ** 2)[:, np.asarray(weight) > 0]
        np.testing.assert_allclose(
            term.total / term.weight, kept.mean(axis=(1, 2)).sum(), rtol=1e-5
        )


def layers(query, key, value=None):
    """Layers of one stack of one layer and one row, from [L, H, K]."""
    value = query if value is None else value
    arrays = (jnp.float32(np.asarray(each))[None, None] for each in (query, key, value))
    return Layers(None, *arrays)


def logits_as_layers(logits):
    """Layers whose attention logits are these [L, L]: keys are one-hot."""
    size = len(logits)
    query = np.sqrt(size) * np.asarray(logits, float)[:, None]
    return layers(query, np.eye(size)[:, None])


def mask(*rows):
    return jnp.array([rows], bool)


STUDENT_LOGITS = [[1, 2, 0], [0, 1, 0], [3, -1, 0]]
TEACHER_LOGITS = [[2, 2, 0], [0, -1, 0], [1, 1, 0]]


def test_errors_of_attention_logits():
    """The third position is padding; the released code's mean would be 13 / 9."""
    pair = map(logits_as_layers, (STUDENT_LOGITS, TEACHER_LOGITS))
    term = distillation.attention_error(*pair, mask([1, 1, 0], [1, 1, 0], [0, 0, 0]))
    np.testing.assert_allclose(term.total / term.weight, 1.25, rtol=1e-5)
    np.testing.assert_allclose(term.weight, 4 / 3)  # of rows of three positions


def test_divergence_of_attention_is_of_the_keys_that_a_query_attends_to():
    pair = map(logits_as_layers, (STUDENT_LOGITS, TEACHER_LOGITS))
    causal = mask([1, 0, 0], [1, 1, 0], [0, 0, 0])
    term = distillation.attention_divergence(*pair, causal)
    own, other = jnp.array([0.0, 1.0]), jnp.array([0.0, -1.0])
    expected = distillation.divergence(own, other)  # a query of one key adds 0
    np.testing.assert_allclose(term[:2], [expected, 2], rtol=1e-5)


def test_relations_of_values():
    """MiniLM's, of widths 2 and 1; by hand in float64."""
    zeros = np.zeros((3, 1, 2))
    teacher = layers(zeros, zeros, [[[1, 0]], [[0, 1]], [[1, 1]]])
    student = layers(zeros[..., :1], zeros[..., :1], [[[1]], [[0]], [[2]]])
    term = distillation.relation_divergence(
        student, teacher, mask(*[[1, 1, 1]] * 3), names=("value",), heads=1
    )
    np.testing.assert_allclose(term.total / term.weight, 0.263780, atol=1e-6)


def test_relations_of_joined_heads():
    """MiniLMv2's, of two relation heads; the student has one head of attention."""
    teacher = layers(np.array([[1, 0, 2, 0], [0, 1, 0, 2]]).reshape(2, 2, 2), 0)
    student = layers(np.array([[1, 1], [0, 2]]).reshape(2, 1, 2), 0)
    both = mask([1, 1], [1, 1])
    run = lambda *names: distillation.relation_divergence(  # noqa: E731
        student, teacher, both, names=names, heads=2
    )
    one, two = run("query"), run("query", "value")
    np.testing.assert_allclose(one.total / one.weight, 0.283352, atol=1e-6)
    np.testing.assert_allclose(two[:2], [2 * one.total, one.weight], rtol=1e-6)


def test_padding_has_no_relations():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2, 4, 2, 3))
    student, teacher = (layers(each, each) for each in vectors)
    short = [layers(each[:3], each[:3]) for each in vectors]
    names = {"names": ("query", "value"), "heads": 3}
    padded = mask(*[[1, 1, 1, 0]] * 3, [0] * 4)
    term = distillation.relation_divergence(student, teacher, padded, **names)
    expected = distillation.relation_divergence(*short, mask(*[[1] * 3] * 3), **names)
    np.testing.assert_allclose(term[:2], expected[:2], rtol=1e-5)
