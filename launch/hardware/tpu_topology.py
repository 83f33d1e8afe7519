"""The devices of a slice, which need not be here, and the compiler that knows them."""

import importlib.metadata
import os
import re
from collections.abc import Sequence
from typing import Any

from packaging.requirements import Requirement

from launch.hardware.tpu_slice import EXAMPLES, parse_tpu_slice
from research.errors import UserError


def before_jax(name: str) -> None:
    """Environment that JAX reads when it starts."""
    os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TPU_STDERR_LOG_LEVEL": "3"}
    os.environ |= {"TPU_WORKER_HOSTNAMES": "localhost"}
    os.environ |= {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}  # none of them drives a TPU
    if name != "gpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    if name.startswith("cpu:") and name[4:].isdecimal():
        flags = f"--xla_force_host_platform_device_count={name[4:]}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"


def topology(name: str) -> Sequence[Any]:
    """The devices of a slice; those of a TPU are descriptions.

    Raises:
      UserError: no such topology, or what it needs is not installed.
    """
    import jax
    from jax.experimental import topologies

    if re.fullmatch(r"cpu:[1-9]\d*", name):
        return jax.devices("cpu")[: int(name[4:])]
    if name == "gpu":
        try:
            return jax.devices("gpu")
        except RuntimeError as error:
            raise UserError("--topology=gpu: there is no GPU here") from error
    tpu_slice = parse_tpu_slice(name)
    if not tpu_slice:
        raise UserError(
            f"--topology={name}: it is cpu:N, gpu, or a TPU slice such as {EXAMPLES}"
        )
    _check_libtpu(name)
    try:
        whole = {"chip_config_name": "megacore"} if tpu_slice.generation == "v4" else {}
        found = topologies.get_topology_desc(name, platform="tpu", **whole)
    except (jax.errors.JaxRuntimeError, ValueError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--topology={name}: no such slice ({reason})") from error
    return found.devices


def libtpu() -> Requirement:
    """XLA's TPU compiler, of the version that the installed JAX asks for.

    JAX cannot always read what another one has compiled.
    """
    needs = map(Requirement, importlib.metadata.requires("jax"))
    (found,) = (need for need in needs if need.name == "libtpu")
    found.marker = None
    return found


def _check_libtpu(name: str) -> None:
    wanted, how = libtpu(), "pip install 'palimpsest[aot]' brings it"
    try:
        version = importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError as error:
        raise UserError(f"--topology={name} needs {wanted}; {how}") from error
    if version not in wanted.specifier:
        raise UserError(
            f"--topology={name} needs {wanted}, as this JAX asks for it; here is "
            f"{version}; {how}"
        )
