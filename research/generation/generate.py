"""A run's network as a function from prompts to texts."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.distributed import sharding
from research.generation import continuation
from research.generation.decoding import Network, decode
from research.generation.options import METHODS, NO_TOKEN, TOKENS, Options
from research.generation.rows import map_rows
from research.generation.written import Written
from research.objectives.layout.languages import parse_pair
from research.objectives.layout.prompt import Prompt, in_languages, pad_group


class Text(NamedTuple):
    """A new text."""

    tokens: list[int]  # without eos
    log_prob: float  # sum over the new tokens, eos included, after the repetition
    # penalty and before the temperature
    score: float  # of beam search: log_prob over the length penalty; else log_prob
    ended: bool  # by eos; False: by the limit of length


def make_generate(
    objective: Any,
    network: Any,
    params: Any,
    vocab: VocabInfo,
    mesh: Any,
    options: Options,
    *,
    batch: int = 32,
    width: int = 0,
    constants: Mapping[str, Any] = MappingProxyType({}),
    before_batch: Callable[[], None] = lambda: None,
) -> Callable[..., list[list[Text]]]:
    """A function that continues prompts, each by one text or, by beam search, several.

    It takes prompts of token ids without specials and returns by prompt the new texts,
    the best first. What is read before a prompt and after it is the objective's choice;
    of an encoder-decoder the prompt is the encoder's text. A prompt's texts depend
    neither on the other prompts nor on `batch`, samples on its place among the prompts.
    It compiles once for each length of the longest prompt of a call, or for `width`
    alone. Its second argument, if it is given, is a `Sampling` of a row for each
    prompt, and the third their numbers [prompts], on which samples depend.

    Args:
      objective: of the run; one that has `prompt` (lm, dae, bart, unilm, plm, ...),
        or a part that has.
      network: that of the run, unbound.
      params: its parameters, on the mesh.
      mesh: `Program.mesh`.
      batch: prompts that are continued at once.
      width: the length that rows of prompts are padded to; 0: that of the longest.
      constants: arrays on the mesh that `Objective.read_constants` needs.
      before_batch: called before each batch, as often in all processes.

    Raises:
      UserError: as `find_writer`, or the vocabulary lacks a token of `options`; of the
        function: a prompt is empty where it cannot be, texts may exceed the network's
        learned positions, or it lacks the languages of `options`.
    """
    objective = find_writer(objective, options.part)
    _check_tokens(options, vocab.size)

    def run(params, constants, arrays, token_type, appended):
        encoder = arrays["encoder"]
        if encoder is not None:
            encoder = objective.read_constants(encoder, constants)
        call = partial(networks.apply, network, params)
        reader = continuation.Continuation(call, vocab, token_type, appended)
        logits, context = reader.read_prompt(
            arrays["group"], encoder, arrays["end"], options.max_tokens
        )
        steps = Network(
            reader.read_tokens, continuation.repeat_rows, continuation.select_rows
        )
        token_BL, row_B = arrays["group"]["token"], arrays["row"]
        length_B = (arrays["group"]["segment"] > 0).sum(axis=1)
        prompts = token_BL, length_B, row_B
        return decode(
            options, vocab, steps, logits, context, *prompts, arrays["sampling"]
        )

    replicated = sharding.replicated(mesh)
    run = jax.jit(run, static_argnums=4, out_shardings=replicated)

    def generate(prompts, sampling=None, numbers=None):
        if not len(prompts):
            return []
        prompt = objective.prompt(prompts, vocab)
        if options.languages:
            prompt = _in_languages(prompt, options.languages, network.options)
        check_length(network.options.max_positions, prompt, options)
        group = pad_group(prompt.group, width) if width else prompt.group
        arrays = {"group": group, "encoder": prompt.encoder, "end": prompt.end}
        numbers = np.arange(len(prompts)) if numbers is None else numbers
        arrays |= {"row": np.asarray(numbers, np.int32), "sampling": sampling}
        token_type = jax.device_put(np.int32(prompt.token_type), replicated)
        call = lambda rows: run(  # noqa: E731
            params, dict(constants), rows, token_type, prompt.appended
        )
        written = map_rows(
            call, arrays, batch=batch, mesh=mesh, before_batch=before_batch
        )
        return [_texts(Written(*row)) for row in zip(*written, strict=True)]

    return generate


def _texts(row: Written) -> list[Text]:
    """The texts of a row."""
    return [
        Text(token[: length - ended].tolist(), float(log_p), float(score), bool(ended))
        for token, length, log_p, score, ended in zip(*row, strict=True)
        if length
    ]


def check_written(texts: list[Text]) -> None:
    """Raises UserError: none of a prompt's texts has a probability above 0."""
    if all(text.log_prob == -np.inf for text in texts):
        raise UserError(
            "no token may follow the prompt: no_repeat_ngram, min_tokens and suppress "
            "forbid all; change one of them"
        )


