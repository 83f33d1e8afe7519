"""Every test runs on eight fake CPU devices, and no array is broadcast by accident."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)

import jax
import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of a test.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="module")
def compiles_in_half_the_time(request):
    """Programs run for moments here; a module that trains for long has OPTIMISED."""
    optimised = getattr(request.module, "OPTIMISED", False)
    jax.config.update("jax_disable_most_optimizations", not optimised)
