"""Masked words and regions, and matching, of a picture and its caption together.

Its fields give published systems: ViLT (patches, Kim et al. 2021), VisualBERT (regions,
Li et al. 2019) and, with the network two_streams, ViLBERT (Lu et al. 2019).
"""

# B batch, L tokens of the text, R regions, N = 1 + R, F values of a region's pixels
# K scored tokens, C scored regions, D width

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    scored_specs,
)
from research.contract.errors import UserError
from research.contract.fields import check_sum, choice, fraction, number
from research.data import counter_rng
from research.data.read.formats.captioned import IMAGE
from research.data.store import pictures
from research.objectives.images import picture_rows, transport
from research.objectives.images import regions as image_regions
from research.objectives.layout import input_format
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    masked_cross_entropy,
    with_accuracy,
)
from research.objectives.noise import mask_units
from research.objectives.noise.masking import (
    RANDOM_TOKENS,
    STAYS,
    mask_budget,
    max_masked,
    replace_chosen,
)

UNITS = ("token", "word")
MATCH = "match_"
"""Of the arrays of a pass that reads the whole text beside what may be another picture.
"""


@dataclass(frozen=True)
class Objective(picture_rows.PictureRows):
    """Reads bos, caption, eos, and a picture: the whole, then its regions.

    With patches the first position of a picture is a class token; with boxes it reads
    the whole picture, and each other position a crop. In one stream these follow the
    text in its row, of another token type. A picture that is drawn in place of the
    right one is of the same split.

    Texts are those of `palimpsest images` (data.format=captioned), and `images` is its
    folder; data.length counts tokens alone.
    """

    rate: float = number(0.15, above=0, below=1)  # fraction of tokens that is chosen
    unit: str = choice("token", UNITS)  # what is chosen as a whole
    mask_fraction: float = fraction(0.8)  # of the chosen: becomes the mask token
    random_fraction: float = fraction(0.1)  # of the chosen: becomes a random token; the
    # rest stays
    random_tokens: str = choice("ordinary", RANDOM_TOKENS)  # what these are drawn from
    region_rate: float = number(0.0, least=0, below=1)  # fraction of the boxes with a
    # class that is chosen, and whose class is predicted; 0: none
    region_mask_fraction: float = fraction(0.9)  # of the chosen: their pixels are
    # hidden, in other regions, too; the rest stays
    match: str = choice("separate", ("separate", "joint", "none"))  # whether picture
    # and text belong together is asked of the text as it is, in a pass of its own
    # (ViLT), of the masked text, or not at all
    replace_rate: float = number(0.5, above=0, below=1)  # of pictures, for this
    match_label: str = choice("matched", ("matched", "replaced"))  # what label 1 says
    mismatched: str = choice("kept", ("kept", "dropped"))  # with match joint: the
    # losses of words and regions beside another picture
    alignment: float = number(0.0, least=0)  # with match separate: weight of the
    # transport between words and patches, shorter for pairs that match (ViLT: 0.1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "mask_fraction", "random_fraction")
        if self.region_rate and self.regions == "patches":
            raise ValueError("region_rate needs regions boxes: patches have no classes")
        if self.alignment and self.match != "separate":
            raise ValueError(f"alignment needs match separate, not {self.match}")

    @property
    def shown_answers(self) -> dict[str, str]:
        """The reasons: answers that the input may show."""
        reasons = {
            "mlm": STAYS,
            "region": "some of the chosen regions stay as they are",
        }
        both = "a picture and its own text are read: whether they are is asked"
        return reasons | {"match": both, "alignment": both}

    def num_scored(self, length: int) -> int:
        """K: 6 at length 40."""
        return max_masked(self.rate, length)

    def _num_region_targets(self) -> int:
        return max_masked(self.region_rate, self.num_positions() - 1)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = self.picture_specs(length) | scored_specs(self.num_scored(length))
        if self.region_rate:
            of_regions = scored_specs(self._num_region_targets())
            specs |= {f"region_{name}": spec for name, spec in of_regions.items()}
        if self.match == "separate":
            specs |= self.picture_specs(length, MATCH)
        if self.match != "none":
            specs |= {"match_label": ArraySpec(())}
            specs |= {"match_weight": ArraySpec((), np.float32)}
        return specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks tokens and regions, and replaces pictures.

        Raises:
          UserError: a caption names a picture that `images` lacks, or regions are
            chosen and have no classes.
        """
        store, here = self.store, example.length > 0
        own = pictures.picture_numbers(example.arrays[IMAGE], here, store)
        text = input_format.single(example, vocab, length)
        whole = text._replace(token=text.token.copy())
        batch = self._mask(text, key, vocab)
        other, replaced = own, np.zeros(len(key), bool)
        if self.match != "none":
            draw = counter_rng.uniform(key, "match", 1)[:, 0]
            replaced = draw < self.replace_rate
            other = np.where(replaced, pictures.other_pictures(key, own, store), own)
            is_one = replaced == (self.match_label == "replaced")
            batch["match_label"] = (here & is_one).astype(np.int32)
            batch["match_weight"] = here.astype(np.float32)
        read = other if self.match == "joint" else own
        scores = here & ~(replaced & (self.match == "joint"))
        scores |= here & (self.mismatched == "kept")
        for name in ("scored", "weight"):
            batch[name] = np.where(scores[:, None], batch[name], 0)
        hidden = np.zeros((len(key), self.num_positions() - 1), bool)
        if self.region_rate:
            chosen = self._choose_regions(key, read, store)
            hidden = chosen.hidden
            batch |= self._region_targets(chosen, store.classes[read], scores, length)
        batch |= self.read(text, read, hidden, here, vocab, length)
        if self.match == "separate":
            shown = np.zeros_like(hidden)
            group = self.read(whole, other, shown, here, vocab, length)
            batch |= {MATCH + name: array for name, array in group.items()}
        return batch

    def _mask(
        self, text: input_format.Text, key: np.ndarray, vocab: VocabInfo
    ) -> dict[str, np.ndarray]:
        """Overwrites `text.token`; returns scored, target and weight [B, K]."""
        most = self.num_scored(text.token.shape[1])
        count = mask_budget(text.length, self.rate, most)
        chosen = mask_units.choose_units(key, text, vocab, count, unit=self.unit)
        return replace_chosen(
            text.token,
            chosen,
            key,
            vocab,
            num_scored=most,
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
            random_tokens=self.random_tokens,
        )

    def _choose_regions(
        self, key: np.ndarray, number: np.ndarray, store: pictures.Store
    ) -> image_regions.Chosen:
        if not store.class_names:
            raise UserError(
                "objective.region_rate predicts the classes of boxes, but the pictures "
                "of objective.images have none; set it to 0, or give captions with "
                "`classes` to palimpsest images"
            )
        options = self.region_rate, self.region_mask_fraction
        most = self._num_region_targets()
        return image_regions.choose(key, store.classes[number], *options, most)

    def _region_targets(
        self,
        chosen: image_regions.Chosen,
        classes: np.ndarray,
        scores: np.ndarray,
        length: int,
    ) -> dict[str, np.ndarray]:
        """region_scored, region_target, region_weight [B, C]."""
        most = self._num_region_targets()
        scored = chosen.chosen & scores[:, None]
        at, used = input_format.scored_positions(scored, most)
        target = np.take_along_axis(classes, at, axis=1)
        return {
            "region_scored": np.where(used, length + 1 + at, 0).astype(np.int32),
            "region_target": np.where(used, target, 0).astype(np.int32),
            "region_weight": used.astype(np.float32),
        }

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        heads: dict[str, networks.HeadSpec] = {}
        if self.match != "none":
            heads |= self.pooled_heads("match", 2, dropout=self.pool == "product")
        if self.region_rate:
            size = max(1, len(self.store.class_names))
            heads["region"] = networks.HeadSpec(size, norm=True)
        return self.row_needs(heads, transform=True)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: mlm, region, match, alignment, as asked; and accuracies (metrics)."""
        positions = [batch["scored"]]
        if self.region_rate:
            positions.append(batch["region_scored"])
        if self.match == "joint":
            positions.append(self.pooled(batch))
        scored = jnp.concatenate(positions, axis=1)
        states = net.states(self.group(batch), scored=scored)
        words, *others = jnp.split(
            states, np.cumsum([each.shape[1] for each in positions])[:-1], axis=1
        )
        terms = masked_cross_entropy("mlm", net.readout(words), batch)
        if self.region_rate:
            terms |= self._region_terms(net.head("region", others[0]), batch)
        if self.match == "joint":
            terms |= self._match_terms(net, others[-1], batch)
        if self.match == "separate":
            terms |= self._second_pass(net, batch)
        return terms, ()

    def _second_pass(self, net: networks.BoundNetwork, batch: Batch) -> dict[str, Term]:
        """Terms of the text as it is, beside what may be another picture."""
        group = self.group(batch, MATCH)
        if not self.alignment:
            states = net.states(group, scored=self.pooled(batch))
            return self._match_terms(net, states, batch)
        states = net.states(group)
        pooled = states[:, jnp.array(self.pooled_at(batch))]
        terms = self._match_terms(net, pooled, batch)
        count = batch["match_pixels"].shape[1]
        here = group["segment"] > 0
        cost = transport.distance(
            states[:, :-count],
            states[:, 1 - count :],
            words_of(here[:, :-count]),
            here[:, 1 - count :],
        )
        matched = batch["match_label"] == (self.match_label == "matched")
        weight = batch["match_weight"]
        total = jnp.sum(weight * jnp.where(matched, cost, -cost))
        return terms | {"alignment": Term(total, jnp.sum(weight), self.alignment)}

    def _match_terms(
        self, net: networks.BoundNetwork, pooled: jax.Array, batch: Batch
    ) -> dict[str, Term]:
        """The term and the accuracy of matching, by the states that it reads."""
        logits = self.pooled_logits(net, "match", pooled)
        weight = batch["match_weight"]
        return with_accuracy(
            "match",
            *binary_cross_entropy(
                logits[:, 1] - logits[:, 0], batch["match_label"], weight
            ),
        )

    def _region_terms(self, logits: jax.Array, batch: Batch) -> dict[str, Term]:
        target, weight = batch["region_target"], batch["region_weight"]
        one_hot = jax.nn.one_hot(target, logits.shape[-1])
        term = region_loss(logits, one_hot, weight)
        right = jnp.sum(weight * (jnp.argmax(logits, axis=-1) == target))
        return with_accuracy("region", term, right)


def words_of(text: jax.Array) -> jax.Array:
    """[B, L] bool: of the positions of a text those between bos and eos."""
    has_next = jnp.pad(text[:, 1:], ((0, 0), (0, 1)))
    return text & has_next & (jnp.arange(text.shape[1]) > 0)[None]


def region_loss(logits: jax.Array, distribution: jax.Array, weight: jax.Array) -> Term:
    """Sum of KL(distribution || softmax of logits) over regions [B, C].

    Of a class that is known it is the cross-entropy (jiasenlu/vilbert_beta at f0c9a2b,
    vilbert/vilbert.py, whose distributions are a detector's).

    Args:
      logits, distribution: [B, C, n].
    """
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
    entropy = jnp.sum(jax.scipy.special.xlogy(distribution, distribution), axis=-1)
    cross = -jnp.sum(distribution * log_p, axis=-1)
    return Term(jnp.sum(weight * (cross + entropy)), jnp.sum(weight))
