"""How a span of the context is predicted from states: `spans` of a task head."""

# B batch, L length, D width, K starts, E ends of each start

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from research import networks
from research.contract.batch import Batch
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    with_accuracy,
)

HIDDEN = -1e9
"""The logit of a position that cannot be part of the answer."""

UNANSWERABLE_COEF = 0.5
"""Factor of the loss of answerability (XLNet, run_squad.py; ELECTRA's
answerable_weight)."""


class Candidates(NamedTuple):
    """The most likely starts of each row, ends of each of them, and their scores."""

    start: jax.Array  # [B, K]
    end: jax.Array  # [B, K, E]
    score: jax.Array  # [B, K, E]
    null: jax.Array  # [B], of no answer


class Independent:
    """One layer gives each position a start logit and an end logit."""

    tells_unanswerable = False
    """Whether a separate layer predicts that there is no answer. Otherwise its score is
    that of the pooled position, which is compared with the best span's."""

    def heads(
        self, format: str, layers: networks.HeadSpec
    ) -> dict[str, networks.HeadSpec]:
        """The heads: the layers of the task's head for two values."""
        return {"span": layers}

    def logits(
        self,
        net: networks.BoundNetwork,
        states_BLD: jax.Array,
        batch: Batch,
        pooled_B: jax.Array,
    ) -> tuple[jax.Array, dict[str, Term]]:
        """[B, L, 2] float32: logits of start and end, and more terms."""
        return net.head("span", states_BLD), {}

    def candidates(
        self,
        net: networks.BoundNetwork,
        states_BLD: jax.Array,
        batch: Batch,
        pooled_B: jax.Array,
        count: int,
    ) -> Candidates:
        """`count` starts, and as many ends for each."""
        logits_BL2 = net.head("span", states_BLD)
        null = jnp.sum(_at(logits_BL2, pooled_B), axis=1)
        hidden_BL1 = ~_in_context(batch)[..., None]
        logits_BL2 = jnp.where(hidden_BL1, HIDDEN, logits_BL2)
        start_score_BK, start_BK = jax.lax.top_k(logits_BL2[..., 0], count)
        ends = jax.lax.top_k(logits_BL2[..., 1], count)
        end_score_BKE, end_BKE = (
            jnp.repeat(array[:, None], count, axis=1) for array in ends
        )
        score_BKE = start_score_BK[..., None] + end_score_BKE
        return Candidates(start_BK, end_BKE, score_BKE, null)


class Joint(Independent):
    """The end logits also read the state of the start; scores are log p."""

    tells_unanswerable = True

    def heads(
        self, format: str, layers: networks.HeadSpec
    ) -> dict[str, networks.HeadSpec]:
        end = unanswerable = networks.HeadSpec(1, "gelu", hidden=512)
        if format == "xlnet":
            layer = networks.HeadSpec(1, "tanh", shares_pooler=False)
            end = dataclasses.replace(layer, norm=True)
            unanswerable = dataclasses.replace(layer, dropout=True)
        start = networks.HeadSpec(1, "none")
        return {"start": start, "end": end, "unanswerable": unanswerable}

    def logits(
        self,
        net: networks.BoundNetwork,
        states_BLD: jax.Array,
        batch: Batch,
        pooled_B: jax.Array,
    ) -> tuple[jax.Array, dict[str, Term]]:
        may_answer_BL = _may_answer(batch, pooled_B)
        start_BL = _start_logits(net, states_BLD, may_answer_BL)
        first_B1 = batch["answer"][:, :1]
        end_B1L = _end_logits(net, states_BLD, first_B1, may_answer_BL)
        logits_BL2 = jnp.stack([start_BL, end_B1L[:, 0]], axis=2)
        logit = _unanswerable(net, states_BLD, start_BL, pooled_B)
        found = binary_cross_entropy(
            logit, batch["unanswerable"], batch["answer_weight"]
        )
        terms = with_accuracy("unanswerable", *found, coef=UNANSWERABLE_COEF)
        return logits_BL2, terms

    def candidates(
        self,
        net: networks.BoundNetwork,
        states_BLD: jax.Array,
        batch: Batch,
        pooled_B: jax.Array,
        count: int,
    ) -> Candidates:
        may_answer_BL = _may_answer(batch, pooled_B)
        start_BL = _start_logits(net, states_BLD, may_answer_BL)
        null = _unanswerable(net, states_BLD, start_BL, pooled_B)
        start_score_BK, start_BK = jax.lax.top_k(jax.nn.log_softmax(start_BL), count)
        end_BKL = _end_logits(net, states_BLD, start_BK, may_answer_BL)
        end_score_BKE, end_BKE = jax.lax.top_k(jax.nn.log_softmax(end_BKL), count)
        score_BKE = start_score_BK[..., None] + end_score_BKE
        return Candidates(start_BK, end_BKE, score_BKE, null)


def _start_logits(
    net: networks.BoundNetwork, states_BLD: jax.Array, may_answer_BL: jax.Array
) -> jax.Array:
    """Start logits [B, L] float32, HIDDEN where the answer cannot be."""
    logits_BL = net.head("start", states_BLD)[..., 0]
    return jnp.where(may_answer_BL, logits_BL, HIDDEN)


def _end_logits(
    net: networks.BoundNetwork,
    states_BLD: jax.Array,
    start_BK: jax.Array,
    may_answer_BL: jax.Array,
) -> jax.Array:
    """End logits [B, K, L] float32 given each start, HIDDEN as in start logits."""
    first_BKD = jnp.take_along_axis(states_BLD, start_BK[..., None], axis=1)
    shape = (*start_BK.shape, *states_BLD.shape[1:])
    pair = states_BLD[:, None], first_BKD[:, :, None]
    both = [jnp.broadcast_to(states, shape) for states in pair]
    logits_BKL = net.head("end", jnp.concatenate(both, axis=3))[..., 0]
    return jnp.where(may_answer_BL[:, None], logits_BKL, HIDDEN)


def _unanswerable(
    net: networks.BoundNetwork,
    states_BLD: jax.Array,
    start_BL: jax.Array,
    pooled_B: jax.Array,
) -> jax.Array:
    """[B] float32: the logit that there is no answer."""
    p_start_BL = jax.nn.softmax(start_BL).astype(states_BLD.dtype)
    start_BD = jnp.einsum("bl,bld->bd", p_start_BL, states_BLD)
    both_B2D = jnp.concatenate([_at(states_BLD, pooled_B), start_BD], axis=1)
    return net.head("unanswerable", both_B2D)[:, 0]


def _may_answer(batch: Batch, pooled_B: jax.Array) -> jax.Array:
    """[B, L] bool: positions of the context and the pooled position."""
    position = jnp.arange(batch["token"].shape[1])
    return _in_context(batch) | (position[None] == pooled_B[:, None])


def _in_context(batch: Batch) -> jax.Array:
    """[B, L] bool: the positions of the window."""
    begin_B1, size_B1 = batch["context"][:, :1], batch["context"][:, 1:]
    offset_BL = jnp.arange(batch["token"].shape[1])[None] - begin_B1
    return (offset_BL >= 0) & (offset_BL < size_B1)


def _at(array_BLD: jax.Array, position_B: jax.Array) -> jax.Array:
    """[B, D]: the entry of each row at its position."""
    return array_BLD[jnp.arange(len(position_B)), position_B]
