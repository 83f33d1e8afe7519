"""Triples attached to the words that they are about (K-BERT, Liu et al. 2020)."""

# B batch, L columns of a row

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from research import networks, objectives
from research.contract.batch import (
    INPUT_ARRAYS,
    INTERVAL_ARRAYS,
    ArraySpec,
    Example,
    VocabInfo,
    input_specs,
)
from research.contract.fields import choice, number
from research.data.read.formats.captioned import IMAGE
from research.data.rows import TextSpec
from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.combined import wrapped
from research.objectives.knowledge import graph, sentence_tree
from research.objectives.knowledge.graph import LINES
from research.objectives.layout.row_notes import RowNotes


def _reads_a_text(objective: Any) -> bool:
    """Whether the rows of an objective are one group of tokens, without pictures."""
    length = objective.min_length
    tokens = {n for n in objective.batch_spec(length) if n.endswith("token")}
    return tokens == {"token"} and IMAGE not in objective.text_spec(length).arrays


@dataclass(frozen=True)
class Objective(wrapped.Wrapped):
    """The rows of the base objective, whose words have branches of data.lexicon.

    data.lexicon has triples; a branch of a word is a triple whose head it is. The base
    objective's rows have the part of data.length that `branch_rate` leaves; hidden
    words have no branches.

    Departs from the released code (autoliuweijie/K-BERT at da9358e), which truncates
    rows with branches at data.length: here a branch is complete or left out, and no
    token of the text is lost to one. Words are the longest entries from left to right,
    not those of pkuseg. The first triples of a word in the file are taken; the code
    takes any, depending on Python's hash seed.
    """

    branches: int = number(2, least=0, most=64)  # the most per word; 0: none, the
    # control without knowledge
    branch_text: str = choice("relation_tail", sentence_tree.BRANCH_TEXTS)  # tail: as
    # for named entities in the released code
    branch_rate: float = number(0.25, above=0, below=1)  # fraction of a row's columns
    # that are for branches
    min_tokens: int = number(1, least=1)  # minimum tokens of a word with branches
    visible: str = choice("tree", ("tree", "all"))  # what tokens attend to; tree: the
    # visible matrix; all: the whole row, as with --no_vm in the released code
    positions: str = choice("soft", ("soft", "flat"))  # flat: as with --no_vm
    graph: str = choice("given", graph.SOURCES)  # shuffled: tails are permuted
    # among the triples, a control of the same lengths

    pattern = "general"
    lexicon_lines = LINES
    row_length = None

    def __post_init__(self) -> None:
        super().__post_init__()
        base = self._base
        is_full = base.pattern == "full" and not base.scores_every_token
        if not is_full or not _reads_a_text(base):
            raise ValueError(
                f"base_objective {self.base_objective} must read one text, attend to "
                "all of it, and not score each of its tokens, as mlm and "
                "sequence_classification do"
            )

    def trunk(self, length: int) -> int:
        """The columns of the base objective's rows."""
        return length - int(length * self.branch_rate)

    @functools.cached_property
    def min_length(self) -> int:
        lengths = range(self._base.min_length, 100 * self._base.min_length)
        return next(n for n in lengths if self.trunk(n) >= self._base.min_length)

    def text_spec(self, length: int) -> TextSpec:
        return self._base.text_spec(self.trunk(length))

    def tokens_read(self, length: int) -> float:
        return self._base.tokens_read(self.trunk(length))

    def evaluation_length(self, length: int) -> int:
        return length

    def num_sentinels(self, length: int) -> int:
        return self._base.num_sentinels(self.trunk(length))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        trunk = self.trunk(length)
        one, two = (self._base.batch_spec(n) for n in (trunk, trunk + 8))
        specs = {
            name: ArraySpec((length,), spec.dtype)
            if (spec.shape, two[name].shape) == ((trunk,), (trunk + 8,))
            else spec
            for name, spec in one.items()
        }
        return specs | input_specs(length, intervals=INTERVAL_ARRAYS)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """The rows of the base objective, then branches of their words.

        Raises:
          UserError: data.lexicon has no triples.
        """
        batch = self._base.corrupt(example, key, vocab, self.trunk(length))
        group = {name: batch.pop(name) for name in INPUT_ARRAYS}
        grown = sentence_tree.grow(
            group,
            self._branches(vocab),
            vocab,
            length,
            visible=self.visible,
            positions=self.positions,
        )
        for name, (shape, _) in self.batch_spec(length).items():
            if name in batch and batch[name].shape[1:] != shape:
                missing = shape[0] - batch[name].shape[1]
                batch[name] = np.pad(batch[name], ((0, 0), (0, missing)))
        return batch | grown

    def _branches(self, vocab: VocabInfo) -> sentence_tree.Branches:
        known = graph.graph_of(vocab, self.graph)
        return _branches(known, self.branches, self.branch_text, self.min_tokens)

    def notes(self, row: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> RowNotes:
        return sentence_tree.tree_notes(row, vocabulary)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return dataclasses.replace(self._base.needs(vocab), pattern=self.pattern)

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> Any:
        return self._base.score_rows(example, scored, vocab, length, method)

    def for_scoring(self) -> objectives.Objective:
        return self._base.for_scoring()


@functools.lru_cache(maxsize=4)
def _branches(
    known: graph.Graph, most: int, text: str, min_tokens: int
) -> sentence_tree.Branches:
    return sentence_tree.make_branches(known.lexicon, most, text, min_tokens)
