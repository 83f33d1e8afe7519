"""Fixtures of the tests of networks: small networks and random groups of arrays."""

import numpy as np
import pytest

from tests.testing import trees
from tests.testing.model_options import model_options


@pytest.fixture
def make_group():
    """A group of arrays [B, L]; keyword arguments replace its arrays."""

    def make(batch=2, length=12, *, size=50, causal=False, seed=0, **arrays):
        random = np.random.default_rng(seed)
        position = np.tile(np.arange(length, dtype=np.int32), (batch, 1))
        zero = np.zeros_like(position)
        rank = position if causal else zero
        group = {
            "token": random.integers(5, size, (batch, length), dtype=np.int32),
            "position": position,
            "segment": zero + 1,
            "token_type": zero,
            "rank": rank,
            "reach": rank,
        }
        return group | arrays

    return make


@pytest.fixture
def make_options():
    """Options of a network of a few thousand parameters."""

    def make(**changes):
        small = {"layers": 2, "width": 16, "heads": 2, "feedforward": 24}
        small |= {"max_length": 32, "scan_unroll": 1}
        return model_options(**(small | changes))

    return make


@pytest.fixture
def make_params():
    return trees.make_params


@pytest.fixture
def assert_close():
    return trees.assert_close
