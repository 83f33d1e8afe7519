"""Makes a task's table, with 95 % intervals, from the scores of its texts.

Scores within TIE of the best one are equal: with n of them, each counts 1/n. Equal
scores thus give exactly 50 % on pairs and 1/n on n choices.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from research.contract.scores import BOUND, ENERGY, LIKELIHOOD, PSEUDO_LIKELIHOOD
from research.evaluation.statistics import estimate, wilson_interval

if TYPE_CHECKING:  # it imports JAX
    from research.evaluation.sentence_scores import Score

TIE = 1e-5
"""Relative difference below which two scores are equal: float32 rounding of the sum of
a hundred tokens, which differs between batches of another size."""

MIN_TEXTS = 5
"""Fewest texts of a label for an interval of the area under a curve."""

PREFIXES = {LIKELIHOOD: "", PSEUDO_LIKELIHOOD: "pseudo-", BOUND: "bound on "}
"""Meaning of scores -> prefix of the names of their perplexities and bits."""

MONTE_CARLO = "Monte Carlo margin, bits a byte"
"""The column of the half width of the 95 % interval of a bound's bits per byte, only
over its draws, which are independent between texts."""

ALL = "all"
"""The row of all items."""


class Item(NamedTuple):
    """An item: one or more texts to score, each between its context and the suffix."""

    id: str
    group: str  # "": the items have no groups
    texts: tuple[str, ...]
    contexts: tuple[str, ...]  # one for each text; may be empty
    gold: int  # the right text; the label of acceptability; -1: none
    suffix: str = ""  # what follows each text


class Cell(NamedTuple):
    """A number with its 95 % interval, which is nan if there is none."""

    value: float
    low: float = float("nan")
    high: float = float("nan")

    def to_json(self) -> dict[str, float | None]:
        """Its numbers by name; nan, which JSON does not have, becomes null."""
        return {k: None if np.isnan(v) else v for k, v in self._asdict().items()}


Table = dict[str, dict[str, Cell]]
"""Row -> column -> cell."""

NORMALISED: dict[str, Callable[["Score"], float]] = {
    "sum": lambda score: score.log_prob,
    "per token": lambda score: score.per_token,
    "per byte": lambda score: score.per_byte,
    "length alone": lambda score: -float(score.num_tokens),
}
"""Quantities to compare texts by. Summed log-probabilities prefer fewer tokens; the
last one shows what length alone achieves."""


EQUAL_LENGTHS = "accuracy, equal lengths"
"""The column of items whose texts have equally many tokens, so length is no cue."""


def has_equal_lengths(scores: Sequence["Score"]) -> bool:
    """Whether the texts of an item have equally many tokens."""
    return len({score.num_tokens for score in scores}) == 1


def credit(values: Sequence[float], gold: int) -> float:
    """1 if the gold value is the largest, 1/n if it is one of n equal ones, else 0."""
    best = max(values)
    tied = [abs(best - v) <= TIE * max(abs(best), abs(v)) for v in values]
    return tied[gold] / sum(tied)


def choice_table(
    items: Sequence[Item], scores: Sequence[Sequence["Score"]], meaning: str
) -> Table:
    """Accuracies of each group, and of all items: is the best text the right one?"""
    groups: dict[str, list[int]] = {}
    for number, item in enumerate(items):
        groups.setdefault(item.group or ALL, []).append(number)
    groups[ALL] = list(range(len(items)))
    table = {}
    for group, numbers in groups.items():
        table[group] = {"items": Cell(len(numbers))}
        for name, normalise in NORMALISED.items():
            right = [
                credit(list(map(normalise, scores[n])), items[n].gold) for n in numbers
            ]
            table[group][f"accuracy, {name}"] = _accuracy(right)
        chance = np.mean([1 / len(items[n].texts) for n in numbers])
        alike = [n for n in numbers if has_equal_lengths(scores[n])]
        right = [
            credit([each.log_prob for each in scores[n]], items[n].gold) for n in alike
        ]
        table[group] |= {
            "chance": Cell(float(chance)),
            "lengths differ": Cell(1 - len(alike) / len(numbers)),
            EQUAL_LENGTHS: _accuracy(right) if alike else Cell(float("nan")),
        }
    return table


def last_word_table(
    items: Sequence[Item], scores: Sequence[Sequence["Score"]], meaning: str
) -> Table:
    """Whether all tokens of the word are the most likely ones, and its perplexity.

    A pseudo-likelihood knows how many tokens the word has; a detector only judges
    whether the given word is the original. A bound is right if all its draws are.
    """
    right = [float(bool(score.all_best)) for score, *_ in scores]
    names = {
        LIKELIHOOD: ("accuracy", "perplexity"),
        PSEUDO_LIKELIHOOD: ("fill-in accuracy", "pseudo-perplexity"),
        BOUND: ("accuracy in all draws", "bound on perplexity"),
        ENERGY: ("held for the original", ""),
    }
    accuracy, perplexity = names[meaning]
    columns = {"items": Cell(len(scores)), accuracy: _accuracy(right)}
    log_prob = _mean([score.log_prob for score, *_ in scores])
    if not perplexity:
        return {ALL: columns | {"score a word": log_prob}}
    return {ALL: columns | {perplexity: _exp_of_minus(log_prob)}}


def text_table(
    items: Sequence[Item], scores: Sequence[Sequence["Score"]], meaning: str
) -> Table:
    """Means per token, word and byte over all texts, and how scores separate labels."""
    return {ALL: _texts(items, [first for first, *_ in scores], meaning)}


def _texts(
    items: Sequence[Item], scores: Sequence["Score"], meaning: str
) -> dict[str, Cell]:
    words = [len(item.texts[0].split()) for item in items]
    log_prob = [score.log_prob for score in scores]
    tokens = [score.num_tokens for score in scores]
    columns = {"texts": Cell(len(items)), "tokens": Cell(sum(tokens))}
    if meaning == ENERGY:
        columns["score a token"] = _ratio(log_prob, tokens)
    else:
        prefix = PREFIXES[meaning]
        for unit, counts in (("token", tokens), ("word", words)):
            of_unit = _exp_of_minus(_ratio(log_prob, counts))
            columns[f"{prefix}perplexity a {unit}"] = of_unit
        size = [score.num_bytes for score in scores]
        bits = _ratio(log_prob, size)
        columns[f"{prefix}bits a byte"] = Cell(
            *(-x / np.log(2) for x in (bits.value, bits.high, bits.low))
        )
        if meaning == BOUND:
            error = np.linalg.norm([score.std_error for score in scores])
            margin = 1.96 * error / sum(size) / np.log(2)
            columns[MONTE_CARLO] = Cell(float(margin))
    known = [number for number, item in enumerate(items) if item.gold >= 0]
    if not known:
        return columns
    gold = np.array([items[n].gold for n in known])
    for name, normalise in NORMALISED.items():
        values = np.array([normalise(scores[n]) for n in known])
        columns[f"AUC, {name}"] = _area(gold, values)
    return columns


class Judge(NamedTuple):
    """How the scores of the texts of a task's items are judged."""

    table: Callable[[Sequence[Item], Sequence[Sequence["Score"]], str], Table]  # of
    # items, the scores of the texts of each, and what a score is: one of
    # `research.contract.scores`
    reads_best: bool = False  # it reads `Score.all_best`
    both_labels: bool = False  # items that have labels need both, 0 and 1


