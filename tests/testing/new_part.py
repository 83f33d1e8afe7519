"""A part in a file outside the project, which the laws find and hold."""

import subprocess
import sys
from pathlib import Path

RUN = """
import importlib, sys, pytest
importlib.import_module(sys.argv[1]).__path__.append(sys.argv[2])
sys.exit(pytest.main(sys.argv[3:]))
"""
FLAGS = ("-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "-q")


def check_laws(package: str, folder: Path, count: int, *chosen: str) -> None:
    """Asserts that so many tests pass where the package has the parts of a folder.

    Args:
      chosen: arguments of pytest.
    """
    command = [sys.executable, "-c", RUN, package, folder, *FLAGS, *chosen]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-3000:]
    assert f"{count} passed" in found.stdout
