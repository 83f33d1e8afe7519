"""Link prediction: filtered ranks of the ends of triples (Bordes et al. 2013, 4.2)."""

# B batch, E entities, F the most known triples of a query, T triples

import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research.contract.batch import CONSTANTS, ArraySpec, Batch, ConstantSpec, VocabInfo
from research.objectives.knowledge import graph

NAME = "graph"
"""The name of the constants."""


def query_specs() -> dict[str, ArraySpec]:
    """Specs of `queries`."""
    names = ("answer", "known_begin", "known_count")
    return {name: ArraySpec((2,)) for name in names}


def queries(
    known: graph.Graph, head: np.ndarray, relation: np.ndarray, tail: np.ndarray
) -> dict[str, np.ndarray]:
    """Arrays [B, 2] of the queries (?, r, t) and (h, r, ?) of triples [B].

    answer: the right entity; -1: it or the other end is not in the graph.
    known_begin, known_count: the part of the constant `known` with the entities that
    are also right.
    """
    order = _Order(known)
    in_graph = (head >= 0) & (relation >= 0) & (tail >= 0)
    sides = []
    for n, (given, answer) in enumerate([(tail, head), (head, tail)]):
        code = _query_codes(known, given, relation)
        begin, end = (np.searchsorted(order.code[n], code, side) for side in _SIDES)
        found = (np.where(in_graph, answer, -1), begin + n * order.size, end - begin)
        sides.append([np.where(in_graph, x, np.minimum(x, 0)) for x in found])
    arrays = np.stack(sides, axis=-1).astype(np.int32)
    return dict(zip(query_specs(), arrays, strict=True))


_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


@functools.lru_cache(maxsize=2)
class _Order:
    """The triples of a graph sorted by the queries that they answer.

    Attributes:
      code: [2, T] int64, of (?, r, t) and of (h, r, ?), ascending.
      entity: [2, T] int32, the answers.
      most: F.
    """

    def __init__(self, known: graph.Graph):
        head, relation, tail, *_ = known.triples
        codes = known.codes(head, relation, tail)
        _, first = np.unique(codes, return_index=True)
        head, relation, tail = (each[first] for each in (head, relation, tail))
        self.code, self.entity, self.most = [], [], 1
        for given, answer in [(tail, head), (head, tail)]:
            code = _query_codes(known, given, relation)
            order = np.argsort(code, kind="stable")
            self.code.append(code[order])
            self.entity.append(answer[order])
            self.most = max(self.most, np.unique(code, return_counts=True)[1].max())
        self.size = len(first)


def _query_codes(
    known: graph.Graph, entity: np.ndarray, relation: np.ndarray
) -> np.ndarray:
    """int64: a number for each query, from its given end and relation."""
    return np.asarray(relation, np.int64) * known.num_entities + entity


def constants(vocab: VocabInfo) -> dict[str, ConstantSpec]:
    """Tokens of entities, entities that answer queries, and F slots."""
    known = graph.graph_of(vocab)
    assert vocab.lexicon is not None
    order = _Order(known)
    padding = np.full(order.most, -1, np.int32)
    values = {
        "entity": vocab.lexicon.token[:, 0].astype(np.int32),
        "known": np.concatenate([*order.entity, padding]).astype(np.int32),
        "slot": np.arange(order.most, dtype=np.int32),
    }
    arrays = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), values)
    return {NAME: ConstantSpec("data.lexicon", arrays, values=values)}


def ranks(distances: Callable[..., Any], triples: Any, batch: Batch) -> jax.Array:
    """Float32 [B, 2]: the rank of each answer from 1; ties have the mean rank.

    Entities that are also right are left out. An answer that is not in the graph has
    the rank of a guess, (E + 1) / 2.

    Args:
      distances: one element of `triples` -> distances [E] of all entities as its head,
        and as its tail.
    """
    known, slot = (batch[CONSTANTS][NAME][name] for name in ("known", "slot"))
    names = tuple(query_specs())

    def one(element: tuple[Any, Any]) -> jax.Array:
        triple, query = element
        found = []
        for side, distance_E in enumerate(distances(triple)):
            answer, begin, count = (query[name][side] for name in names)
            other_F = jnp.take(known, begin + slot, mode="clip")
            is_other = (slot < count) & (other_F != answer)
            own = distance_E[answer]
            other = distance_E[other_F]
            less = jnp.sum(distance_E < own) - jnp.sum(is_other & (other < own))
            ties = jnp.sum(distance_E == own) - jnp.sum(is_other & (other == own))
            rank = 1 + less + (ties - 1) / 2
            found.append(jnp.where(answer < 0, (len(distance_E) + 1) / 2, rank))
        return jnp.stack(found).astype(jnp.float32)

    return lax.map(one, (triples, {name: batch[name] for name in names}))
