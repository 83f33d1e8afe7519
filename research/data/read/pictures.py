"""Pictures, and rows of captions that name them."""

# H height, W width, R boxes of a picture

import csv
import io
import itertools
import json
import math
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.contract.errors import UserError, os_reason
from research.contract.parts import PartTable
from research.data.read.files import read_texts
from research.data.read.formats import FileOptions, LineError
from research.data.read.formats.parsing.lines import decode, json_rows, line_feeds
from research.data.read.formats.parsing.rows import with_header
from research.data.read.picture_sources import is_picture, open_source, undecodable

MAX_PIXELS = 2**26
"""The most pixels of a picture that is decoded: 8,192 x 8,192."""

UNDECODABLE = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error)
"""The errors of Pillow for files that are damaged or are no pictures."""


class Columns(NamedTuple):
    """The names of the columns of captions; "": there is no such column."""

    file: str = "file"
    caption: tuple[str, ...] = ("caption",)
    group: str = ""
    label: str = ""
    boxes: str = "boxes"  # these two: only in JSON lines, which may lack them
    classes: str = "classes"


class Row(NamedTuple):
    """A picture with its captions."""

    where: str  # FILE:LINE
    file: str
    captions: tuple[str, ...]
    group: str
    label: str | None
    boxes: tuple[tuple[float, ...], ...]  # R of x1, y1, x2, y2 in pixels
    classes: tuple[str, ...]  # R, the most probable class of each region
    distributions: tuple[Mapping[str, float], ...] = ()  # R of class -> probability;
    # (): each region has one class


def list_pictures(path: Path) -> tuple[Path, list[str]]:
    """The pictures that a path names: where they are, and their paths there.

    Args:
      path: one of `picture_sources`; one picture; or a .txt with the path of a picture
        on each line, relative to its folder.

    Raises:
      UserError: there are none.
    """
    if path.suffix == ".txt":
        names = read_texts(path, "--pictures")
        return path.parent, [name.strip() for name in names if name.strip()]
    if is_picture(path.name) and not path.is_dir():
        return path.parent, [path.name]
    names = open_source(path).names()
    if not names:
        raise UserError(f"{path} has no pictures; their names end in .png or .jpg")
    return path, names


def decode_picture(
    content: bytes, row: Row, width: int, height: int
) -> tuple[np.ndarray, np.ndarray]:
    """A picture [H, W, 3] uint8 of this size, and its boxes [R, 4] float32.

    It is resized by bicubic interpolation, without keeping its aspect ratio;
    transparent pixels are put on white, and a photograph is rotated by its EXIF
    orientation. Boxes are x1, y1, x2, y2 as fractions of width and height.

    Raises:
      UserError: it cannot be decoded, has too many pixels, or has a box outside of it.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content)) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise Image.DecompressionBombError
                turned = ImageOps.exif_transpose(image)
                rgb = _on_white(turned)
    except Image.DecompressionBombError as error:
        raise UserError(
            f"{row.where}: {row.file} is too large: a picture has at most "
            f"{MAX_PIXELS:,} pixels; make it smaller, or leave it out"
        ) from error
    except UnidentifiedImageError as error:  # its words name an object
        raise undecodable(row.file, row.where, "it is no picture") from error
    except UNDECODABLE as error:
        reason = str(error).replace("\n", " ")[:200]
        raise undecodable(row.file, row.where, reason) from error
    for box in row.boxes:
        x1, y1, x2, y2 = box
        if not (0 <= x1 < x2 <= rgb.width and 0 <= y1 < y2 <= rgb.height):
            raise UserError(
                f"{row.where}: a box must be [x1, y1, x2, y2] within the "
                f"{rgb.width} x {rgb.height} pixels of {row.file}, got {[*box]}"
            )
    scale = np.array([rgb.width, rgb.height] * 2, np.float32)
    boxes = np.array(row.boxes, np.float32).reshape(-1, 4) / scale
    resized = rgb.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(resized), boxes


def _on_white(image: Any) -> Any:
    """The picture in RGB; of 16-bit values, the upper eight bits."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image).convert("RGB")


