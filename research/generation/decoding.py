"""The loop that writes token after token, over any function of the tokens so far."""

# B batch, K hypotheses of a row, R = B or B x K rows of the network, L prompt length,
# V vocabulary

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.contract.batch import VocabInfo
from research.generation import beams, texts
from research.generation.next_token import Sampling, begin_history
from research.generation.options import Options
from research.generation.written import Written


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
    length_B: jax.Array,
    row_B: jax.Array,
    sampling: Sampling | None = None,
) -> Written:
    """Continues each row until it ends.

    Args:
      logits_BV: of the first new token.
      context: after the prompt.
      prompt_BL: tokens that penalties look back on, beside new ones.
      length_B: int32, how many of them are tokens; the others are padding.
      row_B: int32, the rows' numbers, on which samples depend.
      sampling: of each row, in place of the options' method, which is then greedy.
    """
    search = beams if options.search == "beam" else texts
    logits_RV, history = logits_BV, begin_history(options, prompt_BL, length_B)
    if options.search == "beam":
        count = options.beams
        logits_RV, history = jax.tree.map(
            lambda x: jnp.repeat(x, count, axis=0), (logits_BV, history)
        )
        context = network.repeat_rows(context, count)
    state = search.start(options, vocab, row_B, history)
    if sampling is not None:
        state = state._replace(sampling=sampling)

    def body(carry):
        state, context = carry
        if options.search == "beam":
            context = network.select_rows(context, state.parent)
        logits_RV, context = network.read_tokens(state.last, context)
        return search.extend(options, vocab, state, logits_RV), context

    def goes_on(carry):
        state, _ = carry
        return (state.count < options.max_tokens) & ~jnp.all(state.done)

    state = search.extend(options, vocab, state, logits_RV)
    state, _ = lax.while_loop(goes_on, body, (state, context))
    return search.written(options, state)
