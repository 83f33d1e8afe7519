"""The real train step compiled for a real slice, on any machine, from shapes alone.

python -m launch.compile --config=experiments/bert.py:base --topology=v5e:4x4

Topologies: cpu:N, gpu (the one that is here), and TPU slices such as v4:2x2x1,
v5e:16x16, v5p:4x4x8, v6e:16x16, tpu7x:2x2x1, which need the package libtpu (extra
`aot`) and no TPU. Prints one JSON object; exits with 3 where the step does not fit.
With --search: the meshes, remat policies and batches that fit, best first.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from launch.cli import Parser, main
from launch.config import load, override
from launch.hardware import accelerators
from launch.hardware.tpu_topology import before_jax, topology

DOES_NOT_FIT = 3
"""Exit code of a step that is right but too large for the slice."""

NEEDED = re.compile(r"Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?) hbm", re.IGNORECASE)
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

LINK = 1e11
"""Bytes a second between two devices, roughly; it only ranks meshes."""


def run(args) -> int:
    config = load(args.config, args.overrides)
    before_jax(args.topology)
    devices = topology(args.topology)
    if args.search:
        found = search(config, args.topology, devices)
        fitting = [facts for facts in found if facts["fits"]]
        print(json.dumps({"best": fitting, "tried": len(found)}, indent=2))
        return 0 if fitting else DOES_NOT_FIT
    facts = measure(config, args.topology, devices)
    del facts["tree"]  # tests.proofs.compile_regression's
    print(json.dumps(facts, indent=2))
    return 0 if facts["fits"] else DOES_NOT_FIT


def measure(config: Any, name: str, devices: Sequence[Any]) -> dict:
    """What the step of a config is on a slice, as the command prints it."""
    import jax

    from research.distributed import sharding
    from research.run import flops, hlo_collectives
    from research.run.setup import build_program, count_parameters

    program = build_program(config, devices, vocab=vocab(config))
    chip = accelerators.of(devices[0].device_kind)
    with sharding.context(program.mesh):
        lowered = program.step.lower(program.abstract_state, program.abstract_batch)
        began, compiled, peak = time.monotonic(), None, None
        try:
            compiled = lowered.compile()
            peak = flops.peak_bytes(compiled)
        except jax.errors.JaxRuntimeError as error:
            peak = _needed(error)
    seconds = time.monotonic() - began
    needed, recomputed = flops.step_flops(program)
    facts = {
        "topology": name,
        "device": devices[0].device_kind,
        "num_devices": len(devices),
        "mesh": dict(program.mesh.shape),
        "objective": config.objective.name,
        "parameters": count_parameters(program.abstract_state.params),
        "batch": config.train.batch,
        "length": config.data.length,
        "remat": config.model.remat,
        "fits": compiled is not None and (not chip or peak <= chip.hbm),
        "peak_bytes_per_device": peak,
        "hbm_bytes_per_device": chip.hbm if chip else None,
        "flops_per_step": needed,
        "flops_per_token": needed / (config.train.batch * config.data.length),
        "recomputed_flops_per_step": recomputed,
        "compile_seconds": seconds,
        "tree": _tree(program.abstract_state.params),
    }
    if compiled is None:
        return facts
    memory = compiled.memory_analysis()
    return facts | {
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "collectives": {
            kind: one._asdict()
            for kind, one in hlo_collectives.count_collectives(
                compiled.as_text()
            ).items()
        },
        "stays_whole": program.replicated_dims,
    }


def _tree(params: Any) -> dict[str, str]:
    """Name -> shape of every parameter."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {
        "/".join(str(key.key) for key in path): "x".join(map(str, leaf.shape))
        for path, leaf in leaves
    }


def _needed(error: Exception) -> int | None:
    """Bytes a device that a step would need, where XLA's refusal names them.

    Raises:
      Exception: the error itself, if it is not about memory.
    """
    if "RESOURCE_EXHAUSTED" not in str(error):
        raise error
    found = NEEDED.search(str(error))
    return int(float(found[1]) * UNITS[found[2].upper()]) if found else None


KINDS = ("connective", "entity", "phrase")
"""Of a lexicon's entries, as experiments ask for them."""


