"""Beam search.

Each step keeps the K best continuations of a row's open texts. Those that end leave the
beam (Sutskever et al. 2014, section 3.2) and compete for the K best finished ones, by
log p over the length penalty of Wu et al. (2016, equation 14). A row's search ends when
no text is open, or when no open one can become better than the worst of K finished
ones: its log p only falls, so its score is at most the current one over the largest
penalty.

With `beam_rule` huggingface a step considers 2 K continuations, or (n + 1) K if n
tokens end a text: those of the first K that end or reach the limit leave, and the best
K others continue. The penalty is a power of the length, and `early_stopping` determines
when a row's search ends (huggingface/transformers, generation/utils.py,
`_beam_search`).
"""

# B batch, K hypotheses of a row, C continuations, R = B x K, T new tokens at most,
# V vocabulary

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import VocabInfo
from research.contract.fields import choice, described, number
from research.generation.samplers import Rows
from research.generation.samplers.shared.left_to_right import LeftToRight
from research.generation.samplers.shared.next_token import History, end_ids, next_log_p
from research.generation.written import Written


class Beams(NamedTuple):
    """The open texts, and the best finished ones."""

    count: jax.Array  # type: ignore[assignment]  # [] int32, tokens of the open texts
    token: jax.Array  # [B, K, T]
    log_p: jax.Array  # [B, K] float32; -inf: there is no such text
    ended: Written  # score -inf: there is no such text
    done: jax.Array  # [B] bool
    parent: jax.Array  # [R]: the row that each text continued last
    history: History | None  # of [R] texts

    @property
    def last(self) -> jax.Array:
        """[R]: the tokens to read next."""
        token_BK = jax.lax.dynamic_index_in_dim(self.token, self.count - 1, 2, False)
        return token_BK.reshape(-1)


@dataclass(frozen=True, kw_only=True)
class Sampler(LeftToRight):
    """Writes `beams` texts of each prompt at once."""

    likeliest = True

    beams: int = described(
        "open texts of beam search",
        number(4, least=1, most=2**10),
        huggingface="num_beams",
    )
    length_penalty: float = described(
        "alpha: rank by log p / ((5 + tokens) / 6) ** alpha (Wu et al. 2016, section "
        "7), with --beam_rule=huggingface by log p / tokens ** alpha; 0: by log p",
        number(0.6, least=0),
        huggingface="length_penalty",
    )
    early_stopping: str = described(
        "with --beam_rule=huggingface, when N beams have ended: heuristic, if the "
        "best open one is worse at its length; first, at once; never, only if none can "
        "become better",
        choice("heuristic", ("heuristic", "first", "never")),
    )
    counted: int = number(0, least=0)  # tokens of the prompt that beam_rule huggingface
    # counts among the new ones

    @classmethod
    def fits(cls, options, *, draws):
        return 2 if not draws and int(options.get("beams", 1)) > 1 else 0

    @property
    def rows_per_prompt(self) -> int:
        return self.beams

    @property
    def penalizes_log_p(self) -> bool:
        return self.beam_rule == "huggingface"

    def length_penalty_of(self, length: jax.Array) -> jax.Array:
        """The divisor of log p for texts of this length, eos included."""
        if self.beam_rule == "huggingface":
            return jnp.float32(length + self.counted) ** self.length_penalty
        return ((5.0 + length) / 6.0) ** self.length_penalty

    def start(self, vocab: VocabInfo, rows: Rows, history: History | None) -> Beams:
        """One open text of each row, of which nothing is written."""
        shape = (len(rows.number), self.beams)
        none, zero = jnp.full(shape, -jnp.inf), jnp.zeros(shape, jnp.int32)
        token = jnp.full((*shape, self.max_tokens), vocab.pad_id, jnp.int32)
        return Beams(
            count=jnp.zeros((), jnp.int32),
            token=token,
            log_p=none.at[:, 0].set(0.0),
            ended=Written(token, zero, none, none, zero > 0),
            done=jnp.zeros(shape[:1], bool),
            parent=jnp.arange(shape[0] * shape[1]),
            history=history,
        )

    def extend(self, vocab: VocabInfo, state: Beams, logits_RV: jax.Array) -> Beams:
        """The K best continuations of each row by one token."""
        num_rows, count = state.log_p.shape
        stays_full = self.beam_rule == "huggingface"
        log_p_RV = next_log_p(self, vocab, logits_RV, state.history, state.count)
        log_p_BKV = state.log_p[..., None] + log_p_RV.reshape(num_rows, count, -1)
        end_V = end_ids(self, vocab)
        size = max(2, 1 + len(end_V)) * count if stays_full else count
        log_p_BC, best_BC = jax.lax.top_k(log_p_BKV.reshape(num_rows, -1), size)
        beam_BC, last_BC = best_BC // vocab.size, best_BC % vocab.size
        token = jnp.take_along_axis(state.token, beam_BC[..., None], axis=1)
        token = token.at[:, :, state.count].set(last_BC)

        ends = jnp.isin(last_BC, np.array(end_V)) & (log_p_BC > -jnp.inf)
        length = state.count + 1
        leaves = counts = ends
        if stays_full:
            leaves = ends | ((length == self.max_tokens) & (log_p_BC > -jnp.inf))
            counts = leaves & (jnp.arange(size) < count)[None] & ~state.done[:, None]
        score = jnp.where(counts, log_p_BC / self.length_penalty_of(length), -jnp.inf)
        new = Written(token, jnp.full_like(last_BC, length), log_p_BC, score, ends)
        both = _join(state.ended, new)
        ended = _take(both, jax.lax.top_k(both.score, count)[1])

        log_p_BK = jnp.where(leaves, -jnp.inf, log_p_BC)
        if stays_full:
            log_p_BK, kept_BK = jax.lax.top_k(log_p_BK, count)
            token = jnp.take_along_axis(token, kept_BK[..., None], axis=1)
            beam_BC, last_BC = (
                jnp.take_along_axis(array, kept_BK, axis=1)
                for array in (beam_BC, last_BC)
            )
        parent = (jnp.arange(num_rows)[:, None] * count + beam_BC).reshape(-1)
        history = state.history
        if history is not None:
            history = jax.tree.map(lambda leaf: leaf[parent], history)
            history = history.add(last_BC.reshape(-1))
        done = state.done | self._is_done(ended, log_p_BK, length)
        return Beams(length, token, log_p_BK, ended, done, parent, history)

    def _is_done(self, ended, log_p_BK, length):
        """[B] bool: whether a row's search ends with open texts of this length."""
        worst_B, best_B = ended.score[:, -1], jnp.max(log_p_BK, axis=1)
        rule = self.early_stopping
        if self.beam_rule == "open":
            rule = "never"
        if rule == "first":
            return worst_B > -jnp.inf
        at = jnp.float32(self.max_tokens) if rule == "never" else length
        return worst_B >= best_B / self.length_penalty_of(at)

    def written(self, state: Beams) -> Written:
        """The texts that have ended, then open ones, cut by the limit of length.

        With `beam_rule` huggingface texts that are cut are among those that have ended.
        """
        best = state.ended
        if self.beam_rule == "open":
            score = state.log_p / self.length_penalty_of(state.count)
            length, is_open = jnp.full(score.shape, state.count), score > jnp.inf
            cut = Written(state.token, length, state.log_p, score, is_open)
            both = _join(state.ended, cut)
            order = jnp.lexsort((-both.score, ~both.ended), axis=1)[:, : score.shape[1]]
            best = _take(both, order)
        return best._replace(length=jnp.where(best.score > -jnp.inf, best.length, 0))


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
