"""A fixture of what answers requests: nothing may compile in one."""

import jax
import pytest


@pytest.fixture(scope="module")
def compiled():
    """Grows by an entry for each program that is compiled."""
    found = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: found.append(name) if "backend_compile" in name else None
    )
    return found
