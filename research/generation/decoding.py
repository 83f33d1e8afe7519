"""The loop that writes token after token, over any function of the tokens so far.

A row gets one text (`Texts`) or the best of a beam search (`Beams`).
"""

# B batch, K hypotheses of a row, R = B or B x K rows of the network, L prompt length,
# T new tokens at most, V vocabulary

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.batch import VocabInfo
from research.generation.next_token import add_seen, draw, next_log_p, seen_tokens
from research.generation.options import Options


class Written(NamedTuple):
    """New texts, the best of each row first."""

    token: jax.Array  # [B, K, T], eos included
    length: jax.Array  # [B, K], eos included; 0: there is no such text
    log_p: jax.Array  # [B, K] float32, the sum over the text
    score: jax.Array  # [B, K] float32, what they are ordered by
    ended: jax.Array  # [B, K] bool: by eos; False: by the limit of length


class Network(NamedTuple):
    """A function from the tokens so far to logits, whose `context` is its own."""

    read_tokens: Callable  # (token [R], context) to logits [R, V] and the next context
    repeat_rows: Callable  # (context, K) to a context with each row K times
    select_rows: Callable  # (context, row [R]) to the context of these rows


def decode(
    options: Options,
    vocab: VocabInfo,
    network: Network,
    logits_BV: jax.Array,
    context: Any,
    prompt_BL: jax.Array,
    row_B: jax.Array,
) -> Written:
    """Continues each row until it ends.

    Args:
      logits_BV: of the first new token.
      context: after the prompt.
      prompt_BL: tokens that the repetition penalty counts, beside new ones.
      row_B: int32, the rows' numbers, on which samples depend.
    """
    search = Beams if options.search == "beam" else Texts
    logits_RV, seen = logits_BV, seen_tokens(options, vocab, prompt_BL)
    if options.search == "beam":
        count = options.beams
        logits_RV, seen = jax.tree.map(
            lambda x: jnp.repeat(x, count, axis=0), (logits_BV, seen)
        )
        context = network.repeat_rows(context, count)
    state = search.start(options, vocab, row_B, seen)

    def body(carry):
        state, context = carry
        if options.search == "beam":
            context = network.select_rows(context, state.parent)
        logits_RV, context = network.read_tokens(state.last, context)
        return state.extend(options, vocab, logits_RV), context

    def goes_on(carry):
        state, _ = carry
        return (state.count < options.max_tokens) & ~jnp.all(state.done)

    state = state.extend(options, vocab, logits_RV)
    state, _ = lax.while_loop(goes_on, body, (state, context))
    return state.written(options)


class Texts(NamedTuple):
    """One text of each row so far: the most probable next token, or a sample."""

    count: jax.Array  # [] int32, tokens so far
    row: jax.Array  # [B] int32, the rows' numbers
    token: jax.Array  # [B, T]
    length: jax.Array  # [B], eos included
    log_p: jax.Array  # [B] float32
    done: jax.Array  # [B] bool
    seen: Any  # [B, V] bool, or None

    @property
    def last(self) -> jax.Array:
        """[B]: the tokens to read next."""
        return jax.lax.dynamic_index_in_dim(self.token, self.count - 1, 1, False)

    @classmethod
    def start(
        cls, options: Options, vocab: VocabInfo, row_B: jax.Array, seen: Any
    ) -> "Texts":
        """Nothing is written."""
        zero_B = jnp.zeros_like(row_B)
        return cls(
            count=jnp.zeros((), jnp.int32),
            row=row_B,
            token=jnp.full((len(row_B), options.max_tokens), vocab.pad_id, jnp.int32),
            length=zero_B,
            log_p=zero_B.astype(jnp.float32),
            done=zero_B > 0,
            seen=seen,
        )

    def extend(
        self, options: Options, vocab: VocabInfo, logits_BV: jax.Array
    ) -> "Texts":
        """One token more for each text that has not ended."""
        log_p_BV = next_log_p(options, vocab, logits_BV, self.seen, self.count)
        if options.search == "sample":
            token_B = draw(options, log_p_BV, self.row, self.count)
        else:
            token_B = jnp.argmax(log_p_BV, axis=-1).astype(jnp.int32)
        log_p_B = jnp.take_along_axis(log_p_BV, token_B[:, None], axis=1)[:, 0]
        token_B = jnp.where(self.done, vocab.pad_id, token_B)
        return self._replace(
            count=self.count + 1,
            token=self.token.at[:, self.count].set(token_B),
            length=self.length + ~self.done,
            log_p=self.log_p + jnp.where(self.done, 0.0, log_p_B),
            done=self.done | (token_B == vocab.eos_id),
            seen=add_seen(vocab, self.seen, token_B),
        )

    def written(self, options: Options) -> Written:
        """The texts, each the only hypothesis of its row."""
        _, _, token, length, log_p, ended, _ = self
        one = (array[:, None] for array in (token, length, log_p, log_p, ended))
        return Written(*one)


