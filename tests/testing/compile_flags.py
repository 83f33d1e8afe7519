"""XLA's flags of tests, whose programs run for less time than they take to compile."""

from importlib.metadata import version

from packaging.version import Version

FAST_COMPILE = "--xla_cpu_parallel_codegen_split_count=1"
"""In 0.85 of the CPU time; other cores are busy."""
# XLA ends a process for a flag that it no longer has.
if Version(version("jaxlib")) < Version("0.11.2"):
    FAST_COMPILE += " --xla_cpu_use_fusion_emitters=false"  # in 0.6 of it

FASTEST_COMPILE = (
    f"{FAST_COMPILE} --xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true"
)
"""For programs that run for seconds: what JAX_DISABLE_MOST_OPTIMIZATIONS sets, too."""
