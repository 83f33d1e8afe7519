"""Assembles the kernels for Hopper without a GPU, and prints what each block needs.

    make hopper

XLA compiles for an H100 that is described, not there, and Mosaic GPU writes what ptxas
says of each kernel. Exits with 1 if one spills registers. The folder that it is given
has the wheels jax-cuda12-plugin, jax-cuda12-pjrt and nvidia-cuda-nvcc-cu12.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32
  shared_memory_per_block: 49152 shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448 threads_per_core_limit: 2048
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800
  device_memory_size: 84978434048
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  cuda_compute_capability {
    major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES
  }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def main() -> int:
    plugin = Path(sys.argv[1]).absolute()
    toolkit = plugin / "nvidia" / "cuda_nvcc"
    sys.path.append(str(plugin))
    with tempfile.TemporaryDirectory() as dump:
        os.environ |= {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={toolkit}",
            "MOSAIC_GPU_CUDA_ROOT": str(toolkit),
            "MOSAIC_GPU_DUMP_PTXAS": "1",
            "MOSAIC_GPU_DUMP_TO": dump,
        }
        compile_kernels()
        paths = sorted(
            Path(dump).glob("*.ptxas"), key=lambda path: path.stat().st_mtime
        )
        reports = [path.read_text() for path in paths]
    for report in reports:
        print(" ".join(re.findall(r"Used \d+ registers|\d+ bytes spill \w+", report)))
    spilled = any(re.search(r"[1-9]\d* bytes spill", report) for report in reports)
    return int(spilled or not reports)


def compile_kernels() -> None:
    """Compiles forward and backward at each head width, in bfloat16.

    First as they are, then with dropout and T5's bias.
    """
    import jax
    import jax.numpy as jnp
    from jax.experimental import topologies

    from research.kernels.hopper.attention import BIAS_TILES, TILES, hopper_attention
    from research.kernels.intervals import run_intervals
    from research.kernels.plan import Settings, make_plan
    from research.networks.transformer.positions.t5 import bucket_steps

    jax.local_devices()  # finds the plugin
    (device,) = topologies.get_topology_desc(
        "h100", "cuda", target_config=H100, topology="1x1x1"
    ).devices
    sharding = jax.sharding.SingleDeviceSharding(device)
    bounds, _ = bucket_steps(one_way=False)
    for width, tiles in TILES.items():
        for settings in (Settings(tiles), Settings(BIAS_TILES, bounds, dropout=0.1)):
            shape = (2, 1024, 4, width)

            def gradients(states, grad, segment, seeds, settings=settings):
                intervals = run_intervals(segment, causal=True)
                positions = (segment, segment) if settings.bias_bounds else None
                plan = make_plan(intervals, segment.shape[1], settings.tiles, positions)

                def attend(*states):
                    return hopper_attention(settings, *states, plan, seeds)

                out, vjp = jax.vjp(attend, *states)
                return out, vjp(grad)

            def array(dtype, *shape):
                return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

            state, bias = array(jnp.bfloat16, *shape), None
            if settings.bias_bounds:
                bias = array(jnp.float32, len(bounds) + 1, 4)
            segment, seeds = array(jnp.int32, 2, 1024), array(jnp.int32, 2, 4)
            traced = jax.jit(gradients).trace(
                (*(state,) * 3, bias), state, segment, seeds
            )
            traced.lower(lowering_platforms=("cuda",)).compile()


if __name__ == "__main__":
    sys.exit(main())
