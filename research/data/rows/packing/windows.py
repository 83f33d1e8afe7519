"""Windows over texts, at a stride."""

# N texts

import numpy as np


def windows(begin: np.ndarray, end: np.ndarray, room: np.ndarray, stride: int):
    """Windows over the texts from `begin` to `end` [N], of `room` [N] tokens each.

    Returns:
      for each window: its text, where it begins, and its number of tokens; only the
      last window of a text reaches its end.
    """
    step = np.minimum(stride, room)
    count = 1 + -(-np.maximum(end - begin - room, 0) // step)
    text = np.repeat(np.arange(len(begin)), count)
    nth = np.arange(len(text)) - np.repeat(np.cumsum(count) - count, count)
    first = begin[text] + nth * step[text]
    return text, first, np.minimum(room[text], end[text] - first)
