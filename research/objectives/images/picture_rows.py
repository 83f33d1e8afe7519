"""Rows of a caption and its picture for networks of one or two streams."""

# B batch, L tokens of the text, R regions, N = 1 + R, F values of a region's pixels

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    FEATURE,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_group,
    input_specs,
)
from research.contract.fields import choice, free_text
from research.contract.parts import keys_of_parts
from research.data.read.formats.captioned import IMAGE
from research.data.rows import TextSpec
from research.data.store import pictures
from research.objectives.images import readers
from research.objectives.images import regions as image_regions
from research.objectives.images.stored_pictures import StoredPictures
from research.objectives.layout import input_format
from research.objectives.layout.specials import Specials

POOLERS = ("pool_text", "pool_image")
"""Heads whose product is read with `pool` = product."""


@dataclass(frozen=True)
@keys_of_parts(readers.FOLDER, "regions")
class PictureRows(StoredPictures, objectives.Objective):
    """The base of objectives that read a picture after its text.

    A row is bos, the text, eos, and a picture: the whole, then its regions.
    """

    images: str = free_text("", source="folder", needed=pictures.FOLDER)
    regions: str = choice("patches", readers.FOLDER.lines())  # what is read of a
    # picture after the whole
    box: str = choice("none", image_regions.BOXES)  # what is read of a region's box
    # in addition to pixels
    text_reads: str = choice("words", ("words", "picture"))  # picture: each token also
    # reads the whole picture (VL-BERT)
    pool: str = choice("first", ("first", "product"))  # what a head of the whole row
    # reads; first: the state at bos; product: the product of a layer on it and a layer
    # on the picture's first state (ViLBERT)

    pattern = "general"  # padding of the text is between it and the image
    min_length = 3
    asks_match = False  # True if it has `match_values`

    @functools.cached_property
    def reader(self) -> readers.Reader:
        """The reader that `regions` names, with its keys."""
        found: readers.Reader = readers.FOLDER.make(self.field_values, "regions")
        return found

    @property
    def region_width(self) -> int:
        """The width of the vector that a position reads of a picture."""
        return self.num_values + self.box_values.width

    @property
    def box_values(self) -> image_regions.BoxValues:
        """What is read of boxes."""
        return image_regions.BOXES[self.box]

    @property
    def num_values(self) -> int:
        """The number of pixel values, or features, of a region."""
        return self.reader.num_values(self.store)

    def values_spec(self, count: int) -> ArraySpec:
        """The spec of the values of `count` regions."""
        return ArraySpec((count, self.num_values), self.reader.dtype)

    def num_positions(self) -> int:
        return 1 + self.reader.num_regions(self.store)

    def specials(self, vocab: VocabInfo) -> Specials:
        """Specials with one token type; a picture has the other."""
        end = (vocab.eos_id,)
        return Specials((vocab.bos_id,), end, between=end)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("document", length - 2, arrays=(IMAGE,))

    def picture_specs(self, length: int, prefix: str = "") -> dict[str, ArraySpec]:
        count = self.num_positions()
        specs = input_specs(length + count, prefix)
        specs[f"{prefix}pixels"] = self.values_spec(count)
        if self.box_values.width:
            specs[f"{prefix}box"] = ArraySpec((count, readers.BOX), np.float32)
        return specs

    def pair_input(
        self, example: Example, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """A network input of whole texts and their pictures.

        Raises:
          UserError: a text names a picture that `images` lacks.
        """
        here = example.length > 0
        number = pictures.picture_numbers(example.arrays[IMAGE], here, self.store)
        text = input_format.single(example, vocab, length)
        found = self.regions_read(number)
        return self.read(text, found, here, vocab, length)

    def regions_read(
        self, number: np.ndarray, hidden: np.ndarray | None = None
    ) -> readers.Regions:
        """What is read of pictures [B] with hidden regions [B, R]; None: no hidden."""
        if hidden is None:
            shape = len(number), self.reader.num_regions(self.store)
            hidden = np.zeros(shape, bool)
        return self.reader.read(self.store, number, hidden)

    def read(
        self,
        text: input_format.Text,
        found: readers.Regions,
        here: np.ndarray,
        vocab: VocabInfo,
        length: int,
    ) -> dict[str, np.ndarray]:
        """A network input: the text, then what is read of the pictures."""
        is_read = found.here & here[:, None]
        token = np.where(is_read, vocab.mask_id, vocab.pad_id)
        token[:, 0] = np.where(here, vocab.bos_id, vocab.pad_id)
        count = token.shape[1]
        position = length + np.arange(count) * (not self.reader.of_boxes)
        group = input_format.full_input(text.token, text.length)
        of_image = {
            "token": token,
            "position": np.where(is_read, position, 0),
            "segment": is_read,
            "token_type": is_read,
            "rank": 0 * token,
            "reach": 0 * token,
        }
        batch = {
            name: np.concatenate([group[name], array], axis=1).astype(np.int32)
            for name, array in of_image.items()
        }
        values = np.where(is_read[..., None], found.values, 0)
        batch["pixels"] = values.astype(self.reader.dtype)
        if self.box_values.width:
            batch["box"] = np.where(is_read[..., None], found.box, 0)
        return batch

    def group(self, batch: Batch, prefix: str = "") -> dict[str, Any]:
        """A network input, with the vectors [B, L + N, F] of its pictures."""
        group = input_group(batch, prefix)
        values = self.reader.scaled(batch[f"{prefix}pixels"])
        if not self.reader.reads_whole:
            values = values.at[:, 0].set(0.0)
        if self.box_values.width:
            box = self.box_values.of(batch[f"{prefix}box"])
            values = jnp.concatenate([values, box], axis=-1)
        count = values.shape[1]
        is_read = (group["segment"][:, -count:] > 0)[..., None]
        values = jnp.where(is_read, values, 0.0)
        is_text = (group["segment"][:, :-count] > 0)[..., None]
        reads_picture = is_text & (self.text_reads == "picture")
        of_text = jnp.where(reads_picture, values[:, :1], 0.0)
        return group | {FEATURE: jnp.concatenate([of_text, values], axis=1)}

    def row_needs(
        self, heads: dict[str, networks.HeadSpec], **more: Any
    ) -> networks.Needs:
        """What rows need from a network, and `more`."""
        return networks.Needs(
            pattern=self.pattern,
            heads=heads,
            token_types=2,
            input_features=self.region_width,
            image_positions=self.num_positions(),
            box_features=self.box_values.width,
            text_features=self.text_reads == "picture",
            **more,
        )

    def pooled_heads(
        self, name: str, size: int, *, dropout: bool
    ) -> dict[str, networks.HeadSpec]:
        """The heads of `pooled_logits`."""
        if self.pool == "first":
            return {name: networks.HeadSpec(size, "tanh", dropout=dropout)}
        heads = {each: networks.HeadSpec(0, "none") for each in POOLERS}
        return heads | {name: networks.HeadSpec(size, "none", dropout=dropout)}

    def pooled_logits(
        self, net: networks.BoundNetwork, name: str, pooled: jax.Array
    ) -> jax.Array:
        """Float32 [B, n]: a head of the whole row, from the states [B, 1 or 2, D]."""
        x = pooled[:, 0]
        if self.pool == "product":
            text, image = (
                jax.nn.relu(net.head(each, pooled[:, n]))
                for n, each in enumerate(POOLERS)
            )
            x = (text * image).astype(pooled.dtype)
        return net.head(name, x)

    def match_values(
        self, net: networks.BoundNetwork, batch: Batch, text_copies: int = 1
    ) -> jax.Array:
        """[B] float32: more for rows of `pair_input` whose text is the picture's."""
        raise NotImplementedError

    def pooled_at(self, batch: Batch) -> list[int]:
        """The positions of these states: bos and the picture's first position."""
        before = batch["token"].shape[1] - batch["pixels"].shape[1]
        return [0] if self.pool == "first" else [0, before]

    def pooled(self, batch: Batch) -> jax.Array:
        """[B, 1] or [B, 2]: these positions in each row."""
        at = jnp.array([self.pooled_at(batch)], jnp.int32)
        return jnp.broadcast_to(at, (len(batch["token"]), at.shape[1]))
