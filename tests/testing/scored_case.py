"""The loss of a case on a small network, compiled once for all of its laws."""

# B batch, N parameters

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from research import networks
from tests.testing import fast_key
from tests.testing.instrumented_network import InstrumentedNetwork
from tests.testing.objective_cases import make_batch, make_constants, make_network

ROWS, LENGTH = 8, 24
SMALL = {"layers": 2}
"""The network. One layer learns too slowly how many tokens of a row are masked."""
KEY = fast_key.key(0)


class Scored(NamedTuple):
    """What a network scores in a batch."""

    terms: dict[str, Any]  # `Term`s with values on the host
    gradient: np.ndarray  # [N], of sum(coef * total)

    def differentiated(self) -> dict[str, Any]:
        """The terms that are part of the loss."""
        return {name: term for name, term in self.terms.items() if term.coef}


class ScoredCase:
    """An objective with a network; `params` [N] are its initial parameters."""

    def __init__(self, name: str, fields: dict[str, Any]):
        self.objective, net = make_network(name, fields, **SMALL)
        self._constants = make_constants(self.objective)

        @jax.jit
        def init(batch):
            score = lambda net: self.objective.loss(net, batch | {"carry": None}, KEY)  # noqa: E731
            (_, carry), params = networks.init_with_output(net, score, KEY)
            return networks.unbox(params), jax.tree.map(jnp.zeros_like, carry)

        batch = with_rows(make_batch(self.objective, LENGTH)[1]) | self._constants
        params, carry = init(batch)
        flat, unravel = ravel_pytree(params)
        self.params = np.asarray(flat)

        @jax.jit
        def score(flat, batch, only_empty, sight):
            def total(params):
                def loss(net):
                    seeing = InstrumentedNetwork(net, [], sight=sight)
                    return self.objective.loss(seeing, batch | {"carry": carry}, KEY)

                terms, after = networks.apply(net, params, loss)
                assert jax.tree.structure(after) == jax.tree.structure(carry)
                parts = [
                    jnp.where(
                        only_empty & (term.weight > 0), 0.0, term.coef * term.total
                    )
                    for term in terms.values()
                ]
                return sum(parts), terms

            gradient, terms = jax.grad(total, has_aux=True)(unravel(flat))
            return terms, ravel_pytree(gradient)[0]

        self._score = score

    def score(
        self, batch: dict, params=None, *, only_empty: bool = False, sight: float = 1.0
    ) -> Scored:
        """The terms of a batch and their gradient.

        Args:
          batch: of as many rows of LENGTH as all others.
          params: by default the initial ones.
          only_empty: the gradient is that of the terms whose weight is 0 alone.
          sight: factor of what the network computes of its input; 0: it sees nothing.
        """
        params = self.params if params is None else params
        batch = with_rows(batch) | self._constants
        scored = self._score(params, batch, only_empty, np.float32(sight))
        return Scored(*jax.device_get(scored))


def with_rows(batch: dict) -> dict:
    """The batch with the numbers of its rows."""
    return batch | {"example": np.arange(ROWS, dtype=np.int32)}


def scored_case(name: str, fields: dict[str, Any]) -> ScoredCase:
    """The case, compiled if it is not yet."""
    return _scored_case(name, _frozen(fields))


@cache
def _scored_case(name, fields):
    return ScoredCase(name, _thawed(fields))


def _frozen(value):
    """A hashable form of a value; `_thawed` is the inverse."""
    if isinstance(value, list):
        return ("list", *map(_frozen, value))
    if isinstance(value, dict):
        return ("dict", *((key, _frozen(item)) for key, item in value.items()))
    return value


def _thawed(value):
    if isinstance(value, tuple) and value[:1] == ("list",):
        return [*map(_thawed, value[1:])]
    if isinstance(value, tuple) and value[:1] == ("dict",):
        return {key: _thawed(item) for key, item in value[1:]}
    return value
