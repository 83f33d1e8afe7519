"""Fixtures of the tests of generation."""

import pytest

from tests.testing.random_models import mesh_of, random_model


@pytest.fixture(scope="session")
def mesh():
    """One device."""
    return mesh_of()


@pytest.fixture(scope="session")
def make_model():
    return random_model
