"""A store of pictures: memory-mapped pixels, boxes and classes, made once."""

# N pictures, H height, W width, R boxes of a picture, B rows

import functools
import hashlib
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from research.contract.errors import UserError, os_reason, unknown
from research.data import cache, counter_rng
from research.data.read.picture_sources import Source
from research.data.read.pictures import (
    Row,
    caption_line,
    class_names,
    decode_picture,
)
from research.files.existence import exists
from research.files.json_files import read_json, write_json
from research.files.paths import user_path

VERSION = 1
"""Raise it when the same pictures give other arrays."""

FEATURES, CAPTION_VECTORS = "features.npy", "caption_vectors.npy"
META, PIXELS, BOXES, CLASSES = "pictures.json", "pixels.npy", "boxes.npy", "classes.npy"
DISTRIBUTIONS = "distributions.npy"

ROWS = "rows.captioned"

SHAPES = "picture_shapes.json"
"""The file of a run, in its workdir, that stands for its pictures where they are not:
for texts and other pictures their shapes suffice."""
DTYPES = {"pixels": np.uint8, "classes": np.int32}
"""The arrays of a store that are not float32."""

RANDOM = "random"
"""The name of a small store of random pictures, for tests."""

FOLDER = "the folder that palimpsest images writes, beside the captions"
"""What objective.images is, for errors."""


class Store(NamedTuple):
    """Pictures, those of the training split first."""

    pixels: np.ndarray  # [N, H, W, 3] uint8
    boxes: np.ndarray  # [N, R, 4] float32: x1, y1, x2, y2 as fractions; 0: none
    classes: np.ndarray  # [N, R] int32, index of class_names; -1: none
    class_names: tuple[str, ...]
    num_train: int
    distributions: np.ndarray | None = None  # [N, R, C] float32, of C classes; None:
    # every region has one class
    features: np.ndarray | None = None  # [N, R, D] float32 of regions; None: there are
    # none
    caption_vectors: np.ndarray | None = None  # [captions, D] float32; None: none


def split_rows(rows: list[Row], held_out: float) -> tuple[list[Row], list[Row]]:
    """The rows of the training and of the validation split.

    Pictures and captions of a group are in one split; `held_out` of the groups, those
    with the smallest hashes, are for validation, and at least one is in each split.

    Raises:
      UserError: there is only one group.
    """
    groups = sorted({row.group for row in rows}, key=_hash)
    if len(groups) < 2:
        raise UserError(
            f"all rows are of one group, {groups[0]!r}, but training and validation "
            "need one each; give more pictures, or another --group-column"
        )
    count = min(max(1, round(held_out * len(groups))), len(groups) - 1)
    valid = {*groups[:count]}
    parts: tuple[list[Row], list[Row]] = [], []
    for row in rows:
        parts[row.group in valid].append(row)
    return parts


def _hash(group: str) -> bytes:
    return hashlib.blake2b(group.encode("utf-8", "replace"), digest_size=16).digest()


def number_pictures(rows: list[Row]) -> dict[str, Row]:
    """File -> its row with boxes, in the order of the store.

    Raises:
      UserError: two rows give a picture different boxes.
    """
    found: dict[str, Row] = {}
    for row in rows:
        first = found.setdefault(row.file, row)
        if row.boxes and not first.boxes:
            found[row.file] = row
        elif row.boxes and _regions(row) != _regions(first):
            raise UserError(
                f"{row.where}: {row.file} has other boxes or classes in {first.where}; "
                "they must be the same"
            )
    return found


def _regions(row: Row) -> tuple[Any, ...]:
    return row.boxes, row.classes, row.distributions


def store_key(
    source: Source,
    pictures: dict[str, Row],
    size: tuple[int, int],
    features: Path | None = None,
) -> str:
    """The hash of what the arrays depend on: pictures, boxes, features, and the size.

    Raises:
      UserError: a picture, or the file of features, is missing.
    """
    each = [
        [row.file, row.boxes, row.classes, source.stamp(row.file, row.where)]
        + [row.distributions] * bool(row.distributions)
        for row in pictures.values()
    ]
    own = []
    if features:
        try:
            state = features.stat()
        except OSError as error:
            raise UserError(
                f"{features} is not an .npz of features ({os_reason(error)})"
            ) from error
        own = [state.st_size, state.st_mtime_ns]
    return cache.fingerprint([VERSION, size, each, *own])


