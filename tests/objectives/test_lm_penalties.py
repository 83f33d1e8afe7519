"""The penalties of AWD-LSTM: of states, and of their changes (Merity et al. 2018)."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from research import networks, objectives
from research.contract.errors import UserError
from research.networks.readouts.softmax import Readout
from tests.testing.example_batches import vocab
from tests.testing.model_options import model_options

RAW = np.float32([[[1, 0], [2, -1], [2, 1]]])
DROPPED = np.float32([[[2, 0], [0, -2], [4, 0]]])


def terms(segment, states, raw=None, **fields):
    """The terms of a text whose network has these states, `raw` without dropout."""
    objective = objectives.make_objective("lm", **fields)

    def readout(states):
        assert isinstance(states, np.ndarray) or states.ndim == 3
        return Readout(states, jnp.zeros((4, 2)), jnp.zeros(4), 4)

    net = SimpleNamespace(
        states=lambda batch: states,
        outputs=lambda batch: networks.Outputs(states, raw=raw),
        readout=readout,
    )
    segment = np.array([segment], np.int32)
    batch = {"segment": segment, "target": 0 * segment, "weight": (segment > 0) * 1.0}
    return objective.loss(net, batch, None)[0]


def test_the_penalties_are_those_of_the_released_code():
    """2 x 4 of states with dropout, and 1 x 1.5 of changes without it."""
    fields = {"activation_penalty": 2.0, "temporal_penalty": 1.0}
    found = terms([1, 1, 1], DROPPED, RAW, **fields)
    value = {n: float(t.coef * t.total / t.weight) for n, t in found.items()}
    assert value["activation"] == pytest.approx(8.0)
    assert value["temporal"] == pytest.approx(1.5)
    found = terms([1, 1, 2], DROPPED, RAW, **fields)
    assert found["temporal"][:2] == (1.0, 1.0), "the first change: (1, -1)"
    found = terms([1, 1, 0], DROPPED, RAW, **fields)
    assert found["activation"][:2] == (4.0, 2.0), "of two positions of text"


def test_there_are_none_in_an_evaluation_or_unless_they_are_asked_for():
    fields = {"activation_penalty": 2.0, "temporal_penalty": 1.0, "mem_len": 1}
    objective = objectives.make_objective("lm", **fields)
    for own in (objective.for_evaluation(), objectives.make_objective("lm")):
        assert own.activation_penalty == own.temporal_penalty == 0
        assert not own.needs(vocab()).undropped
    assert objective.needs(vocab()).undropped
    assert terms([1, 1, 1], RAW).keys() == {"lm", "accuracy"}
    longer = objectives.make_objective("lm", **fields, eval_mem_len=3)
    assert longer.for_evaluation().mem_len == 3
    assert not longer.for_evaluation().needs(vocab()).undropped


def test_who_cannot_have_them_is_told():
    with pytest.raises(UserError, match="need one direction, not both"):
        objectives.make_objective("lm", direction="both", temporal_penalty=1.0)
    needs = objectives.make_objective("lm", temporal_penalty=1.0).needs(vocab())
    message = "transformer has no states without dropout of the output"
    with pytest.raises(UserError, match=message):
        networks.build(model_options(), needs, vocab())
