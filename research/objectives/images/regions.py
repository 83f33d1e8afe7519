"""Regions of pictures: a grid of patches, or crops of boxes, some of them hidden."""

# B batch, H height, W width, R regions of a picture, P side of a crop, F = 3 P^2 values

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.errors import UserError
from research.data import counter_rng
from research.data.store import pictures
from research.data.store.pictures import Store
from research.objectives.images import pixels
from research.objectives.noise.masking import mask_budget

HIDDEN = 128
"""The value of hidden pixels, which is 0 once they are scaled."""

BOX = 5
"""Values of a box: x1, y1, x2, y2 and its area, as fractions of the picture."""

WAVES, WAVE_BASE = 256, 1000
"""Of `sinusoids`: wavelengths of a coordinate, and the ratio of their range."""

BOX_WIDTHS = {"none": 0, "edges": 4, "corners": BOX, "sinusoids": 8 * WAVES}
"""What is read of a box -> the number of its values."""


class Regions(NamedTuple):
    """What is read of pictures: the whole first, then their regions."""

    pixels: np.ndarray  # [B, 1 + R, F] uint8; with patches the first is not read.
    # Features, float32, stand in their place
    box: np.ndarray  # [B, 1 + R, BOX] float32
    here: np.ndarray  # [B, 1 + R] bool


class Chosen(NamedTuple):
    """Regions that are to be predicted."""

    chosen: np.ndarray  # [B, R] bool
    hidden: np.ndarray  # [B, R] bool: those of them whose pixels are not read
    replaced: np.ndarray  # [B, R] bool: hidden ones that have pixels of another region


def num_regions(store: Store, kind: str, patch: int) -> int:
    """R, of patches or of boxes."""
    if kind == "patches":
        return pixels.num_patches(store, patch)
    return store.boxes.shape[1]


def regions_of(store: Store, number: np.ndarray, kind: str, patch: int) -> np.ndarray:
    """[..., R] bool: the regions that pictures [...] have."""
    if kind == "patches":
        return np.ones((*number.shape, pixels.num_patches(store, patch)), bool)
    boxes = store.boxes[number]
    return (boxes[..., 2:] > boxes[..., :2]).all(axis=-1)


def choose(
    key: np.ndarray,
    candidate: np.ndarray,
    *,
    rate: float,
    mask_fraction: float,
    random_fraction: float,
    most: int,
) -> Chosen:
    """Draws `rate` of the candidates [B, R], at most `most` of a row."""
    count = mask_budget(candidate.sum(axis=1), rate, most)
    chosen = counter_rng.choose_subset(key, "regions", candidate, count)
    draw = counter_rng.uniform(key, "hidden regions", candidate.shape[1])
    hidden = chosen & (draw < mask_fraction + random_fraction)
    return Chosen(chosen, hidden, hidden & (draw >= mask_fraction))


def replace(
    key: np.ndarray,
    regions: Regions,
    replaced: np.ndarray,
    number: np.ndarray,
    store: Store,
    kind: str,
    patch: int,
) -> None:
    """Gives replaced regions [B, R] the pixels of others of the split, in place.

    Args:
      number: [B], the pictures of the rows.
    """
    width = replaced.shape[1]
    picture = pictures.pictures_of_split(key, "regions from", number, width, store)
    there = regions_of(store, picture, kind, patch)  # [B, R, R]
    draw = counter_rng.uniform(key, "region from", width)
    nth = (draw * there.sum(axis=-1)).astype(np.int64)
    region = (np.cumsum(there, axis=-1) > nth[..., None]).argmax(axis=-1)
    for row, n in np.argwhere(replaced & there.any(axis=-1)):
        other, which = picture[row, n, None], region[row, n]
        if kind != "boxes":
            found = read(store, other, kind, patch).pixels[0, 1 + which]
        else:
            box = store.boxes[:, which, None]
            found = read(store._replace(boxes=box), other, kind, patch).pixels[0, 1]
        regions.pixels[row, 1 + n] = found


def read(
    store: Store,
    number: np.ndarray,
    kind: str,
    patch: int,
    hidden: np.ndarray | None = None,
) -> Regions:
    """What is read of pictures [B] with hidden regions [B, R]; None: there are none."""
    if hidden is None:
        hidden = np.zeros((len(number), num_regions(store, kind, patch)), bool)
    if kind == "patches":
        return read_patches(store, number, patch, hidden)
    if kind == "features":
        return read_features(store, number, hidden)
    return read_boxes(store, number, patch, hidden)


def num_values(store: Store, kind: str, patch: int) -> int:
    """F: of pixels, or of features.

    Raises:
      UserError: the store has no features.
    """
    if kind != "features":
        return 3 * patch**2
    if store.features is None:
        raise UserError(
            "objective.regions=features needs pictures with features, but those of "
            "objective.images have none; give palimpsest images --features=F.npz"
        )
    return int(store.features.shape[2])


