"""Replaced-token detection: which tokens a small model made up (Clark et al. 2020).

A generator recovers hidden tokens; samples of it stand in their places, and the
discriminator, which is kept, says of every token whether it is the original. Its tasks
(section 3.5 compares them):

replaced     of every token, whether it is replaced: ELECTRA
chosen       the same of the hidden places alone: ELECTRA 15 %
replace_mlm  which token was at the hidden places: MLM without mask tokens
all_tokens   which token was at every place, by a vocabulary or a copy of what it reads
"""

# B batch, L length, K scored places, V vocabulary with padding

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    OTHER_DOCUMENT,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.data import counter_rng
from research.objectives.inputs import input_format
from research.objectives.losses.copy_loss import copy_cross_entropy
from research.objectives.losses.cross_entropy import (
    CHUNK,
    Term,
    binary_cross_entropy,
    cross_entropy,
)
from research.objectives.mlm import budget, hide

BLOCK = 128
"""Rows of a vocabulary table come in multiples of this many."""

TASKS = ("replaced", "chosen", "replace_mlm", "all_tokens")


@dataclass(frozen=True)
class Objective:
    """TextSpec bos, text, eos, or bos, A, eos, B, eos, where B goes on after A.

    Hidden places are distinct, and never specials.
    """

    rate: float = 0.15  # share of a row's tokens, specials included, that is hidden
    mask: float = (
        0.85  # share of the hidden that becomes the mask token; the rest stays
    )
    task: str = "replaced"  # replaced | chosen | replace_mlm | all_tokens
    coef: float = 50.0  # weight of the discriminator's loss beside the generator's,
    # for its binary tasks; those that recover tokens have losses of one size: 1
    fraction: float = 0.25  # the generator's width over the discriminator's
    tie: str = "embedding"  # none | token | embedding (also positions, kinds) | all:
    # what the two share; all of a generator as large as the discriminator
    temperature: float = 1.0  # of the generator's samples
    format: str = "stream"  # stream | segment_pair: two segments of whole sentences
    short: float = 0.05  # share of segment pairs that is made shorter

    family = "contrastive"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if self.format not in ("stream", "segment_pair"):
            raise ValueError(f"format is stream or segment_pair, not {self.format!r}")
        if not 0 <= self.short <= 1:
            raise ValueError(f"short is a share, not {self.short}")
        if not 0 <= self.mask <= 1:
            raise ValueError(f"mask is between 0 and 1, not {self.mask}")
        if min(self.fraction, self.temperature) <= 0:
            raise ValueError("fraction and temperature are above 0")
        if self.task not in TASKS:
            raise ValueError(f"task is one of {', '.join(TASKS)}, not {self.task!r}")
        if self.tie not in models.TIE_CHOICES:
            raise ValueError(
                f"tie is one of {', '.join(models.TIE_CHOICES)}, not {self.tie!r}"
            )
        if self.tie == "all" and self.fraction != 1:
            raise ValueError(
                f"tie all needs networks of one size: fraction 1, not {self.fraction}"
            )

    def num_scored(self, length: int) -> int:
        """K: 19 at length 128, 79 at 512 (the released code's)."""
        return max(1, int((self.rate + 0.005) * length))

    def text_spec(self, length: int) -> TextSpec:
        if self.format == "stream":
            return TextSpec("stream", length - 2)
        return TextSpec("pair", length - 3, short_rate=self.short)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(self.num_scored(length))

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides round(rate * tokens) of a row's tokens from the generator."""
        if self.format == "stream":
            text = input_format.single(example, vocab, length)
        else:  # where no second segment is left, the first stands alone
            alone = np.where(
                example.label == OTHER_DOCUMENT, example.first_length, example.length
            )
            text = input_format.pair(example._replace(length=alone), vocab, length)
        num_scored = self.num_scored(length)
        count = budget(text.length, self.rate, num_scored)
        chosen = counter_rng.choose_subset(
            key, "choose", ~vocab.is_special[text.token], count
        )
        group = input_format.full(text.token, text.length) | {
            "token_type": text.token_type
        }
        return group | hide(
            text.token,
            chosen,
            key,
            vocab,
            num_scored=num_scored,
            mask=self.mask,
            random=0.0,
        )

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: model.token_types is 1, where pairs have two."""
        if self.format == "segment_pair":
            input_format.check_token_types(options, 2)
        return models.GeneratorDiscriminator(
            options,
            size=vocab.size,
            fraction=self.fraction,
            tie=self.tie,
            heads={"copy": 1} if self.task == "all_tokens" else {},
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: generator, discriminator (mlm, where it recovers tokens), accuracies.

        And the share of the discriminator's places that is replaced: always answering
        "original" is right for all the others. All tokens are specials too.
        """
        hidden, target, weight = (batch[k] for k in ("scored", "target", "weight"))
        generator = net.generator
        readout = generator.readout(generator.states(batch, scored=hidden))
        made, correct = cross_entropy(readout, target, weight)
        guess = sample(readout, key, batch["example"], self.temperature)
        token = write(batch["token"], hidden, guess, weight)
        read = batch | {"token": token}
        if self.task in ("replaced", "all_tokens"):
            original = write(batch["token"], hidden, target, weight)
            here = (batch["segment"] > 0).astype(jnp.float32)
            places = Places(None, token, original, here)
        else:
            places = Places(hidden, guess, target, weight)
        told, right, share = self._tell(net.discriminator, read, places)
        name = "discriminator" if self.task in ("replaced", "chosen") else "mlm"
        return {
            "generator": made,
            name: told._replace(coef=self.coef),
            "generator_accuracy": Term(correct, made.weight, 0.0),
            f"{name}_accuracy": Term(right, told.weight, 0.0),
            "replaced": Term(share, told.weight, 0.0),
        }, ()

    def _tell(self, net: Any, batch: dict, places: "Places") -> tuple:
        """The discriminator's term, and the weights of what is right and replaced."""
        scored, token, original, weight = places
        states = net.states(batch, scored=scored)
        replaced = token != original
        if self.task in ("replaced", "chosen"):
            logits = net.head("replaced", states)[..., 0]
            term, right = binary_cross_entropy(logits, replaced, weight)
        elif self.task == "replace_mlm":
            readout = net.readout(states)
            term, right = cross_entropy(readout, original, weight)
        else:
            readout = net.readout(states)
            gate = net.head("copy", states)[..., 0]
            term, right = copy_cross_entropy(readout, gate, token, original, weight)
        return term, right, jnp.sum(weight * replaced)


