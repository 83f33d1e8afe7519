"""Raw examples without text, and the numbers that rows carry."""

import numpy as np

from research.batch import EVALUATION_STEP, Example

# n rows


def example_ids(number: np.ndarray) -> np.ndarray:
    """[n] int32: the batch's "example" array, the low 31 bits of `number` [n] int64."""
    return (number & np.iinfo(np.int32).max).astype(np.int32)


def empty_examples(num: int, width: int, pad_id: int, tags: bool = False) -> Example:
    """Rows without text, to be filled or to be scored with weight 0."""
    return Example(
        token=np.full((num, width), pad_id, np.int32),
        flags=np.zeros((num, width), np.uint8),
        length=np.zeros(num, np.int32),
        label=np.full(num, -1, np.int32),
        first_length=np.zeros(num, np.int32),
        corpus=np.zeros(num, np.int32),
        step=np.full(num, EVALUATION_STEP, np.int64),
        document=np.full(num, -1, np.int64),
        tag=np.full((num, width * tags), -1, np.int32),
    )
