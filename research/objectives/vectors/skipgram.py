"""Skip-gram: each word from the words around it, one at a time (word2vec)."""

# B batch, L length, J offsets, K = L J pairs, D width

from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp

from research.contract.batch import Batch
from research.contract.fields import choice
from research.networks import BoundNetwork, Readout
from research.objectives.losses.cross_entropy import Term
from research.objectives.vectors import word_scores, word_windows


@dataclass(frozen=True)
class Objective(word_windows.WordWindows):
    """The vector of a context is to tell the centre from words that are drawn.

    Paper and equation predict contexts from the centre (Mikolov et al. 2013b, equation
    4); the released code predicts the centre from each context, which over a text is
    the same set of pairs.
    """

    negatives_of: str = choice("pair", ("pair", "centre"))  # whose negatives are drawn;
    # centre: all contexts of a centre share them, which computes less (Ji et al. 2016)

    def num_drawn_for(self, length: int) -> int:
        return length if self.negatives_of == "centre" else length * 2 * self.window

    def loss(
        self, net: BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: skipgram, the mean over pairs of all that is lost on one."""
        states = net.states(batch)
        readout = cast(Readout, net.readout(states))  # words have no clusters
        shape = (*states.shape[:2], 2 * self.window)
        weight_BLJ = batch["weight"].reshape(shape)
        if self.output == "hierarchical" or self.negatives_of == "centre":
            centre = batch["target"].reshape(shape)[..., 0]
            scored = word_scores.scored_rows(batch, centre)
            total = word_scores.score_windows(
                readout.feature, readout, scored, weight_BLJ
            )
        else:
            scored = word_scores.scored_rows(batch, batch["target"])
            index = batch["scored"][..., None]
            feature = jnp.take_along_axis(readout.feature, index, axis=1)
            loss = word_scores.score_alone(feature, readout, scored)
            total = jnp.sum(loss * batch["weight"])
        return {"skipgram": Term(total, jnp.sum(batch["weight"]))}, ()
