"""What is freed is kept, where steps run on the CPU; measured in pages of memory."""

import subprocess
import sys

import pytest

ALLOCATE_AGAIN = """
import ctypes, importlib.metadata, resource, sys, threading
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages of 4 KiB
if sys.argv[1] == "plugin":
    importlib.metadata.entry_points = lambda group: [group] * (group == "jax_plugins")
from research.program.host_memory import keep_freed_memory
keep_freed_memory()
def allocate():
    bytearray(100 * 2**20)
def run():
    allocate()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    allocate()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
@pytest.mark.parametrize(
    "platforms, plugin, kept",
    [("", "none", True), ("cpu", "plugin", True), ("", "plugin", False)],
)
def test_freed_memory_is_kept_on_a_cpu(platforms, plugin, kept, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    command = [sys.executable, "-c", ALLOCATE_AGAIN, plugin]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (int(result.stdout) < 100) == kept
