"""Reading times (de Varda et al. 2023): what of them a word's surprisal explains."""

# n words

import csv
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from research.contract.errors import UserError
from research.evaluation.babylm import backends, regression
from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.judge import OWN, Judge
from research.evaluation.babylm.result import PREDICTIONS, Result
from research.evaluation.babylm.rules import RULES, Rules
from research.files.output_files import replace_text

EYE_TRACKING = ("RTfirstfix", "RTfirstpass", "RTgopast", "RTrightbound")
SELF_PACED = "self_paced_reading_time"
POTENTIALS = ("ELAN", "LAN", "N400", "P600", "EPNP", "PNP")
VARIABLES = (*EYE_TRACKING, SELF_PACED, *POTENTIALS)
BASE = ("Subtlex_log10", "length", "context_length")
SPILLOVER = (*BASE, "prev_length", "prev_pred")
"""Predictors beside surprisal; the second are also of the word before."""

MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "None", "n/a", "null"]
    + [sign + name for sign in ("", "-") for name in ("NaN", "nan")]
    + [sign + name for sign in ("", "-") for name in ("1.#IND", "1.#QNAN")]
)
"""Cells that pandas.read_csv reads as missing; a context that is one is "None"."""

MAX_FOLDS = 50
"""Groups of sentences of the jackknife."""

Table = dict[str, np.ndarray]


class Task:
    """Its value is the eye-tracking score; `more` has the self-paced one."""

    official: ClassVar[str] = "reading"
    full: ClassVar[str] = "reading"
    fast: ClassVar[str] = "reading"
    rules: ClassVar[tuple[str, ...]] = tuple(RULES)

    def collated(self, rules: Rules) -> dict[str, str]:
        return {self.official: PREDICTIONS}

    def fast_scores(self, result: dict[str, Any]) -> dict[str, float]:
        return {"spr": result["more"]["self-paced"], "rt": result["value"]}

    def results_folder(self, backend: str, dataset: str) -> str:
        return f"zero_shot/{backends.reading_backend(backend)}/reading"

    def evaluate(self, judge: Judge, data: Path, folder: Path, rules: Rules) -> Result:
        """Fits all variables, and writes the pipeline's files."""
        rows = read_rows(data / "reading_data.csv")
        asked = [(row["item"] or "None", row["word"]) for row in rows]
        before = [(row["prev_item"], row["prev_word"]) for row in rows]
        pairs = list(dict.fromkeys(asked + [pair for pair in before if pair[0]]))
        found = dict(zip(pairs, judge.word_surprisals(pairs), strict=True))
        table = _numbers(rows)
        table["pred"] = np.array([found[pair] for pair in asked])
        table["prev_pred"] = np.array([found.get(pair, np.nan) for pair in before])
        _write_files(folder, rows, asked, table)
        sentences = np.array([row["sent_id"] for row in rows])
        result = _result(table, sentences)
        if judge.backend == OWN:
            return result
        spaced = [Candidate(f"{text} {word}", word, text) for text, word in pairs]
        scores = judge.log_probs(spaced)
        found = {p: -s.total for p, s in zip(pairs, scores, strict=True)}
        table["pred"] = np.array([found[pair] for pair in asked])
        table["prev_pred"] = np.array([found.get(pair, np.nan) for pair in before])
        eye, self_paced = gains(table)
        more = {"eye tracking, spaced": eye, "self-paced, spaced": self_paced}
        return result._replace(more={**result.more, **more})


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of reading_data.csv; "" where a cell is missing.

    Raises:
      UserError: there is no such file, or a column is missing.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    columns = {"item", "word", "prev_item", "prev_word", "prev_length", "sent_id"}
    if lacking := (columns | {*BASE, *VARIABLES}) - rows[0].keys():
        raise UserError(f"{path} has no column {', '.join(sorted(lacking))}")
    texts = ("item", "prev_item")
    return [
        {
            name: "" if cell in MISSING and (name in texts or not cell) else cell
            for name, cell in row.items()
        }
        for row in rows
    ]


def _numbers(rows: list[dict[str, str]]) -> Table:
    names = (*BASE, "prev_length", *VARIABLES)
    return {
        name: np.array(
            [np.nan if row[name] in MISSING else float(row[name]) for row in rows]
        )
        for name in names
    }