def write_store(
    folder: Path,
    source: Source,
    pictures: dict[str, Row],
    *,
    size: tuple[int, int],
    num_train: int,
    key: str,
    names: Sequence[str] = (),
    features: Path | None = None,
) -> None:
    """Decodes all pictures into an empty folder, one by one.

    Args:
      size: width and height.
      num_train: the pictures of the training split, which are first.
      features: an .npz with an array [boxes, D] for each file; None: there are none.
      names: the classes of boxes; (): those of the rows.

    Raises:
      UserError: a picture cannot be decoded, a box is outside of it, its class is not
        in `names`, or features are missing or of another shape.
    """
    rows = list(pictures.values())
    most = max(len(row.boxes) for row in rows)
    for row in rows:
        for name in class_names([row]):
            if names and name not in names:
                raise unknown(f"{row.where}: class", name, names)
    names = [*names] or class_names(rows)
    number = {name: n for n, name in enumerate(names)}
    width, height = size
    shape = len(rows), height, width, 3
    boxes = np.zeros((len(rows), most, 4), np.float32)
    classes = np.full((len(rows), most), -1, np.int32)
    with (folder / PIXELS).open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for n, row in enumerate(rows):
            pixels, own = decode_picture(
                source.read(row.file, row.where), row, width, height
            )
            file.write(pixels.tobytes())
            boxes[n, : len(own)] = own
            classes[n, : len(row.classes)] = [number[name] for name in row.classes]
    if any(row.distributions for row in rows):
        _write_distributions(folder / DISTRIBUTIONS, rows, number, most)
    if features:
        _write_features(folder / FEATURES, features, rows, most)
    np.save(folder / BOXES, boxes)
    np.save(folder / CLASSES, classes)
    meta = {"key": key, "num_train": num_train, "classes": names}
    write_json(folder / META, meta | {"files": [row.file for row in rows]})


def write_rows(
    folder: Path,
    source: Source,
    rows: list[Row],
    *,
    size: tuple[int, int],
    names: Sequence[str] = (),
) -> Path:
    """Writes a store of the pictures of rows, and their captions, to an empty folder.

    Args:
      size, names: as in `write_store`.

    Returns:
      The file in the format `captioned`, of one split.

    Raises:
      UserError: as in `write_store`, or a picture is missing.
    """
    found = number_pictures(rows)
    key = store_key(source, found, size)
    options = {"size": size, "num_train": len(found), "key": key, "names": names}
    write_store(folder, source, found, **options)
    number = {file: n for n, file in enumerate(found)}
    file = folder / ROWS
    file.write_bytes(
        b"".join(
            caption_line(text, number[row.file], row.label)
            for row in rows
            for text in row.captions
        )
    )
    return file


def _write_features(path: Path, source: Path, rows: list[Row], most: int) -> None:
    """Writes the features of regions, picture by picture, as float32 [N, R, D].

    Raises:
      UserError: a picture has none, or not one finite row for each of its boxes.
    """
    try:
        found = np.load(source, allow_pickle=False)
        with path.open("wb") as file:
            width = 0
            for row in rows:
                if row.file not in found:
                    raise UserError(
                        f"{source} has no array {row.file!r}; it must have one of each "
                        "picture, by its path in the captions"
                    )
                own = np.asarray(found[row.file])
                width = width or (own.shape[1] if own.ndim == 2 else 0)
                if own.shape != (len(row.boxes), width) or own.dtype.kind not in "fiu":
                    raise UserError(
                        f"{source}: {row.file} must be numbers of shape "
                        f"({len(row.boxes)}, {width or 'D'}), a row for each of its "
                        f"`boxes` in {row.where}; got {own.dtype} {own.shape}"
                    )
                if not np.isfinite(own).all():
                    raise UserError(
                        f"{source}: {row.file} has values that are not numbers"
                    )
                if not file.tell():
                    shape = len(rows), most, width
                    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(file, header)
                padded = np.zeros((most, width), np.float32)
                padded[: len(own)] = own
                file.write(padded.tobytes())
    except UserError:
        raise
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        reason = os_reason(error) if isinstance(error, OSError) else error
        raise UserError(f"{source} is not an .npz of features ({reason})") from error


