"""Losses of a student against a teacher: predictions, states, attention, relations.

All are sums with weights (`Term`), so they do not depend on meshes or micro-batches.
Weights count positions, whatever is averaged at each: elements, heads, keys. No
gradient flows to the teacher.
"""

# B batch, K scored positions, C positions of a chunk or classes, L length, D width,
# E width of the table, V rows of the table (with padding), H heads, M pairs of layers

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import lax

from research.networks import Layers, Readout, constrain
from research.networks.shared.dense_attention import HIDDEN
from research.objectives.losses.cross_entropy import Term
from research.objectives.losses.softmax import (
    compute_logits,
    join_chunks,
    split_chunks,
    sum_over_chunks,
)


def divergence(
    logits_S: jax.Array, logits_T: jax.Array, temperature: float = 1.0
) -> jax.Array:
    """temperature^2 KL(teacher || student) of softmaxes over the last axis: float32.

    The factor keeps the size of the gradient as the temperature changes (Hinton et al.
    2015, section 2). The gradient is that of the cross-entropy with the teacher's
    probabilities; the value is 0 where both agree.
    """
    log_p_S, log_p_T = (
        jax.nn.log_softmax(logits.astype(jnp.float32) / temperature)
        for logits in (logits_S, logits_T)
    )
    each = jnp.exp(log_p_T) * (log_p_T - log_p_S)
    return temperature**2 * jnp.sum(each, axis=-1)


def class_divergence(
    logits_S: jax.Array,
    logits_T: jax.Array,
    weight: jax.Array,
    temperature: float,
    *,
    independent: bool = False,
) -> Term:
    """The divergence of classes.

    Args:
      logits_S, logits_T: [..., C].
      weight: [...] float32.
      independent: a text may have any number of classes, each with the sigmoid of its
        logit as probability; the result is the sum of their divergences.
    """
    logits_T = lax.stop_gradient(logits_T)
    if independent:  # a sigmoid is a softmax with another logit of 0
        logits_S, logits_T = (
            jnp.stack([logits, 0 * logits], axis=-1) for logits in (logits_S, logits_T)
        )
    each = divergence(logits_S, logits_T, temperature)
    each = jnp.sum(each, axis=-1) if independent else each
    return Term(jnp.sum(each * weight), jnp.sum(weight))


def vocabulary_divergence(
    student: Readout, teacher: Readout, weight_BK: jax.Array, temperature: float
) -> Term:
    """The divergence of tokens, a few positions at a time.

    The logits of neither network exist for all positions at once, and none are
    recomputed: the forward pass computes the gradient, as in the fused cross-entropy.
    The teacher's probabilities cover the rows of the student's softmax: a teacher whose
    softmax includes padding rows (`model.output_rows`) has no probability there.

    Args:
      student, teacher: the readouts at [B, K], with one vocabulary; their features may
        differ in width.
      weight_BK: float32; a position of weight 0 has no gradient.
    """
    is_row = jnp.arange(len(teacher.bias)) < student.size
    total = _vocabulary_divergence(
        temperature,
        *(student.feature, student.table, student.bias),
        *(teacher.feature, teacher.table, jnp.where(is_row, teacher.bias, HIDDEN)),
        weight_BK.astype(jnp.float32),
    )
    return Term(total, jnp.sum(weight_BK))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _vocabulary_divergence(
    temperature: float,
    feature_BKE: jax.Array,
    table_VE: jax.Array,
    bias_V: jax.Array,
    other_BKE: jax.Array,
    other_VE: jax.Array,
    other_V: jax.Array,
    weight_BK: jax.Array,
) -> jax.Array:
    def body(chunk: tuple[jax.Array, ...]) -> Any:
        feature, weight, other = chunk
        logits = compute_logits(feature, table_VE, bias_V)
        each_BC = divergence(
            logits, compute_logits(other, other_VE, other_V), temperature
        )
        return jnp.sum(each_BC * weight), None

    chunks = split_chunks(feature_BKE, 2 * len(table_VE), weight_BK, other_BKE)
    return sum_over_chunks(body, chunks, skip=False)[0]


