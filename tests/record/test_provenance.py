"""Provenance has what is known, and processes that share no folder are told so."""

import os

import pytest

from research.contract.errors import UserError
from research.distributed import processes
from research.record import provenance


def test_what_is_not_known_is_none(monkeypatch):
    """Code that is no checkout, or without git; a package that is not there."""
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy", "no_such_package"))
    found = provenance.gather_provenance("abc", {})
    assert found["commit"] is None and found["data"] == "abc"
    assert found["packages"]["numpy"] and found["packages"]["no_such_package"] is None


def test_a_cpu_is_named_by_its_processor(tmp_path):
    """Where the system names none, by its architecture."""
    name = provenance.device_name()
    assert name != "cpu" and provenance.gather_provenance("", {})["device"] == name
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nmodel name\t: AMD EPYC 9B45\n\nprocessor\t: 1\n"
    )
    assert provenance._processor_name(cpuinfo) == "AMD EPYC 9B45"
    cpuinfo.write_text("processor\t: 0\nCPU part\t: 0xd40\n")
    for without in (cpuinfo, tmp_path / "none"):
        assert provenance._processor_name(without).startswith("cpu (")


def test_a_workdir_that_is_not_that_of_process_0_is_refused(tmp_path, monkeypatch):
    """Process 0 has written another file than the one that is seen here."""
    monkeypatch.setattr(provenance, "SHARED_FILE_TIMEOUT_S", 0.0)
    monkeypatch.setattr(processes, "broadcast_from_process_0", lambda number: -1)
    with pytest.raises(
        UserError, match=r"--workdir=.* of process 0 is not the folder of pro"
    ):
        provenance.write_provenance(tmp_path, {}, provenance.gather_provenance("", {}))
