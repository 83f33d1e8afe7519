"""Fill in the middle: a causal model that also reads what comes after (Bavarian 2022).

A text is cut at two uniform places and read as prefix, suffix, middle, each behind a
mark of its own; all three are scored, the marks are not (section 3).
"""

# B batch, L length, R raw tokens an example

from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import ArraySpec, Example, TextSpec, VocabInfo
from research.data import counter_rng
from research.errors import UserError
from research.objectives import lm
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy

MARKS = 3
"""The first sentinels stand before prefix, suffix and middle."""


@dataclass(frozen=True)
class Objective:
    """TextSpec L - 3 tokens; other texts are plain language modelling."""

    rate: float = 0.5  # share of texts whose middle comes last

    family = "LM"
    pattern = "causal"
    supports_accumulation = True

    def __post_init__(self):
        if not 0 <= self.rate <= 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", length - MARKS)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return lm.Objective().batch_spec(length)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Moves the middle to the end, and hides the future."""
        size = example.length[:, None].astype(np.int64)
        cuts = (counter_rng.uniform(key, "cuts", 2) * (size + 1)).astype(np.int64)
        first, last = np.split(np.sort(cuts, axis=1), 2, axis=1)
        place, middle = np.arange(length), first + size - last + MARKS
        shift = np.where(place < middle, last - first - 2, first - middle)
        moved = np.where(place <= first, place - 1, place + shift)
        turn = (counter_rng.uniform(key, "moved", 1) < self.rate) & (size > 0)
        order = np.clip(np.where(turn, moved, place), 0, example.token.shape[1] - 1)
        token = np.take_along_axis(example.token, order, axis=1)
        for mark, at in enumerate((0 * first, first + 1, middle - 1)):
            token = np.where(turn & (place == at), vocab.sentinel_ids[mark], token)
        size = size + MARKS * turn
        token = np.where(place < size, token, vocab.pad_id)
        flags = np.zeros(token.shape, np.uint8)
        text = example._replace(token=token, flags=flags, length=size[:, 0])
        batch = lm.Objective().corrupt(text, key, vocab, length)
        marks = np.isin(batch["target"], vocab.sentinel_ids[:MARKS])
        return batch | {"weight": batch["weight"] * ~marks}

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: there are fewer sentinels than marks."""
        if len(vocab.sentinel_ids) < MARKS:
            raise UserError(
                f"objective.name=fim marks with sentinels: data.sentinels >= {MARKS}"
            )
        return models.Transformer(options, size=vocab.size, pattern=self.pattern)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: fim, and accuracy (not differentiated)."""
        readout = net.readout(net.states(batch))
        return masked_cross_entropy("fim", readout, batch), ()
