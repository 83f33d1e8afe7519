"""A batch of an objective, from random tokens and the objective's corruption."""

from typing import Any

import numpy as np

from research.contract.batch import WORD, VocabInfo, empty_examples, example_ids
from research.data import counter_rng
from research.data.read.formats.captioned import IMAGE


def random_batch(
    objective: Any, vocab: VocabInfo, rows: int, length: int
) -> dict[str, np.ndarray]:
    """The arrays of a batch for the network's `length`; all rows are full.

    Each token is a word, and each row a document. Arrays beside the text are empty, but
    for the number of a picture, which is the first.
    """
    text_spec, types = objective.text_spec(length), objective.array_types
    num_tokens, arrays = text_spec.length, dict.fromkeys(text_spec.arrays, np.int32)
    arrays |= {name: types[name].stored for name in arrays.keys() & types.keys()}
    number, shape = np.arange(rows, dtype=np.int64), (rows, num_tokens)
    token = np.random.default_rng(0).choice(vocab.ordinary_ids, shape)
    example = empty_examples(rows, num_tokens, vocab.pad_id, arrays)
    example.token[:], example.flags[:] = token, WORD
    example.length[:] = example.first_length[:] = num_tokens
    example.step[:], example.document[:], example.number[:] = 0, number, number
    if IMAGE in arrays:
        example.arrays[IMAGE][:] = 0
    key = counter_rng.row_key(0, np.zeros_like(number), number)
    batch = objective.corrupt(example, key, vocab, length)
    return batch | {"example": example_ids(number)}
