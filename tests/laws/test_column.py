"""The contract of every column of tables, found by listing the folder."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from launch.reports import columns
from launch.reports.table_files import load_table
from launch.reports.tables import Column
from launch.sweeps import benchmarks
from research.contract.errors import UserError
from research.metrics import HIGHER, LOWER

RESULT = {"parameters": 1, "tokens_seen": 1, "flops_per_step": 1.0, "steps": 1}
"""What every result has."""

NAMED, ALWAYS = (columns.by_name(always=always) for always in (False, True))

each_column = pytest.mark.parametrize("name", [*NAMED, *ALWAYS])


@pytest.fixture
def table_of(tmp_path):
    """table_of(names): the table whose file names these columns."""

    def make(names):
        path = tmp_path / "table.toml"
        path.write_text(f'title = "t"\nnote = "n"\ncolumns = {[*names]!r}\n')
        return load_table(str(path))

    return make


@pytest.mark.parametrize("name", columns.FOLDER.names())
def test_each_module_has_columns_without_keys(name):
    cls = columns.FOLDER.part_class(name, "columns")
    assert dataclasses.is_dataclass(cls) and not dataclasses.fields(cls)
    assert cls.columns and all(isinstance(each, Column) for each in cls.columns)


def test_a_name_has_one_column():
    every = [each.name for part in columns.all_columns() for each in part.columns]
    every += [*benchmarks.COLUMNS, *benchmarks.MEANS, *benchmarks.AVERAGES]
    assert len(every) == len({*every})


@each_column
def test_it_is_legal_and_of_pretrainings(name):
    column = columns.named(name)
    assert column.group == columns.PRETRAINING and column.digits >= 0
    assert column.better in (HIGHER, LOWER) and column.least < column.most


@each_column
def test_a_run_without_what_it_reads_has_a_dash(name):
    """Of what all results have it is a number, of anything else None."""
    result = RESULT | {"metrics": {}}
    trial = SimpleNamespace(result=result, parents={}, gives_scores=False)
    column = columns.named(name)
    assert column.ready(trial) and column.scoring(trial) is None
    value = column.value(trial)
    assert np.isfinite(value) if name in ALWAYS else value is None


@pytest.mark.parametrize("name", NAMED)
def test_the_file_of_a_table_names_it(name, table_of):
    """Those that every table has stand before it, and cannot be named again."""
    table = table_of([name])
    shown = [column.name for column in table.columns]
    assert shown == [*ALWAYS, *benchmarks.PROBES, name]
    assert table.columns[-1] is columns.named(name)


def test_an_unknown_name_is_refused_with_the_names_that_there_are(table_of):
    for find in (lambda name: table_of([name]), columns.named):
        with pytest.raises(UserError, match="unknown column 'word pp'; did you mean"):
            find("word pp")
    with pytest.raises(UserError, match="unknown column 'PFLOP'"):
        table_of(["PFLOP"])
    with pytest.raises(UserError, match=r"column 'zzz'; known: BLiMP, .*PFLOP"):
        columns.named("zzz")
