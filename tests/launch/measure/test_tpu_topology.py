"""Topologies by name: wrong names and a wrong libtpu are refused in one line."""

import importlib.metadata

import pytest

from launch.measure import tpu_topology
from research.contract.errors import UserError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v5e", "v5e:4x4"),
        ("cpu:0", "cpu:N"),
        ("cpu", "cpu:N"),
        ("gpu", "has no GPU"),
        ("v9:2x2", "TPU slice such as"),
    ],
)
def test_a_wrong_topology_is_refused(name, message):
    with pytest.raises(UserError, match=message):
        tpu_topology.topology_devices(name)


@pytest.mark.parametrize("version", ["0.0.99", None])
def test_another_libtpu_than_jax_requires_is_refused(version, monkeypatch):
    def installed_version(name):
        if not version:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", installed_version)
    message = rf"needs libtpu==.*{version or 'install'}"
    with pytest.raises(UserError, match=message):
        tpu_topology.topology_devices("v5e:2x2")
