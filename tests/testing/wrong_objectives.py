"""Objectives with one mistake each, on which a law must fail."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from docs.examples.objectives import prefix
from research.contract.fields import choice, fraction
from research.objectives.layout.row_notes import RowNotes
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import Term
from research.objectives.mlm import mlm
from research.objectives.sentence import sentences
from research.objectives.tasks import sequence_classification


@dataclass(frozen=True)
class FullPrefix(prefix.Objective):
    """All tokens see each other, so that each position reads its target."""

    def corrupt(self, example, key, vocab, length):
        batch = super().corrupt(example, key, vocab, length)
        return batch | {"rank": 0 * batch["rank"], "reach": 0 * batch["reach"]}


@dataclass(frozen=True)
class UnshiftedPrefix(prefix.Objective):
    """The network reads targets where they are predicted."""

    def corrupt(self, example, key, vocab, length):
        batch = super().corrupt(example, key, vocab, length)
        return batch | {"token": batch["target"]}


@dataclass(frozen=True)
class UndeclaredPattern(prefix.Objective):
    """Its arrays are not those of its pattern, by which kernels are chosen."""

    pattern = "causal"


@dataclass(frozen=True)
class NothingMasked(mlm.Objective):
    """The chosen tokens are read, though some of them may be."""

    mask_fraction: float = fraction(0.0)
    random_fraction: float = fraction(0.0)


def show(batch: dict, shown_by: str) -> dict:
    """The batch, of which an array shows the label of each row."""
    one, here = batch["label"][:, None] == 1, batch["segment"] > 0
    if shown_by == "token_type":
        return batch | {"token_type": batch["token_type"] + 2 * (one & here)}
    if shown_by == "position":  # a gap behind bos
        return batch | {"position": batch["position"] + (batch["position"] > 0) * one}
    second = batch["token_type"] > 0  # no longer seen from bos
    return batch | {"segment": batch["segment"] + (second & one)}


SHOWN_BY = ("token_type", "position", "segment")


@dataclass(frozen=True)
class ShownPair(sentences.Objective):
    """Next sentence prediction of which an array shows the label."""

    shown_by: str = choice("token_type", SHOWN_BY)

    def corrupt(self, example, key, vocab, length):
        return show(super().corrupt(example, key, vocab, length), self.shown_by)


@dataclass(frozen=True)
class ShownPairByTargets(mlm.Objective):
    """Next sentence prediction beside masked tokens, of which label 1 has half."""

    mask_fraction: float = fraction(1.0)
    random_fraction: float = fraction(0.0)
    format: str = choice("segment_pair", ("segment_pair",))
    sentence_task: str = choice("nsp", ("nsp",))

    def corrupt(self, example, key, vocab, length):
        batch = super().corrupt(example, key, vocab, length)
        odd = np.arange(batch["weight"].shape[1]) % 2 == 1
        for row in np.flatnonzero(batch["label"] == 1):
            slot = np.flatnonzero(odd & (batch["weight"][row] > 0))
            position = batch["scored"][row, slot]
            batch["token"][row, position] = batch["target"][row, slot]
            batch["weight"][row, slot] = 0
        return batch


@dataclass(frozen=True)
class ShownClass(sequence_classification.Objective):
    """Classification of which an array shows the label."""

    shown_by: str = choice("token_type", SHOWN_BY)

    def corrupt(self, example, key, vocab, length):
        return show(super().corrupt(example, key, vocab, length), self.shown_by)


@dataclass(frozen=True)
class WeightOnPadding(lm.Objective):
    """Every position is scored, text or not."""

    def corrupt(self, example, key, vocab, length):
        batch = super().corrupt(example, key, vocab, length)
        some = (example.length > 0)[:, None]
        return batch | {"weight": np.ones_like(batch["weight"]) * some}


@dataclass(frozen=True)
class WeightOnEmptyRows(sequence_classification.Objective):
    """Rows without text are scored, too."""

    def corrupt(self, example, key, vocab, length):
        batch = super().corrupt(example, key, vocab, length)
        return batch | {"label_weight": np.ones_like(batch["label_weight"])}


@dataclass(frozen=True)
class MeanLoss(lm.Objective):
    """Its term is a mean."""

    def loss(self, net, batch, key):
        terms, carry = super().loss(net, batch, key)
        term = terms["lm"]
        return {"lm": Term(term.total / term.weight, term.weight / term.weight)}, carry


@dataclass(frozen=True)
class UnweightedLoss(lm.Objective):
    """The weights are no factors of its sum."""

    def loss(self, net, batch, key):
        ones = batch | {"weight": (batch["segment"] > 0).astype("float32")}
        terms, carry = super().loss(net, ones, key)
        return {"lm": terms["lm"]._replace(weight=batch["weight"].sum())}, carry


@dataclass(frozen=True)
class GlobalNoise(mlm.Objective):
    """Its noise comes from a generator of its own, not from the key."""

    generator: ClassVar = np.random.default_rng(0)

    def corrupt(self, example, key, vocab, length):
        key = self.generator.integers(2**62, size=len(key)).astype(np.uint64)
        return super().corrupt(example, key, vocab, length)


@dataclass(frozen=True)
class SameNoise(mlm.Objective):
    """All epochs have the same noise."""

    def corrupt(self, example, key, vocab, length):
        return super().corrupt(
            example, np.arange(len(key), dtype=np.uint64), vocab, length
        )


@dataclass(frozen=True)
class UntitledNotes(lm.Objective):
    """It defines notes, and says nothing of a row."""

    def notes(self, row, vocabulary):
        return RowNotes({"tokens": []} if row["segment"][0] else {})


WRONG = {
    cls.__name__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and cls.__module__ == __name__
}
"""The objectives of this module by name."""
