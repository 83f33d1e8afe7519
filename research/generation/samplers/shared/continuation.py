"""A network as a function from the tokens so far to the logits of the next one."""

# B batch, R rows, L length of the prompts, V vocabulary

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from research.contract.batch import FEATURE, NEVER, VocabInfo, input_names
from research.objectives.layout import seq2seq


class Context(NamedTuple):
    """What a network has read."""

    cache: Any  # `research.networks.shared.protocol.Cache`
    last: dict[str, jax.Array]  # the arrays of each row's last token, [R] each
    end: jax.Array | None  # [R]: the last position of its text; None: any


class Continuation(NamedTuple):
    """A network bound to its parameters, and how its texts continue: see `Prompt`."""

    apply: Callable  # `networks.apply` of the network and its parameters
    vocab: VocabInfo
    token_type: jax.Array | int
    appended: str

    def read_prompt(
        self,
        group: dict,
        encoder: dict | None,
        end: jax.Array | None,
        max_tokens: int,
    ) -> tuple[jax.Array, Context]:
        """Logits [B, V] of the first new token, and the context for the others."""
        num_rows, length = group["token"].shape
        at_B1 = jnp.sum(group["segment"] > 0, axis=1, keepdims=True) - 1
        last = {
            name: jnp.take_along_axis(group[name], at_B1, axis=1)[:, 0]
            for name in input_names(group)
        }

        def read(net):
            encoded = None if encoder is None else seq2seq.encode(net, encoder)
            cache = net.empty_cache(num_rows, length + max_tokens)
            context = Context(cache, last, end)
            return self._read(net, group, at_B1, context, encoded)

        return self.apply(read)

    def read_tokens(
        self, token_R: jax.Array, context: Context
    ) -> tuple[jax.Array, Context]:
        """Logits [R, V] of the token after these."""
        last = self._next(context.last, token_R)
        group = {name: array[:, None] for name, array in last.items()}
        at_R1 = jnp.zeros_like(group["token"])
        context = context._replace(last=last)
        return self.apply(lambda net: self._read(net, group, at_R1, context))

    def _next(self, last: dict, token_R: jax.Array) -> dict:
        """The arrays of tokens that follow."""
        arrays = {name: last[name] + 1 for name in ("position", "rank", "reach")}
        token_type = jnp.full_like(token_R, self.token_type)
        return last | arrays | {"token": token_R, "token_type": token_type}

    def _read(self, net, group, at_R1, context, encoded=None):
        """Reads a group; the logits are of the state at `at_R1`, or of what follows."""
        cache, last, end = context
        length, keys = group["token"].shape[1], {}
        if self.appended != "nothing":
            more = self._next(last, jnp.full_like(last["token"], self.vocab.mask_id))
            if self.appended == "query":
                never = jnp.full_like(more["rank"], NEVER)
                more |= {"rank": never, "reach": more["reach"] - 1}
                keys = {"num_keys": length}
            group = {
                name: jnp.concatenate([group[name], more[name][:, None]], axis=1)
                for name in more
            } | {
                name: jnp.pad(group[name], ((0, 0), (0, 1), (0, 0)))
                for name in group.keys() & {FEATURE}
            }
            at_R1 = jnp.full_like(at_R1, length)
        if encoded is not None:
            keys["encoded"] = encoded
        outputs = net.outputs(group, scored=at_R1, cache=cache, **keys)
        logits_RV = net.readout(outputs.states).logits()[:, 0]
        cache = outputs.cache
        if end is not None:
            is_eos = jnp.arange(logits_RV.shape[1]) == self.vocab.eos_id
            only_eos_V = jnp.where(is_eos, 0.0, -jnp.inf)
            at_end_R1 = (last["position"] >= end)[:, None]
            logits_RV = jnp.where(at_end_R1, only_eos_V[None], logits_RV)
        if self.appended == "mask":
            cache = cache.without_last(1)
        return logits_RV, context._replace(cache=cache)


def repeat_rows(context: Context, count: int) -> Context:
    """A context with each row `count` times in succession."""
    rows = context.last, context.end
    last, end = jax.tree.map(lambda x: jnp.repeat(x, count, axis=0), rows)
    return Context(context.cache.repeat_rows(count), last, end)


def select_rows(context: Context, row_R: jax.Array) -> Context:
    """The context of rows that continue the same prompts as those they replace."""
    return context._replace(cache=context.cache.select_rows(row_R))