def read_rows(path: Path, columns: Columns) -> list[Row]:
    """The rows of a file of captions, one of `CAPTION_FILES`.

    Raises:
      UserError: it cannot be read, a column is missing, or a value is wrong.
    """
    if path.suffix not in CAPTION_FILES:
        *most, last = CAPTION_FILES
        raise UserError(
            f"{path}: captions must be in a file {', '.join(most)} or {last}, not "
            f"{path.name}"
        )

    def rows(file: Any) -> Iterator[Row]:
        for line in CAPTION_FILES[path.suffix].lines(file, columns):
            yield _row(line, path, columns)

    found = _read(path, rows)
    edges = (edge for row in found for box in row.boxes for edge in box)
    if max(edges, default=math.inf) <= 1:
        raise UserError(
            f"{path}: boxes are in pixels, but no edge of these is above 1; multiply "
            "fractions by width and height"
        )
    return found


def read_captioned(path: Path) -> list[Row]:
    """The rows of a file in the format `captioned`; `file` is a picture's number.

    Raises:
      UserError: it cannot be read, or a line is not a row of this format.
    """

    def rows(file: Any) -> Iterator[Row]:
        for number, row in json_rows(file):
            try:
                file_number, text = str(row["image"]), row["text"]
            except (KeyError, TypeError) as error:
                raise LineError(
                    number, "not a line that palimpsest images wrote"
                ) from error
            yield Row(f"{path}:{number}", file_number, (text,), "", None, (), ())

    return _read(path, rows)


def _read(path: Path, parse: Callable[[Any], Iterator[Row]]) -> list[Row]:
    """The rows of a file, at least one; errors name the file and the line."""
    try:
        with path.open("rb") as file:
            found = list(parse(file))
    except LineError as error:
        raise UserError(f"{path}:{error.args[0]}: {error.args[1]}") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({os_reason(error)})") from error
    if not found:
        raise UserError(f"{path} has no rows; it must name a picture and a caption")
    return found


class Line(NamedTuple):
    """A line of a file of captions, not yet checked."""

    number: int  # from 1
    row: Mapping[str, Any]  # column -> its text, or in JSON any value
    boxes: Any = ()  # lists of numbers, if such a file may have them
    classes: Any = ()  # a name or an object for each


def _comma_lines(file: Any, columns: Columns) -> Iterator[Line]:
    texts = (decode(line, n) for n, line in enumerate(line_feeds(file), 1))
    reader = csv.reader(texts, strict=True)
    try:
        yield from _table_lines(((reader.line_num, r) for r in reader if r), columns)
    except csv.Error as error:
        raise LineError(reader.line_num, f"not CSV ({error})") from error


def _tab_lines(file: Any, columns: Columns) -> Iterator[Line]:
    decoded = ((n, decode(line, n)) for n, line in enumerate(line_feeds(file), 1))
    lines = ((n, text.rstrip("\r\n")) for n, text in decoded)
    return _table_lines(((n, text.split("\t")) for n, text in lines if text), columns)


def _table_lines(rows: Iterator[tuple[int, list[str]]], columns: Columns) -> Any:
    """The lines of a table whose first row names the columns."""
    fields = (columns.file, *columns.caption, columns.group)
    options = FileOptions(
        fields=tuple(name for name in fields if name), label=columns.label
    )
    try:
        yield from itertools.starmap(Line, with_header(rows, options))
    except LineError as error:
        number, text = error.args
        words = text.replace(" of data.fields", "").replace(" of data.label", "")
        words = words.partition(" (a file")[0]
        if words.startswith("unknown column"):
            words += "; the first line names the columns"
        raise LineError(number, words) from error


