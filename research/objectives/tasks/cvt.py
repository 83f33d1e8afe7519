"""Cross-view training of taggers (CVT, Clark et al. 2018).

A tagger learns from words with tags. On words without tags it is a teacher: its own
predictions are the targets of students, which see one side of the text or fewer layers,
so that what they learn improves the shared states.
"""

# B batch, L length, N labels, D width of a direction, F width of the features

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    WORD,
    ArraySpec,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
)
from research.contract.fields import fraction, free_text, number
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.losses.cross_entropy import Term
from research.objectives.tasks import task_input, token_classification

TAGGER = token_classification.Objective(format="bert")
"""Lays out words and their tags: bos, text, eos; bos and eos are not scored."""
STUDENTS = ("full", "forwards", "backwards", "future", "past")
"""Students and what each reads to predict the teacher's prediction of a word.

full       the features that the teacher reads, with a linear head
forwards   the forward state at the word
backwards  the backward state at the word
future     the forward state before the word, which has not read it
past       the backward state at the next word, which has not read it

tensorflow/models, research/cvt_text, task_specific/word_level/tagging_module.py.
"""


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads texts, some of which have a tag for each word.

    A text without tags, such as one of a plain corpus in data.mixture, has the terms of
    the five students instead of that of tags. Its words begin where the vocabulary's
    words do.

    Teacher and students are one network: the teacher is computed without dropout and
    takes no gradient. Its head reads all that `networks.VIEWS` has, so that
    model.joined_layers affects only the teacher and `full`.
    """

    label_smoothing: float = number(0.1, least=0, below=1)  # of tags in training
    consistency: float = number(1.0, least=0)  # factor of the students' terms; 0: no
    # students, and texts without tags are not read (the supervised baseline)
    labelled_fraction: float = fraction(1.0)  # fraction of texts, by a hash of their
    # number, whose tags are read in training; the others count as untagged
    unlabelled_dropout: float = number(-1.0, least=-1, below=1)  # rate for students,
    # wherever the network has dropout; -1: the network's own rates

    vectors: str = free_text("", source="vectors")  # word vectors that the network
    # reads in addition to its own (task_input.VECTORS); "": none
    vectors_width: int = number(0, least=0, most=2**20)  # their width

    pattern = "full"
    format: ClassVar = TAGGER.format
    min_length = TAGGER.min_length
    predicts = "tags"
    head_weights: ClassVar = TAGGER.head_weights
    shown_answers: ClassVar = dict.fromkeys(
        STUDENTS, "the teacher, whose predictions are the targets, reads the same text"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        task_input.check_vectors(self)
        if -1 < self.unlabelled_dropout < 0:
            raise ValueError(
                "unlabelled_dropout must be at least 0, or -1 for the network's rates, "
                f"not {self.unlabelled_dropout}"
            )

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        return task_input.vector_constants(self, vocab)

    def text_spec(self, length: int) -> TextSpec:
        return TAGGER.text_spec(length)

    def row_length(self, first_length: np.ndarray, length: np.ndarray) -> np.ndarray:
        """[n]: lengths for `length` raw tokens, `first_length` in the first part."""
        return TAGGER.row_length(first_length, length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        words = {"unlabelled_weight": ArraySpec((length,), np.float32)}
        return TAGGER.batch_spec(length) | words

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out the words.

        `unlabelled_weight` is 1 at the first tokens of words without tags, `weight` at
        those of words with tags.
        """
        number = counter_rng.row_key(
            0, np.zeros_like(example.document), example.document
        )
        is_read = number >> np.uint64(11) < self.labelled_fraction * 2.0**53
        batch = TAGGER.corrupt(example, key, vocab, length)
        batch["weight"] *= is_read[:, None]
        batch["target"] *= batch["weight"] > 0
        has_tags = np.any(batch["weight"], axis=1)[:, None]
        starts = (example.flags & WORD) > 0
        starts[:, :1] = True
        width = min(starts.shape[1], length - 2)
        is_word = np.zeros((len(starts), length), bool)
        is_word[:, 1 : 1 + width] = starts[:, :width]
        last = (batch["segment"] > 0).sum(axis=1)[:, None] - 1
        is_word &= np.arange(length) < last
        batch["unlabelled_weight"] = (is_word & ~has_tags).astype(np.float32)
        return batch

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        size = max(1, len(vocab.labels))
        heads = {"tag": networks.HeadSpec(size, "relu")}
        for name in STUDENTS if self.consistency else ():
            activation = "identity" if name == "full" else "relu"
            heads[name] = networks.HeadSpec(size, activation)
        return networks.Needs(
            pattern=self.pattern,
            heads=heads,
            token_types=2,
            features=networks.VIEWS,
            input_features=self.vectors_width,
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: tag; accuracy (a metric); one per student."""
        batch = task_input.with_vectors(self, batch)
        features_BLF = net.features(batch)
        logits_BLN = net.head("tag", features_BLF)
        target, weight = batch["target"], batch["weight"]
        size = logits_BLN.shape[-1]
        answer_BLN = (1 - self.label_smoothing) * jax.nn.one_hot(target, size)
        answer_BLN += self.label_smoothing / size
        correct = jnp.sum(weight * (jnp.argmax(logits_BLN, axis=2) == target))
        tag = cross_entropy(logits_BLN, answer_BLN, weight)
        terms = {"tag": tag, "accuracy": Term(correct, tag.weight, 0.0)}
        if not self.consistency:
            return terms, ()
        teacher_BLN = jax.nn.softmax(logits_BLN)
        if networks.dropout_key(net) is not None:
            teacher_BLN, features_BLF = self._without_own_dropout(
                net, batch, features_BLF
            )
        teacher_BLN = jax.lax.stop_gradient(teacher_BLN)
        views = views_of(features_BLF, net.options.width)
        answers = answers_of(teacher_BLN, batch["unlabelled_weight"])
        for name in STUDENTS:
            term = cross_entropy(net.head(name, views[name]), *answers[name])
            terms[name] = term._replace(coef=self.consistency)
        return terms, ()

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """tag [B, L] int32, probability [B, L] of each, and weight [B, L].

        weight is 1 where words begin.
        """
        features_BLF = net.features(task_input.with_vectors(self, batch))
        probability_BLN = jax.nn.softmax(net.head("tag", features_BLF))
        return {
            "tag": jnp.argmax(probability_BLN, axis=2).astype(jnp.int32),
            "probability": jnp.max(probability_BLN, axis=2),
            "weight": batch["word"],
        }

    def for_evaluation(self) -> "Objective":
        """The objective of tags alone, without smoothing and students."""
        return dataclasses.replace(
            self, label_smoothing=0.0, consistency=0.0, labelled_fraction=1.0
        )

    def _without_own_dropout(
        self, net: networks.BoundNetwork, batch: Batch, features_BLF: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The teacher's predictions [B, L, N], and what students read.

        The former are computed without dropout, the latter with the students' dropout.
        """
        params, options = networks.bound_params(net), net.options

        def predict(net: networks.BoundNetwork) -> jax.Array:
            return jax.nn.softmax(net.head("tag", net.features(batch)))

        teacher_BLN = networks.apply(
            networks.with_options(net, options), jax.lax.stop_gradient(params), predict
        )
        if (rate := self.unlabelled_dropout) >= 0:
            places = (p for p in options.dropout_places if options.dropout_rate(p) > 0)
            rates = {f"{place}_dropout": rate for place in places}
            features_BLF = networks.apply(
                networks.with_options(net, dataclasses.replace(options, **rates)),
                params,
                lambda net: net.features(batch),
                networks.dropout_key(net),
            )
        return teacher_BLN, features_BLF


def cross_entropy(logits: jax.Array, answer: jax.Array, weight: jax.Array) -> Term:
    """Cross-entropy of distributions `answer` [B, L, N] with weights [B, L]."""
    loss_BL = -jnp.sum(answer * jax.nn.log_softmax(logits), axis=2)
    return Term(jnp.sum(weight * loss_BL), jnp.sum(weight))


def views_of(features_BLF: jax.Array, width: int) -> dict[str, jax.Array]:
    """What each student reads: all features, or the states of one direction [B, L, D].

    Args:
      width: D; the first 2 D features are those of the two directions.
    """
    forward, backward = features_BLF[..., :width], features_BLF[..., width : 2 * width]
    return {
        "full": features_BLF,
        "forwards": forward,
        "backwards": backward,
        "future": forward,
        "past": backward,
    }


def answers_of(
    teacher_BLN: jax.Array, weight_BL: jax.Array
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """Answers [B, L, N] and weights [B, L] of each student, at its state's position.

    The first word of a text has no `future` and the last one no `past`, as in the
    released code (model/model_helpers.py, masked_ce_loss), where each word is one
    token.

    Args:
      weight_BL: 1 where words begin, else 0.
    """
    position = jnp.arange(weight_BL.shape[1])[None]
    begun_BL = jax.lax.cummax(jnp.where(weight_BL > 0, position, -1), axis=1)
    before_BL = jnp.pad(begun_BL, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    next_weight_BL = jnp.pad(weight_BL, ((0, 0), (0, 1)))[:, 1:]
    next_BLN = jnp.pad(teacher_BLN, ((0, 0), (0, 1), (0, 0)))[:, 1:]
    last_BLN = jnp.take_along_axis(
        teacher_BLN, jnp.maximum(before_BL, 0)[..., None], axis=1
    )
    here = teacher_BLN, weight_BL
    return {
        **dict.fromkeys(("full", "forwards", "backwards"), here),
        "future": (next_BLN, next_weight_BL * (begun_BL >= 0)),
        "past": (last_BLN, weight_BL * (before_BL >= 0)),
    }
