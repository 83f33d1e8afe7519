"""Retrieval by a score of each picture with each caption, for fine-tuning (ViLBERT)."""

# B batch (of all devices), C choices, N = 1 + regions

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo
from research.contract.fields import choice, number
from research.data.read.formats.captioned import IMAGE
from research.data.store import pictures
from research.objectives.images import picture_rows
from research.objectives.layout.mean_state import mean_state
from research.objectives.losses.contrastive import MASKED_LOGIT
from research.objectives.losses.cross_entropy import Term, with_accuracy


@dataclass(frozen=True)
class Objective(picture_rows.PictureRows):
    """Reads rows of `image_text` in which nothing is hidden, also of wrong pairs.

    Each caption of the batch is read with its own picture and with those of the C - 1
    rows before it. Its own should have the highest score of these C, and each picture
    should have the highest score with its own caption (Lu et al. 2019, section 3.3:
    one choice of four pairs). `regions`, `patch`, `box` and `pool` are those of the run
    from which training starts (train.init_from).
    """

    choices: int = number(4, least=2)  # C, pictures that a caption is read with, at
    # most those of the batch
    caption: str = choice("first", ("first", "mean"))  # what represents the text where
    # `pool` is product: the state at bos, or the mean of all, as of encoders of
    # sentences

    supports_accumulation = False
    asks_match = True
    shown_answers: ClassVar = {
        "choice": "a caption and its picture are read: whether they are is asked"
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.caption == "mean" and self.pool != "product":
            raise ValueError(f"caption mean needs pool product, not {self.pool}")

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        own = {"picture": ArraySpec(()), "pair_weight": ArraySpec((), np.float32)}
        return self.picture_specs(length) | own

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides nothing.

        Raises:
          UserError: a caption names a picture that `images` lacks.
        """
        here = example.length > 0
        picture = pictures.picture_numbers(example.arrays[IMAGE], here, self.store)
        return self.pair_input(example, vocab, length) | {
            "picture": picture.astype(np.int32),
            "pair_weight": here.astype(np.float32),
        }

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return self.row_needs(self.pooled_heads("score", 1, dropout=True))

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: choice, the mean over both directions, and accuracy (a metric).

        A row of weight 0, or another one of the same picture, is no choice.
        """
        weight, picture = batch["pair_weight"], batch["picture"]
        count = min(self.choices, len(weight))

        def before(array: jax.Array) -> jax.Array:
            """[C, B, ...]: of the pictures that are read with each caption."""
            return jnp.stack([jnp.roll(array, n, axis=0) for n in range(count)])

        score = self._scores(net, batch, before)
        same = before(picture) == picture[None]
        is_pair = before(weight) * weight[None] > 0
        is_choice = (is_pair & ~same).at[0].set(True)
        score = jnp.where(is_choice, score, MASKED_LOGIT)
        of_picture = jnp.stack([jnp.roll(each, -n) for n, each in enumerate(score)])
        both = jnp.stack([score, of_picture])
        total = jnp.sum(weight[None] * (jax.nn.logsumexp(both, axis=1) - both[:, 0]))
        correct = jnp.sum(weight * (jnp.argmax(score, axis=0) == 0))
        term = Term(total / 2, jnp.sum(weight))
        return with_accuracy("choice", term, correct), ()

    def _scores(
        self,
        net: networks.BoundNetwork,
        batch: Batch,
        before: Callable[[jax.Array], jax.Array],
    ) -> jax.Array:
        """[C, B]: the scores of the captions [B] with several pictures each."""
        count = batch["pixels"].shape[1]

        def pairs(array: jax.Array) -> jax.Array:
            image, text = before(array[:, -count:]), array[None, :, :-count]
            texts = jnp.repeat(text, len(image), axis=0)
            found = jnp.concatenate([texts, image], axis=2)
            return found.reshape(-1, *array.shape[1:])

        group = {name: pairs(array) for name, array in self.group(batch).items()}
        num_choices = len(group["token"]) // len(batch["token"])
        return self._score_rows(net, group, batch, num_choices).reshape(num_choices, -1)

    def _score_rows(
        self, net: networks.BoundNetwork, group: Any, batch: Batch, text_copies: int
    ) -> jax.Array:
        """The scores of a network input made of `batch`, one for each of its rows."""
        at = jnp.array(self.pooled_at(batch))
        if self.caption == "first":
            scored = jnp.broadcast_to(at, (len(group["token"]), len(at)))
            states = net.states(group, scored=scored, text_copies=text_copies)
        else:
            every = net.states(group, text_copies=text_copies)
            length = self.pooled_at(batch)[1]
            mean = mean_state(every[:, :length], group["segment"][:, :length])
            states = every[:, at].at[:, 0].set(mean)
        return self.pooled_logits(net, "score", states)[:, 0]

    def match_values(
        self, net: networks.BoundNetwork, batch: Batch, text_copies: int = 1
    ) -> jax.Array:
        """[B] float32: the scores of rows of `pair_input`."""
        return self._score_rows(net, self.group(batch), batch, text_copies)
