"""Ternary weight splitting: each ternary weight is the sum of two binary ones.

BinaryBERT, Bai et al. 2021, section 3.2; huawei-noah/Pretrained-Language-Model,
BinaryBERT/transformer/binary_model_init.py, tws_split. A layer of the released network
has two binary matrices of the ternary one's shape, whose products are added
(modeling_dynabert_binary.py): there are twice as many weights, but no wider states.
"""

from typing import Any

import numpy as np

from research.contract.errors import UserError
from research.interop.int8_weights import compiled_quantize


def split_weights(weight: np.ndarray, axis: Any, name: str) -> np.ndarray:
    """Weights w_1, w_2 with w_1 + w_2 = w, whose binary values add up to w's ternary.

    For the n weights that share a scale s, let I be those whose ternary value is not 0,
    J those with ternary value 0 that are positive, K the others, and S sums of |w|:

        in I  w_1 = a w,      w_2 = (1 - a) w
        in J  w_1 = w + b,    w_2 = -b
        in K  w_1 = b,        w_2 = w - b
        a = (S_I + S_K - S_J) / (2 S_I)
        b = (n s - S_I - S_J - S_K) / (2 |J and K|)

    So the signs of both parts agree in I and differ elsewhere, and the mean absolute
    value of each is s / 2. Here s is the scale that `quantize` has rounded, so that the
    binary scales are s / 2 to the last bit.

    Args:
      weight: kernels [..., D, F] or a table [V, E], float32.
      axis: over which a scale is shared: -1 (tables), -2 or (-2, -1).
      name: the parameter's, for errors.

    Returns:
      both parts, on a new axis of size 2 before the axes of a kernel, or after the rows
      of a table.

    Raises:
      UserError: weights with ternary value 0 have mostly one sign, so that a is not
        between 0 and 1; or rounding prevents the split.
    """
    ternary, scale = map(np.asarray, compiled_quantize(weight, "ternary", axis))
    size, is_kept = np.abs(weight, dtype=np.float64), ternary != 0

    def total(values: np.ndarray) -> np.ndarray:
        return values.sum(axis, keepdims=True)

    num_zeros, kept = total(~is_kept), total(size * is_kept)
    count = total(np.ones_like(size))
    with np.errstate(divide="ignore", invalid="ignore"):
        a = np.where(kept > 0, 0.5 - total(weight * ~is_kept) / (2 * kept), 0.5)
        b = np.where(num_zeros, (count * scale - total(size)) / (2 * num_zeros), 0.0)
        # Without zeros, no b compensates for the rounding of s.
        kept_scale = np.where(num_zeros | (kept == 0), 1.0, count * scale / kept)
    first = np.where(is_kept, a * kept_scale * weight, np.maximum(weight, 0) + b)
    second = np.where(is_kept, (1 - a) * kept_scale * weight, np.minimum(weight, 0) - b)
    parts = np.stack([first, second], -2 if axis == -1 else -3).astype(np.float32)
    _check(parts, ternary, scale, axis, name)
    return parts


def _check(
    parts: np.ndarray, ternary: np.ndarray, scale: np.ndarray, axis: Any, name: str
) -> None:
    """Raises UserError: the binary values are not halves that sum to the ternary."""
    values, scales = map(np.asarray, compiled_quantize(parts, "binary", axis))
    of_parts = -2 if axis == -1 else -3
    agree = (values.sum(of_parts) == 2 * ternary) | (scale == 0)
    halves = scales == np.expand_dims(scale, of_parts) / 2
    if not (agree.all() and halves.all()):
        raise UserError(
            f"--recipe=split: {name} has {np.sum(~agree)} weights and "
            f"{np.sum(~halves)} scales that two binary ones do not add up to: those "
            "near 0 are of one sign, or hardly any is; with --scale=tensor in "
            "--recipe=ternary more weights share a scale"
        )