class Beams(NamedTuple):
    """Beam search: the open texts, and the best that have ended.

    Each step takes the K best continuations of a row's open texts. Those that end leave
    the beam (Sutskever et al. 2014, section 3.2) for the K best that have ended, by
    log p over the length penalty of Wu et al. (2016, equation 14). A row's search ends
    when no text is open, or when no open one can still be better than the worst of K
    that have ended: its log p only falls, so it is at best that of now over the largest
    penalty.
    """

    count: jax.Array  # [] int32, tokens of the open texts
    token: jax.Array  # [B, K, T]
    log_p: jax.Array  # [B, K] float32; -inf: there is no such text
    ended: Written  # score -inf: there is no such text
    done: jax.Array  # [B] bool
    parent: jax.Array  # [R]: the row that each text continued last
    seen: Any  # [R, V] bool, or None

    @property
    def last(self) -> jax.Array:
        """[R]: the tokens to read next."""
        token_BK = jax.lax.dynamic_index_in_dim(self.token, self.count - 1, 2, False)
        return token_BK.reshape(-1)

    @classmethod
    def start(
        cls, options: Options, vocab: VocabInfo, row_B: jax.Array, seen: Any
    ) -> "Beams":
        """One open text of each row, of which nothing is written."""
        shape = (len(row_B), options.beams)
        none, zero = jnp.full(shape, -jnp.inf), jnp.zeros(shape, jnp.int32)
        token = jnp.full((*shape, options.max_tokens), vocab.pad_id, jnp.int32)
        return cls(
            count=jnp.zeros((), jnp.int32),
            token=token,
            log_p=none.at[:, 0].set(0.0),
            ended=Written(token, zero, none, none, zero > 0),
            done=jnp.zeros(shape[:1], bool),
            parent=jnp.arange(shape[0] * shape[1]),
            seen=seen,
        )

    def extend(
        self, options: Options, vocab: VocabInfo, logits_RV: jax.Array
    ) -> "Beams":
        """The K best continuations of each row by one token."""
        num_rows, count = self.log_p.shape
        log_p_RV = next_log_p(options, vocab, logits_RV, self.seen, self.count)
        log_p_BKV = self.log_p[..., None] + log_p_RV.reshape(num_rows, count, -1)
        log_p_BK, best_BK = jax.lax.top_k(log_p_BKV.reshape(num_rows, -1), count)
        beam_BK, last_BK = best_BK // vocab.size, best_BK % vocab.size
        token = jnp.take_along_axis(self.token, beam_BK[..., None], axis=1)
        token = token.at[:, :, self.count].set(last_BK)
        parent = (jnp.arange(num_rows)[:, None] * count + beam_BK).reshape(-1)
        seen = self.seen
        if seen is not None:
            seen = add_seen(vocab, seen[parent], last_BK.reshape(-1))

        ends = (last_BK == vocab.eos_id) & (log_p_BK > -jnp.inf)
        length = self.count + 1
        score = jnp.where(ends, log_p_BK / length_penalty(options, length), -jnp.inf)
        new = Written(token, jnp.full_like(last_BK, length), log_p_BK, score, ends)
        both = _join(self.ended, new)
        ended = _take(both, jax.lax.top_k(both.score, count)[1])
        log_p_BK = jnp.where(ends, -jnp.inf, log_p_BK)
        limit = length_penalty(options, jnp.float32(options.max_tokens))
        done = ended.score[:, -1] >= jnp.max(log_p_BK, axis=1) / limit
        return Beams(length, token, log_p_BK, ended, done, parent, seen)

    def written(self, options: Options) -> Written:
        """The texts that have ended, then open ones, cut by the limit of length."""
        score = self.log_p / length_penalty(options, self.count)
        length = jnp.full(score.shape, self.count)
        is_open = jnp.zeros(score.shape, bool)
        both = _join(
            self.ended, Written(self.token, length, self.log_p, score, is_open)
        )
        order = jnp.lexsort((-both.score, ~both.ended), axis=1)[:, : score.shape[1]]
        best = _take(both, order)
        return best._replace(length=jnp.where(best.score > -jnp.inf, best.length, 0))


def length_penalty(options: Options, length: jax.Array) -> jax.Array:
    """What log p of texts of this length, eos included, is divided by."""
    return ((5.0 + length) / 6.0) ** options.length_penalty


def _join(first: Written, second: Written) -> Written:
    """The texts of both."""
    pairs = zip(first, second, strict=True)
    return Written(*(jnp.concatenate(pair, axis=1) for pair in pairs))


def _take(texts: Written, index_BK: jax.Array) -> Written:
    """Texts by their index among those of their row."""

    def take(array):
        index = jnp.expand_dims(index_BK, range(2, array.ndim))
        return jnp.take_along_axis(array, index, axis=1)

    return Written(*map(take, texts))
