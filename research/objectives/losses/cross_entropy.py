"""What objectives score with: cross-entropies over a vocabulary, a binary one, sums.

A readout is a vocabulary head that is not yet multiplied out (`research.models`), so
whether the logits of all places exist at once is decided here and not in the network:

dense    all logits at once, differentiated by JAX: the reference.
chunked  a few places at a time, whose logits are computed again for the gradient.
fused    a few places at a time, whose gradient is computed with the loss, so that no
         logits are kept and none are computed twice. With e = exp(logits - max) and
         Z = sum(e) the gradients are products with e, not with the probabilities:
         (e @ table) / Z - table[target], and features / Z in place of e / Z for the
         table, so that nothing of size [C, V] is written but logits and e.

Places are cut along K and never along B: each chunk keeps the batch's sharding.
"""

# B batch, L length, K scored places, E width of the table, V its rows (with padding)
# C places of a chunk

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.models import constrain

CHUNK = 2**22
"""Logits (of all devices) that make a chunk worth its while."""

MAX_CHUNKS = 8
"""Each chunk reduces the table's gradient over the mesh once, so they are few."""

PLACES = ("batch", "length", None)
"""The logical axes of features and of the rows of their targets."""


class Term(NamedTuple):
    """One scored quantity, before any division."""

    total: jax.Array  # sum over everything scored
    weight: jax.Array  # how much was scored
    coef: float = 1.0


class _Shape(NamedTuple):
    """The loss's static parameters: rows in use, label smoothing, z-loss."""

    size: int
    smoothing: float
    z: float


def cross_entropy(
    readout: Any,
    target: jax.Array,
    weight: jax.Array,
    *,
    form: str = "fused",
    smoothing: float = 0.0,
    z: float = 0.0,
) -> tuple[Term, jax.Array]:
    """Weighted sum of -log p(target), and the weight of places that are right.

    Right is a target whose logit exceeds every other; a tie is wrong.

    Args:
      readout: feature [B, K, E], table [V, E], bias [V], size (rows in use).
      target: [B, K] int32, legal also where weight is 0.
      weight: [B, K] float32; a place of weight 0 has no gradient.
      form: dense, chunked or fused; equal in value and gradient.
      smoothing: e in (1 - e) onehot + e / size (Szegedy et al. 2016, section 7).
      z: factor of log(Z)^2 (Mesh TensorFlow; Chowdhery et al. 2022, section 5).

    Raises:
      ValueError: the form is none of the three.
    """
    if form not in _FORMS:
        raise ValueError(f"cross_entropy is one of {', '.join(_FORMS)}, not {form!r}")
    shape = _Shape(readout.size, smoothing, z)
    weight = weight.astype(jnp.float32)
    total, correct = _FORMS[form](
        shape, readout.feature, readout.table, readout.bias, target, weight
    )
    return Term(total, jnp.sum(weight)), lax.stop_gradient(correct)


def masked_cross_entropy(name: str, readout: Any, batch: dict) -> dict[str, Term]:
    """Terms of the batch's targets: `name`, and accuracy (not trained on).

    Args:
      readout: at the scored places [B, K].
      batch: has target and weight [B, K].
    """
    term, correct = cross_entropy(readout, batch["target"], batch["weight"])
    return {name: term, "accuracy": Term(correct, term.weight, 0.0)}


def binary_cross_entropy(
    logits: jax.Array, label: jax.Array, weight: jax.Array
) -> tuple[Term, jax.Array]:
    """Weighted sigmoid cross-entropy of any shape, and the weight that is right.

    Args:
      logits: of any float type; computed in float32.
      label: 0 or 1, same shape.
      weight: float32, same shape.
    """
    logits, label = logits.astype(jnp.float32), label.astype(jnp.float32)
    loss = jax.nn.softplus(logits) - logits * label
    right = (logits > 0) == (label > 0.5)
    correct = jnp.sum(jnp.where(right, weight, 0.0))
    return Term(jnp.sum(loss * weight), jnp.sum(weight)), correct


