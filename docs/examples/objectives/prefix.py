"""Prefix language modelling: the rest of a text from its start (Raffel 2020, 3.2)."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.fields import number
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads bos and all tokens but the last; the first ones, at most all but one of a
    text, see each other. The tokens behind them are scored."""

    min_prefix: float = number(0.1, least=0, below=1)  # of a text that is given

    pattern = "general"
    min_length = 2  # a token that is given, and one behind it
    token_terms = ("prefix",)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(length, gathered=False)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        batch = lm.Objective().corrupt(example, key, vocab, length)
        least_B = np.maximum(1, self.min_prefix * example.length)
        draw_B = counter_rng.uniform(key, "prefix", 1)[:, 0]
        prefix_B = (least_B + draw_B * (example.length - least_B)).astype(np.int32)
        behind_BL = batch["position"] - prefix_B[:, None]  # 0: the first to be scored
        rank = np.maximum(0, behind_BL)
        weight = batch["weight"] * (behind_BL >= 0)
        return batch | {"rank": rank, "reach": rank.copy(), "weight": weight}

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: prefix, and accuracy (a metric)."""
        readout = net.readout(net.states(batch))
        return masked_cross_entropy("prefix", readout, batch), ()
