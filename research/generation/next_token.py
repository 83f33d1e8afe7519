"""The distribution of the next token, and draws from it."""

# R rows, N tokens of a prompt and new ones at most, V vocabulary

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import VocabInfo
from research.generation.options import NO_TOKEN, Options


class History(NamedTuple):
    """The tokens that penalties look back on."""

    token: jax.Array  # [R, N] int32
    length: jax.Array  # [R] int32: tokens behind it are not read yet

    @property
    def is_read(self) -> jax.Array:
        """[R, N] bool."""
        return jnp.arange(self.token.shape[1])[None] < self.length[:, None]

    def add(self, token_R: jax.Array) -> "History":
        """The history with one token more of each row."""
        row = jnp.arange(len(token_R))
        token = self.token.at[row, self.length].set(token_R)
        return History(token, self.length + 1)


class Sampling(NamedTuple):
    """How each row's tokens are drawn, as arrays: one compiled function has them all.

    See the fields of `Options` of these names.
    """

    temperature: jax.Array  # [R] float32; 0: the most probable token
    top_p: jax.Array  # [R] float32, above 0
    seed: jax.Array  # [R] int32


def begin_history(
    options: Options, token_RL: jax.Array, length_R: jax.Array
) -> History | None:
    """The prompts [R, L], with room for new tokens; None if nothing looks back."""
    if options.repetition_penalty == 1 and not options.no_repeat_ngram:
        return None
    room = jnp.zeros((len(token_RL), options.max_tokens + 1), jnp.int32)
    return History(jnp.concatenate([token_RL, room], axis=1), length_R)


def next_log_p(
    options: Options,
    vocab: VocabInfo,
    logits_RV: jax.Array,
    history: History | None,
    count: Any,
) -> jax.Array:
    """Float32 log p [R, V] of the next token; -inf: it may not be written.

    Args:
      logits_RV: of the network; rows past the vocabulary's size are left out.
      history: None if nothing looks back.
      count: [] int32, new tokens so far.
    """
    of_beams = options.beam_rule == "huggingface" and options.search == "beam"
    if options.repetition_penalty != 1 and not of_beams:
        lower_RV = _penalized(options, vocab, logits_RV[:, : vocab.size], history)
        logits_RV = logits_RV.at[:, : vocab.size].set(lower_RV)
    log_p_RV = jax.nn.log_softmax(logits_RV, axis=-1)[:, : vocab.size]
    if options.repetition_penalty != 1 and of_beams:
        log_p_RV = _penalized(options, vocab, log_p_RV, history)
    id_V = np.arange(vocab.size)
    is_end = np.isin(id_V, end_ids(options, vocab))
    never = np.isin(id_V, (vocab.pad_id, vocab.bos_id, vocab.mask_id)) & ~is_end
    never = never | np.isin(id_V, options.suppress)
    never = never | (is_end & (count < options.min_tokens))
    never = never | (np.isin(id_V, options.begin_suppress) & (count == 0))
    never_RV = jnp.broadcast_to(never, log_p_RV.shape)
    if options.no_repeat_ngram:
        never_RV |= _repeats(history, options.no_repeat_ngram, vocab.size)
    log_p_RV = jnp.where(never_RV, -jnp.inf, log_p_RV)
    last = options.max_tokens - 1
    for token, at in ((options.forced_bos, 0), (options.forced_eos, last)):
        if token != NO_TOKEN:
            forced_V = jnp.where(id_V == token, 0.0, -jnp.inf)
            log_p_RV = jnp.where(count == at, forced_V[None], log_p_RV)
    return log_p_RV


def end_ids(options: Options, vocab: VocabInfo) -> tuple[int, ...]:
    """The tokens of which each ends a text."""
    return options.ends or (vocab.eos_id,)


def _penalized(
    options: Options, vocab: VocabInfo, score_RV: jax.Array, history: History
) -> jax.Array:
    """Scores [R, V] with the repetition penalty of the history's tokens: of ordinary
    ones, with beam_rule huggingface of all."""
    row = jnp.arange(len(history.token))[:, None]
    seen_RV = jnp.zeros(score_RV.shape, bool)
    seen_RV = seen_RV.at[row, history.token].max(history.is_read)
    if options.beam_rule != "huggingface":
        seen_RV &= ~vocab.is_special[None]
    penalty = options.repetition_penalty
    lower_RV = jnp.where(score_RV > 0, score_RV / penalty, score_RV * penalty)
    return jnp.where(seen_RV, lower_RV, score_RV)


