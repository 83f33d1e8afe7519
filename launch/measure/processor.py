"""The processor of this machine, for figures measured on a CPU."""

import platform
from pathlib import Path

PRODUCT_SIZE = 2048
"""The size of the square float32 matrices whose product is timed."""
PRODUCT_FLOPS = 2 * PRODUCT_SIZE**3


def processor_name() -> str:
    """The processor's model name, if Linux reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()
