"""What objectives score with: cross-entropies over a vocabulary, a binary one, sums.

A readout is a vocabulary head that is not yet multiplied out (`research.models`), so
whether the logits of all places exist at once is decided here and not in the network:

dense    all logits at once, differentiated by JAX: the reference.
chunked  a few places at a time, whose logits are computed again for the gradient.
fused    a few places at a time, whose gradient is computed with the loss, so that no
         logits are kept and none are computed twice.

Places are cut along K and never along B: each chunk keeps the batch's sharding.
"""

# B batch, L length, K scored places, E width of the table, V its rows (with padding)
# C places of a chunk

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

CHUNK = 2**23
"""Logits that a chunk holds at most (32 MiB of float32 a device and more on a mesh)."""


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


def gather(states: jax.Array, scored: jax.Array) -> jax.Array:
    """The states [B, L, D] of the scored places [B, K]: [B, K, D]."""
    return jnp.take_along_axis(states, scored[..., None], axis=1, mode="clip")


def cross_entropy(
    readout: Any,
    target: jax.Array,
    weight: jax.Array,
    *,
    form: str = "dense",
    smoothing: float = 0.0,
    z: float = 0.0,
) -> tuple[Term, jax.Array]:
    """Weighted sum of -log p(target), and the weight of places that are right.

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


def binary(
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


def _logits(feature_BCE, table_VE, bias_V):
    """Float32 logits [B, C, V]."""
    logits_BCV = jnp.einsum(
        "bce,ve->bcv",
        feature_BCE,
        table_VE.astype(feature_BCE.dtype),
        preferred_element_type=jnp.float32,
    )
    return logits_BCV + bias_V.astype(jnp.float32)[None, None]


def _smooth(shape, logits_BCV, target_BC, lse_BC):
    """Each place's loss [B, C] from its logits and their log-sum-exp."""
    at_target = jnp.take_along_axis(logits_BCV, target_BC[..., None], axis=-1)[..., 0]
    loss_BC = lse_BC - (1 - shape.smoothing) * at_target
    if shape.smoothing:
        used = _used(shape, logits_BCV)
        loss_BC -= (
            shape.smoothing
            / shape.size
            * jnp.sum(jnp.where(used, logits_BCV, 0.0), axis=-1)
        )
    return loss_BC + shape.z * lse_BC**2 if shape.z else loss_BC


def _used(shape, logits_BCV):
    """Which logits belong to rows in use."""
    return lax.broadcasted_iota(jnp.int32, logits_BCV.shape, 2) < shape.size


def _right(logits_BCV, target_BC, weight_BC):
    """The weight of the places whose first best row is the target."""
    return jnp.sum(jnp.where(jnp.argmax(logits_BCV, -1) == target_BC, weight_BC, 0.0))


def _dense(shape, feature_BKE, table_VE, bias_V, target_BK, weight_BK):
    logits_BKV = _logits(feature_BKE, table_VE, bias_V)
    lse_BK = jax.nn.logsumexp(logits_BKV, axis=-1)
    loss_BK = _smooth(shape, logits_BKV, target_BK, lse_BK)
    correct = _right(logits_BKV, target_BK, weight_BK)
    return jnp.sum(loss_BK * weight_BK), correct


def _places(shape_BKE, num_rows):
    """Places of a chunk: as many as CHUNK allows, in chunks of equal size."""
    batch, places = shape_BKE[:2]
    most = max(1, CHUNK // (batch * num_rows))
    return -(-places // -(-places // most))


def _chunks(size, *arrays_BK):
    """Pads K to whole chunks and moves them to the front: [K / C, B, C, ...]."""

    def cut(array):
        batch, places, *rest = array.shape
        count = -(-places // size)
        spare = [(0, 0), (0, count * size - places)] + [(0, 0)] * len(rest)
        whole = jnp.pad(array, spare).reshape(batch, count, size, *rest)
        return jnp.moveaxis(whole, 1, 0)

    return tuple(cut(array) for array in arrays_BK)


def _chunked(shape, feature_BKE, table_VE, bias_V, target_BK, weight_BK):
    size = _places(feature_BKE.shape, len(table_VE))
    if size == feature_BKE.shape[1]:
        return _dense(shape, feature_BKE, table_VE, bias_V, target_BK, weight_BK)

    @partial(jax.checkpoint, prevent_cse=False)
    def body(sums, chunk):
        feature, target, weight = chunk
        here = _dense(shape, feature, table_VE, bias_V, target, weight)
        return jax.tree.map(jnp.add, sums, here), None

    zeros = (jnp.zeros(()), jnp.zeros(()))
    chunks = _chunks(size, feature_BKE, target_BK, weight_BK)
    return lax.scan(body, zeros, chunks)[0]


_FORMS = {"dense": _dense, "chunked": _chunked, "fused": _chunked}
