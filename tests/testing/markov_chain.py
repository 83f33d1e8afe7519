"""Texts of a known Markov chain, and the optimal loss of each objective on them.

Functions `optimal_...` return -log p of a batch's targets, in nats a scored token, for
a model that knows the chain and attends to what the objective's arrays allow.
"""

# B batch, L network length, K scored positions, N tokens of evidence

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from research import objectives
from research.contract.batch import (
    PARAGRAPH,
    WORD,
    Example,
    attention_mask,
    input_group,
)
from tests.testing.example_batches import keys, vocab

NUM_STATES = 6
VOCAB = vocab(size=5 + 16 + NUM_STATES, sentinels=16)
BILINGUAL_VOCAB = vocab(size=5 + 16 + 2 * NUM_STATES, sentinels=16)
"""Two languages: each state of the chain has a token in each."""

LENGTH = 24
"""The longest text."""

TRANSITION = np.random.default_rng(3).dirichlet(np.full(NUM_STATES, 0.25), NUM_STATES)
TRANSITION = 0.97 * TRANSITION + 0.03 / NUM_STATES
STATIONARY = np.linalg.matrix_power(TRANSITION, 999)[0]
POWERS = np.stack([np.linalg.matrix_power(TRANSITION, n) for n in range(LENGTH + 1)])
"""POWERS[n][a, b]: the probability of state b, n steps after state a."""


def chain_texts(num_rows: int, width: int, seed: int) -> Example:
    """Rows of the chain, started from its stationary distribution; two spans each."""
    rng = np.random.default_rng(seed)
    state = np.empty((num_rows, width), int)
    for n in range(width):
        odds = STATIONARY[None] if n == 0 else TRANSITION[state[:, n - 1]]
        above = rng.random((num_rows, 1)) > np.cumsum(odds, axis=1)
        state[:, n] = np.minimum(above.sum(axis=1), NUM_STATES - 1)
    full = np.full(num_rows, width, np.int32)
    flags = np.full(state.shape, WORD, np.uint8)
    none, first = full * 0, rng.integers(1, width, num_rows).astype(np.int32)
    return Example(
        VOCAB.ordinary_ids[state],
        flags,
        full,
        none - 1,
        first,
        *[none] * 3,
        number=np.arange(num_rows),
    )


