"""Masked language modelling: hidden tokens from both sides (BERT, Devlin et al. 2019).

The published variants (ALBERT, RoBERTa, SpanBERT, StructBERT, whole word masking)
differ in its fields: the unit of masking, what replaces tokens, the format of the text,
and further losses.
"""

# B batch, L length, K scored positions

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    DOCUMENT,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.errors import UserError
from research.contract.fields import check_sum, choice, fraction, free_text, number
from research.data.rows import TextSpec
from research.objectives.layout import input_format, sentence_pairs
from research.objectives.layout.input_format import SINGLE_FORMATS
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import (
    Term,
    cross_entropy,
    masked_cross_entropy,
)
from research.objectives.noise import cloze, mask_units, scoring
from research.objectives.noise.masking import (
    DRAW_UNITS,
    RANDOM_TOKENS,
    ROUNDINGS,
    STAYS,
    TOKEN_SETS,
    choose_independently,
    mask_budget,
    max_masked,
    num_trigrams,
    ordinary_counts,
    replace_chosen,
    shuffle_trigrams,
    span_boundaries,
)

PREDICT_AT = ("masked", "previous")
SHIFTED = "shifted"
"""The format of rows like a causal model's."""
SENTENCE_TASKS = ("none", "nsp", "sop", "sop_released", "structural")


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Hides some tokens of a text, or of a pair of texts, and predicts each of them.

    A row is bos, text, eos, or bos, A, eos, B, eos. rate * tokens of them are chosen
    and scored, where `tokens` includes specials.
    """

    rate: float = number(0.15, above=0, below=1)  # fraction of tokens that is chosen
    first_rate: float = number(0.0, least=0, below=1)  # rate at step 0, which changes
    # linearly to `rate` at step rate_steps; 0: constant (GPT-BERT: 0.3 to 0.15 at the
    # end of the run)
    rate_steps: int = number(0, least=0)  # see first_rate
    max_predictions: int = number(0, least=0)  # the most tokens chosen per row, or per
    # document of packed rows; 0: rate * length
    mask_fraction: float = fraction(0.8)  # of the chosen: becomes the mask token
    random_fraction: float = fraction(0.1)  # of the chosen: becomes a random token; the
    # rest stays
    predict_at: str = choice("masked", PREDICT_AT)  # the position whose state predicts
    # a chosen token: its own, or the one before it, as in a causal model (GPT-BERT,
    # Charpentier and Samuel 2024; ltgoslo/gpt-bert, dataset.py, MaskedDataset)
    unit: str = choice("token", mask_units.UNITS)  # what is chosen as a whole
    max_words: int = number(0, least=0)  # words of an n-gram or span, or tokens of a
    # tile; 0: 3 for an n-gram or tile, 10 for a span
    entry_types: str = free_text("")  # of data.lexicon, separated by commas. Unit
    # lexicon: entries that are chosen before single words ("": all); other units:
    # entries that count as words
    count_exponent: float = number(0.0, least=0, most=8)  # tokens are drawn one by one
    # with probability ~ count ** -count_exponent, by their count in the training text;
    # unk is never drawn (DistilBERT: 0.7)
    draw_unit: str = choice("token", DRAW_UNITS)  # mask, random or stay is drawn once
    # per token, or once per contiguous run of chosen tokens
    candidates: str = choice("ordinary", TOKEN_SETS)  # what may be chosen; all: also
    # specials (RoBERTa's code)
    random_tokens: str = choice("ordinary", RANDOM_TOKENS)  # what random tokens are
    # drawn from; all: the whole vocabulary (BERT's code); corpus: the unigram
    # distribution of the training text (SpanBERT's code)
    rounding: str = choice("nearest", (*ROUNDINGS, "independent"))  # of rate * tokens;
    # random (RoBERTa): floor(rate * tokens + u); up (SpanBERT): specials do not count
    # as tokens; independent (ERNIE): each unit is chosen independently with p = rate
    format: str = choice(
        "stream", (*SINGLE_FORMATS, SHIFTED, *sentence_pairs.PAIR_FORMATS)
    )  # shifted: as objective lm with documents apart: each position reads the token
    # before its own (GPT-BERT)
    sentence_task: str = choice("none", SENTENCE_TASKS)  # classifies pairs, see
    # `sentence_pairs`
    short_rate: float = fraction(0.1)  # fraction of segment pairs that are shortened
    shuffle_rate: float = fraction(0.0)  # fraction of tokens in trigrams that are
    # shuffled, then scored (StructBERT: 0.05)
    z_loss: float = number(0.0, least=0)  # factor of log(Z)^2 in training (GPT-BERT:
    # 1e-4)
    boundary_targets: int = number(0, least=0)  # positions of a span that are also
    # predicted from the unmasked tokens around it (SpanBERT: 15), unless it touches a
    # special; 0: none

    pattern = "full"
    write_order = "masks"
    token_terms = ("mlm",)
    takes_mask_rate = True
    pretrains_entities = True
    score_methods: ClassVar = cloze.METHODS
    shown_answers: ClassVar = {"mlm": STAYS, "sbo": STAYS}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "mask_fraction", "random_fraction")
        check_sum(self, "rate", "shuffle_rate")
        if bool(self.first_rate) != bool(self.rate_steps):
            raise ValueError(
                "first_rate and rate_steps must both be 0 or both above 0, got "
                f"{self.first_rate} and {self.rate_steps}"
            )
        if self.rounding == "independent" and self._unit.longest > 1:
            single = [n for n, unit in mask_units.UNITS.items() if unit.longest == 1]
            raise ValueError(
                f"rounding independent needs unit {' or '.join(single)}, not "
                f"{self.unit}, of which a row has as many as fit its budget"
            )
        if self.count_exponent and not self._takes_weights:
            raise ValueError(
                f"count_exponent needs unit {_weighted_units()}, and a rounding other "
                "than independent"
            )
        if self.shuffle_rate and self.boundary_targets:
            raise ValueError(
                "shuffle_rate and boundary_targets cannot be combined: shuffled "
                "trigrams have no boundary"
            )
        if self.predict_at == "previous":
            if self.boundary_targets or self.shuffle_rate:
                raise ValueError(
                    "predict_at previous needs boundary_targets and shuffle_rate 0"
                )
            if self.candidates == "all":
                raise ValueError(
                    "predict_at previous needs candidates ordinary: nothing is before "
                    "a row's first token"
                )
        if self.boundary_targets and self.candidates == "all":
            raise ValueError(
                "boundary_targets needs candidates ordinary: a span of specials has no "
                "boundary"
            )
        if self.format == SHIFTED and (
            self.predict_at != "previous" or self.sentence_task != "none"
        ):
            raise ValueError(
                "format shifted needs predict_at previous and sentence_task none, got "
                f"{self.predict_at} and {self.sentence_task}"
            )
        if self.sentence_task != "none" and self.format in SINGLE_FORMATS:
            raise ValueError(
                f"sentence_task {self.sentence_task} needs two spans: format is "
                f"{' or '.join(sentence_pairs.PAIR_FORMATS)}, not {self.format}"
            )

    def num_masked(self, length: int) -> int:
        """The most masked tokens: by default 20 at length 128, 77 at 512."""
        independent = self.rounding == "independent"
        rate = max(self.rate, self.first_rate)
        most = max_masked(rate, length, independent=independent)
        return min(most, self.max_predictions or most) + self._surplus

    @property
    def lexicon_lines(self) -> str:
        return mask_units.LINES if self._unit.reads_lexicon else ""

    @property
    def _unit(self) -> mask_units.Unit:
        return mask_units.UNITS[self.unit]

    @property
    def _takes_weights(self) -> bool:
        return self._unit.takes_weights and self.rounding != "independent"

    @property
    def _surplus(self) -> int:
        return self._unit.surplus(self.max_words)

    @property
    def reads_step(self) -> bool:
        return self.first_rate > 0

    def rate_at(self, step: np.ndarray) -> np.ndarray | float:
        """The rate or, with first_rate, the rate at each step [B]."""
        if not self.first_rate:
            return self.rate
        left = np.maximum(1 - step / self.rate_steps, 0)
        return self.rate + (self.first_rate - self.rate) * left

    @property
    def fills_masks(self) -> bool:
        return self.mask_fraction > 0 and self.predict_at == "masked"

    @property
    def min_length(self) -> int:
        """bos, a token, eos; for pairs two more; for format shifted a token."""
        if self.format == SHIFTED:
            return 1
        return 3 if self.format in SINGLE_FORMATS else sentence_pairs.MIN_LENGTH

    @property
    def reads_separators(self) -> bool:
        return self.format == SHIFTED

    def specials(self, vocab: VocabInfo) -> Specials:
        """BERT's specials; only bos with format shifted."""
        if self.format == SHIFTED:
            return Specials((vocab.bos_id,))
        return super().specials(vocab)

    def text_spec(self, length: int) -> TextSpec:
        if self.format == SHIFTED:
            return TextSpec("stream", length)
        if self.format in SINGLE_FORMATS:
            return TextSpec(SINGLE_FORMATS[self.format], length - 2)
        return sentence_pairs.text_spec(
            self.sentence_task, self.format, length, self.short_rate
        )

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """K counts masked and shuffled positions, and one for the class token."""
        has_task = self.sentence_task != "none"
        trigrams = int(num_trigrams(length, self.shuffle_rate))
        count = self.num_masked(length) + 3 * trigrams + has_task
        specs = input_specs(length) | scored_specs(count)
        if self.boundary_targets:
            specs |= {name: ArraySpec((count,)) for name in ("left", "right", "offset")}
        return specs | (sentence_pairs.label_specs() if has_task else {})

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks units of a row's tokens.

        Raises:
          UserError: data.lexicon lacks entries that the fields need.
        """
        labels, rate = {}, self.rate_at(example.step)
        if self.format == SHIFTED:
            start = (example.flags & DOCUMENT) > 0
            start[:, 0] = True
            token, none = np.array(example.token), np.zeros_like(example.token)
            text = input_format.Text(token, example.flags, none, example.length)
            scored = self._mask(text, key, vocab, rate)
            group = input_format.shifted_input(token, start, example.length, vocab)
            return group | {"rank": none, "reach": none.copy()} | scored
        if self.format in SINGLE_FORMATS:
            text = input_format.single(example, vocab, length)
        elif self.sentence_task == "none":
            text = input_format.pair(example, vocab, length)
        else:
            made = sentence_pairs.make_labels(self.sentence_task, example, key)
            text = input_format.pair(example, vocab, length, made.swapped)
            labels = {"label": made.label, "label_weight": made.label_weight}
        scored = self._mask(text, key, vocab, rate)
        group = input_format.full_input(text.token, text.length)
        return group | {"token_type": text.token_type} | scored | labels

    def _mask(
        self,
        text: input_format.Text,
        key: np.ndarray,
        vocab: VocabInfo,
        rate: np.ndarray | float,
    ) -> dict[str, np.ndarray]:
        """Overwrites `text.token`; returns the arrays of all scored positions."""
        length = text.token.shape[1]
        num_masked = self.num_masked(length)
        special = vocab.is_special[text.token]
        chosen = self._choose(text, key, vocab, num_masked - self._surplus, rate)
        starts = None
        if self._unit.starts:
            starts = self._unit.starts(key, ~special, self._surplus + 1)
        free = ~special & ~chosen
        scored = replace_chosen(
            text.token,
            chosen,
            key,
            vocab,
            num_scored=num_masked,
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
            draw_unit=self.draw_unit,
            random_tokens=self.random_tokens,
            starts=starts,
        )
        if self.predict_at == "previous" and self.format != SHIFTED:
            scored["scored"] = np.maximum(scored["scored"] - 1, 0)
        if self.boundary_targets:
            scored |= span_boundaries(scored["scored"], scored["weight"], special)
        if self.shuffle_rate:
            num = num_trigrams(text.length, self.shuffle_rate)
            max_num = int(num_trigrams(length, self.shuffle_rate))
            shuffled = shuffle_trigrams(
                text.token, free, key, vocab, count=num, max_count=max_num
            )
            scored = _concatenate(scored, shuffled)
        if self.sentence_task != "none":
            class_token = np.zeros((len(key), 1), np.int32)
            scored = _concatenate(scored, {"target": class_token + vocab.pad_id})
        return scored

    def _choose(
        self,
        text: input_format.Text,
        key: np.ndarray,
        vocab: VocabInfo,
        most: int,
        rate: np.ndarray | float,
    ) -> np.ndarray:
        """[B, L] bool: the chosen tokens, at most `most` per row.

        The last unit of a row may exceed that, see `mask_units.Unit.surplus`.

        Raises:
          UserError: tokens have weights, but other units are chosen.
        """
        weight = self.position_weight(text, vocab)
        if weight is not None and not self._takes_weights:
            raise UserError(
                f"weights of tokens need objective.unit={_weighted_units()}, and "
                "objective.rounding other than independent; got "
                f"{self.unit} and {self.rounding}"
            )
        which: dict[str, Any] = {
            "entry_types": self.entry_types,
            "candidates": self.candidates,
        }
        if self.rounding == "independent":
            start, candidate, _ = mask_units.find_units(text, vocab, self.unit, **which)
            each = np.expand_dims(rate, -1) if np.ndim(rate) else rate
            return choose_independently(key, start, candidate, each, most)
        num_tokens = text.length
        if self.rounding == "up" or self._unit.starts:
            num_tokens = (~vocab.is_special[text.token]).sum(axis=1)
        count = mask_budget(num_tokens, rate, most, rounding=self.rounding, key=key)
        which |= {"unit": self.unit, "max_words": self.max_words}
        which["weight"] = weight
        return mask_units.choose_units(key, text, vocab, count, **which)

    def position_weight(
        self, text: input_format.Text, vocab: VocabInfo
    ) -> np.ndarray | None:
        """[B, L]: a weight per position, by default the `token_weight` of its token.

        A subclass that chooses by position defines it: `text.flags` has the bit WORD at
        the first token of a word, and SENTENCE, PARAGRAPH and DOCUMENT at the first
        token of these (`research.contract.batch`).
        """
        weight = self.token_weight(vocab)
        return None if weight is None else weight[text.token]

    def token_weight(self, vocab: VocabInfo) -> np.ndarray | None:
        """[V]: the weights with which unit token draws tokens; None: all equal.

        A subclass that masks other tokens defines it; a token of weight 0 is never
        chosen. To choose by position define `position_weight`.
        """
        if not self.count_exponent:
            return None
        counts = ordinary_counts(vocab, "count_exponent", self.count_exponent)
        weight = np.maximum(counts, 1) ** -self.count_exponent
        weight[vocab.unk_id] = 0
        return weight

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """See `cloze.score_rows`; tokens are predicted at the position `predict_at`.

        With format shifted rows have no eos.
        """
        rows = cloze.score_rows(example, scored, vocab, length, method)
        rows.arrays["scored"] -= self.predict_at == "previous"
        if self.format == SHIFTED:
            rows.arrays["segment"] *= rows.arrays["token"] != vocab.eos_id
        return rows

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """Texts after bos, to be followed by masks and eos.

        Raises:
          UserError: masks are not predicted in place.
        """
        if not self.fills_masks:
            raise UserError(
                "objective mlm writes masks in place: predict_at must be masked and "
                f"mask_fraction above 0, got {self.predict_at} and {self.mask_fraction}"
            )
        rows = pad_rows([[vocab.bos_id, *text] for text in texts], vocab.pad_id)
        return Prompt(input_format.full_input(*rows))

    def for_scoring(self) -> "Objective":
        """The objective whose only loss is that of masked tokens."""
        none: dict[str, Any] = {"boundary_targets": 0, "shuffle_rate": 0.0}
        return replace(self, sentence_task="none", z_loss=0.0, **none)

    def for_evaluation(self) -> "Objective":
        """The objective without a z-loss."""
        return self.with_fields(z_loss=0.0)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        heads = {}
        if (task := self.sentence_task) != "none":
            num_classes = sentence_pairs.NUM_CLASSES[task]
            heads = sentence_pairs.pooled_head(task, num_classes)
        return networks.Needs(
            pattern=self.pattern,
            transform=True,
            heads=heads,
            token_types=2 * (self.format in sentence_pairs.PAIR_FORMATS),
            boundary_offsets=self.boundary_targets,
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: mlm, sbo (boundary), the sentence task; and accuracies (metrics)."""
        positions = [batch["scored"]]
        if self.boundary_targets:
            positions += [batch["left"], batch["right"]]
        states = net.states(batch, scored=jnp.concatenate(positions, axis=1))
        here, *sides = jnp.split(states, len(positions), axis=1)
        terms = masked_cross_entropy("mlm", net.readout(here), batch, self.z_loss)
        if self.boundary_targets:
            offset = batch["offset"]
            weight = batch["weight"] * (offset < self.boundary_targets)
            readout = net.boundary(sides[0], sides[1], offset)
            terms["sbo"] = cross_entropy(readout, batch["target"], weight)[0]
        if self.sentence_task != "none":
            logits = net.head(self.sentence_task, here[:, -1])
            terms |= sentence_pairs.label_terms(self.sentence_task, logits, batch)
        return terms, ()


def _concatenate(first: Batch, second: Batch) -> Batch:
    """Concatenates arrays [B, K] along K, with 0 for arrays that the second lacks."""
    num_more = second["target"].shape[1]
    return {
        name: np.concatenate(
            [array, second.get(name, np.zeros((len(array), num_more), array.dtype))],
            axis=1,
        )
        for name, array in first.items()
    }


def _weighted_units() -> str:
    return " or ".join(n for n, unit in mask_units.UNITS.items() if unit.takes_weights)
