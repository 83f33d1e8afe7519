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
    BACKWARD,
    NEVER,
    WORD,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.data import counter_rng
from research.objectives.inputs import input_format, recurrence, xlnet_segments
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy


@dataclass(frozen=True)
class Objective:
    """TextSpec text, specials of which bos (the class token) is last, and K queries.

    A row is cut into parts with an order each; a part sees all of the earlier ones
    and none of the later (the released code's reused half; 1 part: the paper's
    formula). Targets and specials carry a random rank; all other tokens of the part
    come before them and see each other.

    Format "single" is L - 2 tokens, eos, bos, all of kind 0. "pair" cuts the text of
    the last part in two: all that is before and the first, eos (kind 0), the second,
    eos (1), bos (2); see `segments.read`. Rows that run backwards are read from their
    end, and their positions run down (the released code's bidirectional data).

    A memory is what the layers read at the last so many places before the row, in
    streams that run on from step to step. Rows then go on after all parts but the last,
    and what those read is remembered, the content stream alone; nothing is learned
    through it (section 2.4). It needs relative positions.

    BART's simplified permuted LM (Lewis et al. 2020, section 4.1) is span 0 and one
    part: single tokens, and no parts that reach back.
    """

    one_in: int = (
        6  # tokens per target; a span of n stands among so many times n others
    )
    span: int = 5  # longest span; a length n has probability ~ 1 / n; 0: single tokens
    parts: int = 2  # of a row
    format: str = "single"  # single | pair
    far: float = 0.5  # of pairs: share whose second segment is not the first's next
    direction: str = "forward"  # forward | both: half of the rows run backwards
    memory: int = 0  # places before a row that it remembers; 0: none

    family = "PLM"
    pattern = "general"
    supports_accumulation = True

    def __post_init__(self):
        if min(self.one_in, self.span + 1, self.parts) < 1:
            raise ValueError("one_in and parts are at least 1, span at least 0")
        if not 0 <= self.far <= 1:
            raise ValueError(f"far is a share, from 0 to 1, not {self.far}")
        if self.memory < 0 or (self.memory and self.parts < 2):
            raise ValueError(
                "memory is at least 0 places, of all parts but the last; so parts is "
                "then at least 2"
            )
        for name, legal in (
            ("format", ("single", "pair")),
            ("direction", ("forward", "both")),
        ):
            if getattr(self, name) not in legal:
                raise ValueError(
                    f"{name} is {' or '.join(legal)}, not {getattr(self, name)!r}"
                )

    def num_scored(self, length: int) -> int:
        """K: 85 at length 512."""
        return length // self.one_in

    def text_spec(self, length: int) -> TextSpec:
        """Text that runs on, and after it more, where a far segment is taken from."""
        pair = self.format == "pair"
        ahead = xlnet_segments.AHEAD * length if pair and self.far else 0
        stride = self._reused(length) if self.memory or pair else 0
        return TextSpec(
            "stream",
            length - 2 - pair + ahead,
            contiguous=self.memory > 0,
            stride=stride or (length - 3) * pair,
            reverse=self.direction == "both",
        )

    def _reused(self, length: int) -> int:
        """Places of all parts but the last: the next row starts behind them."""
        return length * (self.parts - 1) // self.parts

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        num_scored = self.num_scored(length)
        return input_specs(length + num_scored) | scored_specs(num_scored)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides each target from itself and from what comes before it in the order."""
        backward = self._backward(example, key)
        text = xlnet_segments.read(
            example,
            key,
            vocab,
            length,
            backward=backward,
            parts=self.parts if self.format == "pair" else 0,
            far=self.far,
        )
        token, num_tokens = text.token, text.length[:, None]
        edge = num_tokens * np.arange(self.parts + 1) // self.parts
        special = vocab.is_special[token]

        place = np.arange(length)
        part = (place >= edge[:, 1:-1, None]).sum(axis=1)
        first = np.take_along_axis(edge, part, axis=1)
        start = (text.flags & WORD) > 0
        if backward.any():  # spans are placed in the order of the text
            last = np.take_along_axis(edge, part + 1, axis=1) - 1
            turn = backward[:, None] & (place < num_tokens)
            order = np.where(turn, first + last - place, place)
            chosen = self._targets(
                key,
                np.take_along_axis(start, order, axis=1),
                np.take_along_axis(~special, order, axis=1),
                edge,
            )
            chosen = np.take_along_axis(chosen, order, axis=1)
        else:
            chosen = self._targets(key, start, ~special, edge)

        order = counter_rng.permutation(key, "order", -(-length // self.parts))
        inside = np.minimum(place - first, order.shape[1] - 1)
        base = part * (order.shape[1] + 1)
        drawn = base + np.take_along_axis(order, inside, axis=1)
        rank = np.where(chosen | special, drawn, base - 1).astype(np.int32)
        position = np.where(backward[:, None], length - 1 - place, place)
        content = input_format.full(token, text.length) | {
            "position": position.astype(np.int32),
            "token_type": text.token_type,
            "rank": rank,
            "reach": rank,
        }
        return self._with_queries(content, chosen, vocab)

    def _backward(self, example: Example, key: np.ndarray) -> np.ndarray:
        """[B] bool: the rows that run backwards; in streams the text says which."""
        if self.direction == "forward":
            return np.zeros(len(key), bool)
        if self.memory:
            return example.label == BACKWARD
        return counter_rng.uniform(key, "backward", 1)[:, 0] < 0.5

    def _targets(self, key, start, candidate, edge) -> np.ndarray:
        """[B, L] bool: spans, topped up by single tokens to a goal for each part."""
        num_parts = self.parts
        total = edge[:, -1:] // self.one_in
        goal = np.diff(total * np.arange(num_parts + 1) // num_parts, axis=1)
        chosen = np.zeros(start.shape, bool)
        if self.span:
            chosen = counter_rng.choose_spans(
                key,
                "spans",
                start,
                candidate,
                begin=edge[:, :-1],
                end=edge[:, 1:],
                goal=goal,
                max_span=self.span,
                context_ratio=self.one_in,
            )
        place = np.arange(start.shape[1])
        for part in range(num_parts):
            inside = (place >= edge[:, part, None]) & (place < edge[:, part + 1, None])
            missing = goal[:, part] - (chosen & inside).sum(axis=1)
            free = candidate & inside & ~chosen
            chosen |= counter_rng.choose_subset(key, f"single {part}", free, missing)
        return chosen

    def _with_queries(self, content, chosen, vocab) -> dict[str, np.ndarray]:
        """Appends a query for each target, and scores it."""
        length = chosen.shape[1]
        place, used = input_format.slots(chosen, self.num_scored(length))
        of_target = {name: np.zeros_like(place) for name in content}
        for name, array in of_target.items():
            array[used] = content[name][chosen]
        target = of_target["token"]
        query = of_target | {
            "token": np.where(used, vocab.mask_id, vocab.pad_id),
            "rank": np.full_like(place, NEVER),
            "reach": of_target["reach"] - 1,
        }
        group = {
            name: np.concatenate([content[name], query[name]], axis=1, dtype=np.int32)
            for name in content
        }
        slot = length + np.arange(place.shape[1], dtype=np.int32)
        return group | {
            "scored": np.where(used, slot, 0),
            "target": np.where(used, target, vocab.pad_id).astype(np.int32),
            "weight": used.astype(np.float32),
        }

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: there are kinds, but too few for the format."""
        if self.format == "pair":
            input_format.check_token_types(options, xlnet_segments.NUM_KINDS)
        return models.Transformer(options, size=vocab.size, pattern=self.pattern)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: plm, and accuracy (not differentiated)."""
        length = batch["token"].shape[1] - batch["target"].shape[1]
        places, carry = {"scored": batch["scored"], "num_keys": length}, ()
        if self.memory:
            memory = recurrence.recall(net, batch, self.memory)
            kept = self._reused(length)
            states, memory = net.states(batch, **places, mems=memory, reuse_len=kept)
            carry = recurrence.remember(batch, memory, length)
        else:
            states = net.states(batch, **places)
        readout = net.readout(states)
        return masked_cross_entropy("plm", readout, batch), carry
