"""A linear-chain conditional random field over the words of rows (Lample et al. 2016).

The score of a row's tags y_1 .. y_n is the sum of their emissions and of transitions
from a start to y_1, between neighbours, and from y_n to an end. log p is the score
minus the log of the sum of exp(score) over all sequences of tags (section 2.2;
glample/tagger, model.py, build). Positions that are not words are skipped: a word's
neighbours are the words before and after it.
"""

# B batch, L length, N tags, M = N + 1: the next tag, or the end

import jax
import jax.numpy as jnp
from jax import lax

IMPOSSIBLE = -1e9
"""The emission of a tag that is excluded."""


def negative_log_likelihood(
    transition: jax.Array, emission: jax.Array, target: jax.Array, is_word: jax.Array
) -> jax.Array:
    """[B] float32: -log p of the targets of each row; 0 without words.

    Args:
      transition: [M, M] float32, from a tag (row N: the start) to the next tag (column
        N: the end).
      emission: [B, L, N] float32, read only at words.
      target: [B, L] int32, a valid tag at every position.
      is_word: [B, L] bool.
    """
    is_target = jax.nn.one_hot(target, emission.shape[-1], dtype=bool)
    of_target = jnp.where(is_target, emission, IMPOSSIBLE)
    all_paths = log_partition(transition, emission, is_word)
    return all_paths - log_partition(transition, of_target, is_word)


def log_partition(
    transition: jax.Array, emission: jax.Array, is_word: jax.Array
) -> jax.Array:
    """[B] float32: log of the sum of exp(score) over all sequences of tags."""

    def step(
        before_BM: jax.Array, inputs: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, None]:
        score_BNM, is_word_B1 = _scores(before_BM, inputs, transition)
        after_BM = jax.nn.logsumexp(score_BNM, axis=1)
        return jnp.where(is_word_B1, after_BM, before_BM), None

    last_BM, _ = lax.scan(step, *_chain(transition, emission, is_word))
    return last_BM[:, -1]


def marginals(
    transition: jax.Array, emission: jax.Array, is_word: jax.Array
) -> jax.Array:
    """[B, L, N] float32: the probability of each tag at words, over all sequences.

    It is the gradient of the log partition with respect to the emissions.
    """

    def total(emission: jax.Array) -> jax.Array:
        return jnp.sum(log_partition(transition, emission, is_word))

    return jax.grad(total)(emission)


def best_tags(
    transition: jax.Array, emission: jax.Array, is_word: jax.Array
) -> jax.Array:
    """[B, L] int32: the sequence of tags with the highest score, at words (Viterbi)."""

    def forward(
        before_BM: jax.Array, inputs: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, jax.Array]:
        score_BNM, is_word_B1 = _scores(before_BM, inputs, transition)
        after_BM = jnp.where(is_word_B1, jnp.max(score_BNM, axis=1), before_BM)
        return after_BM, jnp.argmax(score_BNM, axis=1)

    def backward(
        next_B: jax.Array, inputs: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, jax.Array]:
        tag_BM, is_word_B = inputs
        tag_B = jnp.take_along_axis(tag_BM, next_B[:, None], axis=1)[:, 0]
        return jnp.where(is_word_B, tag_B, next_B), tag_B

    first_BM, inputs = _chain(transition, emission, is_word)
    _, tag_given_next_LBM = lax.scan(forward, first_BM, inputs)
    end_B = jnp.full(len(emission), emission.shape[-1], tag_given_next_LBM.dtype)
    inputs = tag_given_next_LBM, is_word.T
    _, tag_LB = lax.scan(backward, end_B, inputs, reverse=True)
    return tag_LB.T.astype(jnp.int32)


def _chain(
    transition: jax.Array, emission_BLN: jax.Array, is_word_BL: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """The initial value of a scan (the scores of the first tags) and its inputs."""
    first_BM = jnp.tile(transition[-1:], (len(emission_BLN), 1))
    return first_BM, (emission_BLN.swapaxes(0, 1), is_word_BL.T)


def _scores(
    before_BM: jax.Array, inputs: tuple[jax.Array, ...], transition: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The scores [B, N, M] of a tag and the next one, and whether it is a word [B, 1].

    Args:
      before_BM: scores of the preceding tags, with the transition to this tag.
    """
    emission_BN, is_word_B = inputs
    score_BN = before_BM[:, :-1] + emission_BN
    return score_BN[:, :, None] + transition[None, :-1], is_word_B[:, None]
