"""Permuted language modelling with two streams (XLNet, Yang et al. 2019, section 2.3).

The query stream is K query tokens after the text. Each has the position of its target
and attends to the tokens that precede the target in a random order, but not to the
target; no token attends to a query.
"""

# B batch, L length of the text, K scored positions, P permutations, N = L + K

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    BACKWARD,
    WORD,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice, fraction, number
from research.contract.scores import LIKELIHOOD
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.layout import input_format, recurrence
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy
from research.objectives.noise import scoring
from research.objectives.plm import xlnet_segments, xlnet_spans
from research.objectives.plm.query_stream import append_queries

NUM_SCORE_ORDERS = 8
"""Number of orders over which the score `random_orders` is averaged."""


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Predicts some tokens of a text in a random order, each from those before it.

    A row is the text, specials with bos (the class token) last, and K queries.

    A row is cut into parts, each with its own permutation (zihangdai/xlnet,
    data_utils.py, one call of `_local_perm` per part). A part attends to all earlier
    parts and to no later one (the earlier ones are the released code's reused half; one
    part gives the paper's formula). Targets and specials have a random rank; all other
    tokens of the part precede them and attend to each other.

    Format "single" is L - 2 tokens, eos, bos, all of token type 0. "pair" cuts the text
    of the last part in two: everything up to the end of the first segment, eos (token
    type 0), the second segment, eos (1), bos (2); see `xlnet_segments.make_rows`.
    Backward rows are read from the end of their text, with decreasing positions (the
    released code's bidirectional data).

    Mems are the layers' inputs at the last `mem_len` positions before the row, in
    streams that continue from step to step. The next row then starts after all parts
    but the last. Mems come from these parts of the content stream, and no gradient
    flows into them (section 2.4). They need relative positions.

    BART's simplified permuted LM (Lewis et al. 2020, section 4.1) has max_span 0 and
    one permutation: targets are single tokens, and no part is reused.
    """

    tokens_per_target: int = number(6, least=1)  # a span of n tokens is surrounded by
    # tokens_per_target * n others
    max_span: int = number(5, least=0)  # longest span; a length n has probability
    # ~ 1 / n; 0: single tokens
    num_permutations: int = number(2, least=1)  # equal parts of a row, each permuted
    format: str = choice("single", ("single", "pair"))
    nonadjacent_rate: float = fraction(0.5)  # fraction of pairs whose second segment
    # does not follow the first
    direction: str = choice("forward", ("forward", "both"))  # both: half are backward
    mem_len: int = number(0, least=0)  # positions of the mems before a row; 0: no mems

    pattern = "general"
    appends_queries = True
    token_terms = ("plm",)
    task_format = "xlnet"
    score_methods: ClassVar = {
        "left_to_right": LIKELIHOOD,
        "random_orders": LIKELIHOOD,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mem_len and self.num_permutations < 2:
            raise ValueError(
                "mem_len above 0 needs num_permutations of at least 2: mems are of all "
                "parts but the last"
            )

    def num_scored(self, length: int) -> int:
        """K: 85 at length 512."""
        return length // self.tokens_per_target

    @property
    def min_length(self) -> int:
        """The tokens for one target; two segments for pairs; specials."""
        if self.format == "pair":
            return max(5, self.tokens_per_target + 1)
        return max(3, self.tokens_per_target)

    def text_spec(self, length: int) -> TextSpec:
        """The text of a row and, for pairs, more text for nonadjacent segments."""
        pair = self.format == "pair"
        nonadjacent = pair and self.nonadjacent_rate > 0
        ahead = xlnet_segments.LOOKAHEAD * length if nonadjacent else 0
        stride = self._num_reused(length) if self.mem_len or pair else 0
        return TextSpec(
            "stream",
            length - 2 - pair + ahead,
            contiguous=self.mem_len > 0,
            stride=stride or (length - 3) * pair,
            reverse=self.direction == "both",
        )

    def _num_reused(self, length: int) -> int:
        """Positions of all parts but the last, after which the next row starts."""
        return length * (self.num_permutations - 1) // self.num_permutations

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        num_scored = self.num_scored(length)
        return input_specs(length + num_scored) | scored_specs(num_scored)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides each target from its query and from the tokens that precede it."""
        backward = self._draw_backward(example, key)
        text = xlnet_segments.make_rows(
            example,
            key,
            vocab,
            length,
            backward=backward,
            num_parts=self.num_permutations if self.format == "pair" else 0,
            nonadjacent_rate=self.nonadjacent_rate,
        )
        token, num_tokens = text.token, text.length[:, None]
        num_parts = self.num_permutations
        edge = num_tokens * np.arange(num_parts + 1) // num_parts
        special = vocab.is_special[token]

        index = np.arange(length)
        part = (index >= edge[:, 1:-1, None]).sum(axis=1)
        start = (text.flags & WORD) > 0
        if backward.any():  # spans are chosen in the order of the text
            first = np.take_along_axis(edge, part, axis=1)
            last = np.take_along_axis(edge, part + 1, axis=1) - 1
            reverse = backward[:, None] & (index < num_tokens)
            order = np.where(reverse, first + last - index, index)
            chosen = self._choose_targets(
                key,
                np.take_along_axis(start, order, axis=1),
                np.take_along_axis(~special, order, axis=1),
                edge,
            )
            chosen = np.take_along_axis(chosen, order, axis=1)
        else:
            chosen = self._choose_targets(key, start, ~special, edge)

        # It permutes the positions of each part, independently of the other parts.
        order = counter_rng.permutation(key, "order", length)
        base = part * (length + 1)
        rank = np.where(chosen | special, base + order, base - 1).astype(np.int32)
        position = np.where(backward[:, None], length - 1 - index, index)
        content = input_format.full_input(token, text.length) | {
            "position": position.astype(np.int32),
            "token_type": text.token_type,
            "rank": rank,
            "reach": rank,
        }
        return append_queries(content, chosen, vocab, self.num_scored(length))

    def _draw_backward(self, example: Example, key: np.ndarray) -> np.ndarray:
        """[B] bool: the backward rows; in contiguous streams the label says which."""
        if self.direction == "forward":
            return np.zeros(len(key), bool)
        if self.mem_len:
            return example.label == BACKWARD
        return counter_rng.uniform(key, "backward", 1)[:, 0] < 0.5

    def _choose_targets(
        self,
        key: np.ndarray,
        start: np.ndarray,
        candidate: np.ndarray,
        edge: np.ndarray,
    ) -> np.ndarray:
        """[B, L] bool: spans, and single tokens up to the number of targets of a part.

        If K is not a multiple of the number of parts, the first parts have one more: 85
        is 43 and 42 (zihangdai/xlnet, data_utils.py, num_predict_0 and num_predict_1).

        Args:
          start, candidate: [B, L] bool, in the order of the text.
          edge: [B, P + 1], where parts begin and end.
        """
        num_parts = self.num_permutations
        total = edge[:, -1:] // self.tokens_per_target
        goal = np.diff(-(-total * np.arange(num_parts + 1) // num_parts), axis=1)
        chosen = np.zeros(start.shape, bool)
        if self.max_span:
            chosen = xlnet_spans.choose_spans(
                key,
                "spans",
                start,
                candidate,
                begin=edge[:, :-1],
                end=edge[:, 1:],
                goal=goal,
                max_span=self.max_span,
                context_ratio=self.tokens_per_target,
            )
        index = np.arange(start.shape[1])
        for part in range(num_parts):
            inside = (index >= edge[:, part, None]) & (index < edge[:, part + 1, None])
            missing = goal[:, part] - (chosen & inside).sum(axis=1)
            free = candidate & inside & ~chosen
            chosen |= counter_rng.choose_subset(key, f"single {part}", free, missing)
        return chosen

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """One row per order of the scored tokens; all other text precedes them.

        In left-to-right order the specials come last, in a random order anywhere.
        All texts of a length have the same orders, so that pairs of texts differ only
        in their tokens; log p is averaged over orders, as in training (equation 3).
        """
        num_orders = NUM_SCORE_ORDERS if method == "random_orders" else 1
        text = np.repeat(np.arange(len(scored)), num_orders)
        token, num_tokens = input_format.add_special_tokens(
            example.rows(text), vocab, length, bos="last"
        )
        order = np.tile(np.arange(length), (len(text), 1))
        if method == "random_orders":
            number = np.arange(len(text)) % num_orders
            order_key = counter_rng.row_key(0, 0 * number, number)
            order = counter_rng.permutation(order_key, "order", length)
        chosen = np.zeros(token.shape, bool)
        width = min(scored.shape[1], length)
        chosen[:, :width] = scored[text, :width]
        special = vocab.is_special[token]
        rank = np.where(chosen | special, order, -1).astype(np.int32)
        content = input_format.full_input(token, num_tokens)
        content |= {"rank": rank, "reach": rank}
        if self.format == "pair":
            class_type = xlnet_segments.NUM_TOKEN_TYPES - 1
            content["token_type"][token == vocab.bos_id] = class_type
        arrays = append_queries(content, chosen, vocab, length)
        arrays["weight"] /= num_orders
        return scoring.ScoreRows(text, arrays)

    def for_scoring(self) -> "Objective":
        """The objective without mems, since each text is scored alone."""
        return replace(self, mem_len=0)

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """Texts whose tokens attend to each other; new tokens are targets, in order.

        Raises:
          UserError: a text is empty.
        """
        if not all(map(len, texts)):
            raise UserError("objective plm needs prompts of at least one token")
        rows = pad_rows(texts, vocab.pad_id)
        return Prompt(input_format.full_input(*rows), appended="query")

    def specials(self, vocab: VocabInfo) -> Specials:
        """eos and the class token after the text."""
        is_pair = self.format == "pair"
        last_type = xlnet_segments.NUM_TOKEN_TYPES - 1 if is_pair else 0
        return Specials(
            (),
            (vocab.eos_id, vocab.bos_id),
            last_type=last_type,
            between=(vocab.eos_id,),
            second_type=1,
        )

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(
            pattern=self.pattern,
            token_types=xlnet_segments.NUM_TOKEN_TYPES * (self.format == "pair"),
            mems=self.mem_len > 0,
            queries=True,
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: plm, and accuracy (not differentiated)."""
        length = batch["token"].shape[1] - batch["target"].shape[1]
        content_keys = {"scored": batch["scored"], "num_keys": length}
        carry: dict[str, jax.Array] | tuple[()] = ()
        if self.mem_len:
            mems = recurrence.mems_from_carry(net, batch, self.mem_len)
            kept = self._num_reused(length)
            outputs = net.outputs(batch, **content_keys, mems=mems, reuse_len=kept)
            states = outputs.states
            carry = recurrence.carry_from_outputs(batch, outputs, length)
        else:
            states = net.states(batch, **content_keys)
        readout = net.readout(states)
        return masked_cross_entropy("plm", readout, batch), carry
