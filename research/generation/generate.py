"""A run's network as a function from prompts to texts."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from research import models, objectives
from research.batch import VocabInfo
from research.distributed import sharding
from research.errors import UserError
from research.generation import continuation
from research.generation.decoding import Network, decode
from research.generation.options import Options
from research.generation.rows import map_rows
from research.generation.written import Written


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
) -> Callable[[Sequence[Sequence[int]]], list[list[Text]]]:
    """A function that continues prompts, each by one text or, by beam search, several.

    It takes prompts of token ids without specials and returns by prompt the new texts,
    the best first. What is read before a prompt and after it is the objective's choice;
    of an encoder-decoder the prompt is the encoder's text. A prompt's texts depend
    neither on the other prompts nor on `batch`, samples on its place among the prompts.
    It compiles once for each length of the longest prompt of a call.

    Args:
      objective: of the run; one that has `prompt` (lm, dae, bart, unilm, plm, ...).
      network: `objective.network(options, vocab)`.
      params: its parameters, on the mesh.
      mesh: `Program.mesh`.
      batch: prompts that are continued at once.

    Raises:
      UserError: the objective writes no text; of the function: a prompt is empty where
        it cannot be, or texts may exceed the network's learned positions.
    """
    check_generates(objective)

    def run(params, arrays, token_type, appended):
        call = partial(models.apply, network, params)
        reader = continuation.Continuation(call, vocab.mask_id, token_type, appended)
        logits, context = reader.read_prompt(
            arrays["group"], arrays["encoder"], options.max_tokens
        )
        steps = Network(
            reader.read_tokens, continuation.repeat_rows, continuation.select_rows
        )
        token_BL = arrays["group"]["token"]
        return decode(options, vocab, steps, logits, context, token_BL, arrays["row"])

    replicated = sharding.replicated(mesh)
    run = jax.jit(run, static_argnums=(2, 3), out_shardings=replicated)

    def generate(prompts):
        if not len(prompts):
            return []
        prompt = objective.prompt(prompts, vocab)
        _check_length(network.options, prompt, options)
        row = np.arange(len(prompts), dtype=np.int32)
        arrays = {"group": prompt.group, "encoder": prompt.encoder, "row": row}
        call = lambda rows: run(  # noqa: E731
            params, rows, prompt.token_type, prompt.appended
        )
        written = map_rows(call, arrays, batch=batch, mesh=mesh)
        return [_texts(Written(*each)) for each in zip(*written, strict=True)]

    return generate


def _texts(row: Written) -> list[Text]:
    """The texts of a row."""
    return [
        Text(token[: length - ended].tolist(), float(log_p), float(score), bool(ended))
        for token, length, log_p, score, ended in zip(*row, strict=True)
        if length
    ]


def _check_length(model_options: Any, prompt: Any, options: Options) -> None:
    """Raises UserError: there are more positions than a learned table has."""
    length = prompt.group["token"].shape[1]
    needed = length + options.max_tokens - 1 + (prompt.appended != "nothing")
    if model_options.position == "learned" and needed > model_options.max_length:
        raise UserError(
            f"a prompt of {length} tokens (specials included) and {options.max_tokens} "
            f"new ones need {needed} positions, but model.max_length is "
            f"{model_options.max_length}; give a shorter prompt or a smaller max_tokens"
        )


def check_generates(objective: Any) -> None:
    """Raises UserError: the objective writes no text."""
    if hasattr(objective, "prompt"):
        return
    names = objectives.names()
    able = [
        name for name in names if hasattr(objectives.objective_class(name), "prompt")
    ]
    name = type(objective).__module__.rpartition(".")[-1]
    raise UserError(
        f"objective {name} does not write text; {', '.join(able)} do (masked models "
        "fill in)"
    )
