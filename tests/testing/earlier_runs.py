"""Runs, a sweep and an export that an earlier version made (tests/goldens/runs)."""

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "goldens" / "runs" / "first_runs.tar.gz"


def extract(folder: Path) -> Path:
    """Writes them to a folder, and returns it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder
