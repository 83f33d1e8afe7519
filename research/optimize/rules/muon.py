"""Muon (Jordan et al. 2024): orthogonalised momentum for matrices, else AdamW."""

import dataclasses
from functools import partial
from typing import Any

import jax
import numpy as np
import optax

from research import networks
from research.contract.errors import UserError
from research.contract.fields import number
from research.optimize import rules
from research.optimize.rules.shared.adam_moments import AdamMoments
from research.optimize.rules.shared.weight_decay import WeightDecay

DIMS = optax.contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=2)
"""A stack of kernels [layers, input, output]: each layer has its own matrix."""


@dataclasses.dataclass(frozen=True)
class Optimizer(AdamMoments, WeightDecay, rules.Rule):
    """Applies Muon only to the kernels of blocks.

    These are the kernels of attention, feed-forward layers and an LSTM (whose gates are
    one matrix) with its projection.

    Adam updates the embeddings, the output table, heads, biases and norms, with the
    keys of AdamMoments (KellerJordan/Muon, muon.py: only hidden matrices). The momentum
    is Nesterov's with bias correction, as in optax.contrib.muon; five Newton-Schulz
    steps, with the coefficients of the released code, bring its singular values near 1.
    """

    momentum: float = number(0.95, least=0, below=1)  # of Muon's matrices
    update_rms: float = number(0.2, least=0)  # root mean square of a matrix's update,
    # equal to AdamW's, so that one learning rate and weight decay fit both (Liu et al.
    # 2025, arXiv:2502.16982, section 2.2); 0: the update's singular values are near
    # sqrt(max(1, output / input)) instead (the released code)
    adam_rate: float = number(1.0, above=0)  # factor of the learning rate of Adam's
    # parameters, usually below 1 with an update_rms of 0

    def transforms(self) -> list[optax.GradientTransformation]:
        matrices = optax.chain(
            optax.contrib.scale_by_muon(
                beta=self.momentum, weight_dimension_numbers=_dimension_numbers
            ),
            optax.stateless(self._scale_by_shape),
            self.add_decay(),
        )
        rest = optax.chain(
            self.scale_by_adam(), self.add_decay(), optax.scale(self.adam_rate)
        )
        return [optax.partition({"muon": matrices, "adam": rest}, _labels)]

    def _scale_by_shape(self, updates: Any, params: Any) -> Any:
        """Updates x a factor that depends on a matrix's shape, see `update_rms`."""

        def scale(update: jax.Array) -> jax.Array:
            _, size_in, size_out = update.shape
            if self.update_rms:
                return self.update_rms * max(size_in, size_out) ** 0.5 * update
            return max(1.0, size_out / size_in) ** 0.5 * update

        return jax.tree.map(scale, updates)


def _labels(params: Any) -> Any:
    """The optimizer of each parameter: "muon" or "adam".

    Raises:
      UserError: no parameter is a matrix of a block.
    """

    def label(
        path: tuple[jax.tree_util.DictKey, ...],
        depth: int | np.ndarray,
        leaf: jax.Array,
    ) -> str:
        is_matrix = np.ndim(depth) == 1 and leaf.ndim == 3
        is_kernel = path[-1].key.endswith(("kernel", "projection"))
        return "muon" if is_matrix and is_kernel else "adam"

    depths = networks.layer_depths(params)
    labels = jax.tree_util.tree_map_with_path(label, depths, params)
    found = {*jax.tree.leaves(labels)}
    if found == {"adam"}:
        raise UserError(
            "optimizer.name=muon: no matrix of a block learns; choose adamw"
        )
    return labels


_dimension_numbers = partial(jax.tree.map, lambda leaf: DIMS)