def read_caption_vectors(source: Path, rows: Sequence[Row]) -> np.ndarray:
    """[captions of all rows, D] float32: the vectors of captions, in their order.

    Args:
      source: an .npz with an array [captions, D] for each file.

    Raises:
      UserError: a file has none, or not one finite vector for each of its captions.
    """
    try:
        arrays = np.load(source, allow_pickle=False)
        found = {name: arrays[name] for name in dict.fromkeys(r.file for r in rows)}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        reason = os_reason(error) if isinstance(error, OSError) else error
        raise UserError(f"{source} is no .npz of vectors ({reason})") from error
    except KeyError as error:
        raise UserError(f"{source} lacks an array of a picture: {error}") from error
    count = Counter()
    for row in rows:
        count[row.file] += len(row.captions)
    width = next(iter(found.values())).shape[-1]
    for name, own in found.items():
        if own.shape != (count[name], width) or not np.isfinite(own).all():
            raise UserError(
                f"{source}: {name} must be finite numbers of shape ({count[name]}, "
                f"{width}), a row for each caption; got {own.dtype} {own.shape}"
            )
    left = {name: iter(own) for name, own in found.items()}
    vectors = [next(left[row.file]) for row in rows for _ in row.captions]
    return np.stack(vectors).astype(np.float32)


def _write_distributions(
    path: Path, rows: list[Row], number: dict[str, int], most: int
) -> None:
    """Writes the probabilities of classes, picture by picture."""
    shape = len(rows), most, len(number)
    array = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    for n, row in enumerate(rows):
        for region, each in enumerate(row.distributions):
            array[n, region, [number[name] for name in each]] = [*each.values()]
        for region, name in enumerate(row.classes if not row.distributions else ()):
            array[n, region, number[name]] = 1
    array.flush()


def has_other_pictures(captions: Path, images: str) -> bool:
    """Whether captions lie beside the pictures of another store than `images`."""
    own = stored_key(captions.parent)
    return bool(own) and own != stored_key(Path(user_path(images)))


def stored_key(folder: Path) -> str:
    """The key of the store in a folder; "" if there is none."""
    if not (folder / META).is_file():
        return ""
    return str(_read_meta(folder)["key"])


def _read_meta(folder: Path) -> dict[str, Any]:
    fields = {"key": str, "num_train": int, "classes": list, "files": list}
    return read_json(folder / META, "delete the folder, and make it again", fields)


def write_shapes(store: Store, path: epath.Path) -> None:
    """Writes what networks depend on: the shapes of one picture, names of classes."""
    arrays = {k: v for k, v in store._asdict().items() if isinstance(v, np.ndarray)}
    shapes = {name: array.shape[1:] for name, array in arrays.items()}
    write_json(path, {"classes": store.class_names, "shapes": shapes})


def images_of_run(workdir: epath.Path, images: str) -> str:
    """The objective.images of a run; its SHAPES if the pictures are not there."""
    if images == RANDOM or (Path(user_path(images)) / META).is_file():
        return images
    shapes = workdir / SHAPES
    return str(shapes) if exists(shapes) else images


@functools.lru_cache(maxsize=4)
def _without_pictures(path: str) -> Store:
    """A store of no picture, with the shapes and classes of a run's."""
    found = read_json(path, "train the run again", {"classes": list, "shapes": dict})
    arrays = {
        name: np.zeros((0, *shape), DTYPES.get(name, np.float32))
        for name, shape in found["shapes"].items()
    }
    return Store(class_names=tuple(found["classes"]), num_train=0, **arrays)


def open_store(source: str) -> Store:
    """The store in a folder of `palimpsest images`, memory-mapped.

    That of a file SHAPES has no pictures.

    Raises:
      UserError: it is not named, or cannot be read.
    """
    if source == RANDOM:
        return _random_store()
    if source.endswith(SHAPES):
        return _without_pictures(source)
    if not source:
        raise UserError(f"objective.images is not set; it is {FOLDER}")
    return _open(Path(user_path(source)))


