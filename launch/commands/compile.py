"""Compiles a config's train step for a slice, from shapes only, on any machine.

    palimpsest compile --config=experiments/bert.py:base --topology=v5e:4x4

Topologies: cpu:N, gpu (this machine's), and TPU slices such as v4:2x2x1, v5e:16x16,
v5p:4x4x8, v6e:16x16, tpu7x:2x2x1, which need the package libtpu (extra `aot`) but no
TPU. Prints one JSON object: memory, FLOPs, bytes moved, collectives, and the bound that
these put on the step's speed (nothing is measured). The exit code is 3 if the step does
not fit. --search lists the meshes, remat policies and batches that fit, best first.
"""

import argparse
import json

from launch.cli import Parser, main
from launch.config import load_config
from launch.measure.tpu_topology import set_environment, topology_devices

DOES_NOT_FIT = 3
"""Exit code if a step needs more memory than the devices of the slice have."""


def run(args: argparse.Namespace) -> int:
    set_environment(args.topology)
    config = load_config(args.config, args.overrides)
    devices = topology_devices(args.topology)
    # These import JAX, which reads the environment set above.
    from launch.measure.aot_compile import compile_facts
    from launch.measure.mesh_search import search

    if args.search:
        tried = search(config, args.topology, devices)
        fitting = [facts for facts in tried if facts["fits"]]
        print(json.dumps({"best": fitting, "tried": len(tried)}, indent=2))
        return 0 if fitting else DOES_NOT_FIT
    facts = compile_facts(config, args.topology, devices)
    del facts["tree"]  # long; only tests.proofs.compile_regression reads it
    print(json.dumps(facts, indent=2))
    return 0 if facts["fits"] else DOES_NOT_FIT


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_path("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--topology", required=True, help="cpu:N, gpu or v5e:4x4, ...")
    parser.add_argument(
        "--search", action="store_true", help="search mesh, remat and batch that fit"
    )
    return parser


if __name__ == "__main__":
    main(run, parser())
