"""The importance of attention heads, and networks with only the important ones."""

# N layers, H heads, K head width, M heads that stay, D width

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.errors import UserError
from research.networks.shared.quantized import SPLIT
from research.networks.transformer.head_gates import HEAD_GATE
from research.networks.transformer.options import TransformerOptions
from research.program.setup import Program
from research.use.shrinking.gradients import make_gradients

DEFINITIONS = ("gate", "token")
"""Of importance: gate, the absolute derivative of a batch's loss by a head's gate
(huggingface/transformers-research-projects, bertology/run_bertology.py); token, the sum
over tokens of absolute values of its output x gradient (Michel et al. 2019, the
released code: pmichel31415/pytorch-pretrained-BERT, examples/classifier_eval.py). The
paper's equation (2) is the first, of each example in place of a batch."""

ATTENTION = ("stack", "blocks", "attention")
"""Where the parameters of attention are."""


def check_heads(network: networks.Network, params: Any) -> None:
    """Raises UserError: heads of this network cannot be removed."""
    wrong = ""
    if (
        not isinstance(network, TransformerOptions)
        or not network.of_blocks_alone
        or "stack" not in params
    ):
        wrong = "it is no transformer of one stack"
    elif network.num_kv_heads not in (0, network.heads):
        wrong = f"model.num_kv_heads is {network.num_kv_heads}: heads share keys"
    elif network.bias_scheme or {"relative"} & network.logit_features:
        wrong = f"model.position is {network.position}: heads have biases of distances"
    elif network.sublayer_norm:
        wrong = "model.sublayer_norm is true: heads have a norm together"
    elif network.shared_layers:
        wrong = "model.shared_layers is true: layers have the same heads"
    elif network.quantization == SPLIT:
        wrong = "model.quantization is split: remove heads before the split"
    if wrong:
        raise UserError(f"--recipe=heads: {wrong}")


def make_importance(
    program: Program, definition: str, batches: int
) -> Callable[[Any], np.ndarray]:
    """A function from the parameters to the importance [N, H] of heads.

    It has length 1 in each layer, and is measured on the training text.

    Args:
      definition: one of DEFINITIONS.
      batches: the number of batches of the text.
    """
    options = program.network.options
    gates = jnp.ones((options.layers, options.heads, 2), jnp.float32)
    of, gradients = DEFINITIONS.index(definition), make_gradients(program, _with_gates)

    def importance(params: Any) -> np.ndarray:
        measured = gradients(params, gates, batches)
        total = sum(np.abs(found[..., of]) for found in measured)
        return total / (np.linalg.norm(total, axis=1, keepdims=True) + 1e-20)

    return importance


def _with_gates(params: Any, gates: Any) -> Any:
    return replaced(params, ATTENTION, lambda own: own | {HEAD_GATE: gates})


def most_important(importance: np.ndarray, count: int) -> np.ndarray:
    """[N, M]: the heads that each layer keeps, in their order."""
    return np.sort(np.argsort(-importance, axis=1, kind="stable")[:, :count], axis=1)


def keep_heads(params: Any, heads_NM: np.ndarray, key_width: int) -> Any:
    """The parameters, on the host, of a network with only these heads."""
    index = heads_NM[:, :, None] * key_width + np.arange(key_width)
    index = index.reshape(len(heads_NM), -1)

    def keep(own: dict[str, Any]) -> dict[str, Any]:
        kept = dict(own)
        for name in {"query", "key", "value", "gate"} & {*own}:
            kept[name] = {
                leaf: np.take_along_axis(
                    array, index if array.ndim == 2 else index[:, None, :], axis=-1
                )
                for leaf, array in own[name].items()
            }
        kernel = np.take_along_axis(own["out"]["kernel"], index[:, :, None], axis=1)
        kept["out"] = own["out"] | {"kernel": kernel}
        return kept

    return replaced(params, ATTENTION, keep)


def replaced(tree: Any, path: tuple[str, ...], change: Any) -> Any:
    """The tree with its branch at a path changed."""
    if not path:
        return change(tree)
    return tree | {path[0]: replaced(tree[path[0]], path[1:], change)}
