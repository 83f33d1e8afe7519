"""One text of each row, whose next token a sampler chooses."""

# B batch, T new tokens at most, V vocabulary

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import VocabInfo
from research.generation.samplers import Rows
from research.generation.samplers.shared.left_to_right import LeftToRight
from research.generation.samplers.shared.next_token import History, end_ids, next_log_p
from research.generation.written import Written


class Texts(NamedTuple):
    """The texts so far."""

    count: jax.Array  # type: ignore[assignment]  # [] int32, tokens so far
    row: jax.Array  # [B] int32, the rows' numbers
    token: jax.Array  # [B, T]
    length: jax.Array  # [B], eos included
    log_p: jax.Array  # [B] float32
    done: jax.Array  # [B] bool
    history: History | None
    sampling: Any  # `Rows.sampling`
    parent = None  # texts stay in their rows

    @property
    def last(self) -> jax.Array:
        """[B]: the tokens to read next."""
        return jax.lax.dynamic_index_in_dim(self.token, self.count - 1, 1, False)


@dataclass(frozen=True, kw_only=True)
class SingleText(LeftToRight):
    """A left-to-right sampler that keeps one text of each row."""

    @abc.abstractmethod
    def choose(self, log_p_BV: jax.Array, state: Texts) -> jax.Array:
        """[B] int32: the next token of each row, by log p; -inf: it may not follow."""

    def start(self, vocab: VocabInfo, rows: Rows, history: History | None) -> Texts:
        zero_B = jnp.zeros_like(rows.number)
        return Texts(
            count=jnp.zeros((), jnp.int32),
            row=rows.number,
            token=jnp.full((len(zero_B), self.max_tokens), vocab.pad_id, jnp.int32),
            length=zero_B,
            log_p=zero_B.astype(jnp.float32),
            done=zero_B > 0,
            history=history,
            sampling=rows.sampling,
        )

    def extend(self, vocab: VocabInfo, state: Texts, logits_BV: jax.Array) -> Texts:
        log_p_BV = next_log_p(self, vocab, logits_BV, state.history, state.count)
        token_B = self.choose(log_p_BV, state)
        log_p_B = jnp.take_along_axis(log_p_BV, token_B[:, None], axis=1)[:, 0]
        ends_B = jnp.isin(token_B, np.array(end_ids(self, vocab)))
        token_B = jnp.where(state.done, vocab.pad_id, token_B)
        return state._replace(
            count=state.count + 1,
            token=state.token.at[:, state.count].set(token_B),
            length=state.length + ~state.done,
            log_p=state.log_p + jnp.where(state.done, 0.0, log_p_B),
            done=state.done | ends_B,
            history=state.history and state.history.add(token_B),
        )

    def written(self, state: Texts) -> Written:
        kept = state.token, state.length, state.log_p, state.log_p, state.done
        return Written(*(array[:, None] for array in kept))