CHOICES = Judge(choice_table)
LAST_WORDS = Judge(last_word_table, reads_best=True)
TEXTS = Judge(text_table, both_labels=True)


def _accuracy(right: Sequence[float]) -> Cell:
    mean = float(np.mean(right))
    return Cell(mean, *wilson_interval(mean, len(right)))


def _mean(values: Sequence[float]) -> Cell:
    """The mean with the t interval over items."""
    return _cell(float(np.mean(values)), np.asarray(values))


def _ratio(values: Sequence[float], counts: Sequence[int]) -> Cell:
    """sum(values) / sum(counts), with the linearised variance of a ratio over texts."""
    values, counts = np.asarray(values, float), np.asarray(counts, float)
    ratio = float(values.sum() / counts.sum())
    residual = (values - ratio * counts) / counts.mean()
    return _cell(ratio, residual)


def _cell(value: float, draws: np.ndarray) -> Cell:
    """The value, with the margin of the mean of the draws."""
    margin = estimate(draws).margin
    return Cell(value, value - margin, value + margin)


def _exp_of_minus(cell: Cell) -> Cell:
    value, low, high = cell
    return Cell(*(float(np.exp(-x)) for x in (value, high, low)))


def _area(gold: np.ndarray, values: np.ndarray) -> Cell:
    """The area under the ROC curve, ties half, with its interval over texts.

    It is the mean placement of the texts of a label: the fraction of the other label's
    texts that a text is above. Its variance is that of the mean placements of both
    labels (DeLong et al. 1988), its interval Student's t with Satterthwaite's degrees
    of freedom (Brunner and Munzel 2000), on the logit scale, so that it lies between 0
    and 1 (Pepe 2003).

    There is no interval for fewer than MIN_TEXTS texts of a label, whose variance is
    too uncertain; nor if placements do not vary, as when scores separate the labels.
    """
    from scipy import special, stats  # imported when needed: it takes a second

    tied, positive = _tied(values), gold == 1
    ranks = stats.rankdata(tied)
    placements = [
        (ranks[own] - stats.rankdata(tied[own])) / np.sum(~own)
        for own in (positive, ~positive)
    ]
    value, sizes = float(placements[0].mean()), np.array([*map(len, placements)])
    if sizes.min() < MIN_TEXTS:
        return Cell(value)
    parts = np.array([own.var(ddof=1) for own in placements]) / sizes
    variance = parts.sum()
    if not variance:
        return Cell(value)
    t = stats.t.ppf(0.975, variance**2 / np.sum(parts**2 / (sizes - 1)))
    margin = t * np.sqrt(variance) / (value * (1 - value))
    ends = special.expit(special.logit(value) + margin * np.array([-1, 1]))
    return Cell(value, *ends.tolist())


