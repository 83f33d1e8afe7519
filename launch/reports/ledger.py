"""The ledger of published claims, "A beats B on M by D", and the results of our runs.

A file of experiments/claims has one published table: its rows, how well the numbers are
verified, our configs for the rows, and the table's claims. Differences are computed
from the rows. Verdicts come only from results: files with seeds, scores and their
origin that `launch.commands.claims --claim=ID` writes from finished runs.
"""

import base64
import functools
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from launch.sweeps.published import Arm
from research.contract.errors import UserError, unknown
from research.evaluation.comparison import LEVEL, Comparison, compare
from research.evaluation.power import Components, detectable_difference
from research.files.json_files import (
    NUMBER,
    check_object,
    digest,
    read_json,
    write_json,
)
from research.metrics import HIGHER, LOWER

MARKS = ("V2", "V1", "V1*", "R-high", "R-mod")
"""Marks of how well a paper's numbers are verified: in two sources, in one, in a
secondary source; recalled, with high or moderate confidence."""

DIRECTIONS = {HIGHER: 1.0, LOWER: -1.0}
"""Better values of a metric, higher or lower -> sign of an improvement."""

SCORE_DTYPES = (np.uint8, np.float32, np.float64)
"""Types of stored scores; the first that holds them exactly is used."""


class Plan(NamedTuple):
    """The runs planned for a claim, and their power, stated in advance."""

    metric: str  # our metric, which may replace the paper's
    seeds: int  # number of pretraining seeds
    items: int  # number of items of the test set; 1: they count as fixed
    seed_sd: float  # guessed standard deviation of a seed's difference
    item_sd: float = 0.0  # the same for an item's difference, and for the interaction

    @functools.cache  # noqa: B019 - plans are few, and equal ones are one
    def detectable(self, level: float = LEVEL) -> float:
        """The difference detected in 80 % of cases at a significance level."""
        parts = Components(self.seed_sd**2, self.item_sd**2, self.item_sd**2)
        sizes = {"num_seeds": self.seeds, "num_items": self.items}
        return detectable_difference(parts, **sizes, level=level)


class Claim(NamedTuple):
    """One comparison of a published table."""

    id: str  # name of its file, and its name in the file
    source: str
    mark: str
    metric: str
    better: str  # name of a row of the table
    worse: str
    difference: float  # better - worse, as published
    arms: tuple[Arm | None, Arm | None]  # our configs of the two rows; None: none yet
    plans: Mapping[str, Plan]  # scale -> plan
    table: str  # the table of experiments/tables with its runs: `table` in its file, or
    # else the file's name


class Result(NamedTuple):
    """The scores of a claim's two arms at one scale."""

    seeds: tuple[int, ...]
    better: np.ndarray  # [S] or [S, I]
    worse: np.ndarray
    higher_is_better: bool  # in the plan's metric
    provenance: dict[str, Any]

    @property
    def two_populations(self) -> str:
        """The rows with two populations of seeds; "": none.

        Only some of their seeds learnt little more than token frequencies. An interval
        over both populations means nothing.
        """
        counts = self.provenance.get("at_frequencies", {})
        return ", ".join(f"{count} seeds of {row}" for row, count in counts.items())


def load_claims(folder: Path) -> dict[str, Claim]:
    """Id -> claim, for all files of a folder.

    Raises:
      UserError: a file is wrong; the error names it and the claim.
    """
    claims = {}
    for file in sorted(folder.glob("[!.]*.toml")):
        try:
            content = tomllib.loads(file.read_text("utf-8"))
            for name, entry in content["claims"].items():
                claim = _claim(f"{file.stem}.{name}", content, entry)
                claims[claim.id] = claim
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, UserError):
                raise UserError(f"{file}: {error}") from error
            reason = f"lacks {error}" if isinstance(error, KeyError) else error
            raise UserError(f"{file} is not a table of claims: {reason}") from error
    return claims


