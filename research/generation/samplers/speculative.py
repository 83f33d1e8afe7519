"""Greedy decoding that verifies tokens which the model itself has drafted.

A model of `multi_token` also predicts further tokens. These are read together with the
next one, and kept if they are the most probable ones, so that the text equals that of
`greedy`, in fewer passes (Stern et al. 2018, blockwise parallel decoding; Gloeckle et
al. 2024, section 4.3).
"""

# B batch, L prompt length, T new tokens at most, D drafts, N = 1 + D tokens of a pass

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research.contract.errors import UserError
from research.contract.fields import described, number
from research.generation import samplers
from research.generation.samplers import Rows, Writer
from research.generation.samplers.shared.invariants import hoist
from research.generation.written import Written
from research.objectives.layout.prompt import pad_group


class Carry(NamedTuple):
    """The texts so far; all rows have as many tokens."""

    count: jax.Array  # [] int32, new tokens
    token: jax.Array  # [B, T + N], room for a pass at the end included
    log_p: jax.Array  # [B, T + N] float32
    next: jax.Array  # [B, N]: the token that follows, and the drafts after it
    next_log_p: jax.Array  # [B], of the former
    done: jax.Array  # [B]
    caches: Any  # of the network and of its further blocks


@dataclass(frozen=True, kw_only=True)
class Sampler(samplers.Sampler):
    """Rows advance together, in each pass by the tokens that are right in all rows."""

    order = "left_to_right"
    likeliest = True

    drafts: int = described(
        "tokens drafted in a pass; 0: all that the model predicts",
        number(0, least=0, most=16),
    )

    @classmethod
    def writes(cls, objective: Any) -> bool:
        return super().writes(objective) and objective.num_drafts > 0

    def check_writer(self, writer: Writer) -> None:
        if self.drafts > (most := writer.objective.num_drafts):
            raise UserError(
                f"drafts is {self.drafts}, but the model predicts {most} tokens after "
                f"the next; give 1 to {most}, or 0 for all"
            )

    def _num_drafts(self, writer: Writer) -> int:
        return self.drafts or writer.objective.num_drafts

    def positions_needed(self, writer: Writer, prompt: Sequence[int]) -> int:
        group = writer.objective.prompt([prompt], writer.vocab).group
        return self._positions(writer, group)

    def _positions(self, writer: Writer, group: Any) -> int:
        longest = int(group["position"].max()) + 1
        return longest + self.max_tokens + self._num_drafts(writer)

    def prepare(
        self, writer: Writer, prompts: Sequence[Sequence[int]], width: int
    ) -> tuple[Any, None]:
        group = writer.objective.prompt(prompts, writer.vocab).group
        needed = self._positions(writer, group)
        most = writer.network.max_positions
        if most is not None and needed > most:
            raise UserError(
                f"a prompt, {self.max_tokens} new tokens and "
                f"{self._num_drafts(writer)} drafts need {needed} positions, but "
                f"model.max_length is {most}; give a shorter prompt or "
                "a smaller max_tokens"
            )
        return pad_group(group, width) if width else group, None

    def write(self, writer: Writer, rows: Rows, layout: None) -> Written:
        group, most = rows.arrays, self.max_tokens
        text = _Text(writer, group, most, self._num_drafts(writer))

        def goes_on(carry: Carry) -> jax.Array:
            return (carry.count < most) & ~jnp.all(carry.done)

        def body(carry: Carry) -> Carry:
            return writer.apply(lambda net: text.go_on(net, carry))

        carry = writer.apply(text.start)
        carry = lax.while_loop(goes_on, hoist(body, carry), carry)
        token_BT, log_p_BT = carry.token[:, :most], carry.log_p[:, :most]
        is_end_BT = token_BT == writer.vocab.eos_id
        is_end_BT &= jnp.arange(most)[None] < carry.count
        ended_B = jnp.any(is_end_BT, axis=1)
        length_B = jnp.where(ended_B, jnp.argmax(is_end_BT, axis=1) + 1, most)
        kept_BT = jnp.arange(most)[None] < length_B[:, None]
        log_p_B = jnp.where(kept_BT, log_p_BT, 0.0).sum(axis=1)
        token_BT = jnp.where(kept_BT, token_BT, writer.vocab.pad_id)
        found = token_BT, length_B, log_p_B, log_p_B, ended_B
        return Written(*(array[:, None] for array in found))


