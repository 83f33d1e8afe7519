"""A run's network as a function from prompts to texts."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.distributed import sharding
from research.generation.rows import map_rows
from research.generation.samplers import FOLDER, Rows, Sampler, Writer, search
from research.generation.written import Written
from research.predictions import prediction_kind


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
    sampler: Sampler,
    *,
    batch: int = 32,
    width: int = 0,
    constants: Mapping[str, Any] = MappingProxyType({}),
    before_batch: Callable[[], None] = lambda: None,
    shown: str = "",
) -> Callable[..., list[list[Text]]]:
    """A function that continues prompts, each by the texts that a sampler writes.

    It takes prompts of token ids without special tokens and returns the new texts of
    each prompt, best first. The objective decides what is read before and after a
    prompt; for an encoder-decoder the prompt is the encoder's text. A prompt's texts
    depend neither on the other prompts nor on `batch`; samples depend on its index
    among the prompts. It compiles once per length of the longest prompt of a call, or
    only once with `width`. Its optional second argument is a `Sampling` with a row per
    prompt (for a sampler that `serves`), and the third their numbers [prompts], on
    which samples depend.

    Args:
      objective: of the run; one that has `prompt` (lm, dae, bart, unilm, plm, ...),
        or a part that has.
      network: that of the run, unbound.
      params: its parameters, on the mesh.
      mesh: `Program.mesh`.
      batch: number of prompts that are continued together.
      width: the length that rows of prompts are padded to; 0: that of the longest.
      constants: arrays on the mesh that `Objective.read_constants` needs.
      before_batch: called before each batch, equally often in all processes.
      shown: see `map_rows`.

    Raises:
      UserError: as in `find_writer` and `Sampler.check_writer`; from the function: as
        in `Sampler.prepare`.
    """
    objective = find_writer(objective, sampler)
    host = Writer(objective, vocab, network.options)
    sampler.check_writer(host)

    def run(params, constants, rows, layout):
        apply = partial(networks.apply, network, params)
        writer = Writer(objective, vocab, network.options, apply, constants)
        return sampler.write(writer, rows, layout)

    run = jax.jit(run, static_argnums=3, out_shardings=sharding.replicated(mesh))

    def generate(prompts, sampling=None, numbers=None):
        assert sampling is None or sampler.serves, f"{sampler.name} reads no sampling"
        if not len(prompts):
            return []
        arrays, layout = sampler.prepare(host, prompts, width)
        numbers = np.arange(len(prompts)) if numbers is None else numbers
        rows = Rows(arrays, np.asarray(numbers, np.int32), sampling)
        call = lambda rows: run(params, dict(constants), rows, layout)  # noqa: E731
        written = map_rows(
            call,
            rows,
            batch=batch,
            mesh=mesh,
            before_batch=before_batch,
            shown=shown,
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


def check_written(texts: Sequence[Text]) -> None:
    """Raises UserError if no text of a prompt has a probability above 0."""
    if all(text.log_prob == -np.inf for text in texts):
        raise UserError(
            "no token may follow the prompt: no_repeat_ngram, min_tokens and suppress "
            "forbid all; change one of them"
        )


def find_writer(objective: Any, sampler: Sampler) -> Any:
    """The objective whose prompts are continued: itself, or the sampler's part of it.

    Raises:
      UserError: the objective does not write text, or not with this part or in this
        order; or several parts do, and the sampler names none.
    """
    writers, name, part = objective.writers, objective.name, sampler.part
    able = {key: writer for key, writer in writers.items() if sampler.writes(writer)}
    if not part and len(able) == 1:
        return next(iter(able.values()))
    if part in able:
        return able[part]
    if not writers:
        able = (
            each
            for each in objectives.names()
            if objectives.objective_class(each).prompt is not None
        )
        other = "masked models fill in"
        if objective.predicts and prediction_kind(objective.predicts).of_texts:
            other = "palimpsest predict uses this model"
        raise UserError(
            f"objective {name} does not write text; {', '.join(able)} do ({other})"
        )
    if part in writers or not able:
        others = [writers[part]] if part in writers else [*writers.values()]
        orders = " and ".join(sorted({writer.write_order for writer in others}))
        raise UserError(
            f"objective {name} writes in the order {orders}, of methods "
            f"{', '.join(_methods(*others)) or 'none'}, not {sampler.name}"
        )
    legal = " or ".join(f"{each}.METHOD" if each else "METHOD" for each in able)
    methods = ", ".join(_methods(*able.values()))
    raise UserError(f"method of objective {name} is {legal}, where METHOD is {methods}")


def own_method(objective: Any, *, draws: bool = False) -> str:
    """The sampler with which an objective writes if none is named.

    It is greedy (or sample, if `draws`), unless the objective can only write by others:
    then the first of those. `find_writer` refuses it if the objective does not write.
    """
    methods = methods_of(objective)
    return str(search({}, draws=draws, methods=methods)["method"])


def methods_of(objective: Any) -> list[str]:
    """The samplers that write what an objective, or a part of it, has learned."""
    return _methods(*objective.writers.values())


def _methods(*writers: Any) -> list[str]:
    """The samplers that write what one of these objectives has learned."""
    return [
        name
        for name in FOLDER.names()
        if any(map(FOLDER.part_class(name, "method").writes, writers))
    ]