def _tied(values: np.ndarray) -> np.ndarray:
    """[n]: the values, each within TIE of a group's lowest replaced by that.

    A group begins with the lowest value not yet in a group. If all neighbours within
    TIE were equal, many texts, whose scores are dense, would be one group.
    """

    def lowest(first: float, value: float) -> float:
        return first if value - first <= TIE * max(abs(first), abs(value)) else value

    order = np.argsort(values, kind="stable")
    tied = np.empty(len(values))
    tied[order] = [*accumulate(values[order].tolist(), lowest)]
    return tied


def table_lines(table: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    """The lines of a table in Markdown; fractions are shown in per cent."""
    columns = list(next(iter(table.values())))
    lines = [["", *columns], ["---", *["---:"] * len(columns)]]
    for row, cells in table.items():
        lines.append([row, *(_text(name, cells[name]) for name in columns)])
    return ["| " + " | ".join(line) + " |" for line in lines]


COUNTS = ("items", "texts", "tokens", "candidates")
FRACTIONS = ("R@", "accuracy", "fill-in", "held", "AUC", "chance", "lengths differ")


def _text(name: str, cell: Cell) -> str:
    if name in COUNTS:
        return f"{cell.value:,.0f}"
    if np.isnan(cell.value):
        return "–"
    if name.startswith(FRACTIONS):
        (value, low, high), unit = (f"{100 * x:.1f}" for x in cell), " %"
    else:
        (value, low, high), unit = (f"{x:.4g}" for x in cell), ""
    return f"{value}{unit}" + ("" if np.isnan(cell.low) else f" [{low}, {high}]")
