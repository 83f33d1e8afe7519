"""hybrid: shares of rows and losses by step, and one reading of the network."""

import jax
import numpy as np
import pytest

from research import objectives
from research.contract.errors import UserError

CAUSAL = {"objective": "lm", "documents": "apart"}
MASKED = {"objective": "mlm", "format": "shifted", "predict_at": "previous"}


def make(causal, masked):
    parts = {"causal": CAUSAL | {"share": causal}, "masked": MASKED | {"share": masked}}
    return objectives.make_objective("hybrid", parts=parts)


@pytest.mark.parametrize(
    ("causal", "masked", "step", "rows"),
    [
        (1, 15, 0, 1),
        (15, 1, 0, 15),
        (1, 1, 0, 8),
        ([[0, 1], [4, 0], [20, 1]], [[0, 0], [4, 1], [20, 0]], 3, 16),  # AntLM
        ([[0, 1], [4, 0], [20, 1]], [[0, 0], [4, 1], [20, 0]], 19, 0),
        ([[0, 1], [4, 0], [20, 1]], [[0, 0], [4, 1], [20, 0]], 20, 16),
    ],
)
def test_rows_and_losses_have_the_shares_of_the_step(causal, masked, step, rows):
    objective, number = make(causal, masked), np.arange(64)
    parts = objective.choose_parts(number, np.full(64, step))
    assert [(parts[n : n + 16] == 0).sum() for n in range(0, 64, 16)] == [rows] * 4
    shares = jax.jit(lambda step: objective._shares(step))(step)
    np.testing.assert_allclose(shares, [rows / 16, 1 - rows / 16], rtol=1e-6)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"a": CAUSAL | {"share": 0}}, "the shares of all parts are 0 at step 0"),
        ({"a": CAUSAL, "a_b": MASKED}, "starts with the prefix 'a_'"),
        ({"a": CAUSAL, "b": {"objective": "dae"}}, "same input arrays"),
        ({"a": CAUSAL | {"weight": 2}}, "unknown field of objective lm 'weight'"),
        ({"a": MASKED | {"predict_at": "masked"}}, "format shifted needs predict_at"),
        ({"a": MASKED | {"first_rate": 0.3}}, "both above 0, got 0.3 and 0"),
    ],
)
def test_wrong_parts_are_refused_in_one_line(parts, words):
    with pytest.raises((UserError, ValueError), match=words) as error:
        objectives.make_objective("hybrid", parts=parts).batch_spec(32)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["hybrid", "joint"])
def test_parts_that_fill_no_masks_predict_tokens(name):
    """As palimpsest babylm asks a network of several objectives to."""
    parts = {"causal": CAUSAL, "masked": MASKED}
    net = object()
    assert objectives.make_objective(name, parts=parts).token_predictor(net) is net
