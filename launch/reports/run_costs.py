"""The costs of a run's steps: tokens, FLOPs or time."""

from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from research.contract.errors import UserError
from research.files.existence import exists
from research.record.metric_writer import read_speed
from research.record.workdir import read_result

UNITS = {"tokens": "M tokens", "flops": "PFLOP", "time": "minutes"}
"""Type of cost -> label of a figure's horizontal axis."""
FLOP_UNITS = {UNITS["flops"]: 1.0, "TFLOP": 1e3, "GFLOP": 1e6}
"""Unit -> number of units in a PFLOP, the largest unit first."""


def axis_unit(unit: str, most: float) -> tuple[str, float]:
    """The unit of an axis that ends at `most`, and the number of it in one `unit`.

    It is `unit`; for PFLOP the largest of FLOP_UNITS in which `most` is at least 1.
    """
    if unit not in FLOP_UNITS:
        return unit, 1.0
    fitting = (item for item in FLOP_UNITS.items() if most * item[1] >= 1)
    return next(fitting, ("GFLOP", FLOP_UNITS["GFLOP"]))


def cost_of_steps(
    workdir: epath.Path, lines: Sequence[Mapping[str, Any]], over: str
) -> tuple[list[float], list[float]]:
    """Steps, and the cost of the run up to each step, in the unit of `over`.

    Interpolate linearly between these steps. Within a phase that is exact, except for
    FLOPs with length buckets, whose steps differ.

    Args:
      lines: the lines of its metrics.jsonl.
      over: a key of UNITS.

    Raises:
      UserError: FLOPs are asked of a run that has not ended.
    """
    result = read_result(workdir) if exists(workdir / "result.json") else {}
    if over == "flops":
        if not result:
            raise UserError(
                f"{workdir} has no result.json, which has its FLOPs: the run has not "
                "ended"
            )
        steps, flops = zip([0, 0], *result["flops_to"], strict=True)
        return [*steps], [each / 1e15 for each in flops]
    if over == "time":
        known = [{"step": 0, "seconds": 0}, *read_speed(workdir)]
        return _column(known, "step", 1), _column(known, "seconds", 1 / 60)
    known = [{"step": 0, "tokens_seen": 0}]
    known += [line for line in lines if "tokens_seen" in line]
    if result:
        known.append(result | {"step": result["steps"]})
    return _column(known, "step", 1), _column(known, "tokens_seen", 1e-6)


def _column(lines: Sequence[Mapping[str, Any]], name: str, factor: float) -> list:
    return [factor * line[name] for line in lines]
