"""A knowledge graph: its triples, and negatives that make them false."""

# B batch, N negatives of a row, E entities, Q relations, T triples, V vocabulary

import dataclasses
import functools

import numpy as np

from research.contract.batch import Lexicon, Triples, VocabInfo
from research.contract.errors import UserError
from research.data import counter_rng

MAX_REDRAWS = 32
"""Draws of a negative after which a true triple is kept: an entity may be related to
nearly all others."""


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """The triples of data.lexicon; those of its first file are for training.

    The E entities are the entries of the lexicon.
    """

    lexicon: Lexicon

    @property
    def num_entities(self) -> int:
        return len(self.lexicon.size)

    @property
    def triples(self) -> Triples:
        assert self.lexicon.triples is not None
        return self.lexicon.triples

    def codes(
        self, head: np.ndarray, relation: np.ndarray, tail: np.ndarray
    ) -> np.ndarray:
        """int64: a number for each triple; distinct triples differ."""
        num_relations = len(self.triples.relation_size)
        code = np.asarray(head, np.int64) * num_relations + relation
        return code * self.num_entities + tail

    @functools.cached_property
    def train_codes(self) -> np.ndarray:
        """The numbers of the triples of the first file, sorted."""
        head, relation, tail, file, *_ = self.triples
        return np.unique(self.codes(head, relation, tail)[file == 0])

    @functools.cached_property
    def head_rates(self) -> np.ndarray:
        """[Q]: tails per head / (tails per head + heads per tail) of each relation.

        With this probability a head is replaced, so that a negative is less likely to
        be true (Wang et al. 2014, section 3.2, "bern").
        """
        head, relation, tail, file, *_ = self.triples
        trained = file == 0
        head, relation, tail = (each[trained] for each in (head, relation, tail))
        num_relations = len(self.triples.relation_size)

        def distinct(entity: np.ndarray) -> np.ndarray:
            pairs = np.unique(relation.astype(np.int64) * self.num_entities + entity)
            return np.bincount(pairs // self.num_entities, minlength=num_relations)

        # The number of triples cancels: tph = triples / heads, hpt = triples / tails.
        heads, tails = distinct(head), distinct(tail)
        total = np.maximum(heads + tails, 1)
        return np.where(heads + tails > 0, tails / total, 0.5)

    def draw_negatives(
        self,
        key: np.ndarray,
        head: np.ndarray,
        relation: np.ndarray,
        tail: np.ndarray,
        count: int,
        *,
        head_rate: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Entities [B, N], each a replacement for a triple's head or tail.

        They are drawn uniformly, and redrawn if the result is a triple of the training
        file (`MAX_REDRAWS`).

        Args:
          head, relation, tail: [B]; -1: not in the graph.
          head_rate: [B], the probability that the head is replaced.

        Returns:
          The entities, and [B, N] bool: whether they replace the head.
        """
        shape = (len(key), count)
        side = counter_rng.uniform(key, "side", count) < head_rate[:, None]
        head, relation, tail = (each[:, None] for each in (head, relation, tail))
        entity, wrong = np.zeros(shape, np.int64), np.ones(shape, bool)
        for number in range(1 + MAX_REDRAWS):
            rows = np.flatnonzero(wrong.any(axis=1))
            if not len(rows):
                break
            draw = counter_rng.uniform(key[rows], f"negative {number}", count)
            drawn = (draw * self.num_entities).astype(np.int64)
            entity[rows] = np.where(wrong[rows], drawn, entity[rows])
            new_head = np.where(side[rows], entity[rows], head[rows])
            new_tail = np.where(side[rows], tail[rows], entity[rows])
            code = self.codes(new_head, relation[rows], new_tail)
            wrong[rows] = self._is_trained(code) & (relation[rows] >= 0)
        return entity, side

    def _is_trained(self, code: np.ndarray) -> np.ndarray:
        place = np.searchsorted(self.train_codes, code)
        return self.train_codes[np.minimum(place, len(self.train_codes) - 1)] == code


LINES = (
    "triples (docs/parts.md names the notations); of several files the first has "
    "those for training"
)


SOURCES = ("given", "shuffled")


def graph_of(vocab: VocabInfo, source: str = "given") -> Graph:
    """The graph of a vocabulary's lexicon, made once per lexicon.

    Args:
      source: given; or shuffled: tails are permuted among the triples, a control with
        as many triples of each head, relation and tail, but false ones.

    Raises:
      UserError: data.lexicon has no triples.
    """
    lexicon = vocab.lexicon
    if lexicon is None or lexicon.triples is None or not len(lexicon.triples.head):
        raise UserError(
            "the objective needs a knowledge graph: set data.lexicon to a file of "
            f"{LINES}"
        )
    if not _last or _last["given"].lexicon is not lexicon:
        tail = np.random.default_rng(0).permutation(lexicon.triples.tail)
        permuted = lexicon._replace(triples=lexicon.triples._replace(tail=tail))
        _last.update(given=Graph(lexicon), shuffled=Graph(permuted))
    return _last[source]


_last: dict[str, Graph] = {}


def ids_by_token(vocab: VocabInfo) -> tuple[np.ndarray, np.ndarray]:
    """[V] int64 each: the entity and the relation that a word names; -1: none."""
    lexicon = vocab.lexicon
    found = []
    assert lexicon is not None
    assert lexicon.triples is not None
    for token, size in (lexicon[:2], lexicon.triples[-2:]):
        ids = np.full(vocab.size, -1, np.int64)
        single = np.flatnonzero(size == 1)
        ids[token[single, 0]] = single
        found.append(ids)
    return found[0], found[1]
