"""Entities and relations as vectors and translations (Bordes et al. 2013)."""

# B batch, L length, N negatives, E entities, F most known triples of a query, D width

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research import networks, objectives
from research.contract.batch import (
    CONSTANTS,
    EVALUATION_STEP,
    ArraySpec,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
    input_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice, number, read_with
from research.data.rows import TextSpec
from research.objectives.knowledge import graph, link_ranks, translation
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads a triple and data.length - 3 entities that replace its head or its tail.

    The distance of a triple is |h + r - t|, which should be smaller for a true triple
    than for its negatives. The text is triples (data.format=triples), as words.
    data.lexicon also has them, the training ones in its first file: negatives are not
    among those, and ranks leave out the triples of all files.

    An evaluation predicts the filtered ranks of each triple's head and tail among all
    entities of data.lexicon; ties have the mean of their ranks. A triple with an entity
    that is not in training is ranked in the middle.

    "OpenKE" is thunlp/OpenKE at 64c4ec8.
    """

    norm: int = number(1, least=1, most=2)  # of distances: L1 or L2
    normalize: str = choice("all", ("all", "entities", "none"))  # which vectors have
    # length 1 in a distance; all: as in OpenKE; entities: as in Bordes et al. 2013, who
    # normalise the parameters before each step
    loss_type: str = choice("margin", ("margin", "sigmoid"))  # margin: the hinge of the
    # difference of distances; sigmoid: -log sigmoid(margin - d) of the triple and of
    # negatives with the opposite sign (Sun et al. 2019, equation 5), halved as OpenKE
    margin: float = number(5.0, above=0)
    temperature: float = read_with(
        "loss_type", ("sigmoid",), number(1.0, least=0)
    )  # negatives are weighted by softmax(-temperature d) (Sun et al. 2019, equation
    # 4); 0: all the same
    replaced: str = choice("bern", ("bern", "uniform"))  # which end a negative
    # replaces; uniform: both equally often; bern: see `graph.Graph.head_rates`

    pattern = "self"
    lexicon_lines = graph.LINES
    min_length = 4  # a triple and one negative
    shown_answers: ClassVar = {
        "transe": "a triple is read beside its negatives: nothing is hidden"
    }
    predicts = "ranks"

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("document", 3)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = input_specs(length, intervals=("low",))
        specs |= {
            "replaces_head": ArraySpec((max(0, length - 3),)),
            "triple_weight": ArraySpec((), np.float32),
        }
        return specs | link_ranks.query_specs()

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Draws negatives.

        Raises:
          UserError: there is no graph, or the vocabulary lacks a relation or an entity
            of a training triple.
        """
        known, triple = graph.graph_of(vocab), example.token[:, :3]
        here, count = example.length == 3, length - 3
        unknown = here[:, None] & (triple == vocab.unk_id)
        trained = example.step < EVALUATION_STEP
        if unknown[:, 1].any() or unknown[trained].any():
            what = "a relation" if unknown[:, 1].any() else "an entity"
            raise UserError(
                f"a triple of the text has {what} that is unknown: each must be in a "
                "training triple, and data.vocabulary=words have a "
                "data.vocabulary_size for all entities, relations and special entries"
            )
        entity_ids, relation_ids = graph.ids_by_token(vocab)
        head, tail = entity_ids[triple[:, 0]], entity_ids[triple[:, 2]]
        relation = relation_ids[triple[:, 1]]
        rate = np.full(len(key), 0.5)
        if self.replaced == "bern":
            rate = np.where(relation < 0, rate, known.head_rates[relation])
        negative, side = known.draw_negatives(
            key, head, relation, tail, count, head_rate=rate
        )
        token = np.concatenate([triple, known.lexicon.token[negative, 0]], axis=1)
        token = np.where(here[:, None], token, vocab.pad_id).astype(np.int32)
        position = np.tile(np.arange(length, dtype=np.int32), (len(key), 1))
        position = np.where(here[:, None], position, 0)
        is_known = (triple != vocab.unk_id).all(axis=1)
        return {
            "token": token,
            "position": position,
            "segment": np.broadcast_to(here[:, None], token.shape).astype(np.int32),
            "token_type": np.zeros_like(token),
            "rank": position,
            "reach": position.copy(),
            "low": position.copy(),
            "replaces_head": (side & here[:, None]).astype(np.int32),
            "triple_weight": (here & is_known & (count > 0)).astype(np.float32),
        } | link_ranks.queries(known, head, relation, tail)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: there is no graph, or its entities are not words."""
        known = graph.graph_of(vocab)
        triples = known.triples
        ends = np.concatenate([triples.head, triples.tail])
        if (known.lexicon.size[ends] > 1).any():
            raise UserError(
                "objective transe reads entities as words, but those of data.lexicon "
                "have several tokens; set data.vocabulary=words and leave out "
                "data.lexicon_texts"
            )
        return networks.Needs(pattern=self.pattern)

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        return link_ranks.constants(vocab)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: transe; metrics: accuracy, the fraction of negatives farther away."""
        x_BLD = net.states(batch).astype(jnp.float32)
        head, relation, tail = (self._ends(x_BLD[:, n : n + 1], n) for n in range(3))
        negative_BND = self._ends(x_BLD[:, 3:], 0)
        replaces_head = batch["replaces_head"][..., None] > 0
        true_B1 = self._distance(head + relation - tail)
        new_head = jnp.where(replaces_head, negative_BND, head)
        new_tail = jnp.where(replaces_head, tail, negative_BND)
        false_BN = self._distance(new_head + relation - new_tail)
        weight_B = batch["triple_weight"]
        loss_B = self._losses(true_B1, false_BN)
        farther = (false_BN > true_B1).astype(jnp.float32).mean(axis=1)
        total, right = (
            jnp.sum(jnp.where(weight_B > 0, weight_B * each, 0.0))
            for each in (loss_B, lax.stop_gradient(farther))
        )
        weight = jnp.sum(weight_B)
        return {"transe": Term(total, weight), "accuracy": Term(right, weight, 0.0)}, ()

    def _losses(self, true_B1: jax.Array, false_BN: jax.Array) -> jax.Array:
        """[B]: the mean loss over a triple's negatives."""
        if self.loss_type == "margin":
            return translation.margin_loss(true_B1, false_BN, self.margin)
        options = self.margin, self.temperature
        return translation.sigmoid_loss(true_B1, false_BN, *options)

    def _ends(self, x: jax.Array, part: int) -> jax.Array:
        """Vectors [..., D] as a distance reads them; part 1 is the relation."""
        if self.normalize == "none" or (part == 1 and self.normalize == "entities"):
            return x
        return translation.normalized(x)

    def _distance(self, difference: jax.Array) -> jax.Array:
        return translation.distance(difference, self.norm)

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """ranks [B, 2] float32, of heads and of tails."""
        candidate = batch[CONSTANTS][link_ranks.NAME]["entity"][None]
        row = {name: jnp.zeros_like(candidate) for name in input_specs(1)}
        row |= {"token": candidate, "segment": row["segment"] + 1}
        entity_ED = self._ends(net.states(row)[0].astype(jnp.float32), 0)
        x_BLD = net.states(batch)[:, :3].astype(jnp.float32)
        triples = [self._ends(x_BLD[:, n], n) for n in range(3)]

        def distances(triple: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
            head, relation, tail = triple
            heads = self._distance(entity_ED + (relation - tail)[None])
            return heads, self._distance((head + relation)[None] - entity_ED)

        return {"ranks": link_ranks.ranks(distances, triples, batch)}
