"""Continuous bag of words: each word from the mean of its context (word2vec)."""

# B batch, L length, J offsets, E width of the features

from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import lax

from research.contract.batch import Batch
from research.contract.fields import choice
from research.networks import BoundNetwork, Readout
from research.objectives.losses.cross_entropy import Term
from research.objectives.vectors import word_scores, word_windows


@dataclass(frozen=True)
class Objective(word_windows.WordWindows):
    """Discriminates the centre from drawn words by the mean of its context vectors.

    See Mikolov et al. 2013a, section 3.1.
    """

    context_gradient: str = choice("sum", ("sum", "mean"))  # gradient of each of the n
    # context vectors. sum: that of their mean, undivided (released code); mean: divided
    # by n, the true derivative

    def loss(
        self, net: BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: cbow, the mean over centres of the sum over target and negatives."""
        readout = cast(Readout, net.readout(net.states(batch)))  # has no clusters
        shape = (*readout.feature.shape[:2], 2 * self.window)
        weight_BLJ = batch["weight"].reshape(shape)
        total_BLE = word_scores.window_sum(readout.feature, weight_BLJ)
        num_BL1 = jnp.sum(weight_BLJ, axis=-1, keepdims=True)
        mean_BLE = total_BLE / jnp.maximum(num_BL1, 1.0)
        if self.context_gradient == "sum":
            mean_BLE = total_BLE + lax.stop_gradient(mean_BLE - total_BLE)
        weight_BL = jnp.max(weight_BLJ, axis=-1)
        scored = word_scores.scored_rows(batch, batch["target"].reshape(shape)[..., 0])
        loss_BL = word_scores.score_alone(mean_BLE, readout, scored)
        return {"cbow": Term(jnp.sum(loss_BL * weight_BL), jnp.sum(weight_BL))}, ()
