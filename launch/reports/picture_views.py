"""Pictures of a row of a batch: regions, what is hidden, and what a run predicts."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

# H height, W width, R regions of a picture

SHOWN_SIDE = 220
"""Pixels of the longer side of a picture on the page."""

COLOURS = {"hidden": "#e0a800", "shown": "#2f9e44", "": "#4a6fa5"}
"""State of a region -> the colour of its frame; shown: predicted, and not hidden."""


class Region(NamedTuple):
    """A region of a picture."""

    box: tuple[float, float, float, float]  # x1, y1, x2, y2 as fractions
    state: str = ""  # one of COLOURS
    text: str = ""  # its class, and what a run predicts


class Picture(NamedTuple):
    """A picture of a row, as stored or as the network reads it."""

    title: str
    pixels: np.ndarray  # [H, W, 3] uint8
    regions: Sequence[Region] = ()
    crops: Sequence[tuple[np.ndarray, str]] = ()  # what is read of regions, and names


class Panel(NamedTuple):
    """The pictures of a row, and lines that a run says of them."""

    pictures: Sequence[Picture]
    notes: Sequence[str] = ()
    nearest: Sequence[Any] = ()  # of `picture_guesses.Guess`, captions of the first


def panel(
    batch: Mapping[str, np.ndarray],
    row: int,
    objective: Any,
    number: int,
    *,
    guesses: Any = None,
    nearest: Sequence[Any] = (),
) -> Panel:
    """The pictures of a row.

    Args:
      number: the picture of the row's text.
      guesses: `picture_guesses.Guesses` of the row.
      nearest: captions nearest to the picture.
    """
    store = objective.store
    title = f"picture {number} of the caption"
    if not hasattr(objective, "pooled"):  # two towers, which hide nothing
        grid = _grid(store.pixels[number], objective.patch)
        own = Picture(title, store.pixels[number], grid)
        return Panel([own], nearest=nearest)
    is_boxes, notes = objective.regions != "patches", []
    replaced = False
    if "match_label" in batch:
        label = int(batch["match_label"][row])
        replaced = label == int(objective.match_label == "replaced")
        which = "another picture" if replaced else "the caption's picture"
        where = " (in the pass of matching)" if "match_pixels" in batch else ""
        notes.append(f"matching{where} reads {which}")
        if guesses and guesses.match is not None:
            notes.append(f"predicted: they match with probability {guesses.match:.2f}")
    for word in guesses.words if guesses else ():
        right = next(each.text.strip() for each in word if each.is_right)
        best = ", ".join(f"'{each.text.strip()}' {each.value:.2f}" for each in word)
        notes.append(f"predicted of a hidden word, '{right}': {best}")
    joint = "match_pixels" not in batch and replaced
    regions = _regions(batch, row, objective, number, guesses)
    if is_boxes:
        boxes = store.boxes[number]
        there = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
        classes = store.classes[number].tolist()
        names = [store.class_names[n] if n >= 0 else "" for n in classes]
        plain = [
            Region(tuple(map(float, box)), "", name)
            for box, name, here in zip(boxes, names, there, strict=True)
            if here
        ]
        marked = [regions.get(n, each) for n, each in enumerate(plain)]
        own = Picture(title, store.pixels[number], plain if joint else marked)
        if objective.regions == "features":
            return Panel([own], notes, nearest)
        read = _crops(batch["pixels"][row], batch, row, objective, regions)
        whole, crops = read[0][0], read[1:]
        title = "the network reads" + ", of another picture" * replaced
        reads = Picture(title, whole, (), crops)
        return Panel([own, reads], notes, nearest)
    grid = _grid(store.pixels[number], objective.patch)
    pictures = [Picture(title, store.pixels[number], grid)]
    for name in ("pixels", "match_pixels"):
        if name in batch:
            shape = store.pixels.shape[1:3]
            read = _joined(batch[name][row, 1:], shape, objective.patch)
            if (read != store.pixels[number]).any():  # hidden, or of another picture
                title = "the network reads" if name == "pixels" else "matching reads"
                pictures.append(Picture(title, read, grid))
    return Panel(pictures, notes, nearest)


def _grid(pixels: np.ndarray, patch: int) -> list[Region]:
    """The patches of a picture [H, W, 3]."""
    height, width = pixels.shape[:2]
    return [
        Region((x / width, y / height, (x + patch) / width, (y + patch) / height))
        for y in range(0, height, patch)
        for x in range(0, width, patch)
    ]


def _regions(
    batch: Mapping[str, np.ndarray],
    row: int,
    objective: Any,
    number: int,
    guesses: Any,
) -> dict[int, Region]:
    """Number of a region -> the region, of those that are predicted."""
    if "region_target" not in batch:
        return {}
    store, found = objective.store, {}
    before = batch["token"].shape[1] - batch["pixels"].shape[1]
    scored = np.flatnonzero(batch["region_weight"][row] > 0)
    for n, at in enumerate(scored.tolist()):
        position = int(batch["region_scored"][row, at])
        region = position - before - 1
        own = batch["pixels"][row, position - before]
        state = "hidden" if (own == own.flat[0]).all() else "shown"
        text = store.class_names[int(batch["region_target"][row, at])]
        if guesses:
            best = guesses.regions[n][0]
            text += f" → {best.text} {best.value:.2f}"
        box = tuple(map(float, store.boxes[number, region]))
        found[region] = Region(box, state, text)
    return found


def _crops(
    pixels: np.ndarray,
    batch: Mapping[str, np.ndarray],
    row: int,
    objective: Any,
    regions: Mapping[int, Region],
) -> list[tuple[np.ndarray, str]]:
    """The crops that are read [1 + R, F], the whole first, and what they are."""
    side = objective.patch
    segment = batch["segment"][row, -len(pixels) :]
    found = []
    for n, (own, here) in enumerate(zip(pixels, segment, strict=True)):
        if here > 0:
            mark = regions.get(n - 1)
            text = f"{mark.state}: {mark.text}" if mark else ""
            found.append((own.reshape(side, side, 3), text))
    return found


def _joined(cut: np.ndarray, shape: tuple[int, int], patch: int) -> np.ndarray:
    """[H, W, 3]: the picture of patches [R, F]."""
    rows, columns = shape[0] // patch, shape[1] // patch
    grid = cut.reshape(rows, columns, patch, patch, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(*shape, 3)


def panel_lines(panel: Panel) -> list[str]:
    """The lines of the terminal."""
    lines = []
    for picture in panel.pictures:
        height, width = picture.pixels.shape[:2]
        count = len(picture.regions) or len(picture.crops)
        lines.append(f"{picture.title}: {width} x {height} pixels, {count} regions")
        scale = np.array([width, height, width, height])
        lines += [
            f"  {region.state or 'read'} {np.rint(region.box * scale).astype(int)}: "
            f"{region.text}"
            for region in picture.regions
            if region.text
        ]
    lines += [f"  {note}" for note in panel.notes]
    if panel.nearest:
        lines.append("  nearest captions:")
    lines += [
        f"    {guess.value:.3f} {'right' if guess.is_right else 'wrong'} {guess.text}"
        for guess in panel.nearest
    ]
    return lines


def panel_html(panel: Panel) -> str:
    """The pictures inline, as PNG, with frames around regions."""
    figures = "".join(map(_figure, panel.pictures))
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in panel.notes)
    nearest = ""
    if panel.nearest:
        rows = "".join(
            f"<tr><td>{guess.value:.3f}</td>"
            f"<td>{'&#10003;&nbsp;right' if guess.is_right else '&#10007;&nbsp;wrong'}"
            "</td>"
            f"<td>{html.escape(guess.text)}</td></tr>"
            for guess in panel.nearest
        )
        nearest = f"<p><b>nearest captions</b></p><table>{rows}</table>"
    return f"<div class=pictures>{figures}</div>{notes}{nearest}"


def _figure(picture: Picture) -> str:
    height, width = picture.pixels.shape[:2]
    scale = SHOWN_SIDE / max(height, width)
    shown = round(width * scale), round(height * scale)
    frames = "".join(_frame(region, shown) for region in picture.regions)
    crops = "".join(
        f"<figure><img src='{_uri(pixels)}' width=48 height=48>"
        f"<figcaption>{html.escape(text)}</figcaption></figure>"
        for pixels, text in picture.crops
    )
    return (
        f"<figure><svg width='{shown[0]}' height='{shown[1]}'>"
        f"<image href='{_uri(picture.pixels)}' width='{shown[0]}' height='{shown[1]}' "
        f"preserveAspectRatio='none' style='image-rendering: pixelated'/>{frames}</svg>"
        f"<figcaption>{html.escape(picture.title)}</figcaption>"
        f"<div class=pictures>{crops}</div></figure>"
    )


def _frame(region: Region, shown: tuple[int, int]) -> str:
    x1, y1, x2, y2 = (value * shown[n % 2] for n, value in enumerate(region.box))
    colour = COLOURS[region.state]
    fill = "#80808099" if region.state == "hidden" else "none"
    width = 2 if region.state else 0.5
    label = ""
    if region.text:
        label = (
            f"<text x='{x1 + 2:.0f}' y='{max(y1 - 2, 9):.0f}' fill='{colour}'>"
            f"{html.escape(region.text)}</text>"
        )
    return (
        f"<rect x='{x1:.1f}' y='{y1:.1f}' width='{x2 - x1:.1f}' "
        f"height='{y2 - y1:.1f}' stroke='{colour}' stroke-width='{width}' "
        f"fill='{fill}'><title>{html.escape(region.text)}</title></rect>{label}"
    )


def _uri(pixels: np.ndarray) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
