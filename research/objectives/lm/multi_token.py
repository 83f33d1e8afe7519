"""Multi-token prediction: a causal model that also predicts tokens after the next.

The later tokens are predicted by parallel blocks on the states that enter the last
layer, whose readout they share (Gloeckle et al. 2024); by stacked blocks, each of which
also reads the token before the one it predicts (DeepSeek-AI 2024, section 2.2; MaxText,
multi_token_prediction.py); or without further parameters: they are also scored with the
next token's logits (KellerJordan/modded-nanogpt, train_gpt.py).
"""

# B batch, L length

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo, input_group
from research.contract.fields import choice, number
from research.data.rows import TextSpec
from research.objectives.layout.prompt import Prompt
from research.objectives.layout.specials import Specials
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import (
    Term,
    cross_entropy,
    masked_cross_entropy,
    with_accuracy,
)

HEADS = ("parallel", "sequential", "none")


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Rows, scores and texts are those of `lm`; evaluations count only its loss."""

    num_future: int = number(3, least=1, most=16)  # tokens after the next one that each
    # position also predicts; with documents apart only in its own document
    heads: str = choice("parallel", HEADS)  # of these tokens. parallel: a block on the
    # input of the last layer; sequential: stacked blocks that also read tokens; none:
    # the readout of the next token
    future_coef: float = number(1.0, least=0)  # of the first of their losses
    # (DeepSeek-V3's sequential heads: .3 / num_future, then .1 / num_future)
    decay: float = number(1.0, above=0, most=1)  # of each loss relative to the one
    # before it (modded-nanogpt: .5, .25 with future_coef .5, decay .5)
    documents: str = choice("joined", ("joined", "apart"))  # as in lm

    pattern = "causal"
    reads_separators = True
    token_terms = ("lm",)
    score_methods: ClassVar = lm.Objective.score_methods
    score_rows: ClassVar = lm.Objective().score_rows

    @property
    def min_length(self) -> int:
        """The number of tokens that one position predicts."""
        return 1 + self.num_future

    @property
    def num_drafts(self) -> int:
        return self.num_future * (self.heads != "none")

    @property
    def _lm(self) -> lm.Objective:
        return lm.Objective(documents=self.documents)

    def text_spec(self, length: int) -> TextSpec:
        return self._lm.text_spec(length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """Also targets and weights of each token after the next: next2_target, ..."""
        specs = self._lm.batch_spec(length)
        answers = {name: specs[name] for name in ("target", "weight")}
        return specs | {
            f"{prefix}_{name}": spec
            for prefix in self._prefixes
            for name, spec in answers.items()
        }

    @property
    def _prefixes(self) -> list[str]:
        return [f"next{2 + ahead}" for ahead in range(self.num_future)]

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """The rows of `lm`, and its targets shifted within each segment."""
        batch = self._lm.corrupt(example, key, vocab, length)
        segment = batch["segment"]
        for ahead, prefix in enumerate(self._prefixes, start=1):
            shift = min(ahead, length)
            there = np.pad(segment, ((0, 0), (0, shift)))[:, shift:] == segment
            there &= segment > 0
            target = np.pad(batch["target"], ((0, 0), (0, shift)))[:, shift:]
            weight = np.pad(batch["weight"], ((0, 0), (0, shift)))[:, shift:]
            batch[f"{prefix}_target"] = np.where(there, target, np.int32(vocab.pad_id))
            batch[f"{prefix}_weight"] = np.where(there, weight, np.float32(0))
        return batch

    def for_evaluation(self) -> "Objective":
        return self.with_fields(future_coef=0.0)

    def for_scoring(self) -> lm.Objective:
        """The objective of the next token alone."""
        return self._lm

    def specials(self, vocab: VocabInfo) -> Specials:
        return self._lm.specials(vocab)

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        return self._lm.prompt(texts, vocab)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(
            pattern=self.pattern,
            future=self.num_drafts,
            future_tokens=self.heads == "sequential",
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: lm, next2, ..., and the accuracy of each (not differentiated)."""
        group = input_group(batch)
        if self.heads == "parallel":
            outputs = net.outputs(group, with_inputs=True)
            states, inputs = outputs.states, cast(jax.Array, outputs.inputs)
        else:
            states = net.states(group)
        terms = masked_cross_entropy("lm", net.readout(states), batch)
        future = states
        for ahead, prefix in enumerate(self._prefixes):
            if self.heads == "parallel":
                future = net.future_outputs(group, inputs[-1], ahead).states
            elif self.heads == "sequential":
                token = jnp.roll(group["token"], -1 - ahead, axis=1)
                read = group | {"token": token}
                future = net.future_outputs(read, future, ahead).states
            answers = batch[f"{prefix}_target"], batch[f"{prefix}_weight"]
            term, correct = cross_entropy(net.readout(future), *answers)
            coef = self.future_coef * self.decay**ahead
            terms |= with_accuracy(prefix, term, correct, coef=coef)
        return terms, ()
