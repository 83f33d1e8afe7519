"""KEPLER (Wang et al. 2021): entities encoded from descriptions, with masked LM."""

# B batch, L length, W tokens of a description, G descriptions of a row, N negatives of
# an end, D width, Q relations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research import networks
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_group,
    input_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.data import counter_rng
from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.combined import wrapped
from research.objectives.knowledge import graph, translation
from research.objectives.layout.row_notes import RowNotes
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class Objective(wrapped.Wrapped):
    """The base objective on texts, and a triple of data.lexicon with each text.

    The vector of an entity is the state of the same network at bos of its description,
    which is in data.lexicon_texts; each relation has its own vector. The triple of a
    row is drawn from the first file of data.lexicon, with negatives for its head and
    for its tail that are not triples of that file.

    The descriptions are a second row, entity_*, with a segment each: head, tail, then
    entities that replace the head, then entities that replace the tail.

    The released code (THU-KEG/KEPLER at 05304cc) encodes each positive end twice and
    averages, which is the same as long as descriptions do not depend on the relation.
    """

    lexicon_lines = graph.LINES

    base_objective: str = choice("mlm", ("mlm",))
    ke_coef: float = number(1.0, least=0)  # weight of the loss of triples
    mlm_coef: float = number(1.0, least=0)  # weight of the text's loss; 0: KEPLER-KE
    gamma: float = number(4.0, above=0)  # of the score gamma - |h + r - t|; the paper's
    # checkpoints have 4 for text tasks, 9 for link prediction, 1 for WordNet
    norm: int = number(2, least=1, most=2)  # 2: the released code; 1: the paper
    negatives: int = number(1, least=1, most=100)  # per end of a triple
    graph: str = choice("given", graph.SOURCES)  # shuffled: tails are permuted among
    # the triples, a control with the same texts
    description: int = number(64, least=3)  # tokens of a description, including bos and
    # eos (512 in the paper)
    max_relations: int = number(1024, least=1)  # rows of the table of relations

    row_length = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ke_coef and not self.mlm_coef:
            raise ValueError("ke_coef and mlm_coef are both 0: nothing is learned")

    @property
    def shown_answers(self) -> dict[str, str]:
        reason = "a triple is read beside its negatives: nothing is hidden"
        return {**self._base.shown_answers, "ke": reason}

    @property
    def num_descriptions(self) -> int:
        """G."""
        return 2 + 2 * self.negatives

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        columns = self.num_descriptions * self.description
        specs = self._base.batch_spec(length) | input_specs(columns, "entity_")
        return specs | {
            "relation": ArraySpec(()),
            "triple_weight": ArraySpec((), np.float32),
        }

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Raises UserError: data.lexicon has no triples."""
        batch = self._base.corrupt(example, key, vocab, length)
        known = graph.graph_of(vocab, self.graph)
        triples, count = known.triples, self.negatives
        trained = np.flatnonzero(triples.file == 0)
        draw = counter_rng.uniform(key, "triple", 1)[:, 0] * len(trained)
        number = trained[draw.astype(np.int64)]
        head, relation, tail = (each[number] for each in triples[:3])
        drawn = [
            known.draw_negatives(
                counter_rng.row_key(side, np.zeros_like(number), key),
                head,
                relation,
                tail,
                count,
                head_rate=np.full(len(key), float(side == 0)),
            )[0]
            for side in range(2)
        ]
        entity = np.concatenate([head[:, None], tail[:, None], *drawn], axis=1)
        here = example.length > 0
        return batch | {
            **self._descriptions(entity, here, vocab),
            "relation": np.where(here, relation, 0).astype(np.int32),
            "triple_weight": here.astype(np.float32),
        }

    def _descriptions(
        self, entity: np.ndarray, here: np.ndarray, vocab: VocabInfo
    ) -> dict[str, np.ndarray]:
        """The arrays entity_* of entities [B, G], for rows that have text [B]."""
        ids = (vocab.bos_id, vocab.eos_id, vocab.pad_id)
        text, used = _rows(graph.graph_of(vocab), self.description, *ids)
        segment = 1 + np.arange(entity.shape[1])[:, None]
        is_used = used[entity] & here[:, None, None]
        arrays = {
            "token": np.where(is_used, text[entity], vocab.pad_id),
            "position": np.where(is_used, np.arange(self.description), 0),
            "segment": np.where(is_used, segment, 0),
        }
        none = np.zeros_like(arrays["token"])
        arrays |= dict.fromkeys(("token_type", "rank", "reach"), none)
        return {
            f"entity_{name}": array.reshape(len(entity), -1).astype(np.int32)
            for name, array in arrays.items()
        }

    def notes(self, row: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> RowNotes:
        """The triple of a row and its negatives."""
        segment, token = row["entity_segment"], row["entity_token"]
        texts = [
            vocabulary.decode(token[segment == n].tolist()).strip()
            for n in range(1, 1 + self.num_descriptions)
        ]
        triples, kind = graph.graph_of(vocabulary.vocab).triples, int(row["relation"])
        name = triples.relation_token[kind, : triples.relation_size[kind]]
        relation = vocabulary.decode(name.tolist()).strip()
        head, tail, *false = texts
        heads, tails = false[: self.negatives], false[self.negatives :]
        lines = [f"{head} — {relation} → {tail}"]
        lines += [f"false: {other} — {relation} → {tail}" for other in heads]
        lines += [f"false: {head} — {relation} → {other}" for other in tails]
        return RowNotes({"triple": lines})

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: there is no graph, or it has too many relations."""
        base = self._base.needs(vocab)
        count = len(graph.graph_of(vocab).triples.relation_size)
        if count > self.max_relations:
            raise UserError(
                f"objective.max_relations is {self.max_relations}, but data.lexicon "
                f"has {count} relations; raise it"
            )
        relation = networks.HeadSpec(0, "none", bias=False)
        heads = {**base.heads, "relation": relation}
        return dataclasses.replace(base, heads=heads)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: those of the base objective, and ke; metrics: ke_accuracy.

        That is the fraction of negatives farther away than their triple.
        """
        terms, carry = self._base.loss(net, batch, key)
        if self.mlm_coef != 1:
            terms |= {
                name: term._replace(coef=term.coef * self.mlm_coef)
                for name, term in terms.items()
            }
        first = jnp.arange(self.num_descriptions) * self.description
        bos = jnp.broadcast_to(first, (len(batch["relation"]), len(first)))
        group = input_group(batch, "entity_")
        vector_BGD = net.states(group, scored=bos).astype(jnp.float32)
        relation_BD = net.head(
            "relation", jax.nn.one_hot(batch["relation"], self.max_relations)
        )
        head, tail = vector_BGD[:, :1], vector_BGD[:, 1:2]
        new_head, new_tail = jnp.split(vector_BGD[:, 2:], 2, axis=1)
        relation = relation_BD[:, None]
        true_B1 = translation.distance(head + relation - tail, self.norm)
        false = [new_head + relation - tail, head + relation - new_tail]
        false_BN = translation.distance(jnp.concatenate(false, axis=1), self.norm)
        loss_B = translation.sigmoid_loss(true_B1, false_BN, self.gamma, 0.0)
        weight_B = batch["triple_weight"]
        farther = lax.stop_gradient((false_BN > true_B1).mean(axis=1))
        weight = jnp.sum(weight_B)
        terms["ke"] = Term(jnp.sum(weight_B * loss_B), weight, self.ke_coef)
        terms["ke_accuracy"] = Term(jnp.sum(weight_B * farther), weight, 0.0)
        return terms, carry


@functools.lru_cache(maxsize=2)
def _rows(
    known: graph.Graph, width: int, bos_id: int, eos_id: int, pad_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """bos, description, eos of each entity [E, W], and [E, W] bool: not padding."""
    token, size = known.lexicon.token, np.minimum(known.lexicon.size, width - 2)
    text = np.full((len(size), width), pad_id, np.int32)
    inside = min(width - 2, token.shape[1])
    text[:, 1 : 1 + inside] = token[:, :inside]
    text[:, 0] = bos_id
    text[np.arange(len(size)), 1 + size] = eos_id
    used = np.arange(width) < (size + 2)[:, None]
    return np.where(used, text, pad_id), used
