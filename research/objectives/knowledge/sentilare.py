"""Word polarity as input and as target (SentiLARE, Ke et al. 2020)."""

# B batch, L length, K scored positions, R raw tokens

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    FEATURE,
    WORD,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice, fraction, free_text, number
from research.data import counter_rng
from research.data.rows import TextSpec
from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.combined import wrapped
from research.objectives.knowledge import aligned, polarity
from research.objectives.layout import input_format
from research.objectives.layout.row_notes import RowNotes
from research.objectives.losses.cross_entropy import Term, with_accuracy
from research.objectives.noise.masking import (
    STAYS,
    choose_independently,
    max_masked,
    replace_chosen,
)
from research.objectives.taught.recorded_calls import RecordedNetwork

BASES = (
    "mlm",
    "sequence_classification",
    "token_classification",
    "question_answering",
)
"""mlm is for pretraining, the others for fine-tuning with the polarity of words."""


@dataclass(frozen=True)
class Objective(wrapped.Wrapped):
    """Reads a word's polarity and part of speech, and the text's label.

    They are read with each token, if known; pretraining predicts them.

    data.lexicon has words of two types, positive and negative. Whole words are masked,
    those with a polarity at `polarity_rate`, others at `rate`; a hidden word's polarity
    and part of speech are also hidden. For a fraction `early_fusion` of the texts each
    token reads the label (early fusion); for the others it is predicted (late
    supervision). The labels are those of the texts, sorted.

    "Released code" is thu-coai/SentiLARE at 5f12437, which takes polarities from
    SentiWordNet by a word's part of speech and glosses (`polarity.attend_to_glosses`).
    """

    base_objective: str = choice("mlm", BASES)
    rate: float = number(0.15, above=0, below=1)  # mask rate of words without polarity
    polarity_rate: float = number(0.3, above=0, below=1)  # mask rate of words with one
    early_fusion: float = fraction(0.8)  # fraction of labelled texts whose label is
    # read; that of the others is predicted
    levels: int = number(5, least=2, most=100)  # number of labels of texts
    negative: str = free_text("negative")  # type of data.lexicon's negative words
    positive: str = free_text("positive")  # type of its positive words
    polarities: str = choice("given", ("given", "shuffled"))  # shuffled: permuted among
    # the words of data.lexicon, a control of the same numbers
    pos: str = choice("none", ("none", "tags"))  # parts of speech; tags: of the text's
    # words, which then has no labels (data.format=conllu)

    head_weights: ClassVar = {"polarity": "polarity_weight", "pos": "pos_weight"}
    row_length = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretrains and self.base:
            raise ValueError("base is empty with base_objective mlm")

    @property
    def shown_answers(self) -> dict[str, str]:
        own = dict.fromkeys(("mlm", "polarity", "pos"), STAYS)
        return own if self.pretrains else dict(self._base.shown_answers)

    @property
    def pretrains(self) -> bool:
        return self.base_objective == "mlm"

    @property
    def lexicon_lines(self) -> str:
        return f"lines word<TAB>{self.positive} and word<TAB>{self.negative}"

    @property
    def _predicted(self) -> tuple[str, ...]:
        """The properties of words that pretraining predicts."""
        return ("polarity",) if self.pos == "none" else ("polarity", "pos")

    def num_scored(self, length: int) -> int:
        """K: 77 at length 128."""
        return max_masked(self.polarity_rate, length, independent=True)

    def text_spec(self, length: int) -> TextSpec:
        spec = self._base.text_spec(length)
        if self.pos == "tags":
            if spec.label_type and not spec.label_type.array:
                raise UserError(
                    "objective.pos=tags cannot be combined with labels of texts"
                )
            return spec.replace(label="tags", arrays=("tags",))
        if self.pretrains:
            return TextSpec("document", length - 2, label="class")
        return spec

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        names = ("word_polarity", "part_of_speech", "level")
        specs = {name: ArraySpec((length,)) for name in names}
        if not self.pretrains:
            return self._base.batch_spec(length) | specs
        count = self.num_scored(length)
        for name in self._predicted:
            specs[f"answer_{name}"] = ArraySpec((count,))
            specs[f"{name}_weight"] = ArraySpec((count,), np.float32)
        specs |= {"label": ArraySpec(()), "label_weight": ArraySpec((), np.float32)}
        return specs | input_specs(length) | scored_specs(count)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks words or lays out the base objective's rows, and adds polarities.

        Raises:
          UserError: data.lexicon has no polarities, or texts have other labels.
        """
        types = self.negative, self.positive
        shuffled = self.polarities == "shuffled"
        of_word = polarity.word_polarity(example, vocab, types, shuffled=shuffled)
        if self.pretrains:
            text = input_format.single(example, vocab, length)
            batch = {"token": text.token}
        else:
            batch = self._base.corrupt(example, key, vocab, length)
        index = aligned.raw_index(example, batch, vocab, self.base_objective)
        word_polarity = aligned.at_positions(of_word, index, polarity.NEUTRAL)
        speech = self._parts_of_speech(example, index, vocab)
        if not self.pretrains:
            level = np.full_like(word_polarity, self.levels)
            return batch | _inputs(word_polarity, speech, level)
        return self._mask(text, word_polarity, speech, key, vocab) | self._label(
            example, text, key, vocab
        )

    def _parts_of_speech(
        self, example: Example, index: np.ndarray, vocab: VocabInfo
    ) -> np.ndarray:
        """[B, L]: the class of the tag of the word that each position is in."""
        if self.pos == "none":
            return np.full(index.shape, polarity.OTHER, np.int32)
        tag = example.arrays["tags"]
        # The tokens of a word after its first one have no tag of their own.
        last = np.maximum.accumulate(
            np.where(tag >= 0, np.arange(tag.shape[1]), -1), axis=1
        )
        tag = np.where(last < 0, -1, np.take_along_axis(tag, np.maximum(last, 0), 1))
        of_tag = np.array([*map(polarity.tag_class, vocab.labels), polarity.OTHER])
        return aligned.at_positions(of_tag[tag], index, polarity.OTHER)

    def _mask(
        self,
        text: input_format.Text,
        word_polarity: np.ndarray,
        speech: np.ndarray,
        key: np.ndarray,
        vocab: VocabInfo,
    ) -> dict[str, np.ndarray]:
        """The inputs and targets of rows of text whose words are masked."""
        before, count = text.token.copy(), self.num_scored(text.token.shape[1])
        candidate = ~vocab.is_special[before]
        has_polarity = word_polarity != polarity.NEUTRAL
        rate = np.where(has_polarity, self.polarity_rate, self.rate)
        start = (text.flags & WORD) > 0
        chosen = choose_independently(key, start, candidate, rate, count)
        scored = replace_chosen(
            text.token,
            chosen,
            key,
            vocab,
            num_scored=count,
            mask_fraction=0.8,
            random_fraction=0.1,
        )
        at = scored["scored"]
        answer, own_speech = (
            np.take_along_axis(array, at, axis=1) for array in (word_polarity, speech)
        )
        used = scored["weight"] > 0
        weighted = used & (
            (answer != polarity.NEUTRAL) | (own_speech != polarity.OTHER)
        )
        hidden = text.token != before
        arrays = _inputs(
            np.where(hidden, polarity.NEUTRAL, word_polarity),
            np.where(hidden, polarity.OTHER, speech),
            np.full_like(speech, self.levels),
        )
        answers = {"polarity": answer, "pos": own_speech}
        for name in self._predicted:
            values = answers[name]
            arrays[f"answer_{name}"] = np.where(used, values, 0).astype(np.int32)
            arrays[f"{name}_weight"] = weighted.astype(np.float32)
        return input_format.full_input(text.token, text.length) | arrays | scored

    def _label(
        self,
        example: Example,
        text: input_format.Text,
        key: np.ndarray,
        vocab: VocabInfo,
    ) -> dict[str, np.ndarray]:
        """The label at each position, or as the answer."""
        has_label = (example.label >= 0) & (example.length > 0) & (self.pos == "none")
        if has_label.any() and example.label.max() >= self.levels:
            raise UserError(
                f"objective.levels is {self.levels}, but the texts have labels "
                f"{', '.join(vocab.labels)}; set it to their number"
            )
        fused = counter_rng.uniform(key, "fusion", 1)[:, 0] < self.early_fusion
        here = np.arange(text.token.shape[1]) < text.length[:, None]
        read = here & (has_label & fused)[:, None]
        level = np.where(read, example.label[:, None], self.levels)
        predicted = has_label & ~fused
        return {
            "level": level.astype(np.int32),
            "label": np.where(predicted, example.label, 0).astype(np.int32),
            "label_weight": predicted.astype(np.float32),
        }

    def notes(self, row: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> RowNotes:
        """Words whose polarity is read, and how the text's label is used."""
        token, read = row["token"], row["word_polarity"]
        lines = [
            f"position {n}: {vocabulary.decode([int(token[n])]).strip()}, "
            f"{polarity.POLARITIES[read[n]]}"
            for n in np.flatnonzero(read != polarity.NEUTRAL)
        ]
        found = {"polarities that are read": lines or ["none"]}
        if "label_weight" in row:
            level = int(row["level"][0])
            is_read = level < self.levels
            found["label of the text"] = [
                f"{level} is read at each token"
                if is_read
                else "is predicted, or unknown"
            ]
        return RowNotes(found)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        base = self._base.needs(vocab)
        heads = dict(base.heads)
        if self.pretrains:
            sizes = {"polarity": len(polarity.POLARITIES), "sentence": self.levels + 1}
            if self.pos == "tags":
                sizes["pos"] = len(polarity.PARTS_OF_SPEECH)
            heads |= {
                n: networks.HeadSpec(size, norm=True) for n, size in sizes.items()
            }
        return dataclasses.replace(base, heads=heads, input_features=self.width)

    def _with_features(self, batch: Batch) -> dict[str, Any]:
        arrays = batch["word_polarity"], batch["part_of_speech"], batch["level"]
        return batch | {FEATURE: polarity.features(*arrays, self.levels)}

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: those of the base objective, and three more in pretraining.

        These are polarity, pos and sentence, with their accuracies (metrics).
        """
        if not self.pretrains:
            return self._base.loss(net, self._with_features(batch), key)
        recorded = RecordedNetwork(net, every_position=True, with_layers=False)
        terms, carry = self._base.loss(recorded, self._with_features(batch), key)
        assert recorded.stack is not None
        states = recorded.stack.states
        at = jnp.take_along_axis(states, batch["scored"][..., None], axis=1)
        for name in self._predicted:
            answer, weight = batch[f"answer_{name}"], batch[f"{name}_weight"]
            terms |= _class_terms(name, net.head(name, at), answer, weight)
        logits = net.head("sentence", states[:, 0])
        terms |= _class_terms("sentence", logits, batch["label"], batch["label_weight"])
        return terms, carry

    def predictions(self, net: networks.BoundNetwork, batch: Batch) -> dict[str, Any]:
        return self._base.predictions(net, self._with_features(batch))

    def read_constants(self, group: Any, constants: Any) -> dict[str, Any]:
        """Gives texts that are read alone no polarities: their words are not known."""
        group = self._base.read_constants(group, constants)
        blank = jnp.zeros((*group["token"].shape, self.width), jnp.float32)
        return group | {FEATURE: blank}

    @property
    def width(self) -> int:
        """Number of values that a position reads in addition to its token."""
        return polarity.NEUTRAL + polarity.OTHER + self.levels


def _inputs(
    word_polarity: np.ndarray, part_of_speech: np.ndarray, level: np.ndarray
) -> dict[str, np.ndarray]:
    arrays = (word_polarity, part_of_speech, level)
    names = ("word_polarity", "part_of_speech", "level")
    return {n: array.astype(np.int32) for n, array in zip(names, arrays, strict=True)}


def _class_terms(
    name: str, logits: jax.Array, answer: jax.Array, weight: jax.Array
) -> dict[str, Term]:
    """The cross-entropy of classes, and the accuracy."""
    log_p = jax.nn.log_softmax(logits)
    own = jnp.take_along_axis(log_p, answer[..., None], axis=-1)[..., 0]
    term = Term(-jnp.sum(weight * own), jnp.sum(weight))
    right = jnp.sum(weight * (jnp.argmax(logits, axis=-1) == answer))
    return with_accuracy(name, term, jax.lax.stop_gradient(right))