def _claim(name: str, content: Mapping[str, Any], entry: Mapping[str, Any]) -> Claim:
    metrics, rows = content["metrics"], content["rows"]
    if content["mark"] not in MARKS:
        raise unknown("mark", content["mark"], MARKS)
    if entry["metric"] not in metrics:
        raise unknown(f"metric of {name}", entry["metric"], metrics)
    if metrics[entry["metric"]] not in DIRECTIONS:
        raise unknown("direction", metrics[entry["metric"]], DIRECTIONS)
    column = list(metrics).index(entry["metric"])
    numbers = []
    for row in (entry["better"], entry["worse"]):
        if row not in rows:
            raise unknown(f"row of {name}", row, rows)
        if len(rows[row]) != len(metrics):
            raise UserError(f"row {row} has {len(rows[row])} of {len(metrics)} numbers")
        numbers.append(rows[row][column])
    difference = round(numbers[0] - numbers[1], 6)
    if difference * DIRECTIONS[metrics[entry["metric"]]] <= 0:
        raise UserError(f"{name}: {entry['better']} is not better in the table")
    arms = content.get("arms", {})
    return Claim(
        id=name,
        source=content["source"],
        mark=content["mark"],
        metric=entry["metric"],
        better=entry["better"],
        worse=entry["worse"],
        difference=difference,
        arms=tuple(
            (arms[row][0], arms[row][1]) if row in arms else None
            for row in (entry["better"], entry["worse"])
        ),
        plans={scale: _plan(plan) for scale, plan in entry.get("plan", {}).items()},
        table=content.get("table", name.partition(".")[0]),
    )


def _plan(content: Mapping[str, Any]) -> Plan:
    """Raises ValueError: a field of the plan is missing, unknown or not legal."""
    fields = {"metric": str, "seeds": int, "items": int, "seed_sd": NUMBER}
    check_object(content, fields)
    if unknown_fields := sorted(content.keys() - {*Plan._fields}):
        raise ValueError(f"{unknown_fields[0]!r} is not a field of a plan")
    plan = Plan(**content)
    if plan.seeds < 2 or plan.items < 1:
        raise ValueError(
            "a plan needs at least 2 seeds, to know their spread, and 1 item; got "
            f"{plan.seeds} and {plan.items}"
        )
    if not plan.seed_sd > 0 or not plan.item_sd >= 0:
        raise ValueError("seed_sd of a plan must be above 0, and item_sd at least 0")
    return plan


def result_path(
    claim: Claim, scale: str, folder: Path, *, repeat: bool = False
) -> Path:
    """The file of a claim's result; `repeat`: of its second run."""
    return folder / "results" / f"{claim.id}.{scale}{'.repeat' * repeat}.json"


def write_result(
    claim: Claim, scale: str, result: Result, folder: Path, *, repeat: bool = False
) -> Path:
    """Writes a result with a digest of its content.

    Args:
      repeat: write it beside the claim's result, as a run of the plan with other seeds.

    Raises:
      UserError: the claim has no plan for the scale: power must be stated in advance.
        Or there is no result to repeat, or the repeat shares a seed with it.
    """
    if scale not in claim.plans:
        raise unknown(f"plan of {claim.id}", scale, claim.plans)
    if repeat and read_result(claim, scale, folder) is None:
        raise UserError(f"{claim.id} has no result at {scale} to repeat")
    other = result_path(claim, scale, folder, repeat=not repeat)
    others = _recorded_seeds(other)
    if shared := sorted(others & {*result.seeds}):
        next_seed = max(others if repeat else result.seeds) + 1
        remedy = "" if repeat else f"delete {other} to record this result; "
        raise UserError(
            f"{claim.id}: the result and its repeat share seed {shared[0]}; {remedy}"
            f"a repeat is run with launch.sweep --first_seed={next_seed}"
        )
    content = {
        "claim": claim.id,
        "scale": scale,
        "plan": claim.plans[scale]._asdict(),
        "higher_is_better": result.higher_is_better,
        "seeds": list(result.seeds),
        "better": _packed(result.better),
        "worse": _packed(result.worse),
        "provenance": result.provenance,
    }
    path = result_path(claim, scale, folder, repeat=repeat)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content | {"digest": digest(content)})
    return path