def gains(table: Table) -> tuple[float, float]:
    """The mean gain of the eye-tracking variables, and that of self-paced reading."""
    eye = [_gain(table, name, BASE) for name in EYE_TRACKING]
    return float(np.mean(eye)), _gain(table, SELF_PACED, SPILLOVER)


def _gain(table: Table, variable: str, names: tuple[str, ...]) -> float:
    base, model = (
        regression.r_squared(*_design(table, variable, names, more))
        for more in ((), ("pred",))
    )
    return regression.gain(base, model)


def _design(
    table: Table, variable: str, names: tuple[str, ...], more: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    here = regression.complete(table, (variable, *names, *more))
    columns = [table[name][here] for name in names]
    design = regression.make_design(columns, [table[name][here] for name in more])
    return design, table[variable][here]


def _result(table: Table, sentences: np.ndarray) -> Result:
    """The two scores, with intervals of a jackknife over sentences."""
    from research.evaluation.jackknife import pseudo_values
    from research.evaluation.statistics import estimate

    names = np.unique(sentences)

    def scores(kept: np.ndarray) -> np.ndarray:
        here = np.isin(sentences, names[kept])
        return np.array(gains({name: x[here] for name, x in table.items()}))

    eye, self_paced = gains(table)
    ends = {}
    if len(names) > 2:
        folds = min(len(names), MAX_FOLDS)
        draws = pseudo_values(scores, len(names), num_groups=folds)
        ends = [estimate(row).margin for row in draws]
    low, high = (eye - ends[0], eye + ends[0]) if len(ends) else (np.nan, np.nan)
    more = {"self-paced": self_paced}
    if len(ends):
        more |= {
            "self-paced low": self_paced - ends[1],
            "self-paced high": self_paced + ends[1],
        }
    return Result(eye, float(low), float(high), len(sentences), more=more)


def _write_files(folder: Path, rows: Any, asked: Any, table: Table) -> None:
    pred, before = (table[name].tolist() for name in ("pred", "prev_pred"))
    predictions = [
        {"id": number, "pred": p, "prev_pred": b}
        for number, (p, b) in enumerate(zip(pred, before, strict=True))
    ]
    content = {"reading": {"predictions": predictions}}
    replace_text(folder / PREDICTIONS, json.dumps(content))
    lines = [
        {
            "Index": number,
            "Sentence": context,
            "Word": word,
            "Logprob": pred[number],
            "Prev_Logprob": before[number],
        }
        for number, (context, word) in enumerate(asked)
    ]
    _write_lines(folder / "prediction.jsonl", lines)
    correlations = []
    for name in VARIABLES:
        here = ~np.isnan(table[name])
        r = np.corrcoef(table["pred"][here], table[name][here])[0, 1]
        correlations.append(f"{name}\t{r:.4f}\n")
    replace_text(folder / "correlations.txt", "".join(correlations))
    powers = {"predictive_power": BASE, "predictive_power_spillover": SPILLOVER}
    for name, predictors in powers.items():
        power = [_power(table, variable, predictors) for variable in VARIABLES]
        _write_lines(folder / f"{name}.jsonl", power)
    eye, self_paced = gains(table)
    report = f"EYE TRACKING SCORE: {100 * eye:.2f}\n"
    report += f"SELF-PACED READING SCORE: {100 * self_paced:.2f}\n"
    replace_text(folder / "report.txt", report)


def _power(table: Table, variable: str, names: tuple[str, ...]) -> dict[str, Any]:
    """What surprisal adds to the other predictors of a variable."""
    base, model = (
        regression.fit(*_design(table, variable, names, more))
        for more in ((), ("pred",))
    )
    return {
        "Predicted variable": variable,
        "Coefficient": model.coefficient,
        "Number of standard deviations": model.t,
        "P-value": model.p_value,
        "R2": model.r_squared,
        "Change in R2 from baseline": model.r_squared - base.r_squared,
        "AIC": model.aic,
        "Change in AIC from baseline": model.aic - base.aic,
    }


def _write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    replace_text(path, "".join(json.dumps(line) + "\n" for line in lines))
