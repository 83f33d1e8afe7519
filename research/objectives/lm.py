"""Language modelling: each token from all on one side of it (GPT, Radford et al. 2018).

Text is laid out in the order in which it is read, so a backward model is a forward one
of the reversed text, down to its positions.
"""

# B batch, L length, S documents of a row

from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import (
    DOCUMENT,
    INPUT_ARRAYS,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.data import counter_rng
from research.objectives.inputs import input_format, recurrence
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy

SIDES = ("forward", "backward")


@dataclass(frozen=True)
class Objective:
    """TextSpec L tokens and scores every one; bos stands before the first.

    Direction "both" has a network each way, over one table and one softmax, and the
    mean of the two losses (ELMo, Peters et al. 2018, section 3.1); its arrays and terms
    come twice, named by side.

    A prefix is the first 1 to n - 1 of n tokens, all equally likely: its places see
    each other, and what follows is scored (Raffel et al. 2020, section 3.2.1). A text
    of one token has none and scores nothing.

    Documents that are joined see each other, as in GPT-2. Apart, each is a segment with
    positions and a prefix of its own; bos takes the place of the token before its
    first, so that nothing passes the seam and each token stays one target (as packed
    targets are shifted in T5). The separator ends the document that is read before it.

    A memory is what the layers read at the last so many places before the row, in
    streams that run on from step to step; nothing is learned through it
    (Transformer-XL, Dai et al. 2019, section 3.2). It needs relative positions. A row
    then begins with the last target of the row before it, and not with bos.
    """

    direction: str = "forward"  # forward | backward | both
    prefix: str = "none"  # none | random
    documents: str = "joined"  # joined | apart
    memory: int = 0  # places before a row that it remembers; 0: none

    family = "LM"
    supports_accumulation = True

    def __post_init__(self):
        for name, legal in {
            "direction": (*SIDES, "both"),
            "prefix": ("none", "random"),
            "documents": ("joined", "apart"),
        }.items():
            if getattr(self, name) not in legal:
                raise ValueError(
                    f"{name} is one of {', '.join(legal)}, not {getattr(self, name)!r}"
                )
        if self.memory < 0:
            raise ValueError(f"memory is at least 0 places, not {self.memory}")
        plain = (self.direction, self.prefix, self.documents)
        if self.memory and plain != ("forward", "none", "joined"):
            raise ValueError(
                "a memory is of all that stands before a row; it goes with direction "
                "forward, prefix none and documents joined"
            )

    @property
    def pattern(self) -> str:
        return "causal" if self.prefix == "none" else "general"

    def text_spec(self, length: int) -> TextSpec:
        if not self.memory:
            return TextSpec("stream", length)
        return TextSpec("stream", length + 1, contiguous=True, stride=length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = input_specs(length) | scored_specs(length, gathered=False)
        return {
            prefix + name: spec
            for prefix in self._prefixes.values()
            for name, spec in specs.items()
        }

    @property
    def _prefixes(self) -> dict[str, str]:
        """Side -> the prefix of its arrays."""
        if self.direction == "both":
            return {side: f"{side}_" for side in SIDES}
        return {self.direction: ""}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides the future: the input is the target one place later."""
        if self.memory:
            return _shifted(example, vocab, length)
        batch = {}
        for side, prefix in self._prefixes.items():
            made = self._side(side, example, key, vocab, length)
            batch |= {prefix + name: array for name, array in made.items()}
        return batch

    def _side(self, side, example, key, vocab, length) -> dict[str, np.ndarray]:
        """The arrays of one direction, in reading order."""
        place = np.arange(length, dtype=np.int32)
        here = place < example.length[:, None]
        target, start = read(example, vocab, backward=side == "backward")
        start[:, 1:] &= self.documents == "apart"

        token = np.where(start, vocab.bos_id, np.roll(target, 1, axis=1))
        segment = np.cumsum(start, axis=1, dtype=np.int32) * here
        first = np.maximum.accumulate(np.where(start, place, 0), axis=1)
        position = place - first
        scored, rank = here, position
        if self.prefix == "random":
            cut = cuts(key, f"cut {side}", segment)
            scored, rank = here & (position >= cut), np.maximum(0, position - cut)
        return {
            "token": np.where(here, token, vocab.pad_id).astype(np.int32),
            "position": position,
            "segment": segment,
            "token_type": np.zeros_like(position),
            "rank": rank,
            "reach": rank.copy(),
            "target": target,
            "weight": scored.astype(np.float32),
        }

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        kind = models.BiLM if self.direction == "both" else models.Transformer
        return kind(options, size=vocab.size, pattern=self.pattern)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: lm, and accuracy (not differentiated); of both, `forward/lm`, ..."""
        if self.memory:
            memory = recurrence.recall(net, batch, self.memory)
            states, memory = net.states(batch, mems=memory)
            terms = self._score(net, batch, states)
            length = batch["token"].shape[1]
            return terms, recurrence.remember(batch, memory, length)
        if self.direction != "both":
            return self._score(net, batch, net.states(batch)), ()
        terms = {}
        for side, prefix in self._prefixes.items():
            names = (*INPUT_ARRAYS, "target", "weight")
            own = {name: batch[prefix + name] for name in names}
            one = getattr(net, side)
            for name, term in self._score(one, own, one.states(own)).items():
                terms[f"{side}/{name}"] = term._replace(coef=term.coef / len(SIDES))
        return terms, ()

    def _score(self, net: Any, batch: dict, states: Any) -> dict[str, Term]:
        return masked_cross_entropy("lm", net.readout(states), batch)


def _shifted(example: Example, vocab: VocabInfo, length: int) -> dict[str, np.ndarray]:
    """L tokens as they stand, which are to give those from the second one on."""
    end = np.maximum(example.length - 1, 0)
    here = np.arange(length) < end[:, None]
    token, target = (
        np.where(here, side, vocab.pad_id).astype(np.int32)
        for side in (example.token[:, :-1], example.token[:, 1:])
    )
    group = input_format.causal(token, end)
    return group | {"target": target, "weight": here.astype(np.float32)}


def read(
    example: Example, vocab: VocabInfo, *, backward: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens in reading order, and where a document starts, each [B, L].

    A separator belongs to the document that is read before it: so backward too, where
    it stands between the first token of a document and the last of the one before.
    """
    token = np.array(example.token, np.int32)
    opens = (example.flags & DOCUMENT) > 0
    if backward:
        length = token.shape[1]
        place, end = np.arange(length), example.length[:, None]
        order = np.where(place < end, end - 1 - place, place)
        token = np.take_along_axis(token, order, axis=1)
        opens = np.take_along_axis(opens, order, axis=1)
        # What is read next is of another document, unless it is the separator.
        opens = np.roll(opens, 1, axis=1) & (token != vocab.eos_id)
    start = opens | np.roll(token == vocab.eos_id, 1, axis=1)
    start[:, 0] = True
    return token, start


def cuts(key: np.ndarray, role: str, segment: np.ndarray) -> np.ndarray:
    """[B, L]: of each place's segment, where its prefix ends: uniform in 1..size - 1.

    Segments 1, 2, ... of a row are drawn one by one; a segment of one place gets 1.
    """
    num_rows, length = segment.shape
    row = np.arange(num_rows)[:, None] * (length + 1)
    size = np.bincount((row + segment).ravel(), minlength=num_rows * (length + 1))
    size_BS = size.reshape(num_rows, length + 1)
    draw_BS = counter_rng.uniform(key, role, length + 1)
    cut_BS = 1 + (draw_BS * np.maximum(size_BS - 1, 1)).astype(np.int32)
    return np.take_along_axis(cut_BS, segment, axis=1)
