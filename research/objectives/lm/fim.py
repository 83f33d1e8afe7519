"""Fill in the middle: a causal model that also reads what comes after (Bavarian 2022).

A text is cut at two uniform positions and read as prefix, suffix, middle, each preceded
by a different sentinel, the first of which takes the place of bos. All three are
scored, the sentinels are not; a separator at the end of the text ends the middle
(section 3; bigcode-project/Megatron-LM, megatron/data/gpt_dataset.py).
"""

# B batch, L length, R raw tokens an example

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from research import networks, objectives
from research.contract.batch import ArraySpec, Example, VocabInfo
from research.contract.errors import UserError
from research.contract.fields import fraction
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.layout.prompt import Prompt
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy

NUM_SENTINELS = 3
"""The first sentinels precede prefix, suffix and middle."""


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads L - 2 tokens; texts that are not rearranged are scored as `lm` does."""

    rate: float = fraction(0.5)  # fraction of texts whose middle comes last

    pattern = "causal"
    reads_separators = True
    score_methods: ClassVar = lm.Objective.score_methods
    score_rows: ClassVar = lm.Objective().score_rows  # texts are not rearranged
    min_length = 3  # three sentinels, by which a token is the target of the third

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", length - NUM_SENTINELS + 1)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return lm.Objective().batch_spec(length)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Moves the middle to the end, then shifts the input as `lm` does."""
        width, index = example.token.shape[1], np.arange(length)
        length_B1 = example.length[:, None].astype(np.int64)
        last = np.take_along_axis(example.token, np.maximum(length_B1 - 1, 0), axis=1)
        size = length_B1 - ((last == vocab.eos_id) & (length_B1 > 0))  # of what is cut
        cuts = (counter_rng.uniform(key, "cuts", 2) * (size + 1)).astype(np.int64)
        begin, end = np.split(np.sort(cuts, axis=1), 2, axis=1)  # of the middle
        middle = begin + size - end + 1  # where its sentinel is
        shift = np.where(index < middle, end - begin - 1, begin - middle - 1)
        source = np.where(index < begin, index, index + shift)
        source = np.where(index < size + 2, source, size)  # the separator
        moved = (counter_rng.uniform(key, "moved", 1) < self.rate) & (size > 0)
        order = np.clip(np.where(moved, source, index), 0, width - 1)
        token = np.take_along_axis(example.token, order, axis=1)
        first_id, *others = vocab.sentinel_ids[:NUM_SENTINELS]
        for sentinel, at in zip(others, (begin, middle), strict=True):
            token = np.where(moved & (index == at), sentinel, token)
        num_tokens = length_B1 + len(others) * moved
        token = np.where(index < num_tokens, token, vocab.pad_id)
        flags = np.zeros(token.shape, np.uint8)
        text = example._replace(token=token, flags=flags, length=num_tokens[:, 0])
        batch = lm.Objective().corrupt(text, key, vocab, length)
        batch["token"][moved[:, 0], 0] = first_id
        return batch | {"weight": batch["weight"] * ~np.isin(batch["target"], others)}

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """The prompt of `lm`: the text is not rearranged."""
        return lm.Objective().prompt(texts, vocab)

    def num_sentinels(self, length: int) -> int:
        return NUM_SENTINELS

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: the vocabulary has fewer than three sentinels."""
        if len(vocab.sentinel_ids) < NUM_SENTINELS:
            raise UserError(
                f"objective.name=fim needs data.sentinels of at least {NUM_SENTINELS}, "
                f"not {len(vocab.sentinel_ids)}"
            )
        return super().needs(vocab)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: fim, and accuracy (not differentiated)."""
        readout = net.readout(net.states(batch))
        return masked_cross_entropy("fim", readout, batch), ()
