"""The generated pages: failed tests are reported, and tables have all their rows."""

import pytest

from docs import objectives, slices

REPORT = """<testsuite>
<testcase classname="tests.laws.test_contract" name="test_a[mlm]"/>
<testcase classname="tests.laws.test_laws" name="test_b[mlm]">{}</testcase>
</testsuite>"""


@pytest.mark.parametrize(
    ("outcome", "code", "status"),
    [("", 0, "proven"), ("<failure/>", 1, "1 fail"), ("<skipped/>", 0, "open")],
)
def test_a_failed_test_is_reported(
    outcome, code, status, tmp_path, monkeypatch, capsys
):
    report = tmp_path / "proof.xml"
    report.write_text(REPORT.format(outcome))
    monkeypatch.setattr("sys.argv", ["objectives", f"--proof={report}"])
    monkeypatch.setattr(objectives, "objective_and_sizes", lambda path: ("", ""))
    with pytest.raises(SystemExit) as end:
        objectives.main()
    assert int(end.value.code) == code
    lines = capsys.readouterr().out.splitlines()
    assert [
        line for line in lines if f"| {status} |" in line and "| `mlm` | MLM" in line
    ]


def test_the_table_of_slices_has_a_row_for_each_case():
    _, _, rest = slices.PAGE.read_text().partition(slices.HEADER)
    rows = rest.partition("\n\n")[0].splitlines()
    labels = [[cell.strip() for cell in row.split("|")[1:3]] for row in rows]
    assert labels == [[label, topology] for label, topology, _ in slices.cases()]
