"""Shows how two runs differ: `palimpsest diff RUN RUN [--to=FILE]`.

A RUN is a run's folder. Prints the config keys that differ (a key that one run lacks
has its default), the provenance (commit, packages, device, data), the first step whose
metrics differ and by how much, and the latest metrics. --to writes a figure of the
losses, .svg or .png.

The exit code is 1 if something differs other than what may (the mesh, the start time,
how often a run saves), and else 0.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launch import cli
from launch.reports.bars import curve_bars
from launch.reports.run_differences import (
    MAY_DIFFER,
    Difference,
    Differences,
    MetricDifference,
    Run,
    compare_runs,
    read_run,
    shared_losses,
)
from research.contract.errors import unknown
from research.files.output_files import write_output

FIGURES = ("svg", "png")
MOST_CHARACTERS = 40


def run(args: argparse.Namespace) -> int:
    runs = [read_run(path) for path in args.runs]
    form = args.to.rpartition(".")[2]
    if args.to and form not in FIGURES:
        raise unknown("ending of --to", form, FIGURES)
    found = compare_runs(*runs)
    print("\n".join(page(runs, found)))
    if args.to:
        from launch.reports.figures import draw_runs  # imports matplotlib

        write_output(args.to, draw_runs(runs, shared_losses(runs), form), "--to")
        print(f"\n{args.to}")
    return cli.FAILED if found.matter else cli.DONE


def page(runs: Sequence[Run], found: Differences) -> Iterator[str]:
    """The lines that list the differences of two runs."""
    for number, each in enumerate(runs, 1):
        yield f"{number}: {each.name}"
    reasons = MAY_DIFFER | _hidden_changes(found)
    for title, keys in (("config", found.config), ("provenance", found.provenance)):
        yield f"\n{title}:" if keys else f"\n{title}: equal"
        yield from _aligned(_key_words(each, reasons) for each in keys)
    if found.first_step is not None:
        yield (
            f"\nmetrics: step {found.first_step} is the first that differs of the "
            f"{found.num_shared} that both logged"
        )
        yield from _aligned(map(_metric_words, found.first))
    elif found.num_shared:
        yield f"\nmetrics: equal in the {found.num_shared} steps that both logged"
    else:
        yield "\nmetrics: there is no step that both logged"
    one, two = found.last_steps
    if one != two:
        yield f"  the last step is {one} of 1, and {two} of 2"
    for number, names in enumerate(found.alone, 1):
        if names:
            yield f"  {number} alone has {', '.join(names)}"
    if found.last:
        yield "\nlatest metrics:"
        yield from _aligned(map(_metric_words, found.last))
    for name in shared_losses(runs):
        yield f"\n{name}:"
        yield from _curve_lines([each.curve(name) for each in runs])


def _hidden_changes(found: Differences) -> dict[str, str]:
    """Provenance key -> a change that no other key shows."""
    differ = {each.key for each in (*found.config, *found.provenance)}
    reasons = {}
    if "commit" not in differ:
        reasons["code"] = "of one commit: changes that are in none"
    if not any(key.startswith(("data.", "objective.")) for key in differ):
        reasons["data"] = "the files behind equal keys have changed"
    return reasons


def _key_words(difference: Difference, reasons: Mapping[str, str]) -> list[str]:
    why = reasons.get(difference.key)
    words = map(_text, difference.values)
    return [difference.key, *words, f"({why})" if why else ""]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) and value else repr(value)
    is_long = len(text) > MOST_CHARACTERS
    return f"{text[: MOST_CHARACTERS - 1]}…" if is_long else text


def _metric_words(metric: MetricDifference) -> list[str]:
    one, two = metric.values
    relative = f"({100 * metric.gap / one:+.2g} %)" if one else ""
    return [metric.name, f"{one:.8g}", f"{two:.8g}", f"{metric.gap:+.3g}", relative]


def _aligned(rows: Any) -> Iterator[str]:
    """Formats rows of words as lines with aligned columns."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        words = (word.ljust(width) for word, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(words)}".rstrip()


def _curve_lines(curves: Sequence[dict[int, float]]) -> Iterator[str]:
    """Bars for each run, and the largest gap."""
    for number, bars in enumerate(curve_bars(curves), 1):
        yield f"  {number} {bars}"
    one, two = curves
    gaps = {step: two[step] - one[step] for step in one if step in two}
    if any(gaps.values()):
        step = max(gaps, key=lambda step: abs(gaps[step]))
        yield f"  the largest difference is {gaps[step]:+.3g}, at step {step}"


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("runs", nargs=2, metavar="RUN", help="folder of a run")
    parser.add_path("--to", default="", help="figure to write: .svg or .png")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
