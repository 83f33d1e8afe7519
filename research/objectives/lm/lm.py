"""Language modelling: each token from those on one side (GPT, Radford et al. 2018).

Arrays are in reading order, so a backward model is a forward model of the reversed
text, including positions.
"""

# B batch, L length, S segments of a row

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    DOCUMENT,
    INPUT_ARRAYS,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.contract.scores import LIKELIHOOD
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.layout import input_format, recurrence
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.layout.specials import Specials
from research.objectives.lm.sampled_softmax import sampled_cross_entropy
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy
from research.objectives.noise import scoring

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Scores L tokens; the input is shifted by one and starts with bos.

    Direction "both" has one stack per direction with a shared token table and softmax,
    and the mean of the two losses (ELMo, Peters et al. 2018, section 3.1). Its arrays
    and terms exist for each direction, whose name they carry.

    A prefix is the first 1 to n - 1 of n tokens, all lengths equally likely. Its
    positions attend to each other, and only the tokens after it are scored (Raffel et
    al. 2020, section 3.2.1). A text of one token has no prefix and no target.

    With documents joined, documents attend to each other, as in GPT-2. With documents
    apart, each document is a segment with its own positions and prefix; bos replaces
    the token before its first one, so that no token of another document is read and
    every token is a target (as T5 shifts packed targets). A separator belongs to the
    document before it in reading order.

    Mems are the layers' inputs at the last `mem_len` positions before the row, in
    streams that continue from step to step; no gradient flows into them
    (Transformer-XL, Dai et al. 2019, section 3.2). They need relative positions. A row
    then begins with the last target of the previous row instead of bos.
    """

    direction: str = choice("forward", (*DIRECTIONS, "both"))
    prefix: str = choice("none", ("none", "random"))  # positions that see each other
    documents: str = choice("joined", ("joined", "apart"))  # apart: no attention across
    mem_len: int = number(0, least=0)  # positions of the mems before a row; 0: no mems
    eval_mem_len: int = number(0, least=0)  # the same in an evaluation; 0: mem_len
    eval_length: int = number(0, least=0)  # tokens per row in an evaluation; 0:
    # data.length
    eval_clamp_len: int = number(0, least=0)  # in an evaluation, larger distances are
    # replaced by this one; 0: never
    activation_penalty: float = number(0.0, least=0)  # coefficient of the mean square
    # of the states that are read out (AR, Merity et al. 2018, section 4.6)
    temporal_penalty: float = number(0.0, least=0)  # coefficient of the mean square
    # difference of successive states, without dropout of the output (TAR)
    sampled_words: int = number(0, least=0, most=2**24)  # words that a target is
    # compared with in training, drawn by rank: ids must be sorted by frequency, as with
    # data.vocabulary=words (ELMo: 8192); 0: all words
    z_loss: float = number(0.0, least=0)  # factor of log(Z)^2 in training (PaLM: 1e-4)
    eval_same_length: bool = False  # in an evaluation each position attends to itself
    # and the mem_len - 1 before it; False: to all mems and all positions before it

    reads_separators = True
    token_terms = ("lm",)
    score_methods: ClassVar = {"left_to_right": LIKELIHOOD}

    def __post_init__(self) -> None:
        super().__post_init__()
        others = (self.direction, self.prefix, self.documents)
        if self.mem_len and others != ("forward", "none", "joined"):
            raise ValueError(
                "mem_len above 0 needs direction forward, prefix none and documents "
                "joined"
            )
        for name, value in self._of_evaluation.items():
            if value and not self.mem_len:
                raise ValueError(f"{name} needs mem_len above 0")
        if self._has_penalties and self.direction == "both":
            raise ValueError(
                "activation_penalty and temporal_penalty need one direction, not both"
            )
        if self.eval_length == 1:
            raise ValueError("eval_length must be 0 or at least 2, not 1")
        if self.eval_same_length and (self.eval_mem_len or self.mem_len) == 1:
            raise ValueError("eval_same_length needs mems of at least 2 positions")

    @property
    def _has_penalties(self) -> bool:
        return max(self.activation_penalty, self.temporal_penalty) > 0

    @property
    def _of_evaluation(self) -> dict[str, Any]:
        """The fields that only evaluations read."""
        return {k: v for k, v in vars(self).items() if k.startswith("eval_")}

    def for_evaluation(self) -> "Objective":
        """The objective with the mems of an evaluation and their limits."""
        none = {"activation_penalty": 0.0, "temporal_penalty": 0.0, "sampled_words": 0}
        none["z_loss"] = 0.0
        if not any(self._of_evaluation.values()):
            return self.with_fields(**none)
        mem_len = self.eval_mem_len or self.mem_len
        return _Evaluation(**vars(self) | none | {"mem_len": mem_len})

    def evaluation_length(self, length: int) -> int:
        return self.eval_length or length

    @property
    def pattern(self) -> str:
        return "causal" if self.prefix == "none" else "general"

    @property
    def reads_backward(self) -> bool:
        return self.direction != "forward"

    @property
    def min_length(self) -> int:
        """A token, or a prefix and a token; two positions with mems."""
        return 2 if self.prefix == "random" or self.mem_len else 1

    def text_spec(self, length: int) -> TextSpec:
        if not self.mem_len:
            return TextSpec("stream", length)
        return TextSpec("stream", length + 1, contiguous=True, stride=length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = input_specs(length) | scored_specs(length, gathered=False)
        return {
            prefix + name: spec
            for prefix in self._array_prefixes.values()
            for name, spec in specs.items()
        }

    @property
    def _array_prefixes(self) -> dict[str, str]:
        """Direction -> the prefix of its arrays' names."""
        if self.direction == "both":
            return {direction: f"{direction}_" for direction in DIRECTIONS}
        return {self.direction: ""}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Shifts the input so that each position reads the token before its target."""
        if self.mem_len:
            return _shift_stream(example, vocab, length)
        batch: dict[str, np.ndarray] = {}
        for direction, prefix in self._array_prefixes.items():
            arrays = self._corrupt_one(direction, example, key, vocab, length)
            batch |= {prefix + name: array for name, array in arrays.items()}
        return batch

    @property
    def _mem_limits(self) -> dict[str, Any]:
        """Arguments of `states`; training has no limits."""
        return {}

    def _corrupt_one(
        self,
        direction: str,
        example: Example,
        key: np.ndarray,
        vocab: VocabInfo,
        length: int,
    ) -> dict[str, np.ndarray]:
        """The arrays of one direction, in reading order."""
        valid = np.arange(length) < example.length[:, None]
        target, start = reading_order(example, vocab, backward=direction == "backward")
        start[:, 1:] &= self.documents == "apart"

        group = input_format.shifted_input(target, start, example.length, vocab)
        position = group["position"]
        scored, rank = valid, position.copy()
        if self.prefix == "random":
            cut = prefix_lengths(key, f"cut {direction}", group["segment"])
            scored, rank = valid & (position >= cut), np.maximum(0, position - cut)
        return group | {
            "rank": rank,
            "reach": rank.copy(),
            "target": target,
            "weight": scored.astype(np.float32),
        }

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """One row per text, after bos or, with mems, after the separator.

        The prefix of a prefix LM is this first token.

        Raises:
          UserError: the direction is not forward.
        """
        if self.direction != "forward":
            scoring.refuse(f"objective lm with direction {self.direction}")
        key = np.zeros(len(scored), np.uint64)  # nothing is drawn
        arrays = Objective().corrupt(example, key, vocab, length)
        if self.mem_len:
            arrays["token"][:, 0] = vocab.eos_id
        arrays["weight"] *= scored
        return scoring.ScoreRows(np.arange(len(scored)), arrays)

    def for_scoring(self) -> "Objective":
        """The objective without mems, since each text is scored alone."""
        fields: dict[str, Any] = {"mem_len": 0, "sampled_words": 0, "z_loss": 0.0}
        return replace(self, **fields, **Objective()._of_evaluation)

    def specials(self, vocab: VocabInfo) -> Specials:
        """bos, or the separator with mems, whose streams have no bos."""
        return Specials((vocab.eos_id if self.mem_len else vocab.bos_id,))

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """Texts after bos; with mems after eos, which separates documents.

        Mems are not needed, since the cache has the whole text so far.
        """
        if self.direction != "forward":
            raise UserError(
                f"objective.direction is {self.direction}; text is written forward"
            )
        first = self.specials(vocab).before
        rows = pad_rows([[*first, *text] for text in texts], vocab.pad_id)
        if self.prefix == "random":
            return Prompt(input_format.full_input(*rows))
        return Prompt(input_format.causal_input(*rows))

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        stacks = "two_directions" if self.direction == "both" else "one"
        return networks.Needs(
            pattern=self.pattern,
            stacks=stacks,
            mems=self.mem_len > 0,
            mem_limits=self.eval_same_length or self.eval_clamp_len > 0,
            undropped=self._has_penalties,
        )

    def _cross_entropy(
        self, net: networks.BoundNetwork, states: Any, batch: Batch, key: jax.Array
    ) -> dict[str, Term]:
        """Terms lm, and accuracy unless words are drawn."""
        readout = net.readout(states)
        if not self.sampled_words:
            return masked_cross_entropy("lm", readout, batch, self.z_loss)
        answers = batch["target"], batch["weight"]
        return {"lm": sampled_cross_entropy(readout, *answers, key, self.sampled_words)}

    def _terms(
        self,
        net: networks.BoundNetwork,
        outputs: networks.Outputs,
        batch: Batch,
        key: jax.Array,
    ) -> dict[str, Term]:
        """The terms of the outputs of one direction."""
        terms = self._cross_entropy(net, outputs.states, batch, key)
        if not self._has_penalties:
            return terms
        segment, raw = batch["segment"], cast(jax.Array, outputs.raw)
        same = (segment[:, 1:] == segment[:, :-1]) & (segment[:, 1:] > 0)
        change = raw[:, 1:] - raw[:, :-1]
        for name, values, counts, coef in (
            ("activation", outputs.states, segment > 0, self.activation_penalty),
            ("temporal", change, same, self.temporal_penalty),
        ):
            square = jnp.mean(jnp.square(values.astype(jnp.float32)), axis=-1)
            weight = counts.astype(jnp.float32)
            terms[name] = Term(jnp.sum(square * weight), jnp.sum(weight), coef)
        return terms

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: lm, accuracy (not differentiated), and penalties if there are any.

        With direction "both" their names are `forward/lm` and so on.
        """
        if self.mem_len:
            mems = recurrence.mems_from_carry(net, batch, self.mem_len)
            outputs = net.outputs(batch, mems=mems, **self._mem_limits)
            length = batch["token"].shape[1]
            carry = recurrence.carry_from_outputs(batch, outputs, length)
            return self._terms(net, outputs, batch, key), carry
        if self.direction != "both":
            outputs = (
                net.outputs(batch)
                if self._has_penalties
                else networks.Outputs(net.states(batch))
            )
            return self._terms(net, outputs, batch, key), ()
        terms = {}
        # Each direction draws its own words (allenai/bilm-tf, bilm/training.py).
        keys = jax.random.split(key) if self.sampled_words else (key, key)
        halves = zip(self._array_prefixes.items(), keys, strict=True)
        for (direction, prefix), own_key in halves:
            names = (*INPUT_ARRAYS, "target", "weight")
            arrays = {name: batch[prefix + name] for name in names}
            half = {"forward": net.forward, "backward": net.backward}[direction]
            states = half.states(arrays)
            found = self._cross_entropy(half, states, arrays, own_key)
            for name, term in found.items():
                coef = term.coef / len(DIRECTIONS)
                terms[f"{direction}/{name}"] = term._replace(coef=coef)
        return terms, ()


