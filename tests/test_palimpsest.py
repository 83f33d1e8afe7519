"""The command `palimpsest` and the module of that name."""

import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import palimpsest
from research.contract.errors import UserError
from research.use.inference.open_run import open_run
from tests.testing.tiny_runs import tiny_settings, write_corpus

ROOT = Path(palimpsest.__file__).parent


def run(monkeypatch, *arguments):
    """The exit code of `palimpsest ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["palimpsest", *arguments])
    try:
        palimpsest.main()
    except SystemExit as end:
        return end.code or 0
    return 0


def test_a_command_is_every_module_that_has_a_parser(monkeypatch, capsys):
    files = (ROOT / "launch").glob("*.py")
    runnable = {file.stem for file in files if "cli.main(" in file.read_text()}
    assert runnable <= palimpsest.commands().keys()
    assert run(monkeypatch) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in palimpsest.commands())


def test_a_command_has_the_flags_of_its_module(monkeypatch, capsys):
    assert run(monkeypatch, "table", "--help") == 0
    assert "--table" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["tabel"], ["completion"], ["table", "--tabel"]])
def test_a_mistake_is_one_line(arguments, monkeypatch, capsys):
    assert run(monkeypatch, *arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("is_other", [True, False])
def test_a_clone_that_does_not_run_is_named(is_other, monkeypatch, capsys, tmp_path):
    """Else an objective that was added to it is unknown, and nobody says why."""
    if is_other:
        (tmp_path / "palimpsest.py").touch()
    else:  # a copy with the same code
        shutil.copy(ROOT / "palimpsest.py", tmp_path)
        for name in ("research", "launch", "experiments"):
            (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "version") == 0
    line = f"palimpsest runs the installed copy in {ROOT}, not the clone in this folder"
    assert (line in capsys.readouterr().err) == is_other


def test_a_reader_that_ends_early_is_no_error():
    command = f"{sys.executable} -m palimpsest experiments | head -n 1"
    given = {"shell": True, "cwd": ROOT, "capture_output": True, "text": True}
    result = subprocess.run(f"set -o pipefail; {command}", executable="bash", **given)
    assert result.returncode == 0 and not result.stderr
    assert len(result.stdout.splitlines()) == 1


def test_compare_stops_where_the_sweep_fails(monkeypatch, capsys):
    assert run(monkeypatch, "compare", "--scale=none") == 2
    assert "scale" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--workdir=x"], ["--workdir", "x"]])
def test_compare_reports_on_the_folder_of_its_sweep(flags, monkeypatch):
    ran = {}
    monkeypatch.setattr(palimpsest, "_run", ran.__setitem__)
    assert run(monkeypatch, "compare", *flags) == 0
    assert ran["sweep"][-len(flags) :] == flags
    assert ran["report"][-1] == "--workdir=x"


def test_bash_completes_a_command():
    script = palimpsest.COMPLETION.format(commands=" ".join(palimpsest.commands()))
    lines = "COMP_WORDS=(palimpsest tra); COMP_CWORD=1; _palimpsest; echo $COMPREPLY"
    done = subprocess.run(
        ["bash", "-c", script + lines], capture_output=True, text=True, check=True
    )
    assert done.stdout == "train\n"


def test_the_module_opens_runs():
    assert palimpsest.open_run is open_run
    assert palimpsest.__version__ == palimpsest.version()
    assert {"train", "curves", "show", "Run", "open_run"} <= {*dir(palimpsest)}
    with pytest.raises(AttributeError, match="opn_run"):
        _ = palimpsest.opn_run


def test_each_command_is_listed_under_one_topic():
    listed = [name for names in palimpsest.GROUPS.values() for name in names]
    assert sorted(listed) == sorted(palimpsest.commands())


def test_a_run_is_trained_read_and_drawn_from_python(tmp_path):
    folder, workdir = write_corpus(tmp_path), tmp_path / "run"
    with pytest.raises(UserError, match="is not a run"):
        palimpsest.Run(str(workdir))
    with pytest.raises(UserError, match=r"train\.steps") as error:
        palimpsest.train("experiments/mlm.py", workdir, {"train.step": 1})
    assert len(traceback.extract_tb(error.value.__traceback__)) == 2
    assert error.value.__suppress_context__
    keys = tiny_settings(folder)
    run = palimpsest.train("experiments/mlm.py", workdir, keys, **{"train.steps": 6})
    assert run.config["train"]["steps"] == 6
    last = run.metrics()[-1]
    assert last["step"] == 6
    assert run.result["metrics"]["valid/loss"] == last["valid/loss"]
    panel = palimpsest.curves([run], over="steps").axes[0]
    assert panel.get_title(loc="left") == "valid/loss"
    assert run.open().encode(["the river"]).shape == (1, 32)
    with pytest.raises(UserError, match="unknown over 'days'"):
        palimpsest.curves([run], over="days")
    with pytest.raises(UserError, match="unknown panels 'rows'"):
        palimpsest.curves([run], panels="rows")
