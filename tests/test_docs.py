"""The drawn pages: what fails is told, and what is drawn stands where it belongs."""

import pytest

from docs import objectives, slices

REPORT = """<testsuite>
<testcase classname="tests.laws.test_contract" name="test_a[mlm]"/>
<testcase classname="tests.laws.test_laws" name="test_b[mlm]">{}</testcase>
</testsuite>"""


@pytest.mark.parametrize(
    ("outcome", "code", "word"),
    [("", 0, "proven"), ("<failure/>", 1, "1 fail"), ("<skipped/>", 0, "open")],
)
def test_a_failed_proof_is_told(outcome, code, word, tmp_path, monkeypatch, capsys):
    report = tmp_path / "proof.xml"
    report.write_text(REPORT.format(outcome))
    monkeypatch.setattr("sys.argv", ["objectives", f"--proof={report}"])
    monkeypatch.setattr(objectives, "facts", lambda path: ("", ""))
    with pytest.raises(SystemExit) as end:
        objectives.main()
    assert int(end.value.code) == code
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if f"| {word} |" in line and "| `mlm` | MLM" in line]


def test_the_page_of_pods_has_a_table_to_draw():
    _, _, rest = slices.PAGE.read_text().partition(slices.HEAD)
    rows = rest.partition("\n\n")[0].splitlines()
    drawn = [[cell.strip() for cell in row.split("|")[1:3]] for row in rows]
    assert drawn == [[label, topology] for label, topology, _ in slices.cases()]
