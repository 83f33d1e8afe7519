"""The state of training: everything that a step changes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

TermSums = Mapping[str, tuple[Any, Any, Any]]
"""Term name -> (total, weight, coef * weight), summed over any number of batches."""


class State(NamedTuple):
    """Everything that a step changes."""

    step: jax.Array  # [] int32, number of updates done
    params: Any
    opt_state: Any
    carry: Any  # the objective's recurrent state, leaves [B, ...]; mostly ()
    sums: Any  # TermSums since the last logged step
