"""picture_retrieval: its loss is computed again from the scores of single pairs."""

import jax
import numpy as np
import optax
import pytest

from research import networks, objectives
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB, LENGTH, ROWS = vocab(200), 14, 8


@pytest.mark.parametrize(("caption", "choices"), [("first", 3), ("mean", ROWS)])
def test_the_loss_is_that_of_the_matrix_of_scores(caption, choices):
    """Each caption finds its picture, and each picture its caption, among choices."""
    fields = {"images": "random", "patch": 4, "pool": "product", "choices": choices}
    fields |= {"caption": caption}
    objective = objectives.make_objective("picture_retrieval", **fields)
    example = texts(LENGTH - 2, [6, 3, 12, 5, 9, 4, 7, 0], VOCAB)
    number = np.array([0, 1, 2, 3, 4, 5, 2, 6])  # two captions have one picture
    array = np.broadcast_to(number[:, None], example.token.shape)
    example = example._replace(arrays={"image": array})
    batch = objective.corrupt(example, keys(ROWS), VOCAB, LENGTH)
    options = model_options(
        network="two_streams",
        co_layers=1,
        norm_placement="post",
        layers=2,
        token_types=2,
    )
    network = networks.build(options, objective.needs(VOCAB), VOCAB)
    loss = lambda net: objective.loss(net, batch, jax.random.key(1))[0]  # noqa: E731
    params = networks.unbox(networks.init(network, loss, jax.random.key(0)))

    def apply(forward):
        return networks.apply(network, params, forward)

    terms = apply(loss)

    scores = np.empty((ROWS, ROWS))
    rows = np.arange(ROWS)
    for away in range(ROWS):
        picture = (rows + away) % ROWS
        pairs = example._replace(arrays={"image": array[picture]})
        group = objective.pair_input(pairs, VOCAB, LENGTH)
        scores[rows, picture] = apply(lambda n, g=group: objective.match_values(n, g))
    scores = scores[:-1, :-1]  # the last row is empty
    same = (number[:-1, None] == number[None, :-1]) & ~np.eye(ROWS - 1, dtype=bool)
    scores[same] = -np.inf
    away = (rows[:-1, None] - rows[None, :-1]) % ROWS  # a picture's row, backwards
    scores[away >= choices] = -np.inf
    own = np.arange(ROWS - 1)
    both = [
        optax.softmax_cross_entropy_with_integer_labels(each, own).sum()
        for each in (scores, scores.T)
    ]
    assert terms["choice"].weight == ROWS - 1
    np.testing.assert_allclose(terms["choice"].total, sum(both) / 2, rtol=1e-5)
    right = (scores.argmax(1) == own).sum()
    assert terms["choice_accuracy"].total == right
