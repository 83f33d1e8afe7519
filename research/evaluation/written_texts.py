"""The texts that a network writes for a task's examples of an evaluation split."""

# N examples, T new tokens

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from research.generation.generate import check_written, make_generate
from research.generation.samplers import make_sampler, search
from research.program.setup import Program


def write_texts(
    program: Program, params: Any, before_batch: Callable[[], None] = lambda: None
) -> dict[str, np.ndarray]:
    """written [N, T] int32: the best text of each example, pad after its end.

    The examples are those of `program.data.eval`, in the order of the text; an example
    without a first part has no text.

    Args:
      before_batch: called before each batch, equally often in all processes.
    """
    objective, vocab = program.objective, program.data.vocab
    options = {"beams": objective.beams, "length_penalty": objective.length_penalty}
    sampler = make_sampler(max_tokens=objective.max_new_tokens, **search(options))
    rows = next(iter(program.abstract_batch.values())).shape[0]
    generate = make_generate(
        objective,
        program.network,
        params,
        vocab,
        program.mesh,
        sampler,
        batch=rows,
        constants=program.constants.arrays,
        before_batch=before_batch,
    )
    written = []
    for prompts in _prompts(program.data):
        for texts in generate(prompts):
            check_written(texts)
            written.append(texts[0].tokens)
    width = max(map(len, written), default=0)
    padded = np.full((len(written), width), vocab.pad_id, np.int32)
    for row, tokens in zip(padded, written, strict=True):
        row[: len(tokens)] = tokens
    return {"written": padded}


def _prompts(data: Any) -> Iterator[list[list[int]]]:
    """The first parts of the examples of each corpus, or of each task."""
    if data.task is not None:
        yield from data.task.prompts()
        return
    for index in data.eval.source.indices:
        size = int(np.max(index.length, initial=1))
        token, _ = index.stream.gather(
            index.start, index.length, size, data.vocab.pad_id
        )
        yield [
            row[:length].tolist()
            for row, length in zip(token, index.length, strict=True)
        ]
