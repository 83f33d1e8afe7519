"""Images as network inputs: patches of pixels, which the network projects."""

# B batch, H height, W width, P a patch's side, R patches of an image, F = 3 P^2 values

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import FEATURE, ArraySpec, Batch, input_group, input_specs
from research.contract.errors import UserError
from research.data.store.pictures import Store
from research.objectives.layout import input_format

PREFIX = "image_"
"""Prefix of the arrays of an image that is a separate network input."""

CLASS, PATCH = 1, 2
"""Tokens of an image: of its first position, and of the others, which read pixels."""

Statistics = tuple[tuple[float, float, float], tuple[float, float, float]]
"""Means and standard deviations of red, green and blue, of values from 0 to 1."""

CLIP: Statistics = (
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
)
"""Statistics of CLIP's training images (openai/CLIP at d05afc4, clip/clip.py)."""

HALF: Statistics = ((0.5,) * 3, (0.5,) * 3)
"""Values are from -1 to 1 (dandelin/ViLT at 762fd39, vilt/transforms/utils.py)."""


def patch_grid(store: Store, patch: int) -> tuple[int, int]:
    """Rows and columns of patches.

    Raises:
      UserError: patches do not fill the pictures.
    """
    height, width = store.pixels.shape[1:3]
    if height % patch or width % patch:
        raise UserError(
            f"objective.patch={patch} must divide the {width} x {height} pixels of the "
            "pictures of objective.images"
        )
    return height // patch, width // patch


def num_patches(store: Store, patch: int) -> int:
    """R."""
    rows, columns = patch_grid(store, patch)
    return rows * columns


def patches(pixels: np.ndarray, patch: int) -> np.ndarray:
    """[B, R, F] uint8: the patches of images [B, H, W, 3], row by row."""
    return cells(pixels, pixels.shape[1] // patch, pixels.shape[2] // patch)


def cells(pixels: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """[B, R, F]: the cells of a grid over images [B, H, W, 3], row by row."""
    count, height, width, colours = pixels.shape
    shape = count, rows, height // rows, columns, width // columns, colours
    ordered = pixels.reshape(shape).transpose(0, 1, 3, 2, 4, 5)
    return ordered.reshape(count, rows * columns, -1)


def joined(
    cut: np.ndarray, rows: int, columns: int, shape: tuple[int, ...]
) -> np.ndarray:
    """[H, W, 3]: the image of this shape from its cells [R, F], as of `cells`."""
    height, width, colours = shape
    grid = cut.reshape(rows, columns, height // rows, width // columns, colours)
    return grid.transpose(0, 2, 1, 3, 4).reshape(shape)


def scaled(pixels: jax.Array, statistics: Statistics) -> jax.Array:
    """Float32 [..., F]: patches [..., F] uint8, standardised per colour."""
    colours = pixels.astype(jnp.float32).reshape(*pixels.shape[:-1], -1, 3)
    mean, deviation = (
        jnp.array(each, jnp.float32).reshape((1,) * pixels.ndim + (3,))
        for each in statistics
    )
    return ((colours / 255 - mean) / deviation).reshape(pixels.shape)


def tower_specs(store: Store, patch: int) -> dict[str, ArraySpec]:
    """Specs of `tower_input`."""
    count = num_patches(store, patch)
    specs = input_specs(count + 1, PREFIX)
    return specs | {f"{PREFIX}pixels": ArraySpec((count, 3 * patch**2), np.uint8)}


def tower_input(
    pictures: np.ndarray, here: np.ndarray, patch: int
) -> dict[str, np.ndarray]:
    """The input of a tower of images: a class token, then the patches of an image.

    Args:
      pictures: [B, H, W, 3] uint8.
      here: [B] bool, the rows that have a picture.
    """
    cut = patches(pictures, patch)
    cut[~here] = 0
    count = 1 + cut.shape[1]
    token = np.full((len(pictures), count), PATCH, np.int32)
    token[:, 0] = CLASS
    token[~here] = 0
    group = input_format.full_input(token, np.where(here, count, 0), PREFIX)
    return group | {f"{PREFIX}pixels": cut}


def tower_group(batch: Batch, statistics: Statistics) -> Mapping[str, Any]:
    """The arrays of `tower_input` as a network reads them, with patch values."""
    values = scaled(batch[f"{PREFIX}pixels"], statistics)
    is_patch = (batch[f"{PREFIX}token"] == PATCH)[..., None]
    feature = jnp.where(is_patch, jnp.pad(values, ((0, 0), (1, 0), (0, 0))), 0.0)
    return input_group(batch, PREFIX) | {FEATURE: feature}
