"""A language that is known: a Markov chain, and what is the best that anyone can do.

Functions `best...` give -log p of a batch's targets, in nats a scored token, for one
who knows the chain and sees what the objective says that its network sees.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from research import objectives
from research.batch import PARAGRAPH, WORD, Example, attention_mask, input_group
from tests.testing.example_batches import keys, vocab

NUM_STATES = 6
OF = vocab(size=5 + 16 + NUM_STATES, sentinels=16)
BOTH = vocab(size=5 + 16 + 2 * NUM_STATES, sentinels=16)
"""The vocabulary of two languages, in which each state has a symbol."""

LENGTH = 24
"""No text is longer."""

CHAIN = np.random.default_rng(3).dirichlet(np.full(NUM_STATES, 0.25), NUM_STATES)
CHAIN = 0.97 * CHAIN + 0.03 / NUM_STATES
START = np.linalg.matrix_power(CHAIN, 999)[0]
STEPS = np.stack([np.linalg.matrix_power(CHAIN, n) for n in range(LENGTH + 1)])


def texts(num_rows: int, width: int, seed: int) -> Example:
    """Rows of the chain, started from its stationary distribution; cut anywhere."""
    rng = np.random.default_rng(seed)
    state = np.empty((num_rows, width), int)
    for place in range(width):
        odds = START[None] if place == 0 else CHAIN[state[:, place - 1]]
        above = rng.random((num_rows, 1)) > np.cumsum(odds, axis=1)
        state[:, place] = np.minimum(above.sum(axis=1), NUM_STATES - 1)
    full = np.full(num_rows, width, np.int32)
    flags = np.full(state.shape, WORD, np.uint8)
    none, first = full * 0, rng.integers(1, width, num_rows).astype(np.int32)
    return Example(OF.ordinary_ids[state], flags, full, none - 1, first, *[none] * 3)


def translated(num_rows: int, width: int, seed: int) -> Example:
    """Texts of various lengths, and then the same states in the other language."""
    text = texts(num_rows, width // 2, seed)
    size = np.random.default_rng(seed).integers(width // 4, width // 2 + 1, num_rows)
    place, size = np.arange(width), size[:, None]
    state = np.take_along_axis(states_of(text.token), place % size, axis=1)
    token = BOTH.ordinary[state + NUM_STATES * (place >= size)]
    flags = np.where(place == size, WORD | PARAGRAPH, WORD).astype(np.uint8)
    length = 2 * size[:, 0].astype(np.int32)
    token = np.where(place < length[:, None], token, OF.pad_id)
    return text._replace(token=token, flags=flags, length=length)


def states_of(token: np.ndarray) -> np.ndarray:
    """States of the chain, of either language; -1 for other tokens."""
    symbol = token - OF.ordinary_ids[0]
    return np.where(symbol >= 0, symbol % NUM_STATES, -1)


class Evidence(NamedTuple):
    """What is known where: [B, N] places of the text, [B, N] states, -1: none."""

    place: np.ndarray
    state: np.ndarray


def best(
    batch, known: Evidence, sees: np.ndarray, where: np.ndarray, *, twice: bool = False
) -> float:
    """-log of the posterior of each target, given the states that its place sees.

    Of a chain only the nearest known states on either side matter: steps from the left
    one, times steps to the right one.

    Args:
      sees: [B, K, N] bool, which of the evidence a target's place sees.
      where: [B, K], the places of the targets in the text.
      twice: whether a target may be known, since it stands in the text twice.
    """
    target, log_p = states_of(batch["target"]), 0.0
    for row, slot in zip(*np.nonzero(batch["weight"]), strict=True):
        truth, place = target[row, slot], where[row, slot]
        held = sees[row, slot] & (known.state[row] >= 0)
        at, state = known.place[row][held], known.state[row][held]
        assert twice or place not in at
        odds = START.copy()
        if (left := at <= place).any():
            nearest = np.argmax(np.where(left, at, -1))
            odds = STEPS[place - at[nearest]][state[nearest]].copy()
        if (right := at > place).any():
            nearest = np.argmin(np.where(right, at, LENGTH))
            odds *= STEPS[at[nearest] - place][:, state[nearest]]
        log_p += np.log(odds[truth] / odds.sum())
    return -log_p / batch["weight"].sum()


def best_of_one(batch, *, read: int = 0, turned: bool = False) -> float:
    """Of a network that reads one group; a token stands `read` places behind its own.

    turned: the text is read from its end.
    """
    group = input_group(batch)
    at = batch.get("scored", np.arange(batch["weight"].shape[1])[None])
    at = np.broadcast_to(at, batch["weight"].shape)
    sees = np.take_along_axis(attention_mask(group), at[..., None], axis=1)
    where = np.take_along_axis(group["position"], at, axis=1)
    place = group["position"] - read
    if turned:
        place, where = LENGTH - 1 - place, LENGTH - 1 - where
    return best(batch, Evidence(place, states_of(group["token"])), sees, where)


def best_unilm(batch) -> float:
    """Of UniLM's modes: both ways, forward, backward, from source to target.

    The first kind tells them apart (0, 2, 3, 4). The second span goes on after the
    first. A target's eos stands at the same place in all rows, so it is certain.
    """
    token, kind, at = batch["token"], batch["token_type"], batch["scored"]
    key, query, mode = np.arange(token.shape[1]), at[..., None], kind[:, :1, None]
    source = (kind == kind[:, :1]).sum(axis=1)[:, None, None]
    before, after = key <= query, key >= query
    one_sided = [mode == 2, mode == 3, mode == 4]
    sees = np.select(one_sided, [before, after, before | (key < source)], mode == 0)
    place = np.cumsum(~np.isin(token, [OF.bos_id, OF.eos_id]), axis=1)
    where = np.take_along_axis(place, at, axis=1)
    end = batch["target"] == OF.eos_id
    assert (at[end] == token.shape[1] - 1).all()
    scored = batch | {"weight": batch["weight"] * ~end}
    share = scored["weight"].sum() / batch["weight"].sum()
    return share * best(scored, Evidence(place, states_of(token)), sees, where)


def best_tlm(batch) -> float:
    """Of both languages; the n-th word of either is the n-th of the other."""
    token, at = batch["token"], batch["scored"]
    column = np.arange(token.shape[1])
    border = (token[:, 1:-1] == OF.eos_id) & (token[:, 2:] == OF.eos_id)
    second = 2 + np.argmax(border, axis=1)[:, None]
    place = np.where(column < second, column, column - second)
    where = np.take_along_axis(place, at, axis=1)
    known = Evidence(place, states_of(token))
    assert (np.take_along_axis(known.state, at, axis=1) < 0)[batch["weight"] > 0].all()
    sees = np.ones((*at.shape, len(column)), bool)
    return best(batch, known, sees, where, twice=True)


def best_mass(batch) -> float:
    """Of what the encoder reads, and the span's tokens before the target."""
    token, written = batch["encoder_token"], batch["target"]
    column, slot = np.arange(token.shape[1]), np.arange(written.shape[1])
    begin = np.argmax(token == OF.mask_id, axis=1)[:, None]
    place = np.concatenate([column + 0 * begin, begin + slot], axis=1)
    known = Evidence(place, states_of(np.concatenate([token, written], axis=1)))
    number = np.arange(place.shape[1]) - len(column)
    sees = np.broadcast_to(number < slot[:, None], (len(token), len(slot), len(number)))
    return best(batch, known, sees, begin + slot)


