"""Writes a smaller network as a run, which can be opened, evaluated and tuned."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from etils import epath

from research.checkpoints.checkpoint import FOLDER, Checkpoints
from research.config.identity import write_run_config
from research.contract.state import State
from research.interop import int8_weights
from research.program.setup import Program, label_facts
from research.record.provenance import gather_provenance, write_provenance
from research.record.workdir import config_digest


def stored_params(program: Program, params: Any) -> Any:
    """The parameters as they are saved: integers if the network is quantized."""
    options = program.network.options
    if options.quantization == "none":
        return params
    kind, scales = options.quantization, options.quantization_scale
    clip = options.quantization_clip
    return int8_weights.stored(params, kind, scales, clip)


def write_run(
    folder: Path, program: Program, config: Mapping[str, Any], params: Any, step: int
) -> tuple[dict[str, Any], int]:
    """Writes all of a run except its result to a new folder.

    Args:
      config: the content of config.json.
      params: in the form to be saved.
      step: the checkpoint's.

    Returns:
      its provenance, and the bytes of its parameters on disk.
    """
    origins = program.constants.origins
    origin = gather_provenance(program.data.fingerprint, origins)
    write_provenance(epath.Path(folder), config, origin)
    write_run_config(epath.Path(folder), config)
    if program.data.vocabulary:
        program.data.vocabulary.save(folder)
    program.objective.save_to(epath.Path(folder))
    facts = {
        "config": config_digest(config),
        "data": program.data.fingerprint,
        "constants": origins,
        "vocabulary": program.data.vocabulary_hash,
        **label_facts(program),
        "seconds": 0.0,
        "tokens_scored": 0.0,
    }
    checkpoints = Checkpoints(folder, keep=1)
    state = State(
        step=jnp.int32(step),
        params=jax.tree.map(jnp.asarray, params),
        opt_state=((),),
        carry=(),
        sums={},
    )
    checkpoints.save(step, state, facts)
    checkpoints.close()
    return origin, params_bytes(folder, step)


def params_bytes(workdir: Path, step: int) -> int:
    """The size of the parameters of a checkpoint on disk."""
    folder = Path(workdir) / FOLDER / str(step) / "params"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
