"""The distribution of the next token, without forbidden tokens."""

# R rows, N tokens of a prompt and new ones at most, V vocabulary

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import VocabInfo

if TYPE_CHECKING:
    from research.generation.samplers.shared.left_to_right import LeftToRight

NO_TOKEN = -1
"""An id that stands for any token."""


class History(NamedTuple):
    """The tokens that penalties apply to."""

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


def begin_history(
    sampler: "LeftToRight", token_RL: jax.Array, length_R: jax.Array
) -> History | None:
    """The prompts [R, L], with room for new tokens; None if nothing looks back."""
    if sampler.repetition_penalty == 1 and not sampler.no_repeat_ngram:
        return None
    room = jnp.zeros((len(token_RL), sampler.max_tokens + 1), jnp.int32)
    return History(jnp.concatenate([token_RL, room], axis=1), length_R)


def next_log_p(
    sampler: "LeftToRight",
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
    if sampler.repetition_penalty != 1 and not sampler.penalizes_log_p:
        lower_RV = _penalized(sampler, vocab, logits_RV[:, : vocab.size], history)
        logits_RV = logits_RV.at[:, : vocab.size].set(lower_RV)
    log_p_RV = jax.nn.log_softmax(logits_RV, axis=-1)[:, : vocab.size]
    if sampler.repetition_penalty != 1 and sampler.penalizes_log_p:
        log_p_RV = _penalized(sampler, vocab, log_p_RV, history)
    id_V = np.arange(vocab.size)
    is_end = np.isin(id_V, end_ids(sampler, vocab))
    never = np.isin(id_V, (vocab.pad_id, vocab.bos_id, vocab.mask_id)) & ~is_end
    never = never | np.isin(id_V, sampler.suppress)
    never = never | (is_end & (count < sampler.min_tokens))
    never = never | (np.isin(id_V, sampler.begin_suppress) & (count == 0))
    never_RV = jnp.broadcast_to(never, log_p_RV.shape)
    if sampler.no_repeat_ngram:
        never_RV |= _repeats(history, sampler.no_repeat_ngram, vocab.size)
    log_p_RV = jnp.where(never_RV, -jnp.inf, log_p_RV)
    last = sampler.max_tokens - 1
    for token, at in ((sampler.forced_bos, 0), (sampler.forced_eos, last)):
        if token != NO_TOKEN:
            forced_V = jnp.where(id_V == token, 0.0, -jnp.inf)
            log_p_RV = jnp.where(count == at, forced_V[None], log_p_RV)
    return log_p_RV


def end_ids(sampler: "LeftToRight", vocab: VocabInfo) -> tuple[int, ...]:
    """The tokens of which each ends a text."""
    return sampler.ends or (vocab.eos_id,)


def _penalized(
    sampler: "LeftToRight", vocab: VocabInfo, score_RV: jax.Array, history: History
) -> jax.Array:
    """Scores [R, V] with the repetition penalty of the history's tokens.

    It is of ordinary tokens, with beam_rule huggingface of all.
    """
    row = jnp.arange(len(history.token))[:, None]
    seen_RV = jnp.zeros(score_RV.shape, bool)
    seen_RV = seen_RV.at[row, history.token].max(history.is_read)
    if sampler.beam_rule != "huggingface":
        seen_RV &= ~vocab.is_special[None]
    penalty = sampler.repetition_penalty
    lower_RV = jnp.where(score_RV > 0, score_RV / penalty, score_RV * penalty)
    return jnp.where(seen_RV, lower_RV, score_RV)


def _repeats(history: History, size: int, num_tokens: int) -> jax.Array:
    """[R, V] bool: tokens that would repeat an n-gram of `size` of the history."""
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
