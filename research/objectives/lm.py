"""Language modelling: each token from all before it (GPT, Radford et al. 2018)."""

# B batch, L length

from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import Example, Reads, Spec, Symbols, group_specs, scored_specs
from research.objectives import layout
from research.objectives.losses import Term, recovery


@dataclass(frozen=True)
class Objective:
    """Reads L tokens and scores every one; bos stands before the first.

    Documents of a window see each other, as in GPT-2.
    """

    cross_entropy: str = "fused"  # dense | chunked | fused

    pattern = "causal"
    splits = True

    def reads(self, length: int) -> Reads:
        return Reads("stream", length)

    def arrays(self, length: int) -> dict[str, Spec]:
        return group_specs(length) | scored_specs(length, gathered=False)

    def corrupt(
        self, example: Example, key: np.ndarray, symbols: Symbols, length: int
    ) -> dict[str, np.ndarray]:
        """Hides the future: the input is the target one place later."""
        target = np.array(example.token, np.int32)
        here = np.arange(length) < example.length[:, None]
        token = np.empty_like(target)
        token[:, 0] = symbols.bos
        token[:, 1:] = target[:, :-1]
        token[~here] = symbols.pad
        group = layout.causal(token, example.length)
        return group | {"target": target, "weight": here.astype(np.float32)}

    def network(self, options: Any, symbols: Symbols) -> Any:
        return models.Transformer(options, size=symbols.size, pattern=self.pattern)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: lm, and accuracy (not differentiated)."""
        readout = net.readout(net.states(batch))
        return recovery("lm", readout, batch, self.cross_entropy), ()
