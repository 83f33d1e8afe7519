"""Mentions, their candidate entities, and a linker (KnowBERT, Peters et al. 2019)."""

# B batch, L length, S mentions of a row, C candidates, A names, E entity width

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research import networks
from research.contract.batch import (
    CONSTANTS,
    SPANS,
    ArraySpec,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
)
from research.contract.fields import choice, free_text, number
from research.data import counter_rng
from research.data.read.formats.linked import LINK
from research.data.rows import TextSpec
from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.combined import wrapped
from research.objectives.knowledge import entities
from research.objectives.layout.row_notes import RowNotes
from research.objectives.losses.cross_entropy import Term, with_accuracy


@dataclass(frozen=True)
class Objective(wrapped.Wrapped):
    """The base objective, whose network reads the candidates of mentions.

    With a masked LM the linker learns from the texts' links: the first candidate
    of a mention's name is taken as right (Peters et al. 2019 use the links of AIDA and
    the WordNet links of SemCor). Masked text is also hidden from the linker: a mention
    with a masked token has a single candidate, the mask, with probability .8; its own
    candidates with .1; those of a random name with .1.

    Texts are those of `palimpsest link` (data.format=linked), `entities` is the table
    that it writes. The network is model.network=kar. The paper's stages: only the
    linker with optimizer.frozen=token,embeddings,stack and `mlm_coef` 0, then all
    parameters with train.init_from.
    """

    entities: str = free_text("", source="table", needed=entities.TABLE)
    graph: str = choice("given", ("given", "shuffled"))  # shuffled: vectors are
    # permuted among the entities, a control
    link_coef: float = number(1.0, least=0)  # of the linker's loss; 0: none
    link_loss: str = choice("margin", ("margin", "softmax"))  # margin: of scores above
    # margin for the right candidate, below -margin for others; softmax: cross-entropy
    margin: float = number(0.2, least=0)
    mlm_coef: float = number(1.0, least=0)  # of the base objective's loss

    row_length = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.link_coef and not self.mlm_coef:
            raise ValueError("link_coef and mlm_coef are both 0: nothing is learned")

    @property
    def shown_answers(self) -> dict[str, str]:
        reason = "which candidate is right is learned from links of likely ones"
        return {**self._base.shown_answers, "link": reason}

    @property
    def links(self) -> bool:
        """Whether the linker learns: it does if the base objective hides text."""
        return self._base.pretrains_entities and self.link_coef > 0

    @property
    def min_length(self) -> int:
        """One token more than the base objective needs, since one is hidden."""
        return self._base.min_length + self.links

    def num_mentions(self, length: int) -> int:
        """S: 64 at length 256."""
        return max(1, length // 4)

    def text_spec(self, length: int) -> TextSpec:
        spec = self._base.text_spec(length)
        return spec.replace(arrays=(*spec.arrays, LINK))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        mentions = self.num_mentions(length)
        names = (*SPANS[:3], "span_name")
        specs = {name: ArraySpec((mentions,)) for name in names}
        if self.links:
            specs["link_weight"] = ArraySpec((mentions,), np.float32)
        return self._base.batch_spec(length) | specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """The rows of the base objective and their mentions, including hidden ones."""
        batch = self._base.corrupt(example, key, vocab, length)
        count = self.num_mentions(length)
        found = entities.find_mentions(example, batch, vocab, self, count)
        name = found.name
        if self._base.pretrains_entities:
            masked = _has_scored(batch, found)
            name = self._hide(name, masked, key)
            if self.links:
                shown = (found.name > 0) & ~masked
                batch["link_weight"] = shown.astype(np.float32)
        segment = np.take_along_axis(batch["segment"], found.first, axis=1)
        batch |= {
            "span_start": found.first,
            "span_end": found.last,
            "span_segment": np.where(found.name > 0, segment, 0).astype(np.int32),
            "span_name": name.astype(np.int32),
        }
        return batch

    def _hide(
        self, name: np.ndarray, masked: np.ndarray, key: np.ndarray
    ) -> np.ndarray:
        """The names [B, S] whose candidates the network reads.

        Those of a mention with a masked token are hidden (allenai/kb at 4c37bbc,
        kb/bert_pretraining_reader.py).

        Args:
          name: [B, S], the linked names.
          masked: [B, S] bool, mentions with a masked token.
        """
        draw = counter_rng.uniform(key, "hidden mention", name.shape[1])
        first = entities.FIRST_NAME
        num_names = entities.table_sizes(self.entities).names - first
        other = counter_rng.uniform(key, "other name", name.shape[1]) * num_names
        read = np.where(masked & (draw < 0.8), entities.MASK, name)
        read = np.where(masked & (draw >= 0.9), first + other, read)
        return np.where(name > 0, read, entities.NONE)

    def notes(self, row: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> RowNotes:
        """The tokens of each mention, and the entities that are read for it."""
        lines = []
        for n in np.flatnonzero(row["span_segment"] > 0):
            first, last = row["span_start"][n], row["span_end"][n]
            text = vocabulary.decode(row["token"][first : last + 1].tolist()).strip()
            read = entities.spell_read(self.entities, int(row["span_name"][n]))
            lines.append(f"position {first}: [{text}] reads {read}")
        return RowNotes({"linked entities": lines or ["none"]})

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        shuffled = self.graph == "shuffled"
        table = entities.constants(self.entities, shuffled=shuffled)
        return {**self._base.constants(vocab), **table}

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        width = entities.table_sizes(self.entities).width
        return dataclasses.replace(self._base.needs(vocab), span_width=width)

    def _with_candidates(self, batch: Batch) -> dict[str, Any]:
        """The batch with the vectors and probabilities of candidates."""
        table, name = batch[CONSTANTS][entities.NAME], batch["span_name"]
        vectors = table["vectors"][table["candidate"][name]]
        prior = jnp.where(name[..., None] > 0, table["prior"][name], 0.0)
        return batch | {"span_candidate": vectors, "span_prior": prior}

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: those of the base objective, and link with its accuracy."""
        linking = _LinkingNetwork(net)
        terms, carry = self._base.loss(linking, self._with_candidates(batch), key)
        if self.mlm_coef != 1:
            terms = {
                name: term._replace(coef=term.coef * self.mlm_coef)
                for name, term in terms.items()
            }
        if not self.links:
            return terms, carry
        table = batch[CONSTANTS][entities.NAME]
        is_there = table["candidate"][batch["span_name"]] > entities.NONE
        weight = batch["link_weight"]
        assert linking.scores is not None
        total, right = link_losses(
            linking.scores, is_there, loss=self.link_loss, margin=self.margin
        )
        term = Term(jnp.sum(weight * total), jnp.sum(weight))
        found = lax.stop_gradient(jnp.sum(weight * right))
        return terms | with_accuracy("link", term, found, coef=self.link_coef), carry

    def predictions(self, net: networks.BoundNetwork, batch: Batch) -> dict[str, Any]:
        return self._base.predictions(net, self._with_candidates(batch))


def _has_scored(batch: Batch, found: entities.Mentions) -> np.ndarray:
    """[B, S] bool: mentions with a token that is predicted."""
    num_rows, length = batch["token"].shape
    before = np.zeros((num_rows, length + 1), np.int64)  # scored tokens before each
    row, slot = np.nonzero(batch["weight"] > 0)
    before[row, batch["scored"][row, slot] + 1] = 1
    before = np.cumsum(before, axis=1)
    first, last = (
        np.take_along_axis(before, at, 1) for at in (found.first, found.last + 1)
    )
    return last > first


def link_losses(
    score_BSC: jax.Array, is_there: jax.Array, *, loss: str, margin: float
) -> tuple[jax.Array, jax.Array]:
    """[B, S] each: the loss of a mention, and whether its first candidate wins.

    The first candidate is the right one; it wins if it has the highest score.

    Args:
      is_there: [B, S, C] bool.
      loss: margin: the mean over candidates of max(0, margin - score) of the right one
        and max(0, margin + score) of others; softmax: cross-entropy.
    """
    score = jnp.where(is_there, score_BSC, -1e4)
    right = jnp.argmax(score, axis=-1) == 0
    if loss == "softmax":
        return -jax.nn.log_softmax(score)[..., 0], right
    sign = jnp.where(jnp.arange(score.shape[-1]) == 0, -1.0, 1.0)[None, None]
    hinge = jnp.maximum(0.0, margin + sign * score) * is_there
    return hinge.sum(axis=-1) / jnp.maximum(is_there.sum(axis=-1), 1), right


class _LinkingNetwork:
    """A bound network that records the candidate scores of its last call."""

    def __init__(self, net: networks.BoundNetwork):
        self._net = net
        self.scores: jax.Array | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def states(
        self, group: Mapping[str, Any], scored: Any = None, **options: Any
    ) -> jax.Array:
        outputs = self._net.outputs(group, scored, **options)
        self.scores = outputs.links
        return outputs.states

    def features(self, group: Mapping[str, Any], scored: Any = None) -> jax.Array:
        return self.states(group, scored)
