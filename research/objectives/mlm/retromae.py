"""RetroMAE: a weak decoder restores the text from a sentence vector (Xiao et al. 2022).

The encoder reads lightly masked text and predicts the masks. A decoder of one layer
then predicts every token. Each of its queries is the sentence vector plus a position
and attends to the vector, specials and its own random half of the tokens (enhanced
decoding; staoxiao/RetroMAE, src/pretrain).
"""

# B batch, L length, D width

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_group,
)
from research.contract.fields import choice, number
from research.data import counter_rng
from research.objectives.layout import input_format
from research.objectives.losses.cross_entropy import (
    Term,
    cross_entropy,
    masked_cross_entropy,
    with_accuracy,
)
from research.objectives.mlm import mlm
from research.objectives.noise import mask_units

SEEN = ("rank", "reach", "low", "low2", "reach2")
"""Arrays of the decoder's attention, in the batch as seen_rank, ..."""
VECTOR, QUERY = -1, -2
"""Ranks of the sentence vector, and of queries, to which no query attends."""


@dataclass(frozen=True)
class Objective(mlm.Objective):
    """Reads bos, text, eos; the sentence vector is the encoder's state at bos.

    A query attends to the tokens that follow its own in a random cyclic order of the
    row's tokens: the same number for each query, and never its own token.
    """

    rate: float = number(0.3, above=0, below=1)  # mask rate of the encoder
    unit: str = choice("word", mask_units.UNITS)
    decoder_rate: float = number(0.5, above=0, below=1)  # fraction of the tokens that
    # are hidden from a query of the decoder

    shown_answers: ClassVar = {
        **mlm.Objective.shown_answers,
        "decoder": "the encoder's input has most tokens: its vector is to tell of them",
    }

    takes_mask_rate = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed: dict[str, Any] = {"predict_at": "masked", "sentence_task": "none"}
        fixed |= {"boundary_targets": 0, "shuffle_rate": 0.0}
        for name, value in fixed.items():
            if getattr(self, name) != value:
                raise ValueError(f"{name} must be {value}, not {getattr(self, name)}")
        if self.format not in input_format.SINGLE_FORMATS:
            known = " or ".join(input_format.SINGLE_FORMATS)
            raise ValueError(f"format must be {known}, not {self.format}")

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = {f"seen_{name}": ArraySpec((length,)) for name in SEEN}
        specs |= {"original": ArraySpec((length,))}
        specs |= {"decoder_weight": ArraySpec((length,), np.float32)}
        return super().batch_spec(length) | specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks the encoder's text; draws what the decoder's queries attend to.

        The decoder predicts all tokens except specials.
        """
        batch = super().corrupt(example, key, vocab, length)
        text = input_format.single(example, vocab, length)
        inside = (batch["segment"] > 0) & ~vocab.is_special[text.token]
        seen = self._seen(key, inside, text.length)
        return (
            batch
            | {f"seen_{name}": array for name, array in seen.items()}
            | {"original": text.token, "decoder_weight": inside.astype(np.float32)}
        )

    def _seen(
        self, key: np.ndarray, inside: np.ndarray, num_tokens: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The arrays of `SEEN`, [B, L] int32.

        The n ordinary tokens of a row have the ranks 0 to n - 1 in a random order. A
        query attends to those after its own, continuing at 0: two intervals. All attend
        to what precedes rank 0: the vector and specials.
        """
        order = counter_rng.uniform(key, "circle", inside.shape[1])
        order = np.where(inside, order, 2.0).argsort(axis=1, kind="stable")
        rank = np.where(inside, order.argsort(axis=1), VECTOR)
        count = inside.sum(axis=1)
        hidden = np.clip(np.rint(self.decoder_rate * num_tokens), 1, None)
        count, hidden = count[:, None], hidden[:, None].astype(np.int64)
        last = rank + np.maximum(count - hidden, 0)
        seen = {
            "rank": rank,
            "low": np.where(inside, rank + 1, VECTOR),
            "reach": np.where(inside, np.minimum(last, count - 1), VECTOR),
            "low2": np.full_like(rank, VECTOR),
            "reach2": np.where(inside, np.maximum(last - count, VECTOR), VECTOR),
        }
        return {name: array.astype(np.int32) for name, array in seen.items()}

    def for_scoring(self) -> mlm.Objective:
        """`mlm`, which has the same encoder and the same loss of masked tokens."""
        names = [field.name for field in fields(mlm.Objective)]
        own = mlm.Objective(**{name: getattr(self, name) for name in names})
        return own.for_scoring()

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(pattern=self.pattern, transform=True, future=1)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: mlm of the encoder, decoder; and their accuracies (metrics)."""
        group = input_group(batch)
        states_BLD = net.states(group)
        here = batch["scored"][..., None]
        masked = jnp.take_along_axis(states_BLD, here, axis=1, mode="clip")
        terms = masked_cross_entropy("mlm", net.readout(masked), batch, self.z_loss)
        first = jnp.arange(batch["token"].shape[1])[None] - batch["position"]
        vector_BLD = jnp.take_along_axis(states_BLD, first[..., None], 1, mode="clip")
        text = group | {"token": batch["original"]}
        key_BLD = jnp.where(
            (batch["position"] == 0)[..., None], vector_BLD, net.embed(text)
        )
        both = jnp.concatenate([key_BLD, net.embed(text, vector_BLD)], axis=1)
        twice = {name: jnp.tile(array, (1, 2)) for name, array in text.items()}
        seen = {name: jnp.tile(batch[f"seen_{name}"], (1, 2)) for name in SEEN}
        length = text["token"].shape[1]
        is_query = jnp.arange(2 * length)[None] >= length
        seen["rank"] = jnp.where(is_query, QUERY, seen["rank"])
        queries = jnp.broadcast_to(length + jnp.arange(length), text["token"].shape)
        decoded = net.future_outputs(
            twice | seen, both, 0, scored=queries, pattern="general"
        ).states
        term, correct = cross_entropy(
            net.readout(decoded), batch["original"], batch["decoder_weight"]
        )
        return terms | with_accuracy("decoder", term, correct), ()
