"""Gradients of a trained network on some batches of its text."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import jax

from research import networks
from research.contract.errors import UserError
from research.data.progress import progress
from research.distributed import sharding
from research.program.setup import Program, make_eval_zeros, train_batches
from research.program.step import weighted_loss


def make_gradients(
    program: Program, with_inputs: Callable[[Any, Any], Any]
) -> Callable[[Any, Any, int], Iterator[Any]]:
    """A function, compiled once, that computes gradients of the evaluations' loss.

    Parameters, inputs, number of batches of the training text, from its first on -> for
    each batch, the gradient with respect to the inputs of the evaluations' loss, to
    which only the network contributes.

    Args:
      with_inputs: parameters, inputs of the network -> the parameters with these.

    Raises:
      UserError: (the function) the training text has no batch.
    """
    objective = program.objective.for_evaluation()
    key = jax.random.key(program.seed)

    def loss(inputs: Any, params: Any, batch: Any, carry: Any) -> jax.Array:
        terms, _ = networks.apply(
            program.network,
            with_inputs(params, inputs),
            lambda net: objective.loss(net, batch | {"carry": carry}, key),
        )
        return weighted_loss(terms, {name: term.weight for name, term in terms.items()})

    gradient = jax.jit(jax.grad(loss))

    def gradients(params: Any, inputs: Any, batches: int) -> Iterator[Any]:
        _, carry = make_eval_zeros(program)()
        number = 0
        progress_of = progress("gradients", batches)
        with sharding.context(program.mesh), progress_of as report:
            read = islice(train_batches(program, 0, batches), batches)
            for number, batch in enumerate(read, 1):
                yield jax.device_get(gradient(inputs, params, batch, carry))
                report(number, f"{number} of {batches} batches")
        if not number:
            raise UserError("the training text has no batch to measure the network on")

    return gradients
