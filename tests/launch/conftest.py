"""Fixtures of the sweep tests: a sweep file, and a backend that runs nothing."""

import pytest

from tests.testing import fake_backend

SWEEP = """
def sweep(scale):
    first = ("experiments/mlm.py", {"train.steps": 3})
    for seed in range(2):
        yield "experiments/lm.py", {"train.init_from": first, "seed": seed}
    yield "experiments/lm.py", {"train.steps": 7}
"""


@pytest.fixture
def sweep_file(tmp_path):
    """A parent, its two children, and a trial without a parent."""
    path = tmp_path / "sweep.py"
    path.write_text(SWEEP)
    return str(path)


@pytest.fixture
def backend(monkeypatch):
    """`--on=fake`: the folders of what it starts, and the exit codes it gives."""
    return fake_backend.install(monkeypatch)
