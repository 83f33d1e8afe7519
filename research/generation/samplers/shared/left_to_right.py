"""Samplers that write token after token."""

# B prompts, K texts of a prompt, R = B x K rows of the network, L prompt length,
# V vocabulary

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.contract.fields import (
    choice,
    described,
    free_text,
    number,
    with_metadata,
)
from research.generation import samplers
from research.generation.samplers import Rows, Writer
from research.generation.samplers.shared import continuation
from research.generation.samplers.shared.invariants import hoist
from research.generation.samplers.shared.next_token import NO_TOKEN, begin_history
from research.generation.written import Written
from research.objectives.layout.languages import parse_pair
from research.objectives.layout.prompt import Prompt, in_languages, pad_group

TOKENS = ("ends", "suppress", "begin_suppress")
"""The fields that are tuples of ids."""


class Layout(NamedTuple):
    """How new tokens are read: see `Prompt`."""

    token_type: int
    appended: str


class Network(NamedTuple):
    """A function from the tokens so far to logits, whose `context` is its own."""

    read_tokens: Callable  # (token [R], context) to logits [R, V] and the next context
    repeat_rows: Callable  # (context, K) to a context with each row K times
    select_rows: Callable  # (context, row [R]) to the context of these rows


@dataclass(frozen=True, kw_only=True)
class LeftToRight(samplers.Sampler):
    """The base of samplers that write token after token.

    Padding, bos and mask tokens are never written. The logit of each token that the
    text already has is divided by the repetition penalty if it is positive, and else
    multiplied by it (Keskar et al. 2019, section 4.1, divide all logits, which would
    favour tokens with a negative logit); special tokens are exempt. With beam_rule
    huggingface special tokens are not exempt, and beam search multiplies log p by it,
    so that probabilities no longer sum to 1.
    """

    order = "left_to_right"

    languages: str = described(
        "token types of what an encoder reads and a decoder writes, such as 0:1; '': "
        "as objective.languages says",
        free_text(""),
    )
    min_tokens: int = described(
        "new tokens before a text may end",
        number(0, least=0),
        huggingface="min_new_tokens",
    )
    beam_rule: str = described(
        "open: a text that ends leaves its place in the beam empty; huggingface: the "
        "next best takes it, and penalties are those of transformers",
        choice("open", ("open", "huggingface")),
    )
    repetition_penalty: float = described(
        "factor on logits of tokens that the text has; 1: none",
        number(1.0, above=0),
        huggingface="repetition_penalty",
    )
    no_repeat_ngram: int = described(
        "forbid repeated n-grams of this length; 0: none",
        number(0, least=0),
        huggingface="no_repeat_ngram_size",
    )
    forced_bos: int = described(
        "id of the first new token; -1: any",
        number(NO_TOKEN, least=NO_TOKEN),
        huggingface="forced_bos_token_id",
    )
    forced_eos: int = described(
        "id of the last of --max_tokens; -1: any",
        number(NO_TOKEN, least=NO_TOKEN),
        huggingface="forced_eos_token_id",
    )
    ends: tuple[int, ...] = ()  # tokens of which each ends a text; (): eos
    suppress: tuple[int, ...] = with_metadata(
        field(default=()), huggingface="suppress_tokens"
    )  # tokens that are never written
    begin_suppress: tuple[int, ...] = with_metadata(
        field(default=()), huggingface="begin_suppress_tokens"
    )  # tokens that are not the first

    def __post_init__(self):
        for name in TOKENS:
            object.__setattr__(self, name, tuple(getattr(self, name)))
        super().__post_init__()
        if self.languages:
            parse_pair(self.languages)
        if self.min_tokens >= self.max_tokens:
            raise ValueError(
                f"min_tokens must be below max_tokens ({self.max_tokens}), not "
                f"{self.min_tokens}"
            )

    rows_per_prompt = 1
    penalizes_log_p = False

    @abc.abstractmethod
    def start(self, vocab: VocabInfo, rows: Rows, history: Any) -> Any:
        """The state in which nothing is written.

        It has `count`, tokens so far, `last` [R], the tokens to read next, `done` [B],
        and `parent`, None or the row [R] that each text continued last.
        """

    @abc.abstractmethod
    def extend(self, vocab: VocabInfo, state: Any, logits_RV: jax.Array) -> Any:
        """Appends one token to each text that has not ended."""

    @abc.abstractmethod
    def written(self, state: Any) -> Written:
        """The texts of each row, the best first."""

    def check_writer(self, writer: Writer) -> None:
        size = writer.vocab.size
        for name in ("forced_bos", "forced_eos", *TOKENS):
            value = getattr(self, name)
            for token in value if name in TOKENS else (value,):
                if not NO_TOKEN <= token < size:
                    raise UserError(
                        f"{name} names token {token}, but the vocabulary has ids from "
                        f"0 to {size - 1}"
                    )

    def positions_needed(self, writer: Writer, prompt: Sequence[int]) -> int:
        return self._positions_needed(writer.objective.prompt([prompt], writer.vocab))

    def prepare(
        self, writer: Writer, prompts: Sequence[Sequence[int]], width: int
    ) -> tuple[Any, Layout]:
        prompt = writer.objective.prompt(prompts, writer.vocab)
        if self.languages:
            prompt = _in_languages(prompt, self.languages, writer.network)
        self._check_length(writer.network.max_positions, prompt)
        group = pad_group(prompt.group, width) if width else prompt.group
        arrays = {"group": group, "encoder": prompt.encoder, "end": prompt.end}
        return arrays, Layout(int(prompt.token_type), prompt.appended)

    def write(self, writer: Writer, rows: Rows, layout: Layout) -> Written:
        group, encoder, end = (
            rows.arrays[name] for name in ("group", "encoder", "end")
        )
        if encoder is not None:
            encoder = writer.objective.read_constants(encoder, writer.constants)
        reader = continuation.Continuation(writer.apply, writer.vocab, *layout)
        logits, context = reader.read_prompt(group, encoder, end, self.max_tokens)
        network = Network(
            reader.read_tokens, continuation.repeat_rows, continuation.select_rows
        )
        length_B = (group["segment"] > 0).sum(axis=1)
        prompts = group["token"], length_B
        return self.decode(writer.vocab, network, logits, context, prompts, rows)

    def decode(
        self,
        vocab: VocabInfo,
        network: Network,
        logits_BV: jax.Array,
        context: Any,
        prompts: tuple[jax.Array, jax.Array],
        rows: Rows,
    ) -> Written:
        """Continues each row until it ends.

        Args:
          logits_BV: of the first new token.
          context: after the prompt.
          prompts: tokens [B, L] that penalties apply to, in addition to new ones, and
            how many of them [B] int32 are not padding.
        """
        logits_RV, history = logits_BV, begin_history(self, *prompts)
        if self.rows_per_prompt > 1:
            count = self.rows_per_prompt
            logits_RV, history = jax.tree.map(
                lambda x: jnp.repeat(x, count, axis=0), (logits_BV, history)
            )
            context = network.repeat_rows(context, count)

        def body(carry):
            state, context = carry
            if state.parent is not None:
                context = network.select_rows(context, state.parent)
            logits_RV, context = network.read_tokens(state.last, context)
            return self.extend(vocab, state, logits_RV), context

        def goes_on(carry):
            state, _ = carry
            return (state.count < self.max_tokens) & ~jnp.all(state.done)

        state = self.extend(vocab, self.start(vocab, rows, history), logits_RV)
        carry = state, context
        state, _ = lax.while_loop(goes_on, hoist(body, carry), carry)
        return self.written(state)

    def _positions_needed(self, prompt: Prompt) -> int:
        """Positions that the prompts and their texts have at most, in either stack."""
        last_B = prompt.group["position"][:, -1] + self.max_tokens - 1
        if prompt.end is not None:
            last_B = np.minimum(last_B, prompt.end)
        needed = int(last_B.max()) + 1 + (prompt.appended != "nothing")
        if prompt.encoder is not None:
            needed = max(needed, int(prompt.encoder["position"].max()) + 1)
        return needed

    def _check_length(self, max_positions: int | None, prompt: Prompt) -> None:
        """Raises UserError: the network has fewer positions, or a text less room."""
        position_B = prompt.group["position"][:, -1]
        if prompt.end is not None:
            room = prompt.end - position_B
            if room.min() < self.min_tokens:
                raise UserError(
                    f"min_tokens is {self.min_tokens}, but the masks of a prompt are "
                    f"{room.min()}"
                )
        needed = self._positions_needed(prompt)
        if max_positions is not None and needed > max_positions:
            raise UserError(
                f"a prompt of {int(position_B.max()) + 1} tokens (specials included) "
                f"and {self.max_tokens} new ones need {needed} positions, but "
                f"model.max_length is {max_positions}; give a shorter prompt or a "
                "smaller max_tokens"
            )


def _in_languages(prompt: Prompt, chosen: str, network: Any) -> Prompt:
    """Raises UserError: there is no decoder, or no embedding of these languages."""
    if prompt.encoder is None:
        raise UserError(
            f"languages is {chosen}, but the network has one stack; languages need an "
            "encoder and a decoder"
        )
    count, pair = getattr(network, "token_types", 0), parse_pair(chosen)
    if max(pair) >= count:
        known = f"are 0 to {count - 1}" if count else "do not exist"
        raise UserError(
            f"languages is {chosen}, but the network's languages (model.token_types is "
            f"{count}) {known}"
        )
    return in_languages(prompt, *pair)
