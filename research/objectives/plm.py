"""Permuted language modelling with two streams (XLNet, Yang et al. 2019, section 2.3).

The second stream is K query tokens after the text. They stand at the places of the
targets and read what comes before them in a random order, but not the target itself;
no token reads them.
"""

# B batch, L length of the text, K scored places, P parts, N = L + K network length

from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import (
    NEVER,
    WORD,
    Example,
    Reads,
    Spec,
    Symbols,
    group_specs,
    scored_specs,
)
from research.data import noise
from research.objectives import layout
from research.objectives.losses import Term, recovery


@dataclass(frozen=True)
class Objective:
    """Reads L - 2 tokens, eos, bos (the class token, last), and K queries of its own.

    A row is cut into parts with an order each; a part sees all of the earlier ones
    and none of the later (the released code's reused half; 1 part: the paper's
    formula). Targets and specials carry a random rank; all other tokens of the part
    come before them and see each other. All tokens are of kind 0.
    """

    one_in: int = (
        6  # tokens per target; a span of n stands among so many times n others
    )
    span: int = 5  # longest span; a length n has probability ~ 1 / n
    parts: int = 2  # of a row
    cross_entropy: str = "fused"  # dense | chunked | fused

    pattern = "general"
    splits = True

    def __post_init__(self):
        if min(self.one_in - 1, self.span, self.parts) < 1:
            raise ValueError("one_in is at least 2, span and parts at least 1")

    def num_scored(self, length: int) -> int:
        """K: 85 at length 512."""
        return length // self.one_in

    def reads(self, length: int) -> Reads:
        return Reads("stream", length - 2)

    def arrays(self, length: int) -> dict[str, Spec]:
        num_scored = self.num_scored(length)
        return group_specs(length + num_scored) | scored_specs(num_scored)

    def corrupt(
        self, example: Example, key: np.ndarray, symbols: Symbols, length: int
    ) -> dict[str, np.ndarray]:
        """Hides each target from itself and from what comes before it in the order."""
        token, num_tokens = layout.enclose(example, symbols, length, bos="last")
        edge = num_tokens[:, None] * np.arange(self.parts + 1) // self.parts
        special = symbols.special[token]
        start = np.zeros(token.shape, bool)
        start[:, :-2] = example.flags[:, : length - 2] & WORD
        chosen = self._targets(key, start, ~special, edge)

        place = np.arange(length)
        part = (place >= edge[:, 1:-1, None]).sum(axis=1)
        first = np.take_along_axis(edge, part, axis=1)
        order = noise.permutation(key, "order", -(-length // self.parts))
        inside = np.minimum(place - first, order.shape[1] - 1)
        base = part * (order.shape[1] + 1)
        drawn = base + np.take_along_axis(order, inside, axis=1)
        rank = np.where(chosen | special, drawn, base - 1).astype(np.int32)
        content = layout.full(token, num_tokens) | {"rank": rank, "reach": rank}
        return self._with_queries(content, chosen, symbols)

    def _targets(self, key, start, candidate, edge) -> np.ndarray:
        """[B, L] bool: spans, topped up by single tokens to a goal for each part."""
        num_parts = self.parts
        total = edge[:, -1:] // self.one_in
        goal = np.diff(total * np.arange(num_parts + 1) // num_parts, axis=1)
        chosen = noise.place_spans(
            key,
            "spans",
            start,
            candidate,
            begin=edge[:, :-1],
            end=edge[:, 1:],
            goal=goal,
            longest=self.span,
            spread=self.one_in,
        )
        place = np.arange(start.shape[1])
        for part in range(num_parts):
            inside = (place >= edge[:, part, None]) & (place < edge[:, part + 1, None])
            missing = goal[:, part] - (chosen & inside).sum(axis=1)
            free = candidate & inside & ~chosen
            chosen |= noise.choose(key, f"single {part}", free, missing)
        return chosen

    def _with_queries(self, content, chosen, symbols) -> dict[str, np.ndarray]:
        """Appends a query for each target, and scores it."""
        length = chosen.shape[1]
        place, used = layout.slots(chosen, self.num_scored(length))
        target, reach = np.zeros_like(place), np.zeros_like(place)
        target[used], reach[used] = content["token"][chosen], content["rank"][chosen]
        query = {
            "token": np.where(used, symbols.mask, symbols.pad),
            "position": place,
            "segment": used,
            "kind": np.zeros_like(place),
            "rank": np.full_like(place, NEVER),
            "reach": reach - 1,
        }
        group = {
            name: np.concatenate([content[name], query[name]], axis=1, dtype=np.int32)
            for name in content
        }
        slot = length + np.arange(place.shape[1], dtype=np.int32)
        return group | {
            "scored": np.where(used, slot, 0),
            "target": np.where(used, target, symbols.pad).astype(np.int32),
            "weight": used.astype(np.float32),
        }

    def network(self, options: Any, symbols: Symbols) -> Any:
        return models.Transformer(options, size=symbols.size, pattern=self.pattern)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: plm, and accuracy (not differentiated)."""
        length = batch["token"].shape[1] - batch["target"].shape[1]
        states = net.states(batch, scored=batch["scored"], keys=length)
        readout = net.readout(states)
        return recovery("plm", readout, batch, self.cross_entropy), ()