@functools.lru_cache(maxsize=4)
def _open(folder: Path) -> Store:
    try:
        meta = _read_meta(folder)
        pixels = np.load(folder / PIXELS, mmap_mode="r")
        boxes, classes = (np.load(folder / name) for name in (BOXES, CLASSES))
        arrays, names = (pixels, boxes, classes), tuple(meta["classes"])
        distributions = None
        if (folder / DISTRIBUTIONS).exists():
            distributions = np.load(folder / DISTRIBUTIONS, mmap_mode="r")
        features = None
        if (folder / FEATURES).exists():
            features = np.load(folder / FEATURES, mmap_mode="r")
        vectors = None
        if (folder / CAPTION_VECTORS).exists():
            vectors = np.load(folder / CAPTION_VECTORS, mmap_mode="r")
        return Store(
            *arrays,
            names,
            meta["num_train"],
            distributions,
            features,
            vectors,
        )
    except UserError:
        raise
    except (OSError, ValueError, EOFError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else error
        raise UserError(
            f"objective.images={folder} is not a folder of palimpsest images ({reason})"
        ) from error


@functools.lru_cache(maxsize=1)
def file_names(images: str) -> list[str]:
    """[N], the paths of a store's pictures in their source; []: not known."""
    folder = Path(user_path(images))
    return _read_meta(folder)["files"] if (folder / META).is_file() else []


@functools.cache
def _random_store() -> Store:
    """40 pictures of 12 x 12 pixels with 1 to 3 boxes of 5 classes."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (40, 12, 12, 3), np.uint8)
    corner = rng.integers(0, 8, (40, 3, 2))
    boxes = np.concatenate([corner, corner + 4], axis=-1) / np.float32(12)
    here = np.arange(3) < rng.integers(1, 4, (40, 1))
    classes = np.where(here, rng.integers(0, 5, (40, 3)), -1)
    boxes = np.where(here[..., None], boxes, 0).astype(np.float32)
    names, features = tuple("abcde"), rng.normal(size=(40, 3, 6)).astype(np.float32)
    arrays = pixels, boxes, classes.astype(np.int32)
    return Store(*arrays, names, num_train=32, features=features)


def picture_numbers(image: np.ndarray, here: np.ndarray, store: Store) -> np.ndarray:
    """[B]: the number of each row's picture; 0 for rows without text.

    Args:
      image: [B, R] the array `captioned.IMAGE` of a text.
      here: [B] bool, the rows with text.

    Raises:
      UserError: the store has no such picture.
    """
    number = np.where(here, image[:, 0], 0)
    if number.size and not 0 <= number.min() <= number.max() < len(store.pixels):
        raise UserError(
            f"a caption names picture {number.max()}, but objective.images has "
            f"{len(store.pixels)}; give the folder that has the captions"
        )
    return number


def other_pictures(key: np.ndarray, number: np.ndarray, store: Store) -> np.ndarray:
    """[B]: another picture of the same split, drawn uniformly.

    Args:
      key: [B] uint64, of the rows.
      number: [B], the pictures of the rows.

    Raises:
      UserError: a split has only one picture.
    """
    is_train = number < store.num_train
    first = np.where(is_train, 0, store.num_train)
    count = np.where(is_train, store.num_train, len(store.pixels) - store.num_train)
    if (count < 2).any():
        raise UserError(
            "a picture is compared with another one of its split, but a split of "
            "objective.images has only one"
        )
    draw = counter_rng.uniform(key, "other picture", 1)[:, 0]
    shift = 1 + (draw * (count - 1)).astype(np.int64)
    return first + (number - first + shift) % count


def pictures_of_split(
    key: np.ndarray, role: str, number: np.ndarray, count: int, store: Store
) -> np.ndarray:
    """[B, count]: pictures drawn uniformly from the split of each row's picture [B]."""
    is_train = (number < store.num_train)[:, None]
    first = np.where(is_train, 0, store.num_train)
    size = np.where(is_train, store.num_train, len(store.pixels) - store.num_train)
    draw = counter_rng.uniform(key, role, count)
    return first + (draw * size).astype(np.int64)
