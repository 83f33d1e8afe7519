"""What gradients say of a trained network on some batches of its text."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import jax

from research import networks
from research.distributed import sharding
from research.errors import UserError
from research.run.setup import Program, make_eval_zeros, train_batches


def gradients(
    program: Program, with_inputs: Callable[[Any], Any], inputs: Any, batches: int
) -> Iterator[Any]:
    """The gradient of the loss, summed over a batch, by some inputs of the network.

    There is no dropout.

    Args:
      with_inputs: inputs -> the network's parameters.
      batches: how many of the training text, from its first on.

    Raises:
      UserError: the training text has none.
    """
    _, carry = make_eval_zeros(program)()
    objective, key = program.objective, jax.random.key(program.seed)

    def loss(inputs: Any, batch: Any) -> jax.Array:
        terms, _ = networks.apply(
            program.network,
            with_inputs(inputs),
            lambda net: objective.loss(net, batch | {"carry": carry}, key),
        )
        return sum(term.coef * term.total for term in terms.values())

    found = False
    with sharding.context(program.mesh):
        gradient = jax.jit(jax.grad(loss))
        for batch in islice(train_batches(program, 0, batches), batches):
            found = True
            yield jax.device_get(gradient(inputs, batch))
    if not found:
        raise UserError("the training text has no batch to measure the network on")
