"""Contrast of images and captions within the batch (CLIP, Radford et al. 2021)."""

# B batch (of all devices), L length, R patches of an image, J width of the vectors

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_group,
    input_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice, free_text, number
from research.data.read.formats.captioned import IMAGE, VECTOR
from research.data.rows import TextSpec
from research.data.store import pictures
from research.objectives.images import pixels, readers
from research.objectives.images.readers import patches
from research.objectives.images.stored_pictures import StoredPictures
from research.objectives.layout import input_format
from research.objectives.layout.mean_state import mean_state
from research.objectives.layout.specials import Specials
from research.objectives.losses import contrastive
from research.objectives.losses.cross_entropy import Term, with_accuracy

NO_VECTORS = (
    "objective.captions=vectors needs captions with vectors, but those of "
    "data.train or data.valid have none; give palimpsest images --caption-vectors=V.npz"
)


@dataclass(frozen=True)
class Objective(StoredPictures, objectives.Objective):
    """Reads a caption between bos and eos, and its picture: a class token, patches.

    The states at eos and at the class token, each after a linear layer, are the vectors
    of caption and picture. With `pool` mean a caption's tokens all attend to each
    other, and the mean of their states represents it. Each caption should be nearest to
    its picture among those of the batch, and vice versa; the scale of the cosines is
    learned.

    Texts are those of `palimpsest images` (data.format=captioned), and `images` is its
    folder. An evaluation ranks all pictures and all captions of the split.

    "Released code" is openai/CLIP at d05afc4, which has no training, and
    mlfoundations/open_clip for that.
    """

    images: str = free_text("", source="folder", needed=pictures.FOLDER)
    patch: int = number(12, least=1)  # pixels of a patch's side
    width: int = number(512, least=1)  # of the vectors that are compared
    pool: str = choice("class", ("class", "mean"))  # what represents a caption: the
    # state at eos of a causal tower, or the mean of all states, which all see the text
    captions: str = choice("tokens", ("tokens", "vectors"))  # what training reads: the
    # tokens, or the states of captions that palimpsest images --caption-vectors has
    # stored, for a tower of texts that optimizer.frozen freezes; the head reads them
    temperature: float = number(0.07, above=0)  # initially divides the cosines: the
    # learned scale starts at 1 / temperature
    max_scale: float = number(100.0, above=1)  # the scale is at most this, at least 1

    min_length = 3
    supports_accumulation = False
    caches_vectors = True
    predicts = "retrieval"
    vector_head = "vector"
    shown_answers: ClassVar = {
        "contrast": "both sides of a pair are read: none is hidden"
    }

    @property
    def pattern(self) -> str:
        return "causal" if self.pool == "class" else "full"

    @property
    def vector_pool(self) -> str:
        return self.pool

    @property
    def reader(self) -> readers.Reader:
        """The reader of the regions that a view frames."""
        return patches.Reader(self.patch)

    def specials(self, vocab: VocabInfo) -> Specials:
        """The specials of a caption, whose state at eos may represent it."""
        return Specials((vocab.bos_id,), (vocab.eos_id,))

    def text_spec(self, length: int) -> TextSpec:
        arrays = (IMAGE, VECTOR) if self.captions == "vectors" else (IMAGE,)
        return TextSpec("document", length - 2, arrays=arrays)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        own = {
            "picture": ArraySpec(()),
            "pair_weight": ArraySpec((), np.float32),
        }
        if self.pool == "class":
            own["pooled"] = ArraySpec((1,))
        if self.captions == "vectors":
            own["caption"] = ArraySpec((self._stored().shape[1],), np.float32)
        tower = pixels.tower_specs(self.store, self.patch)
        return input_specs(length) | tower | own

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides nothing.

        Raises:
          UserError: a caption names a picture that `images` lacks.
        """
        here, store = example.length > 0, self.store
        picture = pictures.picture_numbers(example.arrays[IMAGE], here, store)
        token, num_tokens = input_format.add_special_tokens(example, vocab, length)
        batch = pixels.tower_input(store.pixels[picture], here, self.patch)
        batch |= {
            "picture": picture.astype(np.int32),
            "pair_weight": here.astype(np.float32),
        }
        if self.captions == "vectors":
            stored, row = (
                self._stored(),
                np.where(here, example.arrays[VECTOR][:, 0], 0),
            )
            if row.size and not 0 <= row.min() <= row.max() < len(stored):
                raise UserError(NO_VECTORS)
            batch["caption"] = stored[row]
        if self.pool == "mean":
            return batch | input_format.full_input(token, num_tokens)
        eos = np.maximum(num_tokens - 1, 0)[:, None].astype(np.int32)
        return batch | input_format.causal_input(token, num_tokens) | {"pooled": eos}

    def _stored(self) -> np.ndarray:
        """[captions, D]. Raises UserError: there are none."""
        found = self.store.caption_vectors
        if found is None:
            raise UserError(NO_VECTORS)
        return found

    def picture_input(self, pictures: np.ndarray) -> dict[str, np.ndarray]:
        """The tower's input for pictures [B, H, W, 3] uint8 of the store's size."""
        return pixels.tower_input(pictures, np.ones(len(pictures), bool), self.patch)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(
            pattern=self.pattern,
            stacks="towers",
            heads={"vector": networks.HeadSpec(self.width, "none", bias=False)},
            input_features=3 * self.patch**2,
            image_positions=1 + pixels.num_patches(self.store, self.patch),
        )

    def text_encoder(self, net: networks.BoundNetwork) -> Any:
        return net.text

    def picture_vectors(self, net: networks.BoundNetwork, batch: Batch) -> jax.Array:
        """[B, J] float32: the vectors of the arrays of `picture_input`."""
        of_image = pixels.tower_group(batch, pixels.CLIP)
        first = jnp.zeros((len(batch["image_token"]), 1), jnp.int32)
        states = net.image.states(of_image, scored=first)
        return net.image.head("vector", states[:, 0])

    def row_vectors(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> tuple[jax.Array, jax.Array]:
        """[B, J] float32 each: the vectors of pictures and of captions."""
        scored = batch["pooled"] if self.pool == "class" else None
        states = net.text.states(input_group(batch), scored=scored)
        if self.pool == "mean":
            pooled = mean_state(states, batch["segment"])
        else:
            pooled = states[:, 0]
        if self.captions == "vectors":
            # The tower has its parameters; what it computes is not read, so XLA does
            # not compute it.
            stored = batch["caption"].astype(pooled.dtype)
            if stored.shape != pooled.shape:
                raise UserError(
                    f"vectors of captions have {stored.shape[1]} numbers, but the "
                    f"states of the tower of texts have {pooled.shape[1]}"
                )
            pooled = stored
        return self.picture_vectors(net, batch), net.text.head("vector", pooled)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """See `contrast`."""
        return self.contrast(net, self.row_vectors(net, batch), batch), ()

    def contrast(
        self,
        net: networks.BoundNetwork,
        vectors: tuple[jax.Array, jax.Array],
        batch: Batch,
    ) -> dict[str, Term]:
        """Terms: contrast; metrics: how often the caption is nearest, and the scale."""
        image, text = vectors
        log_scale = within(
            net.log_scale() - math.log(self.temperature), 0.0, math.log(self.max_scale)
        )
        scale, weight = jnp.exp(log_scale), batch["pair_weight"]
        term, correct = contrastive.in_batch(
            image, text, weight, temperature=1 / scale, symmetric=True
        )
        terms = with_accuracy("contrast", term, correct)
        return terms | {"scale": Term(scale * term.weight, term.weight, 0.0)}

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """image, text [B, J] float32, picture [B], and weight [B], 0 for no pair."""
        image, text = self.row_vectors(net, batch)
        found = {"image": image, "text": text, "picture": batch["picture"]}
        return found | {"weight": batch["pair_weight"]}


@jax.custom_vjp
def within(x: jax.Array, least: float, most: float) -> jax.Array:
    """Clips x to bounds; at a bound, gradients that lead outside are 0.

    So a parameter stays within the bounds to which the released code clips it after
    each step.
    """
    return jnp.clip(x, least, most)


def _within_fwd(x: jax.Array, least: float, most: float) -> Any:
    return jnp.clip(x, least, most), (x, least, most)


def _within_bwd(saved: Any, grad: jax.Array) -> Any:
    x, least, most = saved
    leaves = ((x >= most) & (grad < 0)) | ((x <= least) & (grad > 0))
    return jnp.where(leaves, 0.0, grad), None, None


within.defvjp(_within_fwd, _within_bwd)
