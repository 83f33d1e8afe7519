"""`launch.table` prints or writes a table."""

from pathlib import Path

import pytest

from launch import table
from launch.cli import main
from tests.testing import fake_bucket, fake_sweep

FILE = str(Path(fake_sweep.__file__).resolve())


def _command(capsys, *flags):
    with pytest.raises(SystemExit) as caught:
        main(table.run, table.parser(), list(flags))
    return caught.value.code, capsys.readouterr()


def test_the_command_prints_or_writes(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    flags = [f"--table={FILE}", f"--workdir={tmp_path}", "--format=csv"]
    code, printed = _command(capsys, *flags)
    assert code == 0
    assert _command(capsys, *flags, f"--output={tmp_path}/t.csv")[0] == 0
    assert (tmp_path / "t.csv").read_text() == printed.out


def test_a_sweep_in_a_bucket_has_a_table(tmp_path, monkeypatch, capsys):
    fake_bucket.install(monkeypatch, tmp_path)
    fake_sweep.finished("gs://bucket/mine", tmp_path)
    flags = [f"--table={FILE}", "--workdir=gs://bucket/mine"]
    code, printed = _command(capsys, *flags)
    assert code == 0 and "81.3 ± 3.8" in printed.out
    assert _command(capsys, *flags, "--output=gs://bucket/table.md")[0] == 0
    assert (tmp_path / "bucket" / "table.md").read_text() == printed.out


def test_all_rows_are_compared_with_the_row_that_is_asked_for(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    flags = [f"--table={FILE}", f"--workdir={tmp_path}"]
    code, printed = _command(capsys, *flags, "--baseline=mlm")
    assert code == 0 and "difference: from “mlm”" in printed.out
    (own,) = [line for line in printed.out.splitlines() if line.startswith("| lm ")]
    assert "-10.0" in own


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--format=markdwon", "md"),
        ("--workdir=nowhere", "holds no sweep"),
        ("--table=experiments/mlm.py", "TABLE"),
        ("--config.seed=1", "unknown flag"),
        ("--baseline=mln", "did you mean mlm?"),
    ],
)
def test_a_user_error_is_one_line(tmp_path, capsys, flag, message):
    fake_sweep.finished(tmp_path)
    flags = [f"--table={FILE}", f"--workdir={tmp_path}", flag]
    code, printed = _command(capsys, *flags)
    assert code == 2 and message in printed.err and printed.err.count("\n") == 1