def compute_logits(feature_BCE, table_VE, bias_V):
    """Float32 logits [B, C, V]."""
    logits_BCV = jnp.einsum(
        "bce,ve->bcv",
        feature_BCE,
        table_VE.astype(feature_BCE.dtype),
        preferred_element_type=jnp.float32,
    )
    return logits_BCV + bias_V.astype(jnp.float32)[None, None]


def _at(logits_BCV, target_BC):
    """Where a logit [B, C, V] is the target's."""
    return lax.broadcasted_iota(jnp.int32, logits_BCV.shape, 2) == target_BC[..., None]


def _dense(shape, feature_BKE, table_VE, bias_V, target_BK, weight_BK):
    logits_BKV = compute_logits(feature_BKE, table_VE, bias_V)
    lse_BK = jax.nn.logsumexp(logits_BKV, axis=-1)
    at_target = _at(logits_BKV, target_BK)
    answer_BK = jnp.sum(jnp.where(at_target, logits_BKV, 0.0), axis=-1)
    others_BK = jnp.max(jnp.where(at_target, -jnp.inf, logits_BKV), axis=-1)
    used_V = jnp.arange(len(bias_V)) < shape.size
    mean_BK = jnp.where(used_V[None, None], logits_BKV, 0.0).sum(-1) / shape.size
    loss_BK = lse_BK - (1 - shape.smoothing) * answer_BK - shape.smoothing * mean_BK
    loss_BK += shape.z * lse_BK**2
    correct = jnp.sum(jnp.where(answer_BK > others_BK, weight_BK, 0.0))
    return jnp.sum(loss_BK * weight_BK), correct


