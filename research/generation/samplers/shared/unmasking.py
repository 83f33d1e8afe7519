"""Samplers that begin with masks, and write their tokens in any order."""

# B batch, L length of a row, K masks of a row, S positions of a block, V vocabulary

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.contract.fields import described, number
from research.generation import samplers
from research.generation.samplers import Rows, Writer
from research.generation.samplers.sample import Sampling
from research.generation.samplers.shared.draws import (
    DrawOptions,
    cut_nucleus,
    cut_tail,
    warm,
)
from research.generation.written import Written
from research.objectives.layout import input_format
from research.objectives.layout.prompt import pad_rows


class Layout(NamedTuple):
    """What a compiled function depends on beside the shapes of its arrays."""

    block_size: int  # of the network's blocks; 0: all positions attend to each other
    num_blocks: int  # of those, that masks are in
    may_end: bool  # eos may be written


class Text(NamedTuple):
    """The rows so far."""

    token: jax.Array  # [B, L]
    log_p: jax.Array  # [B, L] float32, of the tokens when they were written


@dataclass(frozen=True, kw_only=True)
class Unmasking(DrawOptions, samplers.Sampler):
    """The base of samplers that fill in masks.

    A prompt is followed by `max_tokens` masks, and its new text ends before the first
    eos; in a prompt that has masks, only these are filled in. If the network reads
    blocks (`Prompt.block_size`), these are written from left to right, each after the
    clean ones before it, whose keys and values are cached. Padding, bos and mask tokens
    are never written, nor eos if a row ends with it.
    """

    order = "masks"

    serves = 1

    block_size: int = described(
        "masks that are written before later ones; 0: all at once, or the blocks that "
        "the network reads",
        number(0, least=0),
    )
    temperature: float = described(
        "logits are divided by it; 0: the most probable token", number(1.0, least=0)
    )

    @abc.abstractmethod
    def num_steps(self, size: int, fraction: float) -> int:
        """Number of steps in which a block of at most `size` masks is written.

        Args:
          fraction: of `max_tokens` in the block, at most 1.
        """

    @abc.abstractmethod
    def plan(self, masked_BS: jax.Array, draw_BS: jax.Array, num_steps: int) -> Any:
        """What the steps of a block depend on.

        Args:
          draw_BS: uniform in [0, 1).
        """

    @abc.abstractmethod
    def due(
        self, plan: Any, step: jax.Array, masked_BS: jax.Array, log_p_BS: jax.Array
    ) -> jax.Array:
        """[B, S] bool: the masks that are written in a step.

        Args:
          masked_BS: masks that are left.
          log_p_BS: of the tokens drawn for them, at temperature 1.
        """

    reads_log_p = True
    """Whether `due` depends on log p; False: a step in which none is due is skipped."""

    def check_writer(self, writer: Writer) -> None:
        block_size = _block_size(writer)
        if block_size and self.block_size not in (0, block_size):
            raise UserError(
                f"block_size must be 0 or {block_size}, of the blocks that the network "
                f"reads, got {self.block_size}"
            )

    def positions_needed(self, writer: Writer, prompt: Sequence[int]) -> int:
        return len(self._row(writer, prompt))

    def _row(self, writer: Writer, prompt: Sequence[int]) -> list[int]:
        """A prompt with special tokens, and masks after it if it has none."""
        before, after, *_ = writer.objective.specials(writer.vocab)
        mask_id = writer.vocab.mask_id
        num_masks = 0 if mask_id in prompt else self.max_tokens
        return [*before, *prompt, *[mask_id] * num_masks, *after]

    def prepare(
        self, writer: Writer, prompts: Sequence[Sequence[int]], width: int
    ) -> tuple[Any, Layout]:
        vocab, block_size = writer.vocab, _block_size(writer)
        _, after, token_type, *_ = writer.objective.specials(vocab)
        filled = np.array([vocab.mask_id in prompt for prompt in prompts])
        rows = [self._row(writer, prompt) for prompt in prompts]
        _check_lengths(rows, writer.network.max_positions, self.max_tokens)
        token, length = pad_rows(rows, vocab.pad_id)
        more = max(0, width and width + self.max_tokens + len(after) - token.shape[1])
        more += -(token.shape[1] + more) % max(1, block_size)
        token = np.pad(token, ((0, 0), (0, more)), constant_values=vocab.pad_id)
        found = [np.flatnonzero(row == vocab.mask_id) for row in token]
        at, count = pad_rows(found, 0)
        group = input_format.full_input(token, length)
        group["token_type"] = token_type * group["segment"]
        arrays = {"group": group, "at": at.astype(np.int32), "count": count}
        num_blocks = 0
        if block_size:
            arrays["first_block"] = np.array([each[0] for each in found]) // block_size
            last = np.array([each[-1] for each in found]) // block_size
            num_blocks = int((last - arrays["first_block"]).max()) + 1
        arrays = jax.tree.map(lambda array: array.astype(np.int32), arrays)
        arrays["filled"] = filled
        return arrays, Layout(block_size, num_blocks, may_end=not after)

    def write(self, writer: Writer, rows: Rows, layout: Layout) -> Written:
        arrays = rows.arrays
        token = arrays["group"]["token"]
        text = Text(token, jnp.zeros(token.shape, jnp.float32))
        run = self._write_blocks if layout.block_size else self._write_rows
        text = run(writer, rows, layout, text)
        return _written(writer.vocab, arrays, layout, text)

    def _write_rows(
        self, writer: Writer, rows: Rows, layout: Layout, text: Text
    ) -> Text:
        """The texts of a network all of whose positions attend to each other."""
        arrays, total = rows.arrays, rows.arrays["at"].shape[1]
        size = min(self.block_size or total, total)
        at_BK = jnp.pad(arrays["at"], ((0, 0), (0, -total % size)))

        def logits_of(token_BL, at_BS):
            def read(net):
                net = writer.objective.token_predictor(net)
                group = arrays["group"] | {"token": token_BL}
                group = writer.objective.read_constants(group, writer.constants)
                return net.readout(net.states(group, scored=at_BS)).logits()

            return writer.apply(read)

        def body(carry):
            block, text = carry
            first = block * size
            at_BS = lax.dynamic_slice_in_dim(at_BK, first, size, 1)
            is_mask_BS = first + jnp.arange(size)[None] < arrays["count"][:, None]
            predict = lambda text: logits_of(text.token, at_BS)  # noqa: E731
            steps = self.num_steps(size, self._fraction(self.block_size))
            text = self._unmask(
                writer, rows, layout, predict, text, at_BS, is_mask_BS, block, steps
            )
            return block + 1, text

        def goes_on(carry):
            block, text = carry
            ended_B = _ends(writer.vocab, arrays, layout, text.token, block * size)[1]
            return (block * size < total) & ~jnp.all(ended_B)

        return lax.while_loop(goes_on, body, (jnp.int32(0), text))[1]

    def _write_blocks(
        self, writer: Writer, rows: Rows, layout: Layout, text: Text
    ) -> Text:
        """The texts of a network whose blocks attend to themselves and earlier ones.

        The cache has the clean blocks before those with masks, then each block that is
        written.
        """
        arrays, size = rows.arrays, layout.block_size
        group = arrays["group"]
        num_rows, length = group["token"].shape

        def in_blocks(group, is_valid):
            block = group["position"] // size
            valid = is_valid & (group["segment"] > 0)
            return group | {"segment": valid * 1, "rank": block, "reach": block}

        def block_of(token_BL, block):
            at_BS = (arrays["first_block"] + block)[:, None] * size
            at_BS = at_BS + jnp.arange(size)[None]
            inside_BS = at_BS < length
            at_BS = jnp.minimum(at_BS, length - 1)
            taken = {
                name: jnp.take_along_axis(array, at_BS, axis=1)
                for name, array in (group | {"token": token_BL}).items()
            }
            return at_BS, in_blocks(taken, inside_BS)

        def read(cache, group):
            def run(net):
                net = writer.objective.token_predictor(net)
                outputs = net.outputs(group, cache=cache)
                return net.readout(outputs.states).logits(), outputs.cache

            return writer.apply(run)

        def start(net):
            net = writer.objective.token_predictor(net)
            cache = net.empty_cache(num_rows, length + layout.num_blocks * size)
            is_clean = group["position"] // size < arrays["first_block"][:, None]
            first = jnp.zeros((num_rows, 1), jnp.int32)
            clean = in_blocks(group, is_clean)
            return net.outputs(clean, scored=first, cache=cache).cache

        def body(carry):
            block, text, cache = carry
            at_BS, block_group = block_of(text.token, block)
            is_mask_BS = block_group["token"] == writer.vocab.mask_id
            is_mask_BS &= block_group["segment"] > 0

            def predict(text):
                token_BS = jnp.take_along_axis(text.token, at_BS, axis=1)
                return read(cache, block_group | {"token": token_BS})[0]

            steps = self.num_steps(size, self._fraction(size))
            text = self._unmask(
                writer, rows, layout, predict, text, at_BS, is_mask_BS, block, steps
            )
            cache = read(cache, block_of(text.token, block)[1])[1]
            return block + 1, text, cache

        def goes_on(carry):
            block, text, _ = carry
            known_B = (arrays["first_block"] + block) * size
            num_known_B = (arrays["at"] < known_B[:, None]).sum(axis=1)
            ended_B = _ends(writer.vocab, arrays, layout, text.token, num_known_B)[1]
            return (block < layout.num_blocks) & ~jnp.all(ended_B)

        carry = jnp.int32(0), text, writer.apply(start)
        return lax.while_loop(goes_on, body, carry)[1]

    def _fraction(self, block_size: int) -> float:
        """The fraction of `max_tokens` in a block, at most 1; of block_size 0: 1.

        The masks of a batch do not matter, so that a row does not depend on others.
        """
        return min(1.0, (block_size or self.max_tokens) / self.max_tokens)

    def _unmask(
        self,
        writer: Writer,
        rows: Rows,
        layout: Layout,
        predict: Callable[[Text], jax.Array],
        text: Text,
        at_BS: jax.Array,
        is_mask_BS: jax.Array,
        block: jax.Array,
        num_steps: int,
    ) -> Text:
        """The text with the masks of a block written.

        Args:
          predict: a function from the text to logits [B, S, V].
          at_BS: positions of the block, of which those of `is_mask_BS` are masks.
        """
        forbidden_V = _forbidden(writer.vocab, layout)

        seed_B = jnp.full_like(rows.number, self.seed)
        if rows.sampling is not None:
            seed_B = rows.sampling.seed

        def by_row(draw, role):
            """`draw` of the key of each row, block and role."""

            def of_row(seed, number):
                key = jax.random.fold_in(jax.random.key(seed), number)
                return draw(jax.random.fold_in(jax.random.fold_in(key, block), role))

            return jax.vmap(of_row)(seed_B, rows.number)

        draw_BS = by_row(lambda key: jax.random.uniform(key, at_BS.shape[1:]), 0)
        plan = self.plan(is_mask_BS, draw_BS, num_steps)

        def run(step, carry):
            text, masked_BS = carry
            log_p_BSV = jax.nn.log_softmax(
                jnp.where(forbidden_V[None, None], -jnp.inf, predict(text)), axis=-1
            )
            shape = log_p_BSV.shape[1:]
            noise_BSV = by_row(
                lambda key: jax.random.gumbel(key, shape, mode="high"), 1 + step
            )
            token_BS = self._draw(log_p_BSV, noise_BSV, rows.sampling)
            log_p_BS = jnp.take_along_axis(log_p_BSV, token_BS[..., None], 2)[..., 0]
            due_BS = self.due(plan, step, masked_BS, log_p_BS) & masked_BS
            row_B1 = jnp.arange(len(at_BS))[:, None]
            at = jnp.where(due_BS, at_BS, text.token.shape[1])  # others are dropped
            token_BL = text.token.at[row_B1, at].set(token_BS, mode="drop")
            log_p_BL = text.log_p.at[row_B1, at].set(log_p_BS, mode="drop")
            return Text(token_BL, log_p_BL), masked_BS & ~due_BS

        def body(step, carry):
            if self.reads_log_p:
                return run(step, carry)
            due_BS = self.due(plan, step, carry[1], jnp.zeros_like(draw_BS))
            anything = jnp.any(due_BS & carry[1])
            return lax.cond(anything, run, lambda step, carry: carry, step, carry)

        return lax.fori_loop(0, num_steps, body, (text, is_mask_BS))[0]

    def _draw(
        self, log_p_BSV: jax.Array, noise_BSV: jax.Array, sampling: Sampling | None
    ) -> jax.Array:
        """[B, S] int32: the most probable tokens, or samples by Gumbel noise."""
        shape = log_p_BSV.shape
        log_p_RV, noise_RV = (
            array.reshape(-1, shape[-1]) for array in (log_p_BSV, noise_BSV)
        )
        if sampling is not None:
            temperature_R1, top_p_R1 = (
                jnp.repeat(array, shape[1])[:, None]
                for array in (sampling.temperature, sampling.top_p)
            )
            warm_RV = warm(log_p_RV, jnp.where(temperature_R1 > 0, temperature_R1, 1.0))
            noisy_RV = cut_nucleus(warm_RV, top_p_R1) + noise_RV
            chosen_RV = jnp.where(temperature_R1 > 0, noisy_RV, log_p_RV)
        elif self.temperature:
            kept_RV = cut_tail(warm(log_p_RV, self.temperature), self.top_k, self.top_p)
            chosen_RV = kept_RV + noise_RV
        else:
            chosen_RV = log_p_RV
        token_R = jnp.argmax(chosen_RV, axis=-1).astype(jnp.int32)
        return token_R.reshape(shape[:2])


