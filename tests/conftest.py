"""All tests run on eight fake CPU devices, without implicit rank promotion."""

import ctypes
import gc
import math
import os
from pathlib import Path

from tests.testing.compile_flags import FAST_COMPILE

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + f" --xla_force_host_platform_device_count=8 {FAST_COMPILE}"
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

KEPT_BYTES = 5 * 2**28
"""Memory of a worker, above which it frees its programs."""

STARTS = ("test_", "program", "launch", "evaluation", "use", "proofs", "distributed")
"""How the paths below tests/ begin of the files that start runs, most of which compile
the programs of an earlier one."""

FIRST = ("laws", "test_", "program", "proofs", "distributed", "launch", "data/seqio")
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
        gc.set_threshold(100_000, 20, 20)  # what is traced is soon garbage: rarely


@pytest.fixture(autouse=True, scope="session")
def compilation_cache(tmp_path_factory):
    """Programs are kept for this session in a folder, which all workers share."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    jax.config.update("jax_compilation_cache_dir", str(base / "xla"))


@pytest.fixture(autouse=True, scope="module")
def compiled_programs(request):
    """Compiles a module's programs without most optimisations, and frees them after it
    where they take much memory.

    Most programs here run for less time than they take to compile; a module that trains
    for long sets OPTIMISED = True. What took long to compile is kept where a run that
    goes on has the programs of the one that was stopped; to write it takes a tenth of
    the time to compile it.
    """
    optimised = getattr(request.module, "OPTIMISED", False)
    jax.config.update("jax_disable_most_optimizations", not optimised)
    path = request.path.relative_to(request.config.rootpath / "tests").as_posix()
    least = 0.2 if path.startswith(STARTS) else math.inf
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    yield
    if resident_bytes() < KEPT_BYTES:
        return
    jax.clear_caches()
    gc.collect()
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)  # returns what was freed to the system


def resident_bytes() -> float:
    """The memory of this process; infinite where the system does not say."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return math.inf
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