def _check_tokens(options: Options, size: int) -> None:
    """Raises UserError: an id that an option names is not below `size`."""
    for name in ("forced_bos", "forced_eos", *TOKENS):
        given = getattr(options, name)
        for token in given if name in TOKENS else (given,):
            if not NO_TOKEN <= token < size:
                raise UserError(
                    f"{name} names token {token}, but the vocabulary has ids from 0 to "
                    f"{size - 1}"
                )


def _in_languages(prompt: Prompt, chosen: str, network: Any) -> Prompt:
    """Raises UserError: there is no decoder, or no embedding of these languages."""
    if prompt.encoder is None:
        raise UserError(
            f"languages is {chosen}, but the network has one stack: languages are of "
            "an encoder and a decoder"
        )
    count, pair = getattr(network, "token_types", 0), parse_pair(chosen)
    if max(pair) >= count:
        known = f"are 0 to {count - 1}" if count else "do not exist"
        raise UserError(
            f"languages is {chosen}, but the network's languages (model.token_types is "
            f"{count}) {known}"
        )
    return in_languages(prompt, *pair)


def positions_needed(prompt: Prompt, options: Options) -> int:
    """Positions that the prompts and their texts have at most, in either stack."""
    last_B = prompt.group["position"][:, -1] + options.max_tokens - 1
    if prompt.end is not None:
        last_B = np.minimum(last_B, prompt.end)
    needed = int(last_B.max()) + 1 + (prompt.appended != "nothing")
    if prompt.encoder is not None:
        needed = max(needed, int(prompt.encoder["position"].max()) + 1)
    return needed


def check_length(max_positions: int | None, prompt: Prompt, options: Options) -> None:
    """Raises UserError: the network has fewer positions, or a text less room."""
    position_B = prompt.group["position"][:, -1]
    if prompt.end is not None:
        room = prompt.end - position_B
        if room.min() < options.min_tokens:
            raise UserError(
                f"min_tokens is {options.min_tokens}, but the masks of a prompt are "
                f"{room.min()}"
            )
    needed = positions_needed(prompt, options)
    if max_positions is not None and needed > max_positions:
        raise UserError(
            f"a prompt of {int(position_B.max()) + 1} tokens (specials included) and "
            f"{options.max_tokens} new ones need {needed} positions, but "
            f"model.max_length is {max_positions}; give a shorter prompt or a smaller "
            "max_tokens"
        )


def find_writer(objective: Any, part: str) -> Any:
    """The objective whose prompts are continued: itself, or one of its parts.

    Args:
      part: its name; "": the only one that writes.

    Raises:
      UserError: the objective writes no text, or not by this part; or several parts do.
    """
    writers = objective.writers
    if part in writers:
        return writers[part]
    if not part and len(writers) == 1:
        return next(iter(writers.values()))
    name = objective.name
    if not writers:
        able = (
            each
            for each in objectives.names()
            if objectives.objective_class(each).prompt is not None
        )
        raise UserError(
            f"objective {name} does not write text; {', '.join(able)} do (masked "
            "models fill in)"
        )
    legal = " or ".join(f"{each}.METHOD" if each else "METHOD" for each in writers)
    raise UserError(
        f"method of objective {name} is {legal}, where METHOD is {', '.join(METHODS)}"
    )
