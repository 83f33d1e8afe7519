"""The devices of a slice, which need not be present, and the TPU compiler for them."""

import importlib.metadata
import os
import re
from collections.abc import Sequence
from typing import Any

from packaging.requirements import Requirement

from launch.measure.tpu_slice import EXAMPLES, parse_tpu_slice
from research.contract.errors import UserError

CPU = re.compile(r"cpu:[1-9]\d{0,3}")
"""Name of a topology of fake devices, at most 9,999."""


def set_environment(name: str) -> None:
    """Sets the environment for a topology. To be called before JAX is imported."""
    os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TPU_STDERR_LOG_LEVEL": "3"}
    os.environ |= {"TPU_WORKER_HOSTNAMES": "localhost"}
    os.environ |= {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}  # no process uses a TPU
    if name != "gpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    if CPU.fullmatch(name):
        flags = f"--xla_force_host_platform_device_count={name[4:]}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"


def topology_devices(name: str) -> Sequence[Any]:
    """The devices of a topology; those of a TPU slice are descriptions.

    Raises:
      UserError: there is no such topology, or the libtpu it needs is not installed.
    """
    import jax
    from jax.experimental import topologies

    if CPU.fullmatch(name):
        return jax.devices("cpu")[: int(name[4:])]
    if name == "gpu":
        try:
            return jax.devices("gpu")
        except RuntimeError as error:
            raise UserError("--topology=gpu: this machine has no GPU") from error
    tpu_slice = parse_tpu_slice(name)
    if not tpu_slice:
        raise UserError(
            f"--topology={name}: it must be cpu:N, gpu, or a TPU slice such as "
            f"{EXAMPLES}"
        )
    _check_libtpu(name)
    try:
        # On v4 the two cores of a chip are one device.
        options = (
            {"chip_config_name": "megacore"} if tpu_slice.generation == "v4" else {}
        )
        topology = topologies.get_topology_desc(name, platform="tpu", **options)
    except (jax.errors.JaxRuntimeError, ValueError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--topology={name}: no such slice ({reason})") from error
    return topology.devices


def required_libtpu() -> Requirement:
    """The libtpu (XLA's TPU compiler) that the installed JAX requires.

    JAX cannot always read what another version has compiled.
    """
    requirements = map(Requirement, importlib.metadata.requires("jax"))
    (libtpu,) = (each for each in requirements if each.name == "libtpu")
    libtpu.marker = None
    return libtpu


def _check_libtpu(name: str) -> None:
    required = required_libtpu()
    hint = "make pod installs it in .venv/aot, which is to be on PYTHONPATH"
    try:
        version = importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError as error:
        raise UserError(f"--topology={name} needs {required}; {hint}") from error
    if version not in required.specifier:
        raise UserError(
            f"--topology={name} needs {required}, which this JAX requires; version "
            f"{version} is installed; {hint}"
        )
