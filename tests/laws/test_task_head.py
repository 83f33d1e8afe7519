"""The contract of every head of tasks, by the entries of their table."""

import jax
import pytest

from research import networks, objectives
from research.objectives.tasks.heads import HEADS
from tests.testing.objective_cases import make_batch, make_network, vocab_of


@pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param(name, task, id=f"{name}-{task}")
        for name, head in HEADS.items()
        for task in objectives.names()
        if getattr(objectives.objective_class(task), "head_reads", "") in head.reads
    ],
)
def test_a_task_scores_and_predicts_by_the_heads_that_it_needs(name, task):
    objective, network = make_network(task, {"head": name})
    example, batch = make_batch(objective, 24)
    key = jax.random.key(0)

    def loss(net):
        return objective.loss(net, batch, key)[0]

    init = jax.eval_shape(lambda: networks.unbox(networks.init(network, loss, key)))
    heads = {n.removeprefix("head_") for n in init if n.startswith("head_")}
    assert heads == objective.needs(vocab_of(objective)).heads.keys()
    terms, predicted = (
        jax.eval_shape(lambda params, fn=fn: networks.apply(network, params, fn), init)
        for fn in (loss, lambda net: objective.predictions(net, batch))
    )
    assert all(term.total.shape == term.weight.shape == () for term in terms.values())
    rows = {array.shape[0] for array in predicted.values()}
    assert rows == {len(example.length)}