def _repeats(history: History, size: int, num_tokens: int) -> jax.Array:
    """[R, V] bool: tokens that would end an n-gram of `size` that the history has."""
    token, length = history
    num_rows, num_places = token.shape
    found = jnp.zeros((num_rows, num_tokens), bool)
    if size > num_places:
        return found
    same = history.is_read[:, size - 1 :]
    for back in range(1, size):
        at_R1 = jnp.maximum(length - back, 0)[:, None]
        own_R1 = jnp.take_along_axis(token, at_R1, axis=1)
        same &= token[:, size - 1 - back : num_places - back] == own_R1
    same &= (length >= size)[:, None]
    row = jnp.arange(num_rows)[:, None]
    return found.at[row, token[:, size - 1 :]].max(same)


def draw(
    options: Options, log_p_RV: jax.Array, row: jax.Array, count: jax.Array
) -> jax.Array:
    """[R] int32: a sample of each row, a function of (seed, row, count) and log p.

    Args:
      row: [R] int32, the row's number among all that are asked for.
      count: [] int32, new tokens so far.
    """
    warm_RV = _warm(log_p_RV, options.temperature)
    kept_RV = cut_tail(warm_RV, options.top_k, options.top_p)
    seed = jnp.full_like(row, options.seed)
    return jnp.argmax(kept_RV + _noise(kept_RV, seed, row, count), axis=-1).astype(
        jnp.int32
    )


def draw_by_row(
    sampling: Sampling, log_p_RV: jax.Array, row: jax.Array, count: jax.Array
) -> jax.Array:
    """[R] int32: `draw` with each row's own `sampling`."""
    temperature_R1 = sampling.temperature[:, None]
    warm_RV = _warm(log_p_RV, jnp.where(temperature_R1 > 0, temperature_R1, 1.0))
    kept_RV = cut_nucleus(warm_RV, sampling.top_p[:, None])
    noisy_RV = kept_RV + _noise(kept_RV, sampling.seed, row, count)
    chosen_RV = jnp.where(temperature_R1 > 0, noisy_RV, log_p_RV)
    return jnp.argmax(chosen_RV, axis=-1).astype(jnp.int32)


def _warm(log_p_RV: jax.Array, temperature: Any) -> jax.Array:
    """Log p divided by a temperature, up to a constant of each row: the best is 0, also
    where the others are too far below it for float32."""
    below_RV = log_p_RV - jnp.max(log_p_RV, axis=-1, keepdims=True)
    return jnp.where(below_RV < 0, below_RV / temperature, 0.0)


def _noise(
    log_p_RV: jax.Array, seed: jax.Array, row: jax.Array, count: jax.Array
) -> jax.Array:
    """Gumbel noise [R, V], a function of (seed, row, count) for each row."""

    def noise(seed, row):
        key = jax.random.fold_in(jax.random.key(seed), row)
        key = jax.random.fold_in(key, count)
        return jax.random.gumbel(key, log_p_RV.shape[1:])

    return jax.vmap(noise)(seed, row)


def cut_tail(log_p_RV: jax.Array, top_k: int, top_p: float) -> jax.Array:
    """Log p that is -inf outside the `top_k` best, and of these the best `top_p`.

    A token is kept if those before it have less than `top_p` of the probability of the
    `top_k`; so the first is always kept. Tokens as probable as the last are kept too.
    """
    if top_k:
        least = jax.lax.top_k(log_p_RV, min(top_k, log_p_RV.shape[1]))[0][:, -1:]
        log_p_RV = jnp.where(log_p_RV >= least, log_p_RV, -jnp.inf)
    return cut_nucleus(log_p_RV, top_p) if top_p < 1 else log_p_RV


def cut_nucleus(log_p_RV: jax.Array, top_p: Any) -> jax.Array:
    """Log p that is -inf outside the best `top_p`, a number or [R, 1]; see `cut_tail`.

    Where it is 1 nothing is cut.
    """
    sorted_RV = -jnp.sort(-log_p_RV, axis=-1)
    p_RV = jax.nn.softmax(sorted_RV, axis=-1)
    before_RV = jnp.cumsum(p_RV, axis=-1) - p_RV
    is_kept_RV = (before_RV < top_p) | (jnp.asarray(top_p) >= 1)
    kept_RV = jnp.where(is_kept_RV, sorted_RV, jnp.inf)
    least = jnp.min(kept_RV, axis=-1, keepdims=True)
    return jnp.where(log_p_RV >= least, log_p_RV, -jnp.inf)
