"""All tests run on eight fake CPU devices, without implicit rank promotion."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)

import jax
import pytest
from hypothesis import HealthCheck, settings

# Hypothesis must not fail a test because the machine is slow.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="module")
def compile_without_optimisation(request):
    """Disables most XLA optimisations, unless the module sets OPTIMISED = True.

    Most compiled programs here run for less time than they take to compile.
    """
    optimised = getattr(request.module, "OPTIMISED", False)
    jax.config.update("jax_disable_most_optimizations", not optimised)
