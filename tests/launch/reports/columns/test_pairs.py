"""Columns of pictures beside captions: per cent of what an evaluation has."""

from types import SimpleNamespace

import pytest

from launch.reports.columns.pairs import Columns


@pytest.mark.parametrize("n, term", [(0, "match"), (1, "region")])
def test_it_is_the_accuracy_of_its_term_in_per_cent(n, term):
    column = Columns.columns[n]
    other = {"valid/match_accuracy": 0.5, "valid/region_accuracy": 0.25}
    for accuracy in (0.0, 0.74, 1.0):
        metrics = other | {f"valid/{term}_accuracy": accuracy}
        trial = SimpleNamespace(result={"metrics": metrics})
        assert column.value(trial) == pytest.approx(100 * accuracy)