def _object_lines(file: Any, columns: Columns) -> Iterator[Line]:
    needed = [columns.file, *columns.caption, columns.group, columns.label]
    for number, row in json_rows(file):
        if not isinstance(row, dict):
            raise LineError(number, f"a line must be a JSON object, not {row!r:.40}")
        for name in needed:
            if name and name not in row:
                raise LineError(number, f"no key {name!r}: there is {', '.join(row)}")
        regions = (row.get(name) or () for name in (columns.boxes, columns.classes))
        yield Line(number, row, *regions)


class CaptionFile(NamedTuple):
    """A kind of file of captions."""

    line: str  # what it is, for users
    lines: Callable[[Any, Columns], Iterator[Line]]  # of the open file
    example: str  # the file of two captions that the law reads of each kind


CAPTION_FILES = {
    ".tsv": CaptionFile(
        "Tab-separated columns, named by the first line",
        _tab_lines,
        "file\tcaption\ttopic\nb.png\ttwo cats\tx\nin/a.PNG\ta sea\ty\n",
    ),
    ".csv": CaptionFile(
        "Comma-separated columns, named by the first line",
        _comma_lines,
        'file,caption,topic\nb.png,"two cats",x\n\nin/a.PNG,a sea,y\n',
    ),
    ".jsonl": CaptionFile(
        "JSON lines: columns are keys; `boxes` and `classes` are those of regions",
        _object_lines,
        '{"file": "b.png", "caption": "two cats", "topic": "x"}\n'
        '{"file": "in/a.PNG", "caption": ["a sea"], "topic": "y"}\n',
    ),
}
"""By suffix."""

LISTED = PartTable(
    "Captions",
    "images --captions",
    {suffix: kind.line for suffix, kind in CAPTION_FILES.items()},
)


def _row(line: Line, path: Path, columns: Columns) -> Row:
    """The checked row of a line."""
    number, row, boxes, classes = line
    captions: list[str] = []
    for name in columns.caption:
        value = row[name]
        captions += value if isinstance(value, list) else [value]
    for text in (row[columns.file], *captions):
        if not isinstance(text, str) or not text.strip():
            raise LineError(
                number, f"the picture and its captions must be texts, got {text!r:.40}"
            )
    if not all(_is_box(box) for box in boxes):
        raise LineError(number, f"boxes must be lists of 4 numbers, got {boxes!r:.60}")
    if len(classes) not in (0, len(boxes)) or not all(map(_is_class, classes)):
        raise LineError(
            number,
            "classes must be a name for each box, or an object of names and numbers "
            f"above 0, got {classes!r:.60}",
        )
    distributions = tuple(
        {name: 1.0} if isinstance(name, str) else _normalized(name) for name in classes
    )
    label = row.get(columns.label) if columns.label else None
    return Row(
        f"{path}:{number}",
        row[columns.file],
        tuple(captions),
        str(row[columns.group]) if columns.group else row[columns.file],
        None if label is None else str(label),
        tuple(tuple(map(float, box)) for box in boxes),
        tuple(max(sorted(each), key=each.__getitem__) for each in distributions),
        distributions if any(len(each) > 1 for each in distributions) else (),
    )


def _is_box(box: Any) -> bool:
    numbers = isinstance(box, list) and len(box) == 4
    return numbers and all(type(x) in (int, float) for x in box)


def _is_class(value: Any) -> bool:
    """Whether it is a name, or an object of names and finite numbers above 0."""
    if not isinstance(value, dict):
        return isinstance(value, str)
    numbers = value.values()
    return bool(value) and all(
        type(x) in (int, float) and 0 < x < math.inf for x in numbers
    )


def _normalized(weights: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def caption_line(
    text: str, image: int, label: str | None, vector: int | None = None
) -> bytes:
    """A line of a file in the format `captioned`."""
    row: dict[str, Any] = {"text": text, "image": image}
    if label is not None:
        row["label"] = label
    if vector is not None:
        row["vector"] = vector
    return (json.dumps(row, ensure_ascii=False) + "\n").encode()


def class_names(rows: Sequence[Row]) -> list[str]:
    """The classes of all boxes, sorted."""
    names = {name for row in rows for name in row.classes}
    return sorted(names.union(*(each for row in rows for each in row.distributions)))
