"""Entities as input with the words that name them (ERNIE-THU, Zhang et al. 2019)."""

# B batch, L length, M mentions of a row, C candidates, N entities, E entity width

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research import networks
from research.contract.batch import (
    CONSTANTS,
    FEATURE,
    ArraySpec,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
)
from research.contract.fields import check_sum, choice, fraction, free_text, number
from research.data import counter_rng
from research.data.read.formats.linked import LINK
from research.data.rows import TextSpec
from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.combined import wrapped
from research.objectives.knowledge import entities
from research.objectives.layout.row_notes import RowNotes
from research.objectives.losses.cross_entropy import Term, with_accuracy
from research.objectives.taught.recorded_calls import RecordedNetwork

MASKED_LOGIT = -1e9


@dataclass(frozen=True)
class Objective(wrapped.Wrapped):
    """The base objective, whose network reads the vectors of linked entities.

    The first token of a mention also reads the vector of its most likely entity. In
    pretraining (a masked LM) the states at these tokens predict the entity (denoising
    entity auto-encoder): a fraction `random_rate` of the mentions has
    another entity in the input, `drop_rate` none, and all are scored, among the
    entities of the text and none.

    Texts are those of `palimpsest link` (data.format=linked), `entities` is the table
    that it writes. model.network=fusion is the paper's; a transformer reads the vectors
    with its embeddings.

    "Released code" is thunlp/ERNIE at 514cbe4. Its candidates are the entities of a
    device's batch; by mistake its pretraining data have an entity at every other piece
    of a mention (code/create_instances.py).
    """

    entities: str = free_text("", source="table", needed=entities.TABLE)
    graph: str = choice("given", ("given", "shuffled"))  # shuffled: vectors are
    # permuted among the entities, a control
    random_rate: float = fraction(0.05)  # fraction of mentions with another entity of
    # the table in the input
    drop_rate: float = fraction(0.15)  # fraction of mentions with no entity in it
    coef: float = number(1.0, least=0)  # of the loss of entities; 0: none (-dEA)
    candidates: str = choice("text", ("text", "batch"))  # entities among which the
    # right one is predicted; batch: those of all texts, as in the released code

    row_length = None
    head_weights: ClassVar = {"entity": "mention_weight"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "random_rate", "drop_rate")

    @property
    def pretrains(self) -> bool:
        return self._base.pretrains_entities and self.coef > 0

    @property
    def supports_accumulation(self) -> bool:
        in_batch = self.pretrains and self.candidates == "batch"
        return self._base.supports_accumulation and not in_batch

    @property
    def shown_answers(self) -> dict[str, str]:
        reason = "most entities stay in the input (Zhang et al. 2019, section 3.4)"
        return {**self._base.shown_answers, "entity": reason}

    def num_mentions(self, length: int) -> int:
        """M: 64 at length 256."""
        return max(1, length // 4)

    def text_spec(self, length: int) -> TextSpec:
        spec = self._base.text_spec(length)
        return spec.replace(arrays=(*spec.arrays, LINK))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        mentions = self.num_mentions(length)
        specs = self._base.batch_spec(length)
        for name in ("mention", "mention_name", "mention_read"):
            specs[name] = ArraySpec((mentions,))
        if self.pretrains:
            specs["mention_weight"] = ArraySpec((mentions,), np.float32)
        return specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """The rows of the base objective, and the names of their mentions.

        mention, mention_name, mention_read [B, M]: the position, the number of the name
        and the number of the name that is read.
        """
        batch = self._base.corrupt(example, key, vocab, length)
        count = self.num_mentions(length)
        found = entities.find_mentions(example, batch, vocab, self, count)
        read = found.name
        if self.pretrains:
            draw = counter_rng.uniform(key, "entity noise", count)
            first = entities.FIRST_NAME
            num_names = entities.table_sizes(self.entities).names - first
            other = counter_rng.uniform(key, "other entity", count) * num_names
            read = np.where(draw < self.random_rate, first + other, read)
            removed = draw >= 1 - self.drop_rate
            read = np.where(removed | (found.name == 0), entities.NONE, read)
            batch["mention_weight"] = (found.name > 0).astype(np.float32)
        return batch | {
            "mention": found.first,
            "mention_name": found.name,
            "mention_read": read.astype(np.int32),
        }

    def notes(self, row: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> RowNotes:
        """Each mention with its entities and the name that is read."""
        names = ("mention", "mention_name", "mention_read")
        lines = [
            f"position {at}: {entities.spell_name(self.entities, own)}, "
            f"reads {entities.spell_read(self.entities, read, own)}"
            for at, own, read in zip(*(row[n].tolist() for n in names), strict=True)
            if own > 0
        ]
        return RowNotes({"linked entities": lines or ["none"]})

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        shuffled = self.graph == "shuffled"
        table = entities.constants(self.entities, shuffled=shuffled)
        return {**self._base.constants(vocab), **table}

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        base, width = self._base.needs(vocab), entities.table_sizes(self.entities).width
        heads = dict(base.heads)
        if self.pretrains:
            heads["entity"] = networks.HeadSpec(width, hidden=width, norm=True)
        return dataclasses.replace(base, heads=heads, input_features=width)

    def _with_vectors(self, batch: Batch) -> dict[str, Any]:
        """The batch with the vectors [B, L, E] of the entities that are read."""
        table = batch[CONSTANTS][entities.NAME]
        entity_BM = table["candidate"][:, 0][batch["mention_read"]]
        vector_BME = table["vectors"][entity_BM]
        shape = (*batch["token"].shape, vector_BME.shape[-1])
        row = jnp.arange(shape[0])[:, None]
        feature = jnp.zeros(shape).at[row, batch["mention"]].add(vector_BME)
        return batch | {FEATURE: feature}

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: those of the base objective, and entity with its accuracy."""
        batch = self._with_vectors(batch)
        if not self.pretrains:
            return self._base.loss(net, batch, key)
        recorded = RecordedNetwork(net, every_position=True, with_layers=False)
        terms, carry = self._base.loss(recorded, batch, key)
        position = batch["mention"][..., None]
        assert recorded.stack is not None
        states = jnp.take_along_axis(recorded.stack.states, position, axis=1)
        table, weight = batch[CONSTANTS][entities.NAME], batch["mention_weight"]
        answer_BM = table["candidate"][:, 0][batch["mention_name"]]
        options = answer_BM, weight, table["vectors"], self.candidates == "batch"
        term, right = entity_loss(net.head("entity", states), *options)
        return terms | with_accuracy("entity", term, right, coef=self.coef), carry

    def predictions(self, net: networks.BoundNetwork, batch: Batch) -> dict[str, Any]:
        return self._base.predictions(net, self._with_vectors(batch))


def entity_loss(
    query_BME: jax.Array,
    answer_BM: jax.Array,
    weight_BM: jax.Array,
    vectors_NE: jax.Array,
    in_batch: bool = False,
) -> tuple[Term, jax.Array]:
    """The cross-entropy of entities, and the weight of right answers.

    Candidates are the entities of the text and none, whose vector is 0 (Zhang et al.
    2019, equation 5).

    Args:
      answer_BM: rows of `vectors_NE`; entities.NONE is no answer.
      in_batch: candidates are the entities of all texts.
    """
    candidate = answer_BM
    if in_batch:
        candidate = jnp.broadcast_to(
            answer_BM.reshape(1, -1), (len(answer_BM), answer_BM.size)
        )
    none = jnp.zeros((len(candidate), 1), candidate.dtype) + entities.NONE
    candidate_BC = jnp.concatenate([none, candidate], axis=1)
    logits_BMC = jnp.einsum("bme,bce->bmc", query_BME, vectors_NE[candidate_BC])
    # An entity counts once, where it comes first.
    same_BCC = candidate_BC[:, :, None] == candidate_BC[:, None]
    index = jnp.arange(candidate_BC.shape[1])[None]
    is_first = jnp.argmax(same_BCC, axis=2) == index
    logits_BMC = jnp.where(is_first[:, None], logits_BMC, MASKED_LOGIT)
    target_BM = jnp.argmax(answer_BM[..., None] == candidate_BC[:, None], axis=2)
    log_p = jax.nn.log_softmax(logits_BMC)
    own = jnp.take_along_axis(log_p, target_BM[..., None], axis=2)[..., 0]
    right = (jnp.argmax(logits_BMC, axis=2) == target_BM) * weight_BM
    term = Term(-jnp.sum(weight_BM * own), jnp.sum(weight_BM))
    return term, lax.stop_gradient(jnp.sum(right))
