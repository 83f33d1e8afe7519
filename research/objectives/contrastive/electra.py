"""Replaced-token detection: which tokens a small model replaced (Clark et al. 2020).

A generator predicts masked tokens, and its samples replace them. For every token the
discriminator, which is the pretrained model, predicts whether it is the original.
The discriminator's tasks (section 3.5 compares them):

replaced     for every token, whether it is replaced: ELECTRA
chosen       the same only for the masked positions: ELECTRA 15 %
replace_mlm  the original token of the masked positions: MLM without mask tokens
all_tokens   the original token of every position, by a gated copy of the input
"""

# B batch, L length, K scored positions, V vocabulary with padding

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.fields import choice, fraction, number
from research.contract.scores import ENERGY
from research.data.rows import TextSpec
from research.objectives.contrastive.copy_loss import copy_cross_entropy
from research.objectives.layout import input_format, sentence_pairs
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    cross_entropy,
    with_accuracy,
)
from research.objectives.losses.softmax import CHUNK_LOGITS
from research.objectives.noise import scoring
from research.objectives.noise.masking import (
    POSITION_DRAWS,
    mask_drawn_positions,
    mask_random_tokens,
)

BLOCK = 128
"""The rows of a vocabulary table are a multiple of this."""

TASKS = ("replaced", "chosen", "replace_mlm", "all_tokens")
FORMATS = ("stream", "segment_pair")
REPLACED_HEADS = {
    "state": networks.HeadSpec(1),
    "class": networks.HeadSpec(1, input_norm=True),
}


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads bos, text, eos, or bos, A, eos, B, eos, sentences of one document.

    A has about half of the row. If no B is left, and in a tenth of the rows, the row is
    only A. See `sentence_pairs.fill_segments`.

    Masked positions are never specials.
    """

    rate: float = number(0.15, above=0, below=1)  # fraction of a row's tokens, specials
    # included, that is chosen
    mask_fraction: float = fraction(0.85)  # of the chosen: becomes the mask token; the
    # rest stays
    positions: str = choice("distinct", POSITION_DRAWS)  # of masks; repeated: drawn
    # with replacement (released code), see `masking.mask_drawn_positions`; samples for
    # the same position are replaced by the floor of the mean of their ids
    task: str = choice("replaced", TASKS)  # of the discriminator
    coef: float = number(50.0, least=0)  # weight of the discriminator's loss; the
    # generator's has 1. Use 1 for tasks that predict tokens: both losses are alike
    generator_size: float = number(0.25, above=0)  # width of the generator as a
    # fraction of the discriminator's
    generator_depth: float = number(1.0, above=0)  # layers of the generator, the same
    # way (DeBERTaV3: 0.5)
    tie: str = choice("embedding", networks.TIE_CHOICES)  # what both share; embedding:
    # also positions and token types; all: needs networks of one size; gdes: tokens,
    # as a sum with differences, of which only these learn from the discriminator's
    # loss (DeBERTaV3)
    head: str = choice("state", tuple(REPLACED_HEADS))  # of task replaced; class: reads
    # the norm of a token's state plus that of its text's first token (DeBERTaV3)
    temperature: float = number(1.0, above=0)  # for sampling from the generator
    format: str = choice("stream", FORMATS)  # segment_pair: two segments of sentences
    short_rate: float = fraction(0.05)  # fraction of the rows of `segment_pair` that
    # are shortened

    pattern = "full"
    scores_every_token = True
    token_terms = ("generator",)  # other targets are mostly shown in the input
    score_methods: ClassVar = {"originals": ENERGY}
    shown_answers: ClassVar = {
        "generator": "some of the chosen tokens stay as they are",
        "discriminator": "a generator's sample fits its place less well than a token",
        "mlm": "a sample may be the original token, and most other tokens are",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.generator_size, self.generator_depth
        if self.tie == "all" and sizes != (1, 1):
            raise ValueError(
                "tie all needs networks of one size: generator_size must be 1, not "
                f"{self.generator_size}, and generator_depth must be 1, not "
                f"{self.generator_depth}"
            )
        if self.head == "class" and self.task != "replaced":
            raise ValueError(f"head class needs task replaced, not {self.task}")

    @property
    def fills_masks(self) -> bool:
        return self.mask_fraction > 0

    def token_predictor(self, net: networks.BoundNetwork) -> Any:
        return net.generator

    def text_encoder(self, net: networks.BoundNetwork) -> Any:
        return net.discriminator

    def num_scored(self, length: int) -> int:
        """K: 19 at length 128, 79 at 512 (as in the released code)."""
        return max(1, int((self.rate + 0.005) * length))

    @property
    def min_length(self) -> int:
        """bos, a token of each segment, eos."""
        return 3 + (self.format == "segment_pair")

    def text_spec(self, length: int) -> TextSpec:
        if self.format == "stream":
            return TextSpec("stream", length - 2)
        return TextSpec("halves", length - 2, short_rate=self.short_rate)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(self.num_scored(length))

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks round(rate * tokens) of a row's tokens for the generator."""
        if self.format == "stream":
            text = input_format.single(example, vocab, length)
        else:
            segments = sentence_pairs.fill_segments(example, key, length)
            text = input_format.pair(segments, vocab, length)
        mask = mask_drawn_positions
        if self.positions == "distinct":
            mask = partial(mask_random_tokens, random_fraction=0.0)
        scored = mask(
            text.token,
            ~vocab.is_special[text.token],
            text.length,
            key,
            vocab,
            rate=self.rate,
            max_count=self.num_scored(length),
            mask_fraction=self.mask_fraction,
        )
        group = input_format.full_input(text.token, text.length)
        return group | {"token_type": text.token_type} | scored

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """One row per text without replacements: the sum of log P(original).

        Raises:
          UserError: the discriminator does not detect replaced tokens.
        """
        if self.task not in ("replaced", "chosen"):
            scoring.refuse(f"objective electra with task {self.task}")
        text = input_format.single(example, vocab, length)
        weight = np.pad(scored, [(0, 0), (1, 0)])[:, :length].astype(np.float32)
        unused = np.zeros((len(scored), 1), np.int32)
        return scoring.ScoreRows(
            np.arange(len(scored)),
            input_format.full_input(text.token, text.length)
            | {"scored": unused, "target": unused, "weight": unused.astype(np.float32)}
            | {"discriminated_weight": weight},
        )

    def for_scoring(self) -> "Objective":
        """The objective whose discriminator scores all tokens."""
        return replace(self, task="replaced")

    @property
    def _heads(self) -> dict[str, networks.HeadSpec]:
        if self.task == "all_tokens":
            return {"copy": networks.HeadSpec(1)}
        return {"replaced": REPLACED_HEADS[self.head]}

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(
            pattern=self.pattern,
            stacks="generator_discriminator",
            transform=True,
            heads=self._heads,
            token_types=2 * (self.format == "segment_pair"),
            generator_size=self.generator_size,
            generator_depth=self.generator_depth,
            tie=self.tie,
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: generator, discriminator (mlm, if its task predicts tokens).

        Metrics: accuracies, and the fraction of the discriminator's positions whose
        token is replaced: always answering "original" is right for all others. The
        tasks on all tokens include specials, unless the batch has the weights
        `discriminated_weight` [B, L].
        """
        masked, target, weight = (batch[k] for k in ("scored", "target", "weight"))
        readout = net.generator.readout(net.generator.states(batch, scored=masked))
        generator, correct = cross_entropy(readout, target, weight)
        sampled = sample(readout, key, batch["example"], self.temperature)
        write_samples = write if self.positions == "distinct" else write_mean
        token = write_samples(batch["token"], masked, sampled, weight)
        corrupted = batch | {"token": token}
        if self.task in ("replaced", "all_tokens"):
            original = write(batch["token"], masked, target, weight)
            here = (batch["segment"] > 0).astype(jnp.float32)
            here = batch.get("discriminated_weight", here)
            at = Positions(None, token, original, here)
        else:
            here = jnp.take_along_axis(token, masked, axis=1)
            at = Positions(masked, here, target, weight)
        term, right, replaced = self._discriminate(net.discriminator, corrupted, at)
        name = "discriminator" if self.task in ("replaced", "chosen") else "mlm"
        terms = with_accuracy("generator", generator, correct)
        terms |= with_accuracy(name, term, right, coef=self.coef)
        return terms | {"replaced": Term(replaced, term.weight, 0.0)}, ()

    def _discriminate(
        self, net: networks.BoundNetwork, batch: Batch, at: "Positions"
    ) -> tuple[Term, jax.Array, jax.Array]:
        """The discriminator's term, and the weights of correct and replaced tokens."""
        states = net.states(batch, scored=at.scored)
        replaced = at.token != at.original
        if self.head == "class":
            states = states + at_first_token(states, batch["position"])
        if self.task in ("replaced", "chosen"):
            logits = net.head("replaced", states)[..., 0]
            term, correct = binary_cross_entropy(logits, replaced, at.weight)
        elif self.task == "replace_mlm":
            readout = net.readout(states)
            term, correct = cross_entropy(readout, at.original, at.weight)
        else:
            readout = net.readout(states)
            gate = net.head("copy", states)[..., 0]
            term, correct = copy_cross_entropy(
                readout, gate, at.token, at.original, at.weight
            )
        return term, correct, jnp.sum(at.weight * replaced)


class Positions(NamedTuple):
    """Where the discriminator is scored; arrays are [B, K], or [B, L] for all."""

    scored: jax.Array | None  # None: all positions
    token: jax.Array  # the token that it reads there
    original: jax.Array
    weight: jax.Array


def at_first_token(states: jax.Array, position: jax.Array) -> jax.Array:
    """[B, L, D]: the state of the first token of each position's text."""
    first = jnp.arange(position.shape[1])[None] - position
    return jnp.take_along_axis(states, first[..., None], axis=1, mode="clip")


def write(
    token: jax.Array, scored: jax.Array, value: jax.Array, weight: jax.Array
) -> jax.Array:
    """`token` [B, L] with `value` at the scored positions [B, K] of weight above 0."""
    position = jnp.where(weight > 0, scored, token.shape[1])
    row = jnp.arange(len(token))[:, None]
    return token.at[row, position].set(value, mode="drop")


def write_mean(
    token: jax.Array, scored: jax.Array, value: jax.Array, weight: jax.Array
) -> jax.Array:
    """As `write`, but several values at one position become the floor of their mean.

    The released code does so with samples: the mean of two token ids is the id of a
    third token (google-research/electra, pretrain/pretrain_helpers.py, scatter_update).
    """
    used = (weight > 0).astype(jnp.int32)
    row = jnp.arange(len(token))[:, None]
    count, total = (
        jnp.zeros_like(token).at[row, scored].add(number * used)
        for number in (1, value)
    )
    return jnp.where(count > 0, total // jnp.maximum(count, 1), token)


def sample(
    readout: Any, key: jax.Array, example: jax.Array, temperature: float
) -> jax.Array:
    """[B, K] int32: a token of softmax(logits / temperature) for each feature.

    Keyed by (example, slot), so that a batch may be split. A block of the vocabulary is
    drawn first and then a token in it (chain rule), which takes V / 128 + 128 Gumbel
    variables instead of V. Not differentiated.
    """
    feature, table, bias = jax.lax.stop_gradient(readout[:3])

    def draw(key: jax.Array, logits_V: jax.Array) -> jax.Array:
        outer, inner = jax.random.split(key)
        blocks = logits_V.reshape(-1, BLOCK)
        block = jax.random.categorical(outer, jax.nn.logsumexp(blocks, axis=-1))
        return block * BLOCK + jax.random.categorical(inner, blocks[block])

    def at_slot(slot: jax.Array, feature_BE: jax.Array) -> jax.Array:
        fold = jax.random.fold_in
        keys = jax.vmap(lambda e: fold(fold(key, e), slot))(example)
        logits_BV = jnp.einsum(
            "be,ve->bv",
            feature_BE,
            table.astype(feature_BE.dtype),
            preferred_element_type=jnp.float32,
        )
        logits_BV = (logits_BV + bias[None].astype(jnp.float32)) / temperature
        return jax.vmap(draw)(keys, logits_BV)

    batch, num_slots = feature.shape[:2]
    slots = (jnp.arange(num_slots), jnp.swapaxes(feature, 0, 1))
    size = max(1, CHUNK_LOGITS // (batch * len(table)))
    sampled = jax.lax.map(lambda slot: at_slot(*slot), slots, batch_size=size)
    return jnp.swapaxes(sampled, 0, 1).astype(jnp.int32)
