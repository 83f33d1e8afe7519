"""One text of each row: the most probable next token, or a sample."""

# B batch, T new tokens at most, V vocabulary

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import VocabInfo
from research.generation.next_token import (
    History,
    Sampling,
    draw,
    draw_by_row,
    end_ids,
    next_log_p,
)
from research.generation.options import Options
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
    sampling: Sampling | None = None  # None: as the options say

    @property
    def last(self) -> jax.Array:
        """[B]: the tokens to read next."""
        return jax.lax.dynamic_index_in_dim(self.token, self.count - 1, 1, False)


def start(
    options: Options, vocab: VocabInfo, row_B: jax.Array, history: History | None
) -> Texts:
    """Nothing is written."""
    zero_B = jnp.zeros_like(row_B)
    return Texts(
        count=jnp.zeros((), jnp.int32),
        row=row_B,
        token=jnp.full((len(row_B), options.max_tokens), vocab.pad_id, jnp.int32),
        length=zero_B,
        log_p=zero_B.astype(jnp.float32),
        done=zero_B > 0,
        history=history,
    )


def extend(
    options: Options, vocab: VocabInfo, state: Texts, logits_BV: jax.Array
) -> Texts:
    """One token more for each text that has not ended."""
    log_p_BV = next_log_p(options, vocab, logits_BV, state.history, state.count)
    if state.sampling is not None:
        token_B = draw_by_row(state.sampling, log_p_BV, state.row, state.count)
    elif options.search == "sample":
        token_B = draw(options, log_p_BV, state.row, state.count)
    else:
        token_B = jnp.argmax(log_p_BV, axis=-1).astype(jnp.int32)
    log_p_B = jnp.take_along_axis(log_p_BV, token_B[:, None], axis=1)[:, 0]
    ends_B = jnp.isin(token_B, np.array(end_ids(options, vocab)))
    token_B = jnp.where(state.done, vocab.pad_id, token_B)
    return state._replace(
        count=state.count + 1,
        token=state.token.at[:, state.count].set(token_B),
        length=state.length + ~state.done,
        log_p=state.log_p + jnp.where(state.done, 0.0, log_p_B),
        done=state.done | ends_B,
        history=state.history and state.history.add(token_B),
    )


def written(options: Options, state: Texts) -> Written:
    """The texts, each the only hypothesis of its row."""
    kept = state.token, state.length, state.log_p, state.log_p, state.done
    return Written(*(array[:, None] for array in kept))