def _forward(
    temperature: float,
    feature_BKE: jax.Array,
    table_VE: jax.Array,
    bias_V: jax.Array,
    other_BKE: jax.Array,
    other_VE: jax.Array,
    other_V: jax.Array,
    weight_BK: jax.Array,
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """The loss, and its gradients for a cotangent of one, as residuals."""
    table = constrain(table_VE.astype(feature_BKE.dtype), "vocab", None)
    other_table = constrain(other_VE.astype(other_BKE.dtype), "vocab", None)

    def body(chunk: tuple[jax.Array, ...]) -> Any:
        feature_BCE, weight_BC, other_BCE = chunk
        log_p_BCV, log_q_BCV = (
            jax.nn.log_softmax(logits / temperature)
            for logits in (
                compute_logits(other_BCE, other_table, other_V),
                compute_logits(feature_BCE, table, bias_V),
            )
        )
        p_BCV = jnp.exp(log_p_BCV)
        each_BC = temperature**2 * jnp.sum(p_BCV * (log_p_BCV - log_q_BCV), axis=-1)
        factor_BC = temperature * weight_BC
        grad_BCV = factor_BC[..., None] * (jnp.exp(log_q_BCV) - p_BCV)
        rounded_BCV = grad_BCV.astype(feature_BCE.dtype)
        dot = partial(jnp.einsum, preferred_element_type=jnp.float32)
        sums = (
            jnp.sum(each_BC * weight_BC),
            dot("bcv,bce->ve", rounded_BCV, feature_BCE),
            jnp.sum(grad_BCV, axis=(0, 1)),
        )
        return sums, (dot("bcv,ve->bce", rounded_BCV, table), each_BC)

    chunks = split_chunks(feature_BKE, 2 * len(table), weight_BK, other_BKE)
    (total, table_grad, bias_grad), each = sum_over_chunks(body, chunks, skip=False)
    feature_grad, loss_BK = (join_chunks(x, feature_BKE.shape[1]) for x in each)
    table_grad = constrain(table_grad, "vocab", None)
    grads = feature_grad.astype(feature_BKE.dtype), table_grad, bias_grad, loss_BK
    return total, grads


def _backward(
    temperature: float, grads: tuple[jax.Array, ...], cotangent: jax.Array
) -> tuple[jax.Array | None, ...]:
    feature, table, bias, weight = (g * cotangent.astype(g.dtype) for g in grads)
    return feature, table, bias, None, None, None, weight


_vocabulary_divergence.defvjp(_forward, _backward)


def cosine_distance(
    states_S: jax.Array, states_T: jax.Array, weight: jax.Array
) -> Term:
    """1 - cos(student, teacher) of states [..., D] (Sanh et al. 2019, section 3).

    Args:
      weight: [...] float32.
    """
    unit_S, unit_T = map(_unit, (states_S, lax.stop_gradient(states_T)))
    each = 1 - jnp.sum(unit_S * unit_T, axis=-1)
    return Term(jnp.sum(each * weight), jnp.sum(weight))


def _unit(states: jax.Array) -> jax.Array:
    """Float32 states of length 1, or 0 where they are 0, with a gradient of 0."""
    states = states.astype(jnp.float32)
    square = jnp.sum(states**2, axis=-1, keepdims=True)
    is_zero = square < 1e-16
    return jnp.where(is_zero, 0.0, states * lax.rsqrt(jnp.where(is_zero, 1.0, square)))


def squared_error(
    states_S: jax.Array, states_T: jax.Array, weight: jax.Array, *, normalize: bool
) -> Term:
    """The sum over layers of the mean squared difference of an element of the states.

    Args:
      states_S, states_T: [M, ..., D].
      weight: [...] float32.
      normalize: states have length 1 (Sun et al. 2019, "Patient knowledge
        distillation", equation 7).
    """
    states_T = lax.stop_gradient(states_T)
    if normalize:
        states_S, states_T = map(_unit, (states_S, states_T))
    error = (states_S.astype(jnp.float32) - states_T.astype(jnp.float32)) ** 2
    total = jnp.sum(error * weight[None, ..., None])
    return Term(total / states_S.shape[-1], jnp.sum(weight))


def attention_error(student: Layers, teacher: Layers, mask_BLM: jax.Array) -> Term:
    """The sum over layers of the mean squared difference of attention logits.

    Logits are scaled by 1 / sqrt(head width) (Jiao et al. 2020, equation 7, and the
    released code, which also counts padding: 0 if the key, the difference if the query
    is padding). Here only pairs that attend count.

    Args:
      student, teacher: layers [M, ...] with equal numbers of heads.
      mask_BLM: bool, whether the query attends to the key.
    """

    def error(pair: tuple[Layers, Layers]) -> jax.Array:
        one, other = pair
        squared_BHLM = (_attention_logits(one) - _attention_logits(other)) ** 2
        return jnp.sum(jnp.where(mask_BLM[:, None], squared_BHLM, 0.0))

    heads, num_keys = student.query.shape[3], mask_BLM.shape[2]
    total = _sum_over_layers(error, student, teacher) / (heads * num_keys)
    return Term(total, jnp.sum(mask_BLM, dtype=jnp.float32) / num_keys)


def attention_divergence(student: Layers, teacher: Layers, mask_BLM: jax.Array) -> Term:
    """The sum over layers of KL(teacher || student) of a query's attention in a head.

    (Wang et al. 2020, "MiniLM", equation 5.) Arguments are those of `attention_error`.
    """

    def total(pair: tuple[Layers, Layers]) -> jax.Array:
        one, other = map(_attention_logits, pair)
        return _masked_divergence(one, other, mask_BLM)

    heads = student.query.shape[3]
    return Term(
        _sum_over_layers(total, student, teacher) / heads, _num_queries(mask_BLM)
    )


def relation_divergence(
    student: Layers,
    teacher: Layers,
    mask_BLM: jax.Array,
    *,
    names: tuple[str, ...],
    heads: int,
) -> Term:
    """The sum over layers and names of KL(teacher || student) of a query's relations.

    A relation is softmax(X X^T / sqrt(width)) where X has the vectors of all heads,
    joined and cut into `heads` of `width`: of values, with the heads of attention
    (MiniLM, equation 6), or of queries, keys and values (Wang et al. 2021, "MiniLMv2",
    equation 3). A position is related to those that it would attend to without
    `model.window`.

    Args:
      student, teacher: layers [M, ...], with any numbers of heads.
      mask_BLM: bool, whether the query attends to the key.
      names: of query, key, value.
    """

    def total(pair: tuple[Layers, Layers]) -> jax.Array:
        found = jnp.zeros((), jnp.float32)
        for name in names:
            one, other = (_relation_logits(getattr(x, name), heads) for x in pair)
            found += _masked_divergence(one, other, mask_BLM)
        return found

    return Term(
        _sum_over_layers(total, student, teacher) / heads, _num_queries(mask_BLM)
    )


def _sum_over_layers(
    body: Callable[..., Any], student: Layers, teacher: Layers
) -> jax.Array:
    """The sum of `body` over pairs of layers, with one pair in memory at a time."""

    @partial(jax.checkpoint, prevent_cse=False)
    def step(total: jax.Array, pair: tuple[Layers, Layers]) -> tuple[Any, Any]:
        return total + body(pair), None

    layers = student, jax.tree.map(lax.stop_gradient, teacher)
    pairs = tuple(each._replace(states=cast(Any, None)) for each in layers)
    return lax.scan(step, jnp.zeros((), jnp.float32), pairs)[0]


def _attention_logits(layer: Layers) -> jax.Array:
    """[B, H, L, M] float32."""
    width = layer.query.shape[-1]
    logits = jnp.einsum(
        "blhk,bmhk->bhlm", layer.query, layer.key, preferred_element_type=jnp.float32
    )
    return logits * width**-0.5


def _relation_logits(vectors_BLHK: jax.Array, heads: int) -> jax.Array:
    """[B, heads, L, L] float32."""
    joined = vectors_BLHK.reshape(*vectors_BLHK.shape[:2], heads, -1)
    width = joined.shape[-1]
    logits = jnp.einsum(
        "blhk,bmhk->bhlm", joined, joined, preferred_element_type=jnp.float32
    )
    return logits * width**-0.5


def _masked_divergence(
    logits_S: jax.Array, logits_T: jax.Array, mask_BLM: jax.Array
) -> jax.Array:
    """The sum over heads and queries that attend to a key."""
    logits_S, logits_T = (
        jnp.where(mask_BLM[:, None], logits, HIDDEN) for logits in (logits_S, logits_T)
    )
    each_BHL = divergence(logits_S, logits_T)
    return jnp.sum(jnp.where(jnp.any(mask_BLM, axis=-1)[:, None], each_BHL, 0.0))


def _num_queries(mask_BLM: jax.Array) -> jax.Array:
    return jnp.sum(jnp.any(mask_BLM, axis=-1), dtype=jnp.float32)
