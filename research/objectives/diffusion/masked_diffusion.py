"""Masked diffusion: tokens are hidden at random rates, and all hidden ones predicted.

Its fields give MDLM (Sahoo et al. 2024), LLaDA (Nie et al. 2025), block diffusion (BD3-
LM, Arriola et al. 2025) and the schedules of Kosmopoulou et al. (2025). For the orders
of Sigma-GPT (Pannatier et al. 2024) use `plm` with tokens_per_target 1, max_span 0 and
num_permutations 1: its two positions per token, those of the token and of its target,
are a token and a query there.
"""

# B batch, L length of the text with bos, N blocks of a row, S tokens of a block

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo, input_specs
from research.contract.fields import choice, fraction, number
from research.contract.parts import keys_of_parts
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.diffusion import bound, layout, noise, schedules
from research.objectives.layout import input_format
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import Term, cross_entropy
from research.objectives.noise import cloze, scoring

EVALUATION_STRATA = 64


@dataclass(frozen=True)
@keys_of_parts(schedules.FOLDER, "schedule")
class Objective(objectives.Objective):
    """Reads bos and L - 1 tokens, some of which are masks; bos is never hidden.

    Each row, or each block of it, draws t in (min_t, max_t), which gives the rate of
    masks and the weight of a masked token's loss. The loss is a sum over masked tokens
    divided by the number of all tokens of the text: with schedule linear, weighting
    bound and (min_t, max_t) = (0, 1) its mean is a bound on -log p per token.
    Evaluations estimate this bound with exact counts.

    With `block_size` S a row is its noised half, then its clean half: a noised block
    attends to itself and to the clean blocks before it, a clean block to itself and to
    those. So S = 1 with min_t = 1 is an autoregressive model, and S = L equals no
    blocks. The first block has bos and S - 1 tokens.
    """

    block_size: int = number(0, least=0)  # positions per block; 0: no blocks, tokens
    # attend to the whole row
    schedule: str = choice("linear", schedules.FOLDER.lines())  # mask rate as a
    # function of t
    probability: str = choice("t", ("t", "scaled"))  # of a mask with schedule linear;
    # scaled (MDLM's code): (1 - min_t) t, whose loss is (1 - min_t) of the bound
    min_t: float = number(1e-3, above=0, most=1)  # t is uniform in (min_t, max_t)
    max_t: float = number(1.0, above=0, most=1)
    strata: int = number(64, least=1)  # number of consecutive rows whose t are
    # stratified over (min_t, max_t) (MDLM's code: the batch); 1: independent (LLaDA)
    count: str = choice("independent", ("independent", "inside", "exact"))  # of masks
    # in a block. independent: each token is masked independently; inside: the same,
    # given that the fraction is in (min_t, max_t), where 1e-3 and 1 do not count;
    # exact: uniform from 1 to all tokens, the loss times tokens / count
    weighting: str = choice("bound", ("bound", "none"))  # none: all masked tokens have
    # weight 1 (block diffusion's code if min_t is above .5)
    short_rate: float = fraction(0.0)  # fraction of rows cut to a uniformly random
    # length (LLaDA: .01)
    frequency_power: float = number(0.0, least=0)  # exponent of a token's frequency
    # rank, by which rare tokens are masked more often; 0: all equally often

    reads_separators = True
    write_order = "masks"
    divides_length = "block_size"
    min_length = 2  # bos and a token
    token_terms = ("diffusion",)
    score_methods: ClassVar = bound.METHODS | cloze.METHODS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_t > self.max_t:
            raise ValueError(
                f"min_t must be at most max_t ({self.max_t}), got {self.min_t}"
            )
        if not self.noise_schedule.rate_is_time and (
            self.probability != "t" or self.count != "independent"
        ):
            raise ValueError(
                f"schedule {self.schedule} needs probability t and count independent, "
                f"got {self.probability} and {self.count}"
            )
        if self.frequency_power and (self.count != "independent" or self.block_size):
            raise ValueError(
                "frequency_power needs count independent and block_size 0, got "
                f"{self.count} and {self.block_size}"
            )
        self._check_inside()

    def _check_inside(self) -> None:
        """Raises ValueError: no count of a block's masks is inside the limits."""
        if self.count != "inside" or not self.block_size:
            return
        least, most = self._limits
        counts = np.arange(self.block_size + 1) / self.block_size
        if not ((counts >= least) & (counts <= most)).any():
            raise ValueError(
                f"block_size {self.block_size} has no count between min_t "
                f"({self.min_t}) and max_t ({self.max_t}); set a larger one, such as 4"
            )

    @property
    def pattern(self) -> str:
        return "general" if self.block_size else "full"

    @property
    def shown_answers(self) -> dict[str, str]:
        reason = (
            "how often a row's tokens are masked depends on how rare the others are"
        )
        return {"diffusion": reason} if self.frequency_power else {}

    @property
    def fills_masks(self) -> bool:
        return not self.block_size

    @property
    def _limits(self) -> tuple[float, float]:
        """The smallest and largest fraction of masks with count inside.

        kuleshov-group/bd3lms (diffusion.py, _resample_q_xt) does not require a mask if
        min_t is 1e-3.
        """
        return self.min_t if self.min_t > 1e-3 else 0.0, self.max_t

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", length - 1)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """text_weight is 1 at the text's tokens, hidden or not."""
        answers = layout.answer_specs(length)
        if not self.block_size:
            return input_specs(length) | answers
        intervals = ("low2", "reach2")
        scored = {"scored": ArraySpec((length,))}
        return input_specs(2 * length, intervals=intervals) | scored | answers

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks tokens at the rate of their row or block."""
        num_raw = np.minimum(example.length, length - 1).astype(np.int64)
        if self.short_rate:
            short, cut = counter_rng.uniform(key, "short", 2).T
            fewer = 1 + (cut * num_raw).astype(np.int64)
            num_raw = np.where(short < self.short_rate, fewer, num_raw)
            num_raw = np.minimum(num_raw, example.length)
        token = layout.with_bos(example.token, num_raw, vocab, length)
        index = np.arange(length)
        candidate = (index > 0) & (index <= num_raw[:, None])
        chosen, weight = self._choose(token, candidate, example, key, vocab)
        return layout.arrays(
            token, num_raw, candidate, chosen, weight, vocab, self.block_size
        )

    def _choose(
        self,
        token: np.ndarray,
        candidate: np.ndarray,
        example: Example,
        key: np.ndarray,
        vocab: VocabInfo,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which tokens are masked, [B, L] bool, and their weights [B, L] float64."""
        if self.min_t == 1 and self.count != "exact":
            return candidate, candidate.astype(float)
        length = candidate.shape[1]
        size = self.block_size or length
        num = noise.in_blocks(candidate, size).sum(axis=-1)
        draw = noise.stratified(key, example.number, self.strata, num.shape[1])

        def at_tokens(of_block: np.ndarray) -> np.ndarray:
            return np.repeat(of_block, size, axis=1)[:, :length]

        if self.count == "exact":
            count = 1 + (draw * num).astype(np.int64)
            chosen = noise.choose_counts(key, candidate, count, size)
            weight = num / count
        else:
            t = self.min_t + (self.max_t - self.min_t) * draw
            rate, weight = self._noise(t, key)
            if self.count == "inside":
                again = counter_rng.uniform(key, "count", num.shape[1])
                count = noise.counts_inside(rate, num, *self._limits, again)
                chosen = noise.choose_counts(key, candidate, count, size)
            else:
                rates = at_tokens(rate)
                if power := self.frequency_power:
                    rank = layout.frequency_rank(vocab)[token]
                    rates = noise.by_rarity(rank, candidate, rate, power)
                chosen = counter_rng.uniform(key, "mask", length) < rates
                chosen &= candidate
        if self.weighting == "none":
            weight = np.ones_like(weight)
        return chosen, at_tokens(weight) * chosen

    @functools.cached_property
    def noise_schedule(self) -> schedules.Schedule:
        """The schedule that the field `schedule` names, with its keys."""
        found: schedules.Schedule = schedules.FOLDER.make(self.field_values, "schedule")
        return found

    def _noise(self, t: np.ndarray, key: np.ndarray) -> noise.Noise:
        """Rates and weights at t [B, N]."""
        rate, weight = self.noise_schedule.noise(t, key)
        scale = 1 - self.min_t if self.probability == "scaled" else 1.0
        return noise.Noise(scale * rate, weight)

    def for_evaluation(self) -> "Objective":
        """The objective whose loss is the bound with exact counts."""
        return replace(
            self,
            schedule="linear",
            probability="t",
            count="exact",
            weighting="bound",
            short_rate=0.0,
            frequency_power=0.0,
            strata=EVALUATION_STRATA,
        )

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """Rows with random masks among the scored tokens, or one row per scored token.

        See `bound.score_rows` and `bound.pseudo_rows`.
        """
        make = bound.score_rows if method in bound.METHODS else bound.pseudo_rows
        return make(example, scored, vocab, length, method, block_size=self.block_size)

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """Texts after bos, to be followed by masks."""
        rows = pad_rows([[vocab.bos_id, *text] for text in texts], vocab.pad_id)
        return Prompt(input_format.full_input(*rows), block_size=self.block_size)

    def specials(self, vocab: VocabInfo) -> Specials:
        """Only bos: the end of a document is a token of the text."""
        return Specials((vocab.bos_id,))

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(pattern=self.pattern)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: diffusion; accuracy with the same weights (not differentiated)."""
        scored = {"scored": batch["scored"]} if "scored" in batch else {}
        readout = net.readout(net.states(batch, **scored))
        term, correct = cross_entropy(readout, batch["target"], batch["weight"])
        accuracy = Term(correct, term.weight, 0.0)
        text = jnp.sum(batch["text_weight"])
        return {"diffusion": term._replace(weight=text), "accuracy": accuracy}, ()