def read_result(
    claim: Claim, scale: str, folder: Path, *, repeat: bool = False
) -> Result | None:
    """The result of a claim at a scale, or its repeat; None: not run.

    Raises:
      UserError: it was edited, it is of another claim, or the plan was changed since.
    """
    path = result_path(claim, scale, folder, repeat=repeat)
    if not path.exists():
        return None
    remedy = f"run palimpsest claims --claim={claim.id} again"
    content = read_json(path, remedy)
    if content.pop("digest", None) != digest(content):
        raise UserError(f"{path} was changed after it was recorded; {remedy}")
    if (content["claim"], content["scale"]) != (claim.id, scale):
        name = f"{content['claim']}, {content['scale']}"
        raise UserError(f"{path} is the result of {name}")
    if scale not in claim.plans or Plan(**content["plan"]) != claim.plans[scale]:
        raise UserError(
            f"{path}: the plan of {claim.id} was changed after the runs; bring back "
            f"{content['plan']}"
        )
    return Result(
        tuple(content["seeds"]),
        _unpacked(content["better"]),
        _unpacked(content["worse"]),
        content["higher_is_better"],
        content["provenance"],
    )


def _recorded_seeds(path: Path) -> set[int]:
    """The seeds of a result, even if its plan was changed since; none: not run."""
    if not path.exists():
        return set()
    return {*read_json(path, "delete it", {"seeds": list})["seeds"]}


def _packed(scores: np.ndarray) -> dict[str, Any]:
    """Scores as JSON: compressed, in the smallest type that holds them exactly."""
    for dtype in SCORE_DTYPES:
        with np.errstate(invalid="ignore", over="ignore"):
            small = scores.astype(dtype)
        if np.array_equal(small.astype(np.float64), scores):
            break
    data = base64.b64encode(zlib.compress(small.tobytes(), 9)).decode()
    return {"dtype": small.dtype.name, "shape": list(scores.shape), "data": data}


def _unpacked(packed: Mapping[str, Any]) -> np.ndarray:
    data = zlib.decompress(base64.b64decode(packed["data"]))
    flat = np.frombuffer(data, packed["dtype"]).astype(np.float64)
    return flat.reshape(packed["shape"])


def compare_results(
    claims: Iterable[Claim], scale: str, folder: Path, *, repeat: bool = False
) -> dict[str, tuple[Comparison, Result]]:
    """Claim id -> comparison and result, for claims that were run, or repeated.

    Results with two populations are left out. The claims of a table are one family. The
    sign of a comparison is such that a positive difference confirms the claim.
    """
    results, families = {}, {}
    for claim in claims:
        result = read_result(claim, scale, folder, repeat=repeat)
        if result and not result.two_populations:
            sign = 1 if result.higher_is_better else -1
            pair = sign * result.better, sign * result.worse
            results[claim.id] = result
            families.setdefault(claim.table, {})[claim.id] = pair
    compared = [each for own in families.values() for each in compare(own).items()]
    return {name: (found, results[name]) for name, found in compared}


def without_interval(
    claims: Iterable[Claim], scale: str, folder: Path, *, repeat: bool = False
) -> dict[str, str]:
    """Claim id -> `two_populations` of its result, for claims that have them."""
    found = {c.id: read_result(c, scale, folder, repeat=repeat) for c in claims}
    return {n: r.two_populations for n, r in found.items() if r and r.two_populations}


def planned_differences(claims: Iterable[Claim], scale: str) -> dict[str, float]:
    """Claim id -> the difference that its plan at a scale detects in 80 % of cases.

    The level is 5 % divided by the number of hypotheses of its table, the first step
    of Holm's correction.
    """
    planned = [claim for claim in claims if scale in claim.plans]
    # Claims that compare the same rows in the same column are one hypothesis.
    hypotheses = {
        (claim.table, frozenset((claim.better, claim.worse)), claim.plans[scale].metric)
        for claim in planned
    }
    number = Counter(table for table, *_ in hypotheses)
    return {
        claim.id: claim.plans[scale].detectable(LEVEL / number[claim.table])
        for claim in planned
    }
