"""Gradient parity: what the table shows, and when it fails."""

import numpy as np
import pytest

from research import objectives
from research.contract.errors import UserError
from tests.proofs import gradient_parity
from tests.proofs.parallelism_cases import REFERENCE


def save(folder, case, entry, losses):
    arrays = {"a": np.float64([1.0, -4.0]), "b": np.float64([entry])}
    np.savez(folder / f"lm.{case}.npz", losses=np.array(losses), **arrays)


@pytest.mark.parametrize(
    ("entry", "losses", "cell", "code"),
    [
        (2.0, [3.0, 2.0], "0e+00, 0e+00", 0),
        (2.0 + 3.2e-5, [3.0, 2.0], "8e-06, 0e+00", 0),
        (2.0 + 8e-5, [3.0, 2.0], "2e-05, 0e+00", 1),
        (2.0, [3.0, 2.00004], "0e+00, 2e-05", 1),
        (float("nan"), [3.0, 2.0], "nan, 0e+00", 1),
    ],
)
def test_a_cell_is_relative_to_the_largest_entry(
    tmp_path, capsys, entry, losses, cell, code
):
    save(tmp_path, REFERENCE, 2.0, [3.0, 2.0])
    save(tmp_path, "data 8", entry, losses)
    assert gradient_parity.print_table(tmp_path, ["lm"], ["data 8"]) == code
    assert capsys.readouterr().out.splitlines()[1].split(" | ")[1].strip() == cell


def test_an_unsupported_case_is_shown_as_refused(tmp_path, capsys):
    (tmp_path / "infoword.accumulate 2.txt").write_text("cannot be split")
    assert gradient_parity.print_table(tmp_path, ["infoword"], ["accumulate 2"]) == 0
    assert "refused" in capsys.readouterr().out


def test_every_objective_is_measured():
    found = gradient_parity.experiments([])
    assert set(found) == {*objectives.names(), gradient_parity.RECURRENT}
    assert found["electra"] == "experiments/electra.py:tiny"
    assert gradient_parity.experiments(["gpt"]) == {"gpt": "experiments/gpt.py:tiny"}
    with pytest.raises(UserError, match="did you mean mlm"):
        gradient_parity.experiments(["mllm"])


@pytest.mark.long
def test_the_command_measures_the_real_step(tmp_path, capsys):
    """In a process of its own."""
    flags = ["--objectives=lm", "--cases=accumulate 2", "--steps=6"]
    flags += [f"--workdir={tmp_path}"]
    assert gradient_parity.run(gradient_parity.parser().parse_args(flags)) == 0
    measured = np.load(tmp_path / "lm.accumulate 2.npz")
    assert measured["losses"].shape == (6,) and len(measured.files) > 10
    names = [name for name in measured.files if name != "losses"]
    assert all(np.abs(measured[name]).max() > 0 for name in names)
    assert capsys.readouterr().out.splitlines()[1].startswith("lm")
