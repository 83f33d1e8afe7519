"""All tests run on eight fake CPU devices, without implicit rank promotion."""

import ctypes
import gc
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=8"
    + " --xla_cpu_use_fusion_emitters=false"  # compiles in a quarter of the CPU time
    + " --xla_cpu_parallel_codegen_split_count=1"  # in 0.85 of it; other cores are busy
)
# Also of the processes that tests start; `compiled_programs` says why.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

import jax
import pytest
from hypothesis import HealthCheck, settings

# Hypothesis must not fail a test because the machine is slow.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
jax.config.update("jax_numpy_rank_promotion", "raise")

LIBC = ctypes.CDLL(None)

WORKER_BYTES = 2 * 2**30
"""Memory that one worker may need."""

FIRST = ("laws", "test_", "models", "proofs", "distributed", "launch", "data/seqio")
"""How the paths below tests/ begin of the files that take longest, in this order. They
are started first, so that no worker is left with one of them at the end."""


def pytest_xdist_auto_num_workers(config):
    """-n auto: a worker for each core that has the memory for it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    macos = not hasattr(os, "sched_getaffinity")
    cores = os.cpu_count() if macos else len(os.sched_getaffinity(0))
    return max(1, min(cores, memory // WORKER_BYTES))


def pytest_collection_modifyitems(config, items):
    def order(item) -> int:
        path = item.path.relative_to(config.rootpath / "tests").as_posix()
        return next((n for n, start in enumerate(FIRST) if path.startswith(start)), 99)

    items.sort(key=order)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported is no garbage: collections need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def compilation_cache(tmp_path_factory):
    """What took long to compile is kept for this session: a run that goes on has the
    programs of the one that was stopped."""
    folder = tmp_path_factory.mktemp("xla")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.fixture(autouse=True, scope="module")
def compiled_programs(request):
    """Compiles a module's programs without most optimisations, and frees them after it.

    Most programs here run for less time than they take to compile; a module that trains
    for long sets OPTIMISED = True.
    """
    optimised = getattr(request.module, "OPTIMISED", False)
    jax.config.update("jax_disable_most_optimizations", not optimised)
    yield
    jax.clear_caches()
    gc.collect()
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)  # returns what was freed to the system