class Places(NamedTuple):
    """What the discriminator is asked about, each [B, K], or [B, L] for all places."""

    scored: jax.Array | None
    token: jax.Array  # that it reads there
    original: jax.Array
    weight: jax.Array


def write(
    token: jax.Array, scored: jax.Array, value: jax.Array, weight: jax.Array
) -> jax.Array:
    """`token` [B, L] with `value` at the scored places [B, K] of weight above 0."""
    place = jnp.where(weight > 0, scored, token.shape[1])
    row = jnp.arange(len(token))[:, None]
    return token.at[row, place].set(value, mode="drop")


def sample(
    readout: Any, key: jax.Array, example: jax.Array, temperature: float
) -> jax.Array:
    """[B, K] int32: a token of softmax(logits / temperature) for each feature.

    Keyed by (example, slot), so that rows may be split. By the chain rule a block of
    the vocabulary is drawn first and then a token of it, which takes V / 128 + 128
    Gumbel variables in place of V. Nothing is differentiated.
    """
    feature, table, bias = jax.lax.stop_gradient(readout[:3])

    def draw(key, logits_V):
        outer, inner = jax.random.split(key)
        blocks = logits_V.reshape(-1, BLOCK)
        block = jax.random.categorical(outer, jax.nn.logsumexp(blocks, axis=-1))
        return block * BLOCK + jax.random.categorical(inner, blocks[block])

    def at_slot(slot, feature_BE):
        keys = jax.vmap(lambda e: jax.random.fold_in(jax.random.fold_in(key, e), slot))
        logits_BV = jnp.einsum(
            "be,ve->bv",
            feature_BE,
            table.astype(feature_BE.dtype),
            preferred_element_type=jnp.float32,
        )
        logits_BV = (logits_BV + bias[None].astype(jnp.float32)) / temperature
        return jax.vmap(draw)(keys(example), logits_BV)

    batch, num_slots = feature.shape[:2]
    slots = (jnp.arange(num_slots), jnp.swapaxes(feature, 0, 1))
    size = max(1, CHUNK // (batch * len(table)))
    guess = jax.lax.map(lambda slot: at_slot(*slot), slots, batch_size=size)
    return jnp.swapaxes(guess, 0, 1).astype(jnp.int32)