class _Text(NamedTuple):
    """Texts that are written, after the group [B, L] of their prompts."""

    writer: Writer
    group: dict
    max_tokens: int
    num_drafts: int

    def start(self, net: Any) -> Carry:
        """Reads the prompts."""
        num_rows, length = self.group["token"].shape
        num_slots = self.max_tokens + 1 + self.num_drafts
        caches = [net.empty_cache(num_rows, length + num_slots)]
        caches += [
            net.empty_future_cache(num_rows, length + num_slots)
            for _ in range(self.num_drafts)
        ]
        read = _read(self.writer, net, self.group, caches)
        length_B = self._lengths()
        log_p_BV = read.log_p(length_B[:, None] - 1)[:, 0]
        next_B = jnp.argmax(log_p_BV, axis=1).astype(jnp.int32)
        drafts, caches = read.drafts(length_B, next_B)
        return Carry(
            count=jnp.int32(0),
            token=jnp.zeros((num_rows, num_slots), jnp.int32),
            log_p=jnp.zeros((num_rows, num_slots)),
            next=jnp.concatenate([next_B[:, None], drafts], axis=1),
            next_log_p=jnp.max(log_p_BV, axis=1),
            done=jnp.zeros(num_rows, bool),
            caches=caches,
        )

    def go_on(self, net: Any, carry: Carry) -> Carry:
        """Reads the next token and its drafts, and keeps those that are right."""
        num_rows, num_read = carry.next.shape
        group_BN = self._group_after(carry)
        read = _read(self.writer, net, group_BN, carry.caches)
        log_p_BNV = read.log_p(jnp.broadcast_to(jnp.arange(num_read), carry.next.shape))
        best_BN = jnp.argmax(log_p_BNV, axis=2).astype(jnp.int32)
        best_log_p_BN = jnp.max(log_p_BNV, axis=2)
        is_right = carry.next[:, 1:] == best_BN[:, :-1]
        right_B = 1 + jnp.cumprod(is_right, axis=1).sum(axis=1)
        right = jnp.min(jnp.where(carry.done, num_read, right_B))
        next_B = best_BN[:, right - 1]
        drafts, caches = read.drafts(jnp.full(num_rows, right), next_B)
        log_p_BN = jnp.concatenate(
            [carry.next_log_p[:, None], best_log_p_BN[:, :-1]], axis=1
        )
        is_end_BN = carry.next == self.writer.vocab.eos_id
        ends_B = jnp.any(is_end_BN & (jnp.arange(num_read)[None] < right), axis=1)
        put = partial(lax.dynamic_update_slice_in_dim, start_index=carry.count, axis=1)
        return Carry(
            count=carry.count + right,
            token=put(carry.token, carry.next),
            log_p=put(carry.log_p, log_p_BN),
            next=jnp.concatenate([next_B[:, None], drafts], axis=1),
            next_log_p=best_log_p_BN[:, right - 1],
            done=carry.done | ends_B,
            caches=[cache.without_last(num_read - right) for cache in caches],
        )

    def _lengths(self) -> jax.Array:
        """[B], of the prompts."""
        return jnp.sum(self.group["segment"] > 0, axis=1)

    def _group_after(self, carry: Carry) -> dict:
        """The arrays [B, N] of the tokens that follow those written."""
        last_B1 = self._lengths()[:, None] - 1
        last = {
            name: jnp.take_along_axis(array, last_B1, axis=1)
            for name, array in self.group.items()
        }
        group = {
            name: jnp.broadcast_to(array, carry.next.shape)
            for name, array in last.items()
        }
        ahead = 1 + carry.count + jnp.arange(carry.next.shape[1])
        group |= {
            name: last[name] + ahead[None] for name in ("position", "rank", "reach")
        }
        return group | {"token": carry.next}


class _Read(NamedTuple):
    """A group that was read, [B, L], and the network that read it."""

    writer: Writer
    net: Any
    group: dict
    states: jax.Array
    trunk: jax.Array
    caches: list

    def log_p(self, at_BP: jax.Array) -> jax.Array:
        """[B, P, V] of the tokens after these positions; -inf: never written."""
        vocab = self.writer.vocab
        states = jnp.take_along_axis(self.states, at_BP[..., None], axis=1)
        logits = self.net.readout(states).logits()
        never = [vocab.pad_id, vocab.bos_id, vocab.mask_id]
        never_V = np.isin(np.arange(logits.shape[-1]), never)
        return jnp.where(never_V[None, None], -jnp.inf, jax.nn.log_softmax(logits))

    def drafts(self, num_B: jax.Array, next_B: jax.Array) -> tuple[jax.Array, list]:
        """The tokens [B, D] after the next one, and all caches.

        Args:
          num_B: the first so many tokens of the group are right.
          next_B: the token after these.
        """
        here_B1 = num_B[:, None] - 1
        if self.net.future_tokens:
            return self._sequential(here_B1, next_B)
        states, caches = [], [self.caches[0]]
        for block, cache in enumerate(self.caches[1:]):
            outputs = self.net.future_outputs(
                self.group, self.trunk, block, cache, scored=here_B1
            )
            states.append(outputs.states)
            caches.append(outputs.cache)
        return self._most_probable(jnp.concatenate(states, axis=1)), caches

    def _sequential(self, here_B1: jax.Array, next_B: jax.Array) -> tuple:
        """Those of blocks of which each reads the token before, and the last states."""
        row_B, caches, drafts = jnp.arange(len(next_B)), [self.caches[0]], []
        length, last = self.group["token"].shape[1], len(self.caches) - 2
        room = ((0, 0), (0, 1 + len(self.caches)))
        text = jnp.pad(self.group["token"], room)
        text, states = text.at[row_B, 1 + here_B1[:, 0]].set(next_B), self.states
        for block, cache in enumerate(self.caches[1:]):
            group = self.group | {"token": text[:, 1 + block : 1 + block + length]}
            scored = here_B1 if block == last else None  # no block reads the others
            outputs = self.net.future_outputs(
                group, states, block, cache, scored=scored
            )
            here = states = outputs.states
            if scored is None:
                here = jnp.take_along_axis(states, here_B1[..., None], axis=1)
            draft_B = self._most_probable(here)[:, 0]
            text = text.at[row_B, 2 + here_B1[:, 0] + block].set(draft_B)
            drafts.append(draft_B)
            caches.append(outputs.cache)
        return jnp.stack(drafts, axis=1), caches

    def _most_probable(self, states_BPD: jax.Array) -> jax.Array:
        """The tokens [B, P] of states."""
        logits_BPV = self.net.readout(states_BPD).logits()
        return jnp.argmax(logits_BPV, axis=2).astype(jnp.int32)


def _read(writer: Writer, net: Any, group: dict, caches: list) -> _Read:
    found = net.outputs(group, cache=caches[0], with_inputs=True)
    caches = [found.cache, *caches[1:]]
    return _Read(writer, net, group, found.states, found.inputs[-1], caches)