def vocab(config: Any) -> Any:
    """VocabInfo of the config's size, without text.

    A classifier gets two labels, a lexicon two entries of each kind that experiments
    ask for, and one piece is another's capital.
    """
    import numpy as np

    from research.batch import Lexicon, VocabInfo
    from research.data.tokenizers import vocabulary

    def lexicon(ordinary):
        kind = np.repeat(np.arange(len(KINDS), dtype=np.int32), 2)
        token = ordinary[: len(kind), None]
        return Lexicon(token, np.ones_like(kind), kind, KINDS)

    data = config.data
    if os.path.exists(data.vocabulary):
        found = vocabulary.load(data.vocabulary, data.sentinels).vocab
        return found._replace(labels=("0", "1"), lexicon=lexicon(found.ordinary_ids))
    size, count = data.vocabulary_size, 5 + data.sentinels
    special = np.arange(size) < count
    special[4] = False  # unk
    ordinary = np.arange(count, size, dtype=np.int32)
    names, lower = tuple(range(5, count)), np.arange(size, dtype=np.int32)
    lower[count] += 1
    rest = ("0", "1"), lexicon(ordinary), lower
    return VocabInfo(size, 0, 1, 2, 3, 4, names, special, ordinary, *rest)


def search(config: Any, name: str, devices: Sequence[Any]) -> list[dict]:
    """The step on every sensible mesh, with the least remat that fits; best first.

    The batch a device is the config's, or as much of it as fits, by halves.
    """
    found = []
    for mesh in meshes(len(devices), config.model.heads):
        ways = mesh["data"] * mesh["fsdp"]
        rows = max(1, config.train.batch // ways)
        while rows:
            facts = _least_remat(config, name, devices, mesh, rows * ways, found)
            rows = 0 if facts["fits"] else rows // 2
    return sorted(found, key=_cost)


def _least_remat(config, name, devices, mesh, batch, found) -> dict:
    """Tries remat policies from none to full; all that were tried go to `found`."""
    for remat in ("none", "dots", "full"):
        trial = load_again(config, mesh, remat, batch)
        facts = measure(trial, name, devices)
        found.append({k: v for k, v in facts.items() if k != "tree"})
        print(_line(facts), file=sys.stderr, flush=True)
        if facts["fits"]:
            break
    return facts


def load_again(config: Any, mesh: dict[str, int], remat: str, batch: int) -> Any:
    """The config with another mesh, remat policy and batch."""
    trial = config.copy_and_resolve_references()
    for axis, size in mesh.items():
        override(trial, f"mesh.{axis}", size)
    override(trial, "model.remat", remat)
    override(trial, "train.batch", batch)
    return trial


def _cost(facts: dict) -> tuple:
    """What fits first, then by seconds a token of work and of talk, by data sheets."""
    tokens = facts["batch"] * facts["length"]
    talk = sum(one["bytes"] for one in facts.get("collectives", {}).values())
    chip = accelerators.of(facts["device"])
    flops = facts["flops_per_step"] + facts["recomputed_flops_per_step"]
    work = flops / tokens / facts["num_devices"]
    seconds = work / (chip.flops if chip else 1e12) + talk / tokens / LINK
    return not facts["fits"], seconds


def _line(facts: dict) -> str:
    mesh = " x ".join(f"{axis} {size}" for axis, size in facts["mesh"].items())
    peak = facts["peak_bytes_per_device"]
    size = f"{peak / 2**30:.2f} GiB a device" if peak else "too large"
    fits = "fits" if facts["fits"] else "does not fit"
    return f"{mesh}, remat {facts['remat']}, batch {facts['batch']}: {size}, {fits}"


def meshes(count: int, heads: int) -> Iterator[dict[str, int]]:
    """Meshes of `count` devices: tensor at most 8 and a divisor of the heads."""
    for tensor in (1, 2, 4, 8):
        if count % tensor or heads % tensor:
            continue
        rest = count // tensor
        for fsdp in sorted({1, 4, 16, rest}):
            if rest % fsdp == 0:
                yield {"data": rest // fsdp, "fsdp": fsdp, "tensor": tensor}


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--topology", required=True, help="cpu:N, gpu or v5e:4x4, ...")
    parser.add_argument(
        "--search", action="store_true", help="look for mesh, remat and batch that fit"
    )
    return parser


if __name__ == "__main__":
    main(run, parser())
