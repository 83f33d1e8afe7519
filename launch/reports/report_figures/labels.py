"""Figures of how well each label of a task is predicted."""

# N labels

import dataclasses
import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from launch.reports import figures, report_figures
from launch.reports.cells import Grid
from launch.reports.report_figures import Drawn
from launch.reports.tables import Rows, Table
from launch.sweeps.trial import Trial
from research.evaluation import label_report
from research.files.existence import exists
from research.files.json_files import read_json_lines
from research.metrics import Item
from research.predictions import prediction_kind

MOST_LABELS = 12
"""Labels that are drawn, at most: the most frequent ones."""
MOST_PERCENT = 6
"""Cells of a confusion matrix have numbers up to this many labels."""
WIDTH = 4
"""Panels in a line."""

Scores = Mapping[str, Sequence[label_report.LabelScore]]
"""Row -> the scores of its labels, over the items of all its runs."""
Confusions = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Row -> right label -> predicted label -> number of items, over all its runs."""


@dataclasses.dataclass(frozen=True)
class Figures(report_figures.Figures):
    """Precision and recall of labels, and confusions, for each group of trials."""

    def drawn(self, table: Table, grid: Grid, rows: Rows) -> Iterator[Drawn]:
        return label_figures(rows)


def label_figures(rows: Rows) -> Iterator[Drawn]:
    """The figures of each group that predicts labels.

    They show predictions/SPLIT.jsonl of the runs; a run without it is left out.

    Raises:
      UserError: a file of predictions is damaged.
    """
    for number, group in enumerate(_groups(rows), 1):
        scores, confusions, splits = {}, {}, set()
        for row, groups in rows.items():
            found = list(map(_items, groups.get(group, ())))
            items = [item for _, scored in found for item in scored]
            if not items:
                continue
            splits |= {split for split, scored in found if scored}
            kind = groups[group][0].objective.predicts
            labels = sorted({tag for item in items for tag in _labels(item)})
            scores[row] = label_report.label_scores(items, kind, labels)
            confusions[row] = label_report.confusion(items, kind)
        if not any(scores.values()):
            continue
        names = _most_frequent(scores)
        all_names = {score.label for found in scores.values() for score in found}
        is_cut = len(all_names) > len(names)
        most = f" The {len(names)} most frequent labels." if is_cut else ""
        of = f"{group}, {' and '.join(sorted(splits))} split"
        caption = f"{of}: precision (●) and recall (○) of each label, over all runs."
        draw = partial(_draw_scores, scores, names)
        image = _panels(rows, scores, draw)
        yield Drawn(f"labels-{number}.svg", caption + most, image)
        if any(confusions.values()):
            caption = f"{of}: of a label (row), % predicted as each (column)."
            draw = partial(_draw_confusion, confusions, names)
            image = _panels(rows, confusions, draw)
            yield Drawn(f"confusion-{number}.svg", caption + most, image)


def _groups(rows: Rows) -> list[str]:
    """The groups of trials that predict labels."""
    found = {}
    for groups in rows.values():
        for name, trials in groups.items():
            if trials and name not in found:
                kind = trials[0].objective.predicts
                found[name] = bool(kind) and _has_labels(kind)
    return [name for name, has_labels in found.items() if has_labels]


def _has_labels(kind: str) -> bool:
    part = prediction_kind(kind)
    return part.answers(Item("", [], [], None, ()), ()) is not None


def _items(trial: Trial) -> tuple[str, list[Item]]:
    """The split and scored items of a run: test if it has one; [] if it has none."""
    folder = trial.folder / "predictions"
    files = (folder / f"{split}.jsonl" for split in ("test", "valid"))
    path = next(filter(exists, files), None)
    if path is None:
        return "", []
    lines = read_json_lines(path, {"id": str})
    items = [Item(x["id"], x["prediction"], x["gold"], None, ()) for x in lines]
    return path.stem, [item for item in items if item.gold is not None]


def _labels(item: Item) -> list[str]:
    """All labels of an item, predicted ones and right ones."""
    values = (item.prediction, item.gold)
    return [
        x for value in values for x in ([value] if isinstance(value, str) else value)
    ]


def _most_frequent(scores: Scores) -> list[str]:
    """The labels that are right most often, sorted."""
    counts: Counter[str] = Counter()
    for found in scores.values():
        for score in found:
            counts[score.label] += score.gold
    return sorted(name for name, _ in counts.most_common(MOST_LABELS))


def _panels(rows: Rows, drawn: Mapping[str, Any], draw: Any) -> Any:
    """One panel for each row that has something to draw."""
    names = [row for row in rows if drawn.get(row)]
    width = min(len(names), WIDTH)
    height = math.ceil(len(names) / width)
    with figures.pyplot.rc_context(figures.STYLE):
        size = 2.7 * width + 0.6, 2.5 * height + 0.3
        figure, axes = figures.pyplot.subplots(
            height, width, figsize=size, squeeze=False, sharey=True
        )
        for row, panel in zip(names, axes.flat, strict=False):
            draw(panel, row, figures.row_color(rows, row))
            panel.set_title(textwrap.fill(row, 26), loc="left")
        for panel in list(axes.flat)[len(names) :]:
            panel.set_axis_off()
        return figures.svg_element(figure)


def _draw_scores(
    scores: Scores, names: Sequence[str], panel: Any, row: str, color: str
) -> None:
    """Draws a line between precision and recall of each label."""
    found = {score.label: score for score in scores[row]}
    for y, name in enumerate(names):
        if score := found.get(name):
            values = score.precision, score.recall
            panel.plot(values, (y, y), color=color, lw=1.2, alpha=0.5)
            panel.plot(values[0], y, "o", color=color, ms=5)
            panel.plot(values[1], y, "o", color=color, ms=5, mfc="white")
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xlim(-0.03, 1.03)
    panel.grid(axis="both")


def _draw_confusion(
    confusions: Confusions, names: Sequence[str], panel: Any, row: str, color: str
) -> None:
    """Draws a square for each pair of labels, darker for more items."""
    found = confusions[row]
    count_NN = np.array(
        [[found.get(gold, {}).get(name, 0) for name in names] for gold in names]
    )
    total_N1 = np.array([[sum(found.get(gold, {}).values())] for gold in names])
    percent_NN = 100 * count_NN / np.maximum(total_N1, 1)
    map_ = figures.matplotlib.colors.LinearSegmentedColormap.from_list(
        "row", ["#ffffff", color]
    )
    panel.imshow(percent_NN, cmap=map_, vmin=0, vmax=100, aspect="auto")
    panel.set_xticks(range(len(names)), names, rotation=90 if len(names) > 3 else 0)
    panel.set_yticks(range(len(names)), names)
    panel.tick_params(length=0)
    if len(names) <= MOST_PERCENT:
        for gold, name in np.ndindex(percent_NN.shape):
            value = percent_NN[gold, name]
            ink = "white" if value > 60 else figures.TEXT_COLOR
            panel.text(name, gold, f"{value:.0f}", color=ink, ha="center", va="center")