def translated_texts(num_rows: int, width: int, seed: int) -> Example:
    """Texts of various lengths, each followed by its states in the other language."""
    text = chain_texts(num_rows, width // 2, seed)
    size = np.random.default_rng(seed).integers(width // 4, width // 2 + 1, num_rows)
    index, size = np.arange(width), size[:, None]
    state = np.take_along_axis(states_of(text.token), index % size, axis=1)
    token = BILINGUAL_VOCAB.ordinary_ids[state + NUM_STATES * (index >= size)]
    flags = np.where(index == size, WORD | PARAGRAPH, WORD).astype(np.uint8)
    length = 2 * size[:, 0].astype(np.int32)
    token = np.where(index < length[:, None], token, VOCAB.pad_id)
    return text._replace(token=token, flags=flags, length=length)


def states_of(token: np.ndarray) -> np.ndarray:
    """The chain's states of tokens of either language; -1 for other tokens."""
    symbol = token - VOCAB.ordinary_ids[0]
    return np.where(symbol >= 0, symbol % NUM_STATES, -1)


class Evidence(NamedTuple):
    """Tokens whose states may be known, each [B, N]."""

    position: np.ndarray  # in the text
    state: np.ndarray  # -1: none


def posterior_loss(
    batch,
    known: Evidence,
    attends: np.ndarray,
    position: np.ndarray,
    *,
    may_know_target: bool = False,
) -> float:
    """-log of the posterior of each target, given the states that its query attends to.

    By the Markov property only the nearest known states on either side matter: the
    probability of the steps from the left state, times that of the steps to the right.

    Args:
      attends: [B, K, N] bool, which evidence the query of a target attends to.
      position: [B, K], of the targets in the text.
      may_know_target: a target may be known, because the text holds it twice.
    """
    target, weight, log_p = states_of(batch["target"]), batch["weight"], 0.0
    for row, slot in zip(*np.nonzero(batch["weight"]), strict=True):
        truth, at = target[row, slot], position[row, slot]
        seen = attends[row, slot] & (known.state[row] >= 0)
        where, state = known.position[row][seen], known.state[row][seen]
        assert may_know_target or at not in where
        odds = STATIONARY.copy()
        if (left := where <= at).any():
            nearest = np.argmax(np.where(left, where, -1))
            odds = POWERS[at - where[nearest]][state[nearest]].copy()
        if (right := where > at).any():
            nearest = np.argmin(np.where(right, where, LENGTH))
            odds *= POWERS[where[nearest] - at][:, state[nearest]]
        log_p += weight[row, slot] * np.log(odds[truth] / odds.sum())
    return -log_p / batch.get("text_weight", weight).sum()


def optimal_loss(batch, *, shift: int = 0, backward: bool = False) -> float:
    """Of a network with one input group.

    Args:
      shift: an input token is `shift` positions behind its position in the text.
      backward: the text is read from its end.
    """
    group = input_group(batch)
    query = batch.get("scored", np.arange(batch["weight"].shape[1])[None])
    query = np.broadcast_to(query, batch["weight"].shape)
    attends = np.take_along_axis(attention_mask(group), query[..., None], axis=1)
    target_position = np.take_along_axis(group["position"], query, axis=1)
    position = group["position"] - shift
    if backward:
        position = LENGTH - 1 - position
        target_position = LENGTH - 1 - target_position
    known = Evidence(position, states_of(group["token"]))
    return posterior_loss(batch, known, attends, target_position)


def optimal_unilm(batch) -> float:
    """Of UniLM's modes: bidirectional, forward, backward, source to target.

    The first token type says which (0, 2, 3, 4). The second span follows the first. The
    eos of a target span is at the same position in all rows, so it is certain.
    """
    token, token_type, query = batch["token"], batch["token_type"], batch["scored"]
    key, mode = np.arange(token.shape[1]), token_type[:, :1, None]
    source = (token_type == token_type[:, :1]).sum(axis=1)[:, None, None]
    before, after = key <= query[..., None], key >= query[..., None]
    modes = [mode == 2, mode == 3, mode == 4]
    attends = np.select(modes, [before, after, before | (key < source)], mode == 0)
    position = np.cumsum(~np.isin(token, [VOCAB.bos_id, VOCAB.eos_id]), axis=1)
    target_position = np.take_along_axis(position, query, axis=1)
    end = batch["target"] == VOCAB.eos_id
    assert (query[end] == token.shape[1] - 1).all()
    uncertain = batch | {"weight": batch["weight"] * ~end}
    fraction = uncertain["weight"].sum() / batch["weight"].sum()
    known = Evidence(position, states_of(token))
    return fraction * posterior_loss(uncertain, known, attends, target_position)


def optimal_tlm(batch) -> float:
    """Of both languages; the n-th word of each is the translation of the other's."""
    token, query = batch["token"], batch["scored"]
    index = np.arange(token.shape[1])
    border = (token[:, 1:-1] == VOCAB.eos_id) & (token[:, 2:] == VOCAB.eos_id)
    second = 2 + np.argmax(border, axis=1)[:, None]
    position = np.where(index < second, index, index - second)
    target_position = np.take_along_axis(position, query, axis=1)
    known = Evidence(position, states_of(token))
    of_query = np.take_along_axis(known.state, query, axis=1)
    assert (of_query < 0)[batch["weight"] > 0].all()
    attends = np.ones((*query.shape, len(index)), bool)
    return posterior_loss(batch, known, attends, target_position, may_know_target=True)


def optimal_mass(batch) -> float:
    """Of the encoder's tokens and the span's tokens before the target."""
    token, written = batch["encoder_token"], batch["target"]
    index, slot = np.arange(token.shape[1]), np.arange(written.shape[1])
    begin = np.argmax(token == VOCAB.mask_id, axis=1)[:, None]
    position = np.concatenate([index + 0 * begin, begin + slot], axis=1)
    known = Evidence(position, states_of(np.concatenate([token, written], axis=1)))
    written_slot = np.arange(position.shape[1]) - len(index)
    attends = np.broadcast_to(
        written_slot < slot[:, None], (len(token), len(slot), len(written_slot))
    )
    return posterior_loss(batch, known, attends, begin + slot)


def optimal_dae(batch) -> float:
    """-log p of the whole target, over all divisions of the hidden tokens into spans.

    All divisions are equally likely. A span of n tokens between two clear ones has the
    probability of n + 1 steps of the chain.
    """
    log_p = 0.0
    for encoder, target in zip(batch["encoder_token"], batch["target"], strict=True):
        hidden = states_of(target)
        num_hidden = int((hidden >= 0).sum())
        odds = np.eye(num_hidden + 1)[0]  # by the number of tokens used so far
        sentinel = np.flatnonzero(np.isin(target, VOCAB.sentinel_ids))
        spans = np.split(hidden, sentinel)[1:]
        span_index = np.flatnonzero(np.isin(encoder, VOCAB.sentinel_ids))
        for index, span in zip(span_index, spans, strict=True):
            left, right = states_of(encoder[[index - 1, index + 1]])
            path = [left, *span[span >= 0], right]
            path = path if right >= 0 else path[:-1]  # nothing after the last span
            log_p += np.log(TRANSITION[path[:-1], path[1:]]).sum()
            step, longer = TRANSITION, np.zeros_like(odds)
            for size in range(1, num_hidden + 1):
                step = step @ TRANSITION
                longer[size:] += odds[:-size] * (step[left, right] if right >= 0 else 1)
            odds = longer
        log_p -= np.log(odds[-1])
    return -log_p / batch["weight"].sum()


def optimal_bart(batch, *, fields: dict, num_draws: int = 100_000) -> float:
    """-log p of the whole text, over all positions that the encoder's tokens may have.

    The probability of each noise is estimated by counting. It does not depend on the
    text, so it is counted on a text whose tokens all differ. Noises of the batch are
    among those counted.
    """
    noises = defaultdict(list)  # indices of masks -> (positions of the rest, count)
    objective = objectives.make_objective("bart", **fields)
    length = batch["encoder_token"].shape[1]
    raw, vocab = length - 2, BILINGUAL_VOCAB
    text = chain_texts(1, raw, 0)
    text = text.rows(np.zeros(num_draws, int))
    text = text._replace(token=np.tile(vocab.ordinary_ids[:raw], (num_draws, 1)))
    drawn = objective.corrupt(text, keys(num_draws, 0), vocab, length)["encoder_token"]
    for row, count in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True):
        position = row[np.isin(row, vocab.ordinary_ids)] - vocab.ordinary_ids[0]
        masks = tuple(np.flatnonzero(row == vocab.mask_id))
        noises[masks, len(position)].append((position, count))

    log_p = 0.0
    for read, target in zip(batch["encoder_token"], batch["target"], strict=True):
        kept, clean = states_of(read), states_of(target[1:-1])
        kept = kept[kept >= 0]
        found = noises[tuple(np.flatnonzero(read == vocab.mask_id)), len(kept)]
        joint = sum(count * (clean[at] == kept).all() for at, count in found)
        log_p += np.log(joint * STATIONARY[clean[0]])
        log_p += np.log(TRANSITION[clean[:-1], clean[1:]]).sum()
        total = 0.0
        for at, count in found:
            steps = POWERS[np.diff(at), kept[:-1], kept[1:]]
            total += count * np.prod(steps) * (STATIONARY[kept[0]] if len(kept) else 1)
        log_p -= np.log(total)
    return -log_p / batch["weight"].sum()