def best_dae(batch) -> float:
    """-log p of the whole target, over all ways to divide the hidden tokens into spans.

    All divisions are equally likely. A span of n tokens between two others has the
    probability of n + 1 steps of the chain.
    """
    log_p = 0.0
    for encoder, target in zip(batch["encoder_token"], batch["target"], strict=True):
        hidden = states_of(target)
        num_hidden = int((hidden >= 0).sum())
        ways = np.eye(num_hidden + 1)[0]  # by the number of tokens used so far
        spans = np.split(hidden, np.flatnonzero(np.isin(target, OF.sentinel_ids)))[1:]
        places = np.flatnonzero(np.isin(encoder, OF.sentinel_ids))
        for place, span in zip(places, spans, strict=True):
            left, right = states_of(encoder[[place - 1, place + 1]])
            path = [left, *span[span >= 0], right]
            path = path if right >= 0 else path[:-1]  # nothing after the last span
            log_p += np.log(CHAIN[path[:-1], path[1:]]).sum()
            step, more = CHAIN, np.zeros_like(ways)
            for size in range(1, num_hidden + 1):
                step = step @ CHAIN
                more[size:] += ways[:-size] * (step[left, right] if right >= 0 else 1)
            ways = more
        log_p -= np.log(ways[-1])
    return -log_p / batch["weight"].sum()


def best_bart(batch, *, fields: dict, num_draws: int = 100_000) -> float:
    """-log p of the whole text, over all places that what is read may have had in it.

    How likely each noise is, is counted: it does not depend on the text, so it is seen
    on one whose tokens all differ. Those of the batch are among what is counted.
    """
    noises = defaultdict(list)  # which places are masks -> places of the rest, count
    objective = objectives.make_objective("bart", **fields)
    length = batch["encoder_token"].shape[1]
    raw = length - 2
    text = Example(*(np.repeat(array, num_draws, axis=0) for array in texts(1, raw, 0)))
    text = text._replace(token=np.tile(BOTH.ordinary[:raw], (num_draws, 1)))
    drawn = objective.corrupt(text, keys(num_draws, 0), BOTH, length)["encoder_token"]
    for row, count in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True):
        place = row[np.isin(row, BOTH.ordinary)] - BOTH.ordinary[0]
        noises[tuple(np.flatnonzero(row == BOTH.mask)), len(place)].append(
            (place, count)
        )

    log_p = 0.0
    for read, target in zip(batch["encoder_token"], batch["target"], strict=True):
        kept, clean = states_of(read), states_of(target[1:-1])
        kept = kept[kept >= 0]
        found = noises[tuple(np.flatnonzero(read == BOTH.mask)), len(kept)]
        joint = sum(count * (clean[place] == kept).all() for place, count in found)
        log_p += np.log(joint * START[clean[0]])
        log_p += np.log(CHAIN[clean[:-1], clean[1:]]).sum()
        total = 0.0
        for place, count in found:
            steps = STEPS[np.diff(place), kept[:-1], kept[1:]]
            total += count * np.prod(steps) * (START[kept[0]] if len(kept) else 1)
        log_p -= np.log(total)
    return -log_p / batch["weight"].sum()
