"""Files of tables: what TOML says is checked, and a wrong name ends in one line."""

import re
from pathlib import Path

import pytest

from launch.reports import report_figures
from launch.reports.table_files import DEFAULTS, FIELDS, load_table
from research.contract.errors import UserError

OWN = """
title = "Mine"
note = "All is equal."
columns = ["BLiMP", "BoolQ", "RTE", "mean of tasks"]
bars = ["RTE"]
claims = ["babylm2023"]
[metrics]
"My task" = "mean_absolute_error"
"""


def _write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_table_has_the_columns_that_its_file_names(tmp_path):
    table = load_table(_write(tmp_path, OWN))
    names = [column.name for column in table.columns]
    task = "My task (mean_absolute_error)"
    assert names[-5:] == ["BLiMP", "BoolQ", "RTE", "mean of tasks", task]
    assert table.columns[-2].mean_of == ("BoolQ", "RTE")
    assert {claim.column for claim in table.claims} == {"BLiMP"}
    assert (table.note, table.bars, table.papers) == ("All is equal.", ("RTE",), {})


def test_a_metric_that_a_probe_is_has_one_column(tmp_path):
    """Twice, it would be two of the hypotheses that Holm's correction counts."""
    text = OWN + '"CoNLL-2000" = "f1"\n"POS, frozen" = "word_accuracy"\nPIQA = "f1"\n'
    columns = load_table(_write(tmp_path, text)).columns
    groups = [column.group for column in columns if column.group]
    assert {groups.count(name) for name in ("CoNLL-2000", "POS, frozen", "PIQA")} == {1}


def test_the_table_of_the_guide_is_one(tmp_path):
    """docs/howto/compare.md: its table.py draws curves of what its sweep.py yields."""
    page = Path("docs/howto/compare.md").read_text()
    sweep, text = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "table.py").write_text(text)
    table = load_table(str(tmp_path / "table.py"))
    exec(sweep, found := {})
    groups = {cell[1] for _, _, cell in found["sweep"]("smoke")}
    assert {column.group for column in table.columns} < groups
    assert [curve.group for curve in table.curves] == ["pretraining"]
    assert "pretraining" in groups


@pytest.mark.parametrize("name", ["GLUE", "SuperGLUE"])
def test_a_mean_of_other_tasks_or_metrics_than_a_papers_says_so(name):
    """And has the sign of the paper's differences alone."""
    columns = load_table("experiments/tables/t5_2.toml").columns
    (column,) = (column for column in columns if column.name == name)
    assert column.header.startswith(f"{name} (here: ")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "Mine"\n', "", "is not a table: title is missing"),
        ('"Mine"', "3", "'title' is not text"),
        ('"Mine"', '"Mine', "is not a table: "),
        ("bars = ", "bar = ", "unknown key of .* 'bar'; did you mean bars"),
        ('"BoolQ"', '"BoolQs"', "unknown column 'BoolQs'; did you mean BoolQ"),
        ('["RTE"]', '["RTF"]', "unknown column of bars 'RTF'"),
        ('["RTE"]', "[3]", "is not a table: "),
        ('"babylm2023"', '"babylm"', "unknown paper 'babylm'"),
        ("mean_abs", "mean_abc", "unknown metric 'mean_abcolute_error'"),
        ('bars = ["RTE"]', 'paper = "bert55"', "unknown paper 'bert55'"),
        ('"BoolQ"', '"BoolQ", "BoolQ"', "columns has 'BoolQ' several times"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line_that_names_it(tmp_path, old, new, words):
    assert old in OWN
    path = _write(tmp_path, OWN.replace(old, new, 1))
    with pytest.raises(UserError, match=f"{re.escape(path)}.*{words}|{words}.*"):
        load_table(path)


def test_a_name_with_another_ending_is_a_near_one():
    with pytest.raises(UserError, match=r"did you mean \S*tables/bert5.toml"):
        load_table("experiments/tables/bert5.py")


def test_every_key_has_a_type_and_is_described():
    import launch.reports.table_files as module

    assert FIELDS.keys() == {"title", "note", *DEFAULTS}
    for name in FIELDS.keys() - report_figures.FOLDER.names():
        assert re.search(rf"^\[?{name}\b", module.__doc__, re.MULTILINE), name
