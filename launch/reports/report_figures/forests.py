"""Forest plots of a report: differences from the baseline, and a paper's claims."""

import dataclasses
from collections.abc import Iterator

from launch.reports import forest, report_figures
from launch.reports.cells import Grid
from launch.reports.report_figures import Drawn
from launch.reports.tables import Rows, Table


@dataclasses.dataclass(frozen=True)
class Figures(report_figures.Figures):
    """One figure for differences and one for claims, if the table has them."""

    def drawn(self, table: Table, grid: Grid, rows: Rows) -> Iterator[Drawn]:
        for name, caption, groups in (
            ("differences", "Differences from the baseline.", forest.difference_groups),
            ("claims", "The paper's comparisons.", forest.claim_groups),
        ):
            if found := groups(table, grid):
                words = f"{caption} {forest.legend(found)}"
                yield Drawn(f"{name}.svg", words, forest.draw_forest(found))
