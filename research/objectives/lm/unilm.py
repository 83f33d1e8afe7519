"""A cloze under four attention masks in one network (UniLM, Dong et al. 2019, sec. 2).

A row is bidirectional, left-to-right, right-to-left, or a source that attends to itself
with a target that attends to the source and to what precedes it. In all modes masked
tokens are predicted at their own positions; only rank and reach differ.
"""

# B batch, L length, K scored positions, R raw tokens an example

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    LONE,
    OTHER_DOCUMENT,
    SENTENCE,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.fields import check_sum, choice, fraction, number
from research.contract.scores import LIKELIHOOD
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.layout import input_format, sentence_pairs
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy
from research.objectives.mlm import mlm
from research.objectives.noise import cloze, scoring
from research.objectives.noise.masking import (
    RANDOM_TOKENS,
    STAYS,
    mask_budget,
    max_masked,
    replace_chosen,
)

BIDIRECTIONAL, SEQ2SEQ, FORWARD, BACKWARD = range(4)
FIRST_TOKEN_TYPE = np.array([0, 4, 2, 3])
"""[modes]: the token type of a row's first segment; the second segment has the next."""

NUM_TOKEN_TYPES = 6


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads bos, first segment, eos, second segment, eos: L - 3 tokens.

    The mode of a row depends only on its key. A bidirectional row is a pair as in BERT,
    and its sentence loss is scored. The other modes read contiguous text: only the
    first span of a pair from two documents. Left-to-right and right-to-left rows are
    one segment (bos, text, eos); source and target are the two spans, or one span cut
    before a sentence (anywhere, if it has only one sentence).

    Single tokens or short n-grams are chosen; an n-gram ends before a special. The only
    special that may be chosen is the last eos, of targets or also of left-to-right
    rows, which teaches where to stop.

    If only bidirectional rows may be pairs of two documents, their number still follows
    `other_document_rate`; a pair with a lone sentence draws its mode as any other.
    """

    rate: float = number(0.15, above=0, below=1)  # fraction of a row's tokens, specials
    # included, that is chosen
    ngram_rate: float = fraction(0.2)  # fraction of choices that are n-grams of 2 to
    # `max_ngram` tokens
    max_ngram: int = number(3, least=2)  # tokens; all sizes are equally likely
    mask_fraction: float = fraction(0.8)  # of the chosen: becomes the mask token
    random_fraction: float = fraction(0.1)  # of the chosen: becomes a random token; the
    # rest stays
    random_tokens: str = choice("ordinary", RANDOM_TOKENS)  # what random tokens are
    # drawn from; all: the whole vocabulary (released code)
    bidirectional: float = fraction(1 / 3)  # fraction of rows; the four modes sum to 1
    seq2seq: float = fraction(1 / 3)  # fraction of rows
    forward: float = fraction(1 / 6)  # fraction of rows
    backward: float = fraction(1 / 6)  # fraction of rows
    other_document_rate: float = fraction(0.5)  # fraction of pairs whose second span is
    # from another document
    other_documents: str = choice("any", ("any", "bidirectional"))  # rows that may be
    # such pairs; any: those of the other modes then read only the first span;
    # bidirectional: those of the other modes read both spans
    surplus: str = choice("last", ("last", "random"))  # which chosen tokens are dropped
    # if they exceed `rate`; last: the end of the last n-gram; random: any (released
    # code)
    last_separators: str = choice("target", ("target", "forward"))  # which rows' last
    # eos may be chosen: those with a target; forward: also left-to-right rows (released
    # code)

    pattern = "general"
    shown_answers: ClassVar = {"unilm": STAYS}
    token_terms = ("unilm",)
    takes_mask_rate = True
    score_methods: ClassVar = cloze.METHODS | {"left_to_right": LIKELIHOOD}
    min_length = 5  # bos, a token, eos, a token, eos

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "mask_fraction", "random_fraction")
        if abs(sum(self._mode_rates) - 1) > 1e-6:
            raise ValueError(
                "bidirectional, seq2seq, forward and backward must be fractions of "
                f"rows with sum 1, not {sum(self._mode_rates):g}"
            )

    @property
    def _mode_rates(self) -> tuple[float, ...]:
        """The rates in the order of the modes."""
        return self.bidirectional, self.seq2seq, self.forward, self.backward

    @property
    def fills_masks(self) -> bool:
        return self.mask_fraction > 0

    def num_scored(self, length: int) -> int:
        """K: 20 at length 128, 77 at 512."""
        return max_masked(self.rate, length)

    def text_spec(self, length: int) -> TextSpec:
        rate, alone = self.other_document_rate, self.other_documents != "any"
        if alone:
            rate *= self.bidirectional
        return TextSpec("pair", length - 3, other_document_rate=rate, lone=alone)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        scored = scored_specs(self.num_scored(length))
        return input_specs(length) | scored | sentence_pairs.label_specs()

    def mode(self, key: np.ndarray, label: np.ndarray) -> np.ndarray:
        """[B] int64: the mode of each row, whose pair has the label [B]."""
        draw = counter_rng.uniform(key, "mode", 1)[:, 0]
        mode = _draw_mode(draw, self._mode_rates)
        if self.other_documents == "any":
            return mode
        # The fraction excludes rows that are bidirectional whatever is drawn.
        always = self.bidirectional * self.other_document_rate
        bidirectional, *rest = self._mode_rates
        rates = np.array([bidirectional - always, *rest]) / max(1 - always, 1e-9)
        mode = np.where(label == LONE, mode, _draw_mode(draw, rates))
        return np.where(label == OTHER_DOCUMENT, BIDIRECTIONAL, mode)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks round(rate * tokens) of a row's tokens, and sets its mode's rank."""
        mode = self.mode(key, example.label)
        lone = example.label == LONE
        label = np.where(lone, OTHER_DOCUMENT, example.label).astype(np.int32)
        example = example._replace(label=label)
        size = segment_sizes(example, key, mode)
        begin = np.pad(size, [(0, 0), (1, 0)])[:, :-1]
        prefixes = (vocab.bos_id, None)
        text = input_format.concatenate_spans(
            example, begin, size, vocab, length, prefixes=prefixes
        )
        token, two = text.token, size[:, 1] > 0
        rank = mode_rank(mode, text)
        here = np.arange(length) < text.length[:, None]
        token_type = FIRST_TOKEN_TYPE[mode][:, None] + text.token_type
        group = input_format.full_input(token, text.length)
        group |= {
            "token_type": np.where(here, token_type, 0).astype(np.int32),
            "rank": rank,
            "reach": rank.copy(),
        }

        candidate = ~vocab.is_special[token] & here
        last = np.arange(length) == text.length[:, None] - 1
        may_end = two & (mode == SEQ2SEQ)
        if self.last_separators == "forward":
            may_end |= mode == FORWARD
        candidate |= last & may_end[:, None]
        num_scored = self.num_scored(length)
        sizes = ngram_sizes(key, length, self.ngram_rate, self.max_ngram)
        count = mask_budget(text.length, self.rate, num_scored)
        scored = replace_chosen(
            token,
            choose_ngrams(key, candidate, sizes, count, surplus=self.surplus),
            key,
            vocab,
            num_scored=num_scored,
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
            random_tokens=self.random_tokens,
        )
        labels = sentence_pairs.make_labels("nsp", example, key)
        weight = labels.label_weight * (mode == BIDIRECTIONAL)
        label = np.where(weight > 0, labels.label, 0)
        return group | scored | {"label": label, "label_weight": weight}

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """Rows of bos, text, eos, each with one scored token masked.

        With left_to_right, rows are left-to-right: a mask attends to what precedes it.
        With the other methods they are bidirectional and have one segment.
        """
        mode, hiding = BIDIRECTIONAL, method
        if method == "left_to_right":
            mode, hiding = FORWARD, "original"
        rows = cloze.score_rows(example, scored, vocab, length, hiding)
        arrays = rows.arrays
        inside = arrays["segment"]
        arrays["token_type"] = FIRST_TOKEN_TYPE[mode].astype(np.int32) * inside
        if mode == FORWARD:
            arrays["rank"] = arrays["reach"] = arrays["position"] * inside
        return rows

    def for_scoring(self) -> mlm.Objective:
        """`mlm`, which has the same network and the same loss of masked tokens."""
        return mlm.Objective()

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """Sources; each next token is predicted at a mask after those before it."""
        rows = [[vocab.bos_id, *text, vocab.eos_id] for text in texts]
        group = input_format.full_input(*pad_rows(rows, vocab.pad_id))
        source_type = int(FIRST_TOKEN_TYPE[SEQ2SEQ])
        group["token_type"] = source_type * group["segment"]
        return Prompt(group, token_type=source_type + 1, appended="mask")

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(
            pattern=self.pattern,
            transform=True,
            heads=sentence_pairs.pooled_head("nsp", 2),
            token_types=NUM_TOKEN_TYPES,
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: unilm and nsp; the accuracy of each (metrics)."""
        scored = batch["scored"]
        positions = jnp.concatenate([jnp.zeros_like(scored[:, :1]), scored], axis=1)
        states = net.states(batch, scored=positions)
        terms = masked_cross_entropy("unilm", net.readout(states[:, 1:]), batch)
        logits = net.head("nsp", states[:, 0])
        return terms | sentence_pairs.label_terms("nsp", logits, batch), ()


def _draw_mode(draw: np.ndarray, rates: Sequence[float] | np.ndarray) -> np.ndarray:
    """[B] int64: modes at these rates, by uniform numbers [B]."""
    return np.searchsorted(np.cumsum(rates)[:-1], draw, "right")


def segment_sizes(example: Example, key: np.ndarray, mode: np.ndarray) -> np.ndarray:
    """[B, 2]: raw tokens of each segment of a row, by its mode; the second may be 0."""
    both = (mode == BIDIRECTIONAL) | (example.label != OTHER_DOCUMENT)
    num_raw = np.where(both, example.length, example.first_length)
    position = np.arange(example.token.shape[1])
    inside = (position > 0) & (position < num_raw[:, None])
    starts = inside & ((example.flags & SENTENCE) > 0)
    starts = np.where(starts.any(axis=1, keepdims=True), starts, inside)
    cut = np.argmax(counter_rng.choose_subset(key, "cut", starts, 1), axis=1)
    cut = np.where(both, example.first_length, np.where(cut > 0, cut, num_raw))
    cut = np.where(mode >= FORWARD, num_raw, np.minimum(cut, num_raw))
    return np.stack([cut, num_raw - cut], axis=1)


def mode_rank(mode: np.ndarray, text: input_format.Text) -> np.ndarray:
    """[B, L] int32: the rank of every position, which is also its reach."""
    position = np.arange(text.token.shape[1], dtype=np.int32)
    mode, end = mode[:, None], text.length[:, None].astype(np.int32)
    in_source = (text.token_type == 0) & (position < end)
    source = np.sum(in_source, axis=1, keepdims=True, dtype=np.int32)
    rank = np.select(
        [mode == BIDIRECTIONAL, mode == SEQ2SEQ, mode == FORWARD],
        [0, position + 1 - source, position],
        end - 1 - position,
    )
    return np.maximum(rank, 0).astype(np.int32)


def ngram_sizes(
    key: np.ndarray, length: int, ngram_rate: float, max_ngram: int
) -> np.ndarray:
    """[B, L]: tokens of the choice that begins at each position: 1 to `max_ngram`."""
    draw = counter_rng.uniform(key, "grams", 2 * length).reshape(len(key), length, 2)
    size = 2 + (draw[..., 1] * (max_ngram - 1)).astype(np.int64)
    return np.where(draw[..., 0] < ngram_rate, size, 1)


def choose_ngrams(
    key: np.ndarray,
    candidate: np.ndarray,
    sizes: np.ndarray,
    count: np.ndarray,
    *,
    surplus: str = "last",
) -> np.ndarray:
    """[B, L] bool: `count` [B] of the candidates [B, L], by positions in random order.

    A position that is still free takes `sizes` [B, L] tokens from itself on, up to the
    first that is not a candidate; tokens chosen before are skipped (the released code).
    The excess of the last n-gram is dropped from its end or, with `surplus` random,
    from any n-gram.
    """
    max_size = int(sizes.max(initial=1))
    score = counter_rng.candidate_scores(key, "choose", candidate)
    run, reaches, takes_first = candidate, [], []  # from each position, by offset
    for offset in range(1, max_size):
        run = run[:, :-1] & candidate[:, offset:]
        reaches.append(run & (sizes[:, :-offset] > offset))
        earlier = score[:, :-offset] <= score[:, offset:]
        takes_first.append(reaches[-1] & earlier)
    begins, settled = candidate, False  # where a choice begins, if nothing ends before
    while not settled:
        before, begins = begins, candidate.copy()
        for offset, takes in enumerate(takes_first, 1):
            begins[:, offset:] &= ~(before[:, :-offset] & takes)
        settled = np.array_equal(before, begins)
    # A token is chosen with the first choice that it is part of.
    turn = score | (begins.astype(np.uint64) - np.uint64(1))
    own = turn.copy()
    for offset, reached in enumerate(reaches, 1):
        outside = reached.astype(np.uint64) - np.uint64(1)
        later = turn[:, offset:]
        np.minimum(later, own[:, :-offset] | outside, out=later)
    count = np.minimum(count, candidate.sum(axis=1))
    if not count.any():
        return np.zeros(candidate.shape, bool)
    last = counter_rng.nth_smallest(turn, count)
    chosen, cut = turn < last, turn == last
    if surplus == "random":
        return counter_rng.choose_subset(key, "surplus", chosen | cut, count)
    left = (count - chosen.sum(axis=1))[:, None]
    chosen |= cut & (np.cumsum(cut, axis=1, dtype=np.int32) <= left)
    return chosen & (count > 0)[:, None]
