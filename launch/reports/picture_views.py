"""Pictures of a row of a batch: regions, hidden ones, and a run's predictions."""

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
"""State of a region -> the colour of its frame; shown: predicted but not hidden."""


class Region(NamedTuple):
    """A region of a picture."""

    box: tuple[float, float, float, float]  # x1, y1, x2, y2 as fractions
    state: str = ""  # one of COLOURS
    text: str = ""  # its class, and a run's prediction


class Picture(NamedTuple):
    """A picture of a row, as stored or as the network reads it."""

    title: str
    pixels: np.ndarray  # [H, W, 3] uint8
    regions: Sequence[Region] = ()
    crops: Sequence[tuple[np.ndarray, str]] = ()  # pixels read of regions, and names


class Panel(NamedTuple):
    """The pictures of a row, and lines about a run's predictions."""

    pictures: Sequence[Picture]
    notes: Sequence[str] = ()
    nearest: Sequence[Any] = ()  # `picture_guesses.Guess` of captions for the first


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
      number: of the picture of the row's text.
      guesses: `picture_guesses.Guesses` of the row.
      nearest: captions nearest to the picture.
    """
    from research.data.store.pictures import file_names

    store, notes, replaced = objective.store, [], False
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
    marked = _regions(batch, row, objective, number, guesses)
    joint = "match_pixels" not in batch and replaced
    frames = [
        each if joint else marked.get(n, each)
        for n, each in _plain(objective, number).items()
    ]
    title = f"picture {number} of the caption"
    if names := file_names(objective.images):
        title += f": {names[number]}"
    own = Picture(title, store.pixels[number], frames)
    pictures = [own]
    for prefix, marks in (("", marked), ("match_", {})):
        if f"{prefix}pixels" in batch:
            title = "matching reads" if prefix else "the network reads"
            title += ", of another picture" * (joint or bool(prefix and replaced))
            pictures += _read(batch, row, prefix, title, own, objective, marks)
    return Panel(pictures, notes, nearest)


def _plain(objective: Any, number: int) -> dict[int, Region]:
    """Number of a region -> the region with its class, for the picture's regions."""
    store, reader = objective.store, objective.reader
    hidden = np.zeros((1, reader.num_regions(store)), bool)
    found = reader.read(store, np.array([number]), hidden)
    boxes, names = found.box[0, 1:, :4].tolist(), [""] * hidden.size
    if reader.of_boxes:
        classes = store.classes[number].tolist()
        names = [store.class_names[n] if n >= 0 else "" for n in classes]
    there = np.flatnonzero(found.here[0, 1:]).tolist()
    return {n: Region(tuple(boxes[n]), "", names[n]) for n in there}


def _read(
    batch: Mapping[str, np.ndarray],
    row: int,
    prefix: str,
    title: str,
    own: Picture,
    objective: Any,
    marks: Mapping[int, Region],
) -> list[Picture]:
    """The picture that a pass reads; none if it is `own`, or values are not pixels."""
    values = batch[f"{prefix}pixels"][row]
    drawing = objective.reader.drawing(values, objective.store)
    if drawing is None or np.array_equal(drawing.whole, own.pixels):
        return []
    if not drawing.crops:
        return [Picture(title, drawing.whole, own.regions)]
    here = batch[f"{prefix}segment"][row, -len(drawing.crops) :] > 0
    texts = [
        f"{marks[n].state}: {marks[n].text}" if n in marks else ""
        for n in range(len(here))
    ]
    crops = zip(drawing.crops, texts, here, strict=True)
    shown = [(crop, text) for crop, text, is_read in crops if is_read]
    return [Picture(title, drawing.whole, (), shown)]


def _regions(
    batch: Mapping[str, np.ndarray],
    row: int,
    objective: Any,
    number: int,
    guesses: Any,
) -> dict[int, Region]:
    """Number of a region -> the region, for the predicted regions."""
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


def panel_lines(panel: Panel) -> list[str]:
    """The pictures as lines for the terminal."""
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
    """The pictures as inline PNGs, with frames around regions."""
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
