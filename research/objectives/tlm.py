"""Translation language modelling: hidden tokens of two languages (XLM, Conneau 2019).

Each document is a text in two languages: its first paragraph, and what follows it.
"""

# B batch, L length, K scored places

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import (
    PARAGRAPH,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.data import counter_rng
from research.errors import UserError
from research.objectives.corruption.masking import budget, hide
from research.objectives.inputs import input_format
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy

SIDES = ("both", "one", "first", "second")


@dataclass(frozen=True)
class Objective:
    """TextSpec eos, x, eos, eos, y, eos; positions begin again at 0 with the second side.

    `kind` is the language. Tokens of both sides are chosen alike, whatever their
    frequency (the paper's f^-0.5 needs counts that `VocabInfo` does not have); specials
    are not. Of a text in one language one side is read: eos, x, eos.
    """

    rate: float = 0.15  # share of a row's tokens, specials included, that is chosen
    mask: float = 0.8  # share of the chosen that becomes the mask token
    random: float = 0.1  # share that becomes an ordinary token; the rest stays
    side: str = "both"  # both | one | first | second: what is read of each pair; one:
    # either, at random (monolingual, to alternate with both in a mix)
    languages: str = "0:1"  # kinds of first and second side: one pair for all corpora,
    # or one for each of data.mixture, in order of their names, between spaces

    family = "MLM"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if min(self.mask, self.random, 1 - self.mask - self.random) < -1e-9:
            raise ValueError("mask and random are shares, together at most 1")
        if self.side not in SIDES:
            raise ValueError(f"side is {', '.join(SIDES)}, not {self.side!r}")
        assert len(self._kinds)  # wrong languages are told here

    @property
    def _kinds(self) -> np.ndarray:
        """[corpora, 2] int32. Raises ValueError: not pairs of numbers."""
        try:
            pairs = [pair.split(":") for pair in self.languages.split()]
            kinds = np.array([[int(kind) for kind in pair] for pair in pairs], np.int32)
            right = kinds.ndim == 2 and kinds.shape[1] == 2 and kinds.min() >= 0
        except ValueError:
            right = False
        if not right:
            raise ValueError(
                "languages are pairs of kinds such as 0:1, with spaces between them, "
                f"not {self.languages!r}"
            )
        return kinds

    def num_scored(self, length: int) -> int:
        """K: 39 at length 256."""
        return math.ceil(self.rate * length - 1e-9)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("document", length - 4)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(self.num_scored(length))

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides round(rate * tokens) of a row's tokens, on either side.

        Raises:
          UserError: languages are given for fewer corpora than there are.
        """
        text, begin = self._lay_out(example, key, vocab, length)
        most = self.num_scored(length)
        count = budget(text.length, self.rate, most)
        chosen = counter_rng.choose_subset(
            key, "choose", ~vocab.is_special[text.token], count
        )
        hidden = hide(
            text.token,
            chosen,
            key,
            vocab,
            num_scored=most,
            mask=self.mask,
            random=self.random,
        )
        group = input_format.full(text.token, text.length)
        again = np.where(text.token_type == 1, begin[:, None], 0).astype(np.int32)
        group["position"] -= again
        group["token_type"] = self._languages(example.corpus, text, group["segment"])
        return group | hidden

    def _lay_out(
        self, example, key, vocab, length
    ) -> tuple[input_format.Text, np.ndarray]:
        """The rows, and [B]: where the second side begins, with its eos."""
        num_raw = np.minimum(example.length, length - 4).astype(np.int64)
        starts = (example.flags & PARAGRAPH) > 0
        starts[:, :1] = False
        starts &= np.arange(starts.shape[1]) < num_raw[:, None]
        cut = np.where(starts.any(axis=1), starts.argmax(axis=1), num_raw)
        size = np.stack([cut, num_raw - cut], axis=1)
        if self.side != "both":
            second = np.full(len(key), self.side == "second")
            if self.side == "one":
                second = counter_rng.uniform(key, "side", 1)[:, 0] < 0.5
            second &= size[:, 1] > 0
            size[second, 0], size[~second, 1] = 0, 0
        begin = np.stack([0 * cut, cut], axis=1)
        opens = (vocab.eos_id, vocab.eos_id)
        text = input_format.compose(example, begin, size, vocab, length, opens=opens)
        return text, np.where(size[:, 0] > 0, size[:, 0] + 2, 0)

    def _languages(self, source, text, segment) -> np.ndarray:
        """[B, L] int32: the kind of each place, 0 at padding."""
        kinds = self._kinds
        if len(kinds) > 1 and source.max(initial=0) >= len(kinds):
            raise UserError(
                f"objective.languages has {len(kinds)} pairs for at least "
                f"{source.max() + 1} corpora of data.mixture"
            )
        own = kinds[np.where(len(kinds) > 1, source, 0)]
        return np.take_along_axis(own, text.token_type, axis=1) * segment

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: model.token_types are fewer than the languages."""
        input_format.check_token_types(options, int(self._kinds.max()) + 1)
        return models.Transformer(
            options, size=vocab.size, pattern=self.pattern, transform=True
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: tlm, and accuracy (not differentiated)."""
        readout = net.readout(net.states(batch, scored=batch["scored"]))
        return masked_cross_entropy("tlm", readout, batch), ()
