"""Rotary positions: rotates pairs of numbers of queries and keys.

The product of a query and a key then depends on their distance (Su et al. 2021).
"""

# B batch, L length, H heads, K head width

import dataclasses
import math
import numbers
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.errors import UserError
from research.contract.fields import number
from research.networks.shared.positions import rates
from research.networks.transformer import positions


@dataclasses.dataclass(frozen=True)
class Scheme(positions.Scheme):
    """Rotates the first part of each head."""

    rope_theta: float = number(10_000.0, above=0)  # base of the wavelengths
    rope_scaling: list = dataclasses.field(default_factory=list)  # [factor, low, high,
    # length]: wavelengths beyond length / low grow by a factor, those below length /
    # high stay (Llama 3.1, apply_scaling of the released code); []: all stay
    rotary_fraction: float = number(1.0, above=0, most=1)  # first part of a head's
    # width that is rotated (Black et al. 2022, section 2.1.1: 0.25)
    rope_theta_local: float = number(0.0, least=0)  # rope_theta of the layers that have
    # a window; 0: the same

    def check(self, options):
        width = self._width(options)
        if width < 2 or width % 2:
            raise UserError(
                "model.position rotary needs an even width of heads that is rotated, "
                f"at least 2, not {width}"
            )
        if self.rope_theta_local and not options.window:
            raise UserError(
                f"model.rope_theta_local is {self.rope_theta_local}, but there is no "
                "window; set model.window, or model.rope_theta_local=0"
            )
        if not self.rope_scaling:
            return
        values = self.rope_scaling
        is_legal = len(values) == 4 and all(
            isinstance(each, numbers.Real) and not isinstance(each, bool)
            for each in values
        )
        if not is_legal or not (values[0] >= 1 and 0 < values[1] < values[2]):
            raise UserError(
                "model.rope_scaling is [factor, low, high, length] with factor >= 1 "
                f"and 0 < low < high, not {list(values)}"
            )
        if not (values[3] > 0 and math.isfinite(sum(values))):
            raise UserError(
                "model.rope_scaling ends with a length above 0, of finite numbers, "
                f"not {list(values)}"
            )

    def prepare(self, stack, options, inputs):
        return self._angles(options, inputs, self.rope_theta)

    def in_window(self, prepared, options, inputs):
        if not self.rope_theta_local:
            return prepared
        return self._angles(options, inputs, self.rope_theta_local)

    def rotate(self, query_BLHK, key_BMHK, prepared):
        query_BLHK = apply_rotary(query_BLHK, *prepared.query)
        return query_BLHK, apply_rotary(key_BMHK, *prepared.key)

    def _width(self, options):
        return int(options.key_width * self.rotary_fraction)

    def _angles(self, options, inputs, theta):
        width, scaling = self._width(options), self.rope_scaling
        each = inputs.query["position"], inputs.key["position"]
        return positions.Prepared(
            *(rotary_angles(position, width, theta, scaling) for position in each)
        )


def rotary_angles(
    position_BL: jax.Array,
    width: int,
    theta: float = 10_000,
    scaling: Sequence[float] = (),
) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines [B, L, 1, width / 2], as `apply_rotary` takes them.

    Args:
      scaling: of `model.rope_scaling`.
    """
    rate = rates(width, theta)
    if scaling:
        rate = rate * _llama3_factors(rate, *scaling)
    angle_BLK = position_BL.astype(jnp.float32)[..., None] * rate[None, None]
    return jnp.cos(angle_BLK[:, :, None]), jnp.sin(angle_BLK[:, :, None])


def _llama3_factors(
    rate: np.ndarray, factor: float, low: float, high: float, length: float
) -> np.ndarray:
    """The factors of rates.

    They are 1 / factor if fewer than `low` wavelengths fit into the length, 1 if more
    than `high` do, and linear in the number of wavelengths between.
    """
    num_waves = length * rate / (2 * math.pi)
    kept = np.clip((num_waves - low) / (high - low), 0, 1)
    return (kept + (1 - kept) / factor).astype(np.float32)


def apply_rotary(state_BLHK: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Rotates pairs of numbers of a head by their angle.

    The pairs are (k, k + W / 2) of the first W numbers, where W is twice the number of
    angles (Su et al. 2021, section 3.4.2).
    """
    width = cos.shape[-1]
    first, second, rest = jnp.split(
        state_BLHK.astype(jnp.float32), (width, 2 * width), axis=-1
    )
    rotated = (first * cos - second * sin, second * cos + first * sin, rest)
    return jnp.concatenate(rotated, axis=-1).astype(state_BLHK.dtype)
