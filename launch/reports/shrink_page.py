"""The page of `shrink`: a table of networks' costs and metrics, and a figure."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from launch.measure.network_cost import BATCHES
from launch.reports import formats
from launch.reports.formats import HTML_TEMPLATE

NONE = "–"
HEADER = [
    "network",
    "recipe",
    "parameters, M",
    "not 0, M",
    "MB on disk",
    "GFLOP a row",
    *(f"ms, {rows} row{'s' * (rows > 1)}" for rows in BATCHES),
]
NOTE = (
    "MB on disk is the size of the file of parameters. FLOPs and times are of one "
    "forward pass of the network, without a teacher: to its predictions, or to its "
    "loss if it predicts no labels. Rows have {length} tokens, and times were taken on "
    "{device}. Times are the fastest of several repeats. Repeats of the last network "
    "alternate with those of the network that it came from; other rows were measured "
    "at other times. ± is a 95 % interval over the examples of the evaluation, for "
    "these parameters; it does not cover other seeds. A network that was measured on "
    "other text has a dash. Zeros of pruned weights are stored and multiplied like "
    "other numbers."
)


def table(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The rows of the table, its header first, from the records of shrink.json."""
    metric = records[-1]["metric"]
    header = [*HEADER, metric or "quality", "difference"] if metric else HEADER
    return [header, *(_cells(record, records[-1]) for record in records)]


def is_comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the values of two networks are of the same metric and text."""
    return all(one.get(key) == other.get(key) for key in ("metric", "text"))


def _cells(record: Mapping[str, Any], last: Mapping[str, Any]) -> list[str]:
    cost, metric = record["cost"], last["metric"]
    cells = [
        record["name"],
        record["recipe"] or NONE,
        f"{cost['parameters'] / 1e6:.3f}",
        f"{cost['nonzero'] / 1e6:.3f}",
        f"{record['bytes'] / 1e6:.2f}",
        f"{cost['flops'] / 1e9:.4g}",
        *(f"{1e3 * cost[f'seconds_{rows}']:.2f}" for rows in BATCHES),
    ]
    if not metric:
        return cells
    if not is_comparable(record, last):
        return [*cells, NONE, NONE]
    pair = (record[key] for key in ("value", "difference"))
    return [*cells, *(_with_margin(*each) for each in pair)]


def _with_margin(value: float | None, margin: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.4g}" + ("" if margin is None else f" ± {margin:.2g}")


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The table as text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True))
        for row in rows
    ]


def page(records: Sequence[Mapping[str, Any]], *, length: int, device: str) -> str:
    """One HTML page without scripts, links or external images."""
    note = NOTE.format(length=length, device=device)
    says = [["network", "recipe", "what it did"]]
    says += [[each["name"], each["recipe"] or NONE, each["says"]] for each in records]
    rows = formats.html_rows(table(records))
    return HTML_TEMPLATE.format(
        title=f"{html.escape(records[-1]['name'])}: made smaller",
        table=f"<div class='wide'>{rows}</div><p>{html.escape(note)}</p>",
        figures=_figure(records),
        details=f"<details open><summary>Networks</summary>"
        f"<div class='wide'>{formats.html_rows(says)}</div></details>",
    )


def _figure(records: Sequence[Mapping[str, Any]]) -> str:
    metric = records[-1]["metric"]
    shown = [each for each in records if metric and is_comparable(each, records[-1])]
    if len(shown) < 2:
        return ""
    from launch.reports.figures import draw_frontier  # matplotlib, for it alone

    panels = {
        "MB on disk": [each["bytes"] / 1e6 for each in shown],
        "ms, 1 row": [1e3 * each["cost"]["seconds_1"] for each in shown],
    }
    values = [each["value"] for each in shown]
    names = [each["name"] for each in shown]
    image = draw_frontier(names, values, panels, metric, records[-1]["better"])
    caption = (
        f"{metric} over size and over time. The line joins the networks that are "
        "better than all cheaper ones."
    )
    return f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"
