"""Encoder-decoder objectives: label smoothing reaches their loss."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks, objectives

SIZE, ROWS = 11, 128


@pytest.mark.parametrize("name", ["dae", "bart", "mass"])
def test_smoothed_targets_have_a_part_of_every_entry_of_the_vocabulary(name):
    """(1 - e) onehot + e / V (Szegedy et al. 2016, section 7)."""
    random, smoothing = np.random.default_rng(0), 0.3
    feature = random.normal(size=(2, 3, 4)).astype(np.float32)
    table = random.normal(size=(ROWS, 4)).astype(np.float32)
    bias = np.where(np.arange(ROWS) < SIZE, 0, -1e9).astype(np.float32)
    readout = networks.Readout(
        jnp.asarray(feature), jnp.asarray(table), jnp.asarray(bias), SIZE
    )
    net = SimpleNamespace(
        encode=lambda group: None,
        states=lambda group, encoded: None,
        readout=lambda states: readout,
    )
    arrays = ("token", "position", "segment", "token_type", "rank", "reach")
    empty = {side + a: 0 for side in ("encoder_", "decoder_") for a in arrays}
    target = random.integers(0, SIZE, (2, 3), dtype=np.int32)
    weight = np.array([[1, 1, 0], [1, 0, 0]], np.float32)
    batch = empty | {"target": jnp.asarray(target), "weight": jnp.asarray(weight)}
    objective = objectives.make_objective(name, label_smoothing=smoothing)
    term = jax.jit(lambda batch: objective.loss(net, batch, None)[0][name])(batch)

    logits = feature @ table[:SIZE].T
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    smooth = (1 - smoothing) * np.eye(SIZE)[target] + smoothing / SIZE
    expected = -(weight[..., None] * smooth * log_p).sum()
    np.testing.assert_allclose(term.total, expected, rtol=1e-5)
    assert term.weight == 3
