"""Skip-gram: each word from each word of its context separately (word2vec)."""

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
    """Discriminates the centre from drawn words by the vector of one context.

    The paper predicts contexts from the centre (Mikolov et al. 2013b, equation 4). The
    released code predicts the centre from each context, which over a text gives the
    same set of pairs.
    """

    negatives_of: str = choice("pair", ("pair", "centre"))  # what negatives are drawn
    # for; centre: its contexts share them, which is cheaper (Ji et al. 2016)

    def num_drawn_for(self, length: int) -> int:
        return length if self.negatives_of == "centre" else length * 2 * self.window

    def loss(
        self, net: BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: skipgram, the mean over pairs of the total loss of a pair."""
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
