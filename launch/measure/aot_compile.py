"""Compiles a config's train step ahead of time and reports what it costs.

Nothing is allocated: the step is compiled from shapes alone, for devices that need not
be present.
"""

import re
import time
from collections.abc import Sequence
from typing import Any

import jax

from launch.measure import accelerators, hlo_text, roofline
from launch.measure.hbm_traffic import hbm_bytes
from launch.measure.hlo_collectives import count_collectives
from launch.measure.placeholder_vocab import placeholder_vocab
from research.distributed import sharding
from research.program import flops
from research.program.setup import build_program, count_parameters

HBM_EXCEEDED = re.compile(
    r"Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?) hbm", re.IGNORECASE
)
"""XLA's message for a step that needs more memory than a device has."""
BYTE_PREFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def compile_facts(config: Any, topology: str, devices: Sequence[Any]) -> dict:
    """Memory, FLOPs, traffic and collectives of a config's train step, as in JSON.

    Args:
      topology: name of the slice, see `tpu_topology.topology_devices`.
      devices: the slice's devices, which may be descriptions.

    Returns:
      the object that `palimpsest compile` prints, and `tree`: parameter name -> shape.
      For a step that does not fit, `fits` is False, and collectives and byte counts are
      missing, except the peak if XLA names it. `bound` is `roofline.bound`, None for a
      device without a data sheet.

    Raises:
      UserError: the config has a value with which no run is possible.
    """
    program = build_program(config, devices, vocab=placeholder_vocab(config))
    chip = accelerators.find_chip(devices[0].device_kind)
    with sharding.context(program.mesh):
        lowered = program.step.lower(*program.step_shapes)
        began = time.monotonic()
        compiled, peak = _try_compile(lowered)
    seconds = time.monotonic() - began
    needed_by_kind, computed = flops.step_flops_by_kind(program)
    needed = flops.product_flops(needed_by_kind)
    facts = {
        "topology": topology,
        "device": devices[0].device_kind,
        "num_devices": len(devices),
        "mesh": dict(program.mesh.shape),
        "objective": config.objective.name,
        "parameters": count_parameters(program.abstract_state.params),
        "batch": config.train.batch,
        "length": config.data.length,
        "remat": config.values["model"].get("remat", "none"),
        "fits": compiled is not None and (not chip or peak <= chip.hbm),
        "peak_bytes_per_device": peak,
        "hbm_bytes_per_device": chip.hbm if chip else None,
        "flops_per_step": needed,
        "flops_per_token": needed / (config.train.batch * config.data.length),
        "recomputed_flops_per_step": flops.product_flops(computed) - needed,
        "computed_flops_by_kind": dict(computed),
        "compile_seconds": seconds,
        "tree": _parameter_shapes(program.abstract_state.params),
    }
    if compiled is None:
        return facts
    facts |= _compiled_facts(compiled)
    facts["replicated_dims"] = program.replicated_dims
    return facts | {"bound": roofline.bound(facts, chip) if chip else None}


def _compiled_facts(compiled: Any) -> dict:
    """Facts about the compiled step, for one device."""
    memory = compiled.memory_analysis()
    module = hlo_text.parse(compiled.as_text())
    return {
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "hbm_traffic_bytes": hbm_bytes(module),
        "collectives": {
            name: collective._asdict()
            for name, collective in count_collectives(module).items()
        },
    }


def _try_compile(lowered: Any) -> tuple[Any, int | None]:
    """The compiled step and its peak bytes, each None if unknown.

    Raises:
      Exception: an error of the compiler that is not about memory.
    """
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        return None, _required_bytes(error)
    return compiled, flops.peak_bytes(compiled)


def _parameter_shapes(params: Any) -> dict[str, str]:
    """Name -> shape of every parameter, such as "token/embedding" -> "4x2"."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {
        "/".join(str(key.key) for key in path): "x".join(map(str, leaf.shape))
        for path, leaf in leaves
    }


def _required_bytes(error: Exception) -> int | None:
    """Bytes that a step needs on each device, if XLA's error states them.

    Raises:
      Exception: the error itself, if it is not about memory.
    """
    if "RESOURCE_EXHAUSTED" not in str(error):
        raise error
    match = HBM_EXCEEDED.search(str(error))
    return int(float(match[1]) * BYTE_PREFIXES[match[2].upper()]) if match else None
