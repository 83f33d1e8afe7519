"""The interval kernel for one of NVIDIA's Hopper GPUs: no relative terms."""

from dataclasses import dataclass

import jax

from research.contract.errors import UserError
from research.networks.transformer import kernels

HOPPER = "9."
"""Prefix of Hopper's compute capabilities."""


@dataclass(frozen=True)
class Kernel(kernels.Kernel):
    """Supports no relative terms.

    The gradient of a tile of them does not fit into the registers of a warpgroup.
    """

    attention = "interval"
    platforms = ("cuda",)
    features = ("dropout", "bias")
    preference = 2

    def is_usable(self, inputs, head_width, dtype):
        """Whether its requirements are met and there is exactly one GPU, a Hopper.

        It has not been run on several.
        """
        mesh = jax.sharding.get_abstract_mesh()
        return (
            (mesh.empty or mesh.size == 1)
            and hasattr(jax.devices()[0], "compute_capability")
            and not _needed(inputs, head_width, dtype)
        )

    def mask(self, inputs, head_width, dtype):
        from research.kernels.hopper.attention import (
            BIAS_TILES,
            TILES,
            hopper_attention,
        )
        from research.networks.transformer.kernel_attention import (
            Program,
            interval_mask,
        )

        if needed := _needed(inputs, head_width, dtype):
            raise UserError(
                f"model.attention interval on a GPU needs {needed}; set "
                "model.attention=dense"
            )
        tiles = TILES[head_width] if inputs.bias is None else BIAS_TILES
        return interval_mask(inputs, Program(hopper_attention, lambda *_: tiles))


def _needed(inputs: kernels.AttentionInputs, head_width: int, dtype: str) -> str:
    """What the kernel needs but lacks; "": nothing."""
    from research.kernels.hopper.attention import DTYPES, TILES

    if "reach2" in inputs.query and inputs.pattern == "general":
        return "an objective whose queries have one interval of ranks"
    # The device for which the step is compiled need not be present.
    capability = getattr(jax.devices()[0], "compute_capability", HOPPER)
    if not capability.startswith(HOPPER):
        return f"compute capability 9 (Hopper), not {capability}"
    if head_width not in TILES:
        widths = " or ".join(map(str, TILES))
        return f"heads of width {widths}, not {head_width}"
    if dtype not in DTYPES:
        return f"model.dtype bfloat16, not {dtype}"
    return ""
