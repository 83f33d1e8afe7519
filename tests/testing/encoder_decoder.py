"""The rows of an encoder-decoder's batch without padding."""

import numpy as np


def encoders_and_targets(batch) -> list[tuple[np.ndarray, np.ndarray]]:
    """The encoder's tokens and the targets of each row."""
    encoder = zip(batch["encoder_token"], batch["encoder_segment"] > 0, strict=True)
    target = zip(batch["target"], batch["weight"] > 0, strict=True)
    return [
        (token[valid], answer[scored])
        for (token, valid), (answer, scored) in zip(encoder, target, strict=True)
    ]


def encoder_and_target_lists(batch) -> list[tuple[list, list]]:
    """The same as lists of token ids."""
    return [(a.tolist(), b.tolist()) for a, b in encoders_and_targets(batch)]