def cut(feature_BKE, num_rows, *others_BK):
    """Cuts K into chunks of one size (padded with zeros): each [K / C, B, C, ...]."""
    batch, places = feature_BKE.shape[:2]
    count = min(MAX_CHUNKS, places, -(-batch * places * num_rows // CHUNK))
    size = -(-places // count)

    def chunks(array):
        spare = [(0, 0), (0, count * size - places)] + [(0, 0)] * (array.ndim - 2)
        whole = jnp.pad(array, spare).reshape(batch, count, size, *array.shape[2:])
        return jnp.moveaxis(whole, 1, 0)

    return tuple(chunks(array) for array in (feature_BKE, *others_BK))


def join(chunks, places):
    """The inverse of `cut`."""
    whole = jnp.moveaxis(chunks, 0, 1)
    return whole.reshape(len(whole), -1, *whole.shape[3:])[:, :places]


def _add(body, chunks):
    """The sum of the first result of `body` over chunks, and all of the second."""

    def step(sums, chunk):
        here, kept = body(chunk)
        return jax.tree.map(jnp.add, sums, here), kept

    first = jax.tree.map(lambda chunk: chunk[0], chunks)
    if len(chunks[0]) == 1:
        sums, kept = body(first)
        return sums, jax.tree.map(lambda leaf: leaf[None], kept)
    shapes = jax.eval_shape(body, first)[0]
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return lax.scan(step, zeros, chunks)


def _chunked(shape, feature_BKE, table_VE, bias_V, target_BK, weight_BK):
    @partial(jax.checkpoint, prevent_cse=False)
    def body(chunk):
        feature, target, weight = chunk
        return _dense(shape, feature, table_VE, bias_V, target, weight), ()

    return _add(body, cut(feature_BKE, len(table_VE), target_BK, weight_BK))[0]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _fused(shape, feature_BKE, table_VE, bias_V, target_BK, weight_BK):
    return _chunked(shape, feature_BKE, table_VE, bias_V, target_BK, weight_BK)


def _fused_forward(shape, feature_BKE, table_VE, bias_V, target_BK, weight_BK):
    """The loss, and as residuals its gradients for a cotangent of one."""
    table = constrain(table_VE.astype(feature_BKE.dtype), "vocab", None)
    answer_BKE = jnp.take(table, target_BK, axis=0, mode="clip")
    answer_BKE = constrain(answer_BKE.astype(jnp.float32), *PLACES)
    wide_BKE = feature_BKE.astype(jnp.float32)
    logit_BK = jnp.sum(wide_BKE * answer_BKE, axis=-1) + bias_V[target_BK]
    sums, (loss_BK, slope_BKE) = _add(
        partial(_chunk, shape, table, bias_V),
        cut(feature_BKE, len(table), target_BK, weight_BK, logit_BK),
    )
    total, correct, table_slope_EV, bias_slope = sums
    # Turned as a whole, not within its product, which XLA:CPU has not in bfloat16.
    table_slope_EV = lax.optimization_barrier(table_slope_EV)
    places = feature_BKE.shape[1]
    loss_BK, slope_BKE = join(loss_BK, places), join(slope_BKE, places)

    share = 1 - shape.smoothing
    slope_BKE -= share * weight_BK[..., None] * answer_BKE
    gain_BKE = constrain(share * weight_BK[..., None] * wide_BKE, *PLACES)
    table_slope = constrain(table_slope_EV.T, "vocab", None)
    table_slope = table_slope.at[target_BK].add(-gain_BKE)
    bias_slope = bias_slope.at[target_BK].add(-share * weight_BK)
    if shape.smoothing:
        used_V = jnp.where(jnp.arange(len(table)) < shape.size, 1 / shape.size, 0.0)
        each_V = shape.smoothing * used_V
        mean_E = each_V @ table.astype(jnp.float32)
        mean_BK = wide_BKE @ mean_E + each_V @ jnp.where(used_V > 0, bias_V, 0.0)
        loss_BK -= mean_BK
        total -= jnp.sum(mean_BK * weight_BK)
        slope_BKE -= weight_BK[..., None] * mean_E[None, None]
        table_slope -= jnp.outer(each_V, jnp.einsum("bk,bke->e", weight_BK, wide_BKE))
        bias_slope -= each_V * jnp.sum(weight_BK)
    slopes = (slope_BKE.astype(feature_BKE.dtype), table_slope, bias_slope, loss_BK)
    return (total, correct), slopes


def _chunk(shape, table_VE, bias_V, chunk):
    """A chunk's sums (loss, right, slopes of table and bias), and its own slopes.

    All that the targets' own rows and smoothing add to slopes is left out.
    """
    feature_BCE, target_BC, weight_BC, answer_BC = chunk
    logits_BCV = compute_logits(feature_BCE, table_VE, bias_V)
    others_BCV = jnp.where(_at(logits_BCV, target_BC), -jnp.inf, logits_BCV)
    others_BC = jnp.max(others_BCV, axis=-1)
    most_BC = jnp.maximum(others_BC, answer_BC)
    e_BCV = lax.optimization_barrier(jnp.exp(logits_BCV - most_BC[..., None]))
    sum_BC = jnp.sum(e_BCV, axis=-1)
    lse_BC = jnp.log(sum_BC) + most_BC
    loss_BC = lse_BC + shape.z * lse_BC**2 - (1 - shape.smoothing) * answer_BC
    factor_BC = weight_BC * (1 + 2 * shape.z * lse_BC) / sum_BC

    dtype = feature_BCE.dtype
    dot = partial(jnp.einsum, preferred_element_type=jnp.float32)
    rounded_BCV = e_BCV.astype(dtype)
    scaled_BCE = (feature_BCE.astype(jnp.float32) * factor_BC[..., None]).astype(dtype)
    # A copy, so that the product below reads both sides along their rows.
    scaled_EBC = lax.optimization_barrier(jnp.moveaxis(scaled_BCE, -1, 0))
    slope_BCE = dot("bcv,ve->bce", rounded_BCV, table_VE) * factor_BC[..., None]
    sums = (
        jnp.sum(loss_BC * weight_BC),
        jnp.sum(jnp.where(answer_BC > others_BC, weight_BC, 0.0)),
        dot("ebc,bcv->ev", scaled_EBC, rounded_BCV),
        jnp.einsum("bc,bcv->v", factor_BC, e_BCV),
    )
    return sums, (loss_BC, slope_BCE)


def _fused_backward(shape, slopes, cotangents):
    scaled = [slope * cotangents[0].astype(slope.dtype) for slope in slopes]
    feature, table, bias, weight = scaled
    return feature, table, bias, None, weight


_fused.defvjp(_fused_forward, _fused_backward)

_FORMS = {"dense": _dense, "chunked": _chunked, "fused": _fused}