def read_features(store: Store, number: np.ndarray, hidden: np.ndarray) -> Regions:
    """The features of the regions of pictures [B]; those of hidden ones are 0.

    The whole picture has the mean of the others.
    """
    assert store.features is not None
    boxes, found = store.boxes[number], np.array(store.features[number])
    there = (boxes[..., 2:] > boxes[..., :2]).all(axis=-1)
    seen = there & ~hidden
    found[~seen] = 0
    total = found.sum(axis=1, keepdims=True)
    mean = total / np.maximum(seen.sum(axis=1), 1)[:, None, None]
    here = np.concatenate([np.ones((len(boxes), 1), bool), there], axis=1)
    values = np.concatenate([mean, found], axis=1, dtype=np.float32)
    return Regions(values, _with_whole(boxes) * here[..., None], here)


def sinusoids(box: jax.Array) -> jax.Array:
    """[..., 8 WAVES]: waves of centre, width and height of boxes [..., BOX].

    Sines of each number in percent, then cosines (Su et al. 2020, section 3.1;
    jackroos/VL-BERT at 4373674, coordinate_embeddings).
    """
    x1, y1, x2, y2 = (100 * box[..., n] for n in range(4))
    coordinate = jnp.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], axis=-1)
    wave = np.float32(WAVE_BASE) ** (np.arange(WAVES, dtype=np.float32) / WAVES)
    angle = coordinate[..., None] / jnp.expand_dims(wave, range(coordinate.ndim))
    both = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    return both.reshape(*box.shape[:-1], -1)


def read_patches(
    store: Store, number: np.ndarray, patch: int, hidden: np.ndarray
) -> Regions:
    """The patches of pictures [B], of which some [B, R] are hidden."""
    cut = pixels.patches(store.pixels[number], patch)
    cut[hidden] = HIDDEN
    rows, count, width = cut.shape
    grid = store.pixels.shape[1] // patch, store.pixels.shape[2] // patch
    y, x = np.divmod(np.arange(count), grid[1])
    corners = [x / grid[1], y / grid[0], (x + 1) / grid[1], (y + 1) / grid[0]]
    boxes = np.broadcast_to(np.stack(corners, axis=-1), (rows, count, 4))
    whole = np.zeros((rows, 1, width), np.uint8)
    here = np.ones((rows, 1 + count), bool)
    return Regions(np.concatenate([whole, cut], axis=1), _with_whole(boxes), here)


def read_boxes(
    store: Store, number: np.ndarray, patch: int, hidden: np.ndarray
) -> Regions:
    """Crops of the boxes of pictures [B], resized to a square of side P.

    The pixels of hidden boxes [B, R] are replaced in the picture before anything is
    cropped: neither the whole nor a crop that overlaps them shows them.
    """
    from PIL import Image

    boxes = store.boxes[number]
    rows, count = boxes.shape[:2]
    height, width = store.pixels.shape[1:3]
    found = np.zeros((rows, 1 + count, 3 * patch**2), np.uint8)
    here = np.ones((rows, 1 + count), bool)
    here[:, 1:] = (boxes[..., 2:] > boxes[..., :2]).all(axis=-1)
    scale = np.array([width, height, width, height])
    begin = np.floor(boxes[..., :2] * scale[:2] + 1e-4).astype(int)
    end = np.ceil(boxes[..., 2:] * scale[2:] - 1e-4).astype(int)
    for row in range(rows):
        picture = store.pixels[number[row]].copy()
        for region in np.flatnonzero(hidden[row] & here[row, 1:]):
            (x, y), (right, below) = begin[row, region], end[row, region]
            picture[y:below, x:right] = HIDDEN
        image = Image.fromarray(picture)
        for region in np.flatnonzero(here[row]):
            area = (0, 0, width, height)
            if region:
                area = (*begin[row, region - 1], *end[row, region - 1])
            crop = image.resize((patch, patch), Image.Resampling.BILINEAR, box=area)
            found[row, region] = np.asarray(crop).reshape(-1)
        found[row, 1:][hidden[row]] = HIDDEN
    return Regions(found, _with_whole(boxes) * here[..., None], here)


def _with_whole(boxes: np.ndarray) -> np.ndarray:
    """[B, 1 + R, BOX] float32: the whole picture, and boxes [B, R, 4], with areas."""
    whole = np.broadcast_to(np.array([0, 0, 1, 1.0]), (len(boxes), 1, 4))
    every = np.concatenate([whole, boxes], axis=1)
    area = (every[..., 2:] - every[..., :2]).prod(axis=-1, keepdims=True)
    return np.concatenate([every, area], axis=-1).astype(np.float32)
