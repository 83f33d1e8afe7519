"""Published tables from the files of experiments/claims: numbers and arms."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "experiments" / "claims"
TABLES = FOLDER.parent / "tables"

Arm = tuple[str, dict[str, Any]]
"""An experiment and its overrides, as a sweep yields them."""


class Published(NamedTuple):
    """One table of a paper."""

    source: str
    mark: str  # how far its numbers are verified
    rows: Mapping[str, Mapping[str, float]]  # row -> column -> number
    arms: Mapping[str, Arm]  # row -> this project's config of it, if there is one
    claims: Mapping[str, Mapping[str, Any]]  # name -> better, worse, metric (a column)

    def differences(self) -> Iterator[tuple[Mapping[str, Any], float]]:
        """The claims, each with better - worse in the paper's unit."""
        for claim in self.claims.values():
            better, worse = (
                self.rows[claim[row]][claim["metric"]] for row in ("better", "worse")
            )
            yield claim, round(better - worse, 6)


def read_published(name: str) -> Published:
    """The table of experiments/claims/NAME.toml, which `palimpsest claims` checks."""
    content = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    columns = list(content["metrics"])
    return Published(
        content["source"],
        content["mark"],
        {
            row: dict(zip(columns, numbers, strict=True))
            for row, numbers in content["rows"].items()
        },
        {row: (arm[0], arm[1]) for row, arm in content.get("arms", {}).items()},
        content["claims"],
    )
