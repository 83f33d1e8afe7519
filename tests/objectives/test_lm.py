"""lm: each token is the next one's input."""

import numpy as np
from texts import keys, symbols, texts

from research import objectives


def test_input_is_the_target_one_place_later():
    of = symbols()
    example = texts(16, [16, 9, 1, 0], of)
    batch = objectives.load("lm").corrupt(example, keys(4), of, 16)
    for row, length in enumerate(example.length):
        target = batch["target"][row, :length]
        np.testing.assert_array_equal(target, example.token[row, :length])
        before = [of.bos, *target[:-1]][:length]
        np.testing.assert_array_equal(batch["token"][row, :length], before)
        np.testing.assert_array_equal(batch["weight"][row], np.arange(16) < length)
