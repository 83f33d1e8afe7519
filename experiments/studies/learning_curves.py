"""From how many tokens on does each objective help? From the numbers of its runs.

    python -m experiments.studies.learning_curves docs/learning_curves.csv \\
        --figure=docs/learning_curves.svg

Prints the table of docs/results.md and draws the figure of README.md from the lines of
`numbers.csv` that a report of `experiments/sweeps/learning_curves.py` wrote.
"""

import argparse
import csv
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.sweeps.objectives import FRESH
from launch.reports.figures import ROW_COLORS, STYLE, pyplot, svg_element
from research.evaluation.comparison import LEVEL, Comparison, compare
from research.evaluation.statistics import Estimate, estimate

NUMBERS, FIGURE = Path("docs/learning_curves.csv"), Path("docs/learning_curves.svg")
TAGS, PAIRS = "POS, frozen", "BLiMP"
NAMES = {
    "lm": "LM",
    "mlm": "masked LM",
    "plm": "permuted LM",
    "dae": "T5's spans",
    "electra": "ELECTRA",
}
"""Objective -> its name in the table, in this order."""
OFFSET = 1.05
"""The factor by which the next objective's points are moved to the right."""

Scores = Mapping[tuple[str, float], Sequence[float]]
"""Objective and millions of tokens -> a score for each seed; "no ..." has 0 tokens."""


def read_scores(path: Path, column: str) -> Scores:
    """The scores of a column of `numbers.csv`, in the order of seeds."""
    found: dict[tuple[str, float], dict[int, float]] = defaultdict(dict)
    with path.open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["column"] == column:
                match = re.fullmatch(r"(\w+), ([\d.]+) M", line["row"])
                key = (match[1], float(match[2])) if match else (line["row"], 0.0)
                found[key][int(line["pretraining_seed"])] = float(line["value"])
    return {key: [row[seed] for seed in sorted(row)] for key, row in found.items()}


def fresh_scores(scores: Scores, name: str) -> Sequence[float]:
    """The scores of the objective's network without pretraining."""
    return scores[FRESH.get(name, FRESH["mlm"]), 0.0]


def differences(tags: Scores) -> dict[tuple[str, float], Comparison]:
    """Each point compared with no pretraining, all points together (Holm)."""
    keys = [key for name in NAMES for key in sorted(tags) if key[0] == name]
    return compare({key: (tags[key], fresh_scores(tags, key[0])) for key in keys})


def table(tags: Scores, pairs: Scores) -> str:
    """A row for each objective and number of tokens, in Markdown; bold if decided."""
    lines = ["| | tokens, M | tags, % | minus no pretraining | BLiMP, % |"]
    lines.append("|---|--:|--:|--:|--:|")
    for key, found in differences(tags).items():
        gap = shown(found.difference, "+")
        gap = f"**{gap}**" if found.adjusted_p <= LEVEL else gap
        cells = NAMES[key[0]], f"{key[1]:g}", shown(estimate(tags[key])), gap
        of_pairs = shown(estimate(pairs[key])) if key in pairs else ""
        lines.append(f"| {' | '.join(cells)} | {of_pairs} |")
    return "\n".join(lines)


def shown(found: Estimate, sign: str = "") -> str:
    """Mean ± a 95 % interval over seeds."""
    return f"{found.mean:{sign}.1f} ± {found.margin:.1f}"


def draw(tags: Scores) -> str:
    """An SVG element: differences from no pretraining over tokens; filled if decided.

    Points of the same number of tokens lie beside each other.
    """
    points = differences(tags)
    with pyplot.rc_context(STYLE):
        figure, panel = pyplot.subplots(figsize=(6.4, 3.6))
        for number, (name, label) in enumerate(NAMES.items()):
            own = {key[1]: found for key, found in points.items() if key[0] == name}
            moved = [tokens * OFFSET ** (number - len(NAMES) // 2) for tokens in own]
            gaps = [found.difference for found in own.values()]
            means, margins = [gap.mean for gap in gaps], [gap.margin for gap in gaps]
            color = ROW_COLORS[number]
            keys = {"fmt": "o-", "ms": 4, "lw": 1.2, "capsize": 2, "color": color}
            panel.errorbar(moved, means, yerr=margins, label=label, zorder=2, **keys)
            for x, found in zip(moved, own.values(), strict=True):
                if found.adjusted_p > LEVEL:
                    hollow = {"ms": 4, "mfc": "white", "mec": color, "zorder": 3}
                    panel.plot(x, found.difference.mean, "o", **hollow)
        panel.axhline(0, color=STYLE["text.color"], lw=0.8)
        panel.set_xscale("log")
        places = sorted({tokens for _, tokens in tags if tokens})
        panel.set_xticks(places, [f"{place:g}" for place in places])
        panel.set_xticks([], minor=True)
        panel.set_xlabel("tokens of pretraining, millions")
        panel.set_ylabel("tagging accuracy over no pretraining, points")
        panel.grid(axis="y")
        panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        return svg_element(figure)


def page_table(numbers: Path) -> str:
    """The table of docs/results.md."""
    return table(read_scores(numbers, TAGS), read_scores(numbers, PAIRS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", type=Path, help="lines of a report's numbers.csv")
    parser.add_argument("--figure", type=Path, help="an SVG file to write")
    args = parser.parse_args()
    if args.figure:
        args.figure.write_text(draw(read_scores(args.numbers, TAGS)), encoding="utf-8")
    print(page_table(args.numbers))


if __name__ == "__main__":
    main()
