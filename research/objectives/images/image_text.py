"""Masked words and regions, and matching, for a picture with its caption.

Its fields give published systems: ViLT (patches, Kim et al. 2021), VisualBERT (regions,
Li et al. 2019), VL-BERT (Su et al. 2020), ImageBERT (Qi et al. 2020) and, with the
network two_streams, ViLBERT (Lu et al. 2019) and LXMERT (Tan and Bansal 2019).
"""

# B batch, L tokens of the text, R regions, N = 1 + R, F values of a region's pixels
# K scored tokens, C scored regions, D width, n classes

import dataclasses
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
from research.data.rows import TextSpec
from research.data.store import pictures
from research.objectives.images import losses, picture_rows, readers, transport
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

MATCH = "match_"
"""Prefix of the arrays of a pass that reads the unmasked text with a picture, which may
be another one."""


@dataclass(frozen=True)
class Objective(picture_rows.PictureRows):
    """Reads bos, caption, eos, and a picture: the whole, then its regions.

    With patches the first position of a picture is a class token; with boxes it reads
    the whole picture, and each other position a crop. In a network of one stream they
    follow the text in its row, with another token type. A picture that replaces the
    right one is from the same split.

    Texts are those of `palimpsest images` (data.format=captioned), and `images` is its
    folder; data.length counts only tokens.
    """

    rate: float = number(0.15, above=0, below=1)  # fraction of tokens that is chosen
    unit: str = choice("token", mask_units.SINGLE_UNITS)  # what is chosen as a whole
    mask_fraction: float = fraction(0.8)  # of the chosen: becomes the mask token
    random_fraction: float = fraction(0.1)  # of the chosen: becomes a random token; the
    # rest stays
    random_tokens: str = choice("ordinary", RANDOM_TOKENS)  # what these are drawn from
    region_rate: float = number(0.0, least=0, below=1)  # fraction of the regions that
    # is chosen (only of those with a class, if it is predicted); 0: none
    region_mask_fraction: float = fraction(0.9)  # of the chosen: their pixels are
    # hidden, also in other regions
    region_random_fraction: float = fraction(0.0)  # of the chosen: also hidden, and
    # replaced by pixels of a region of another picture; the rest stays
    region_classes: str = choice("distribution", ("none", "class", "distribution"))
    # what is predicted for regions: the most likely class, or the distribution that
    # `images` has, else its one class
    classified: str = choice("chosen", ("chosen", "all"))  # regions that are classified
    region_coef: float = number(1.0, least=0)  # weight of this loss
    region_regression: str = choice("none", tuple(losses.REGRESSIONS))  # loss on the
    # pixels (-1 to 1) or features of chosen regions, averaged over them
    match: str = choice("separate", ("separate", "joint", "none"))  # whether picture
    # and text match is predicted in a separate pass with the unmasked text (ViLT), from
    # the masked text, or not at all
    replace_rate: float = number(0.5, above=0, below=1)  # fraction of pictures that are
    # replaced for matching
    match_label: str = choice("matched", ("matched", "replaced"))  # meaning of label 1
    mismatched: str = choice("kept", ("kept", "dropped"))  # with match joint: losses of
    # words and regions if the picture is replaced
    alignment: float = number(0.0, least=0)  # with match separate: weight of the
    # transport between words and patches, shorter for pairs that match (ViLT: 0.1)
    answers: str = choice("none", ("none", "label"))  # label: a text with a label is a
    # question, whose answer is predicted if the picture is right (LXMERT)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "mask_fraction", "random_fraction")
        check_sum(self, "region_mask_fraction", "region_random_fraction")
        if self._has_classes and not self.reader.of_boxes:
            raise ValueError(
                f"region_rate needs regions {' or '.join(readers.of_boxes())}, or "
                f"region_classes none: {self.regions} have no classes"
            )
        if self.region_rate and not (self._has_classes or self._has_regression):
            raise ValueError(
                "region_rate needs region_classes or region_regression: nothing is "
                "predicted of regions"
            )
        if self.alignment and self.match != "separate":
            raise ValueError(f"alignment needs match separate, not {self.match}")

    token_terms = ("mlm",)

    @property
    def shown_answers(self) -> dict[str, str]:
        """The terms whose answers the input may show, with the reasons."""
        stays = "some of the chosen regions stay as they are"
        both = "a picture and its own text are read: whether they are is asked"
        reasons = {"mlm": STAYS, "region": stays, "regression": stays}
        return reasons | {"match": both, "alignment": both}

    @property
    def _has_classes(self) -> bool:
        return self.region_rate > 0 and self.region_classes != "none"

    @property
    def _has_regression(self) -> bool:
        return self.region_rate > 0 and self.region_regression != "none"

    @property
    def _has_distribution(self) -> bool:
        is_asked = self._has_classes and self.region_classes == "distribution"
        return is_asked and self.store.distributions is not None

    def text_spec(self, length: int) -> TextSpec:
        label = "class" if self.answers == "label" else ""
        return dataclasses.replace(super().text_spec(length), label=label)

    def num_scored(self, length: int) -> int:
        """K: 6 at length 40."""
        return max_masked(self.rate, length)

    def _num_region_targets(self) -> int:
        num_regions = self.num_positions() - 1
        if self.classified == "all":
            return num_regions
        return max_masked(self.region_rate, num_regions)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = self.picture_specs(length) | scored_specs(self.num_scored(length))
        if self.region_rate:
            specs |= self._region_specs()
        if self.answers == "label":
            specs |= {"answer": ArraySpec(())}
            specs |= {"answer_weight": ArraySpec((), np.float32)}
        if self.match == "separate":
            specs |= self.picture_specs(length, MATCH)
        if self.match != "none":
            specs |= {"match_label": ArraySpec(())}
            specs |= {"match_weight": ArraySpec((), np.float32)}
        return specs

    def _region_specs(self) -> dict[str, ArraySpec]:
        count = self._num_region_targets()
        specs = {"region_scored": ArraySpec((count,))}
        if self._has_classes:
            specs["region_target"] = ArraySpec((count,))
            specs["region_weight"] = ArraySpec((count,), np.float32)
        if self._has_distribution:
            size = len(self.store.class_names)
            specs["region_distribution"] = ArraySpec((count, size), np.float32)
        if self._has_regression:
            specs["region_pixels"] = self.values_spec(count)
            specs["region_pixels_weight"] = ArraySpec((count,), np.float32)
        return specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks tokens and regions, and replaces pictures.

        Raises:
          UserError: a caption names a picture that `images` lacks, regions are chosen
            but have no classes, or there are no answers.
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
        if self.answers == "label":
            batch |= _answer(example, here & (read == own), vocab)
        hidden = None
        if self.region_rate:
            chosen = self._choose_regions(key, read, store)
            hidden = chosen.hidden
            batch |= self._region_targets(chosen, read, scores, length)
        found = self.regions_read(read, hidden)
        if self.region_rate and self.region_random_fraction:
            image_regions.replace(key, found, chosen.replaced, read, store, self.reader)
        batch |= self.read(text, found, here, vocab, length)
        if self.match == "separate":
            group = self.read(whole, self.regions_read(other), here, vocab, length)
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
        if self._has_classes and not store.class_names:
            raise UserError(
                "objective.region_rate predicts the classes of boxes, but the pictures "
                "of objective.images have no boxes with classes; set it to 0, or give "
                "captions with `classes` to palimpsest images"
            )
        candidate = self.reader.there(store, number)
        if self._has_classes:
            candidate = store.classes[number] >= 0
        return image_regions.choose(
            key,
            candidate,
            rate=self.region_rate,
            mask_fraction=self.region_mask_fraction,
            random_fraction=self.region_random_fraction,
            most=max_masked(self.region_rate, candidate.shape[1]),
        )

    def _region_targets(
        self,
        chosen: image_regions.Chosen,
        number: np.ndarray,
        scores: np.ndarray,
        length: int,
    ) -> dict[str, np.ndarray]:
        """The arrays of `_region_specs`.

        Args:
          number: [B], the pictures.
          scores: [B] bool, the rows whose regions are scored.
        """
        store, scored = self.store, chosen.chosen
        if self.classified == "all":
            scored = store.classes[number] >= 0
        most = self._num_region_targets()
        at, used = input_format.scored_positions(scored & scores[:, None], most)
        row = np.arange(len(at))[:, None]
        batch = {"region_scored": np.where(used, length + 1 + at, 0).astype(np.int32)}
        if self._has_classes:
            target = np.where(used, store.classes[number[:, None], at], 0)
            batch["region_target"] = target.astype(np.int32)
            batch["region_weight"] = used.astype(np.float32)
        if self._has_distribution:
            assert store.distributions is not None
            each = store.distributions[number[:, None], at]
            batch["region_distribution"] = np.where(used[..., None], each, 0)
        if self._has_regression:
            predicted = used & chosen.chosen[row, at]
            values = self.regions_read(number).values[row, 1 + at]
            nothing = values.dtype.type(0)
            batch["region_pixels"] = np.where(predicted[..., None], values, nothing)
            batch["region_pixels_weight"] = predicted.astype(np.float32)
        return batch

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        heads: dict[str, networks.HeadSpec] = {}
        if self.match != "none":
            heads |= self.pooled_heads("match", 2, dropout=self.pool == "product")
        if self._has_classes:
            size = max(1, len(self.store.class_names))
            heads["region"] = networks.HeadSpec(size, norm=True)
        if self._has_regression:
            heads["regression"] = networks.HeadSpec(self.num_values, norm=True)
        if self.answers == "label":
            size = max(1, len(vocab.labels))
            heads |= self.pooled_heads("answer", size, dropout=False)
        return self.row_needs(heads, transform=True)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: mlm, region, regression, match, alignment, answer, as the fields say.

        There are also accuracies (metrics).
        """
        positions = [batch["scored"]]
        if self.region_rate:
            positions.append(batch["region_scored"])
        if self.match == "joint" or self.answers == "label":
            positions.append(self.pooled(batch))
        scored = jnp.concatenate(positions, axis=1)
        states = net.states(self.group(batch), scored=scored)
        words, *others = jnp.split(
            states, np.cumsum([each.shape[1] for each in positions])[:-1], axis=1
        )
        terms = masked_cross_entropy("mlm", net.readout(words), batch)
        if self.region_rate:
            terms |= self._region_terms(net, others[0], batch)
        if self.answers == "label":
            logits = self.pooled_logits(net, "answer", others[-1])
            terms |= losses.answer_terms(logits, batch)
        if self.match == "joint":
            terms |= self._match_terms(net, others[-1], batch)
        if self.match == "separate":
            terms |= self._second_pass(net, batch)
        return terms, ()

    def _second_pass(self, net: networks.BoundNetwork, batch: Batch) -> dict[str, Term]:
        """Terms of the unmasked text with a picture, which may be another one."""
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
        """The term and the accuracy of matching, from the states that it reads."""
        logits = self.pooled_logits(net, "match", pooled)
        weight = batch["match_weight"]
        return with_accuracy(
            "match",
            *binary_cross_entropy(
                logits[:, 1] - logits[:, 0], batch["match_label"], weight
            ),
        )

    @property
    def asks_match(self) -> bool:
        return self.match != "none"

    def match_values(
        self, net: networks.BoundNetwork, batch: Batch, text_copies: int = 1
    ) -> jax.Array:
        """[B] float32: probabilities that text and picture of `pair_input` match."""
        states = net.states(
            self.group(batch), scored=self.pooled(batch), text_copies=text_copies
        )
        logits = self.pooled_logits(net, "match", states)
        return jax.nn.softmax(logits)[:, int(self.match_label == "matched")]

    def _region_terms(
        self, net: networks.BoundNetwork, states: jax.Array, batch: Batch
    ) -> dict[str, Term]:
        terms: dict[str, Term] = {}
        if self._has_classes:
            logits = net.head("region", states)
            terms |= losses.class_terms(logits, batch, self.region_coef)
        if self._has_regression:
            predicted = net.head("regression", states)
            values = self.reader.scaled(batch["region_pixels"])
            weight = batch["region_pixels_weight"]
            terms["regression"] = losses.regression(
                self.region_regression, predicted, values, weight
            )
        return terms


def _answer(
    example: Example, matched: np.ndarray, vocab: VocabInfo
) -> dict[str, np.ndarray]:
    """answer and answer_weight [B], for the rows [B] whose picture is the text's."""
    if not vocab.labels:
        raise UserError(
            "objective.answers=label predicts the labels of texts, but there are none; "
            "set it to none, or name a column by palimpsest images --label-column"
        )
    known = matched & (example.label >= 0)
    return {
        "answer": np.where(known, example.label, 0).astype(np.int32),
        "answer_weight": known.astype(np.float32),
    }


def words_of(text: jax.Array) -> jax.Array:
    """[B, L] bool: the positions of a text between bos and eos."""
    has_next = jnp.pad(text[:, 1:], ((0, 0), (0, 1)))
    return text & has_next & (jnp.arange(text.shape[1]) > 0)[None]
