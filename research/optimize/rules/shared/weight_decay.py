"""Decoupled weight decay, and the parameters that it applies to."""

import dataclasses
import re
from typing import Any

import jax
import optax

from research.contract.fields import choice, number
from research.networks.shared.quantized import INPUT_RANGE
from research.networks.transformer import positions, relative_types

BIAS = re.compile(r"(.*_)?bias(_\d+)?")
"""The name of a bias, as in bias, recurrent_bias, and bias_3 of filters of width 3."""


SCALES = ("scale", "log_scale")
"""Scales of norms, and CLIP's of similarities (Radford et al. 2021, section 2.5)."""


@dataclasses.dataclass(frozen=True)
class WeightDecay:
    """The keys of decoupled weight decay (Loshchilov and Hutter 2019)."""

    weight_decay: float = number(0.01, least=0)  # x learning rate x parameter, per step
    decay_params: str = choice("matrices", ("matrices", "query_biases", "all"))  # what
    # decays: no biases and norms; also the queries' biases (XLNet); all (fairseq)

    def add_decay(self) -> optax.GradientTransformation:
        """Adds weight_decay x the parameter to the updates of those that decay."""
        return optax.add_decayed_weights(self.weight_decay, self.decayed)

    def decayed(self, params: Any) -> Any:
        """True for each parameter that decays."""
        return decayed_params(params, self.decay_params)


def decayed_params(params: Any, which: str = "matrices") -> Any:
    """True for each parameter that `weight_decay` applies to.

    - "matrices": matrices and embeddings, but no biases and scales of norms (Devlin et
      al. 2019, the released code).
    - "query_biases": also the biases that relative attention adds to its queries, r_w,
      r_r and r_s (zihangdai/xlnet, model_utils.py, include_in_weight_decay).
    - "all": every parameter (fairseq/optim/adam.py, to which the trainer passes all
      parameters as one group).

    Measured values that are not learned never decay: ranges of quantised inputs.

    The parameters of blocks are stacked over layers, so a bias is recognised by its
    name, not by the number of its dims.
    """
    query_biases = {relative_types.QUERY_BIAS, *positions.query_biases()}

    def is_decayed(path: tuple[jax.tree_util.DictKey, ...], _: jax.Array) -> bool:
        name = str(path[-1].key)
        if which == "query_biases" and name in query_biases:
            return True
        if name == INPUT_RANGE:
            return False
        return which == "all" or not (name in SCALES or BIAS.fullmatch(name))

    return jax.tree_util.tree_map_with_path(is_decayed, params)
