"""Mixtures of the outputs of layers, by the values of `model.layer_mixing`."""

from typing import NamedTuple


class LayerMixing(NamedTuple):
    """After which sublayers of a block the state is a learned sum of all states."""

    line: str  # what it is, for users
    sublayers: tuple[str, ...] = ()  # "attention", "feedforward"


LAYER_MIXINGS = {
    "none": LayerMixing("the state is that of the last sublayer"),
    "layers": LayerMixing(
        "a sum after each layer (DenseFormer, Pagliardini et al. 2024)",
        ("feedforward",),
    ),
    "sublayers": LayerMixing(
        "a sum after each attention and feed-forward layer (GPT-BERT, Charpentier and "
        "Samuel 2024)",
        ("attention", "feedforward"),
    ),
}
"""The values of `model.layer_mixing`."""