class _Evaluation(Objective):
    """The objective of evaluations, whose mems have the limits of its fields."""

    @property
    def _mem_limits(self) -> dict[str, Any]:
        if not (self.eval_same_length or self.eval_clamp_len):
            return {}
        limits = {"same_length": self.eval_same_length}
        return limits | {"clamp_len": self.eval_clamp_len}

    def for_evaluation(self) -> Objective:
        return self


def _shift_stream(
    example: Example, vocab: VocabInfo, length: int
) -> dict[str, np.ndarray]:
    """The first L of L + 1 tokens are inputs, the last L targets."""
    num_targets = np.maximum(example.length - 1, 0)
    valid = np.arange(length) < num_targets[:, None]
    token, target = (
        np.where(valid, shifted, vocab.pad_id).astype(np.int32)
        for shifted in (example.token[:, :-1], example.token[:, 1:])
    )
    group = input_format.causal_input(token, num_targets)
    return group | {"target": target, "weight": valid.astype(np.float32)}


def reading_order(
    example: Example, vocab: VocabInfo, *, backward: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens in reading order, and where documents start, each [B, L].

    A separator belongs to the document before it in reading order. Read backward, it is
    between the first token of a document and the last token of the preceding one, so
    a separator at the end of a row is apart from the row's text: another document may
    follow. Inside a document, as with data.separator=lines, an eos is an ordinary
    token.
    """
    token = np.array(example.token, np.int32)
    start = (example.flags & DOCUMENT) > 0
    if backward:
        length = token.shape[1]
        index, end = np.arange(length), example.length[:, None]
        order = np.where(index < end, end - 1 - index, index)
        token = np.take_along_axis(token, order, axis=1)
        # The next token is of another document or is the separator.
        after = np.roll(np.take_along_axis(start, order, axis=1), 1, axis=1)
        after[:, 0] = True
        is_separator = after & (token == vocab.eos_id)
        start = (after & ~is_separator) | np.roll(is_separator, 1, axis=1)
    start[:, 0] = True
    return token, start


def prefix_lengths(key: np.ndarray, role: str, segment: np.ndarray) -> np.ndarray:
    """[B, L] int32: the prefix length of each position's segment.

    It is uniform in 1..n - 1 for a segment of n positions, and 1 for n = 1. Segments
    1, 2, ... of a row are drawn independently.

    Args:
      segment: [B, L] int32, 0 at padding.
    """
    num_rows, length = segment.shape
    row = np.arange(num_rows)[:, None] * (length + 1)
    size = np.bincount((row + segment).ravel(), minlength=num_rows * (length + 1))
    size_BS = size.reshape(num_rows, length + 1)
    draw_BS = counter_rng.uniform(key, role, length + 1)
    cut_BS = 1 + (draw_BS * np.maximum(size_BS - 1, 1)).astype(np.int32)
    return np.take_along_axis(cut_BS, segment, axis=1)