def _block_size(writer: Writer) -> int:
    """Positions of the blocks that the network reads; 0: it reads whole rows."""
    return writer.objective.prompt([[]], writer.vocab).block_size


def _forbidden(vocab: VocabInfo, layout: Layout) -> np.ndarray:
    """[V] bool: tokens that are never written."""
    never = [vocab.pad_id, vocab.bos_id, vocab.mask_id]
    never += [] if layout.may_end else [vocab.eos_id]
    return np.isin(np.arange(vocab.size), never)


def _ends(
    vocab: VocabInfo, arrays: Any, layout: Layout, token_BL: jax.Array, num_known: Any
) -> tuple[jax.Array, jax.Array]:
    """[B]: tokens of each new text, eos included, and whether it ends with eos.

    Args:
      num_known: [] or [B], the first so many masks are written.
    """
    count_B = arrays["count"]
    if not layout.may_end:
        return count_B, jnp.zeros(len(count_B), bool)
    token_BK = jnp.take_along_axis(token_BL, arrays["at"], axis=1)
    index_K = jnp.arange(token_BK.shape[1])
    known_B = jnp.minimum(count_B, num_known)
    is_end_BK = (token_BK == vocab.eos_id) & (index_K[None] < known_B[:, None])
    ended_B = jnp.any(is_end_BK, axis=1) & ~arrays["filled"]
    return jnp.where(ended_B, jnp.argmax(is_end_BK, axis=1) + 1, count_B), ended_B


def _written(vocab: VocabInfo, arrays: Any, layout: Layout, text: Text) -> Written:
    """The tokens in the places of the masks."""
    token_BK = jnp.take_along_axis(text.token, arrays["at"], axis=1)
    length_B, ended_B = _ends(vocab, arrays, layout, text.token, token_BK.shape[1])
    kept = jnp.arange(token_BK.shape[1])[None] < length_B[:, None]
    token_BK = jnp.where(kept, token_BK, vocab.pad_id)
    log_p_BK = jnp.take_along_axis(text.log_p, arrays["at"], axis=1)
    log_p_B = jnp.where(kept, log_p_BK, 0.0).sum(axis=1)
    found = token_BK, length_B, log_p_B, log_p_B, ended_B
    return Written(*(array[:, None] for array in found))


def _check_lengths(
    rows: Sequence[Sequence[int]], most: int | None, max_tokens: int
) -> None:
    """Raises UserError: the network has fewer positions than a row."""
    longest = max(map(len, rows))
    if most is not None and longest > most:
        raise UserError(
            f"a prompt with max_tokens={max_tokens} new ones and specials needs "
            f"{longest} positions, but model.max_length is {most}; give a shorter "
            "prompt or a smaller max_tokens"
        )
