"""Parameters of modules."""

import jax
import numpy as np
from flax import linen as nn

from research.networks.shared import dense


def test_a_parameter_is_made_once_and_then_read():
    """To trace `init` wherever it is read would take a third of a network's trace."""
    made = []

    class Scale(dense.Module):
        @nn.compact
        def __call__(self):
            def init(key):
                made.append(key)
                return np.float32(1)

            return self.param("scale", init)

    assert Scale().init(jax.random.key(0)) == {"params": {"scale": 1}}
    assert Scale().apply({"params": {"scale": np.float32(2)}}) == 2
    assert len(made) == 1
