"""Attention by the interval kernel for NVIDIA's Hopper."""

# B batch, L queries, M keys, H heads, K head width

import jax

from research.contract.errors import UserError
from research.kernels.hopper.attention import (
    BIAS_TILES,
    DTYPES,
    TILES,
    hopper_attention,
)
from research.kernels.plan import Plan, Settings
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.transformer.kernel_attention import (
    IntervalMask,
    Kernel,
    interval_mask,
)
from research.networks.transformer.options import TransformerOptions as Options

HOPPER = "9."
"""Prefix of Hopper's compute capabilities."""


def hopper_mask(inputs: AttentionInputs, *, head_width: int) -> IntervalMask:
    """The mask of all queries and keys, the same in every layer.

    Raises:
      UserError: the kernel does not support this head width or a second interval of
        ranks, or the GPU is not a Hopper.
    """
    if needed := _needed(inputs, head_width):
        raise _refused(needed)
    tiles = TILES[head_width] if inputs.bias_table is None else BIAS_TILES
    return interval_mask(inputs, Kernel(_attend, lambda *_: tiles))


def is_usable(options: Options, inputs: AttentionInputs) -> bool:
    """Whether model.attention "auto" may mean these kernels: what they need is there,
    and so is the GPU, and no other, since they have not run on several."""
    mesh = jax.sharding.get_abstract_mesh()
    return (
        (mesh.empty or mesh.size == 1)
        and hasattr(jax.devices()[0], "compute_capability")
        and options.operand_dtype in DTYPES
        and not options.has_relative_terms
        and not _needed(inputs, options.key_width)
    )


def _needed(inputs: AttentionInputs, head_width: int) -> str:
    """What the kernels need and is not there, else ""."""
    if "reach2" in inputs.query and inputs.pattern == "general":
        return "an objective whose queries have one interval of ranks"
    # The device for which the step is compiled need not be present.
    capability = getattr(jax.devices()[0], "compute_capability", HOPPER)
    if not capability.startswith(HOPPER):
        return f"compute capability 9 (Hopper), not {capability}"
    if head_width not in TILES:
        widths = " or ".join(map(str, TILES))
        return f"heads of width {widths}, not {head_width}"
    return ""


def _attend(
    settings: Settings,
    query_BLHK: jax.Array,
    key_BMHK: jax.Array,
    value_BMHK: jax.Array,
    bias_PH: jax.Array | None,
    plan: Plan,
    seeds_BH: jax.Array | None,
    *relative: jax.Array,
) -> jax.Array:
    """`hopper_attention`.

    Raises:
      UserError: the kernel does not support this dtype, or relative terms, whose
        gradient does not fit into the registers of a warpgroup.
    """
    if relative or query_BLHK.shape[-1] != value_BMHK.shape[-1]:
        keys = "model.position and model.token_type_encoding"
        raise _refused(f"{keys} other than relative")
    if query_BLHK.dtype not in DTYPES:
        raise _refused(f"model.dtype bfloat16, not {query_BLHK.dtype}")
    states = query_BLHK, key_BMHK, value_BMHK
    return hopper_attention(settings, *states, bias_PH, plan, seeds_BH)


def _refused(needed: str) -> UserError:
    return UserError(
        f"model.attention interval on a GPU needs {needed}; set model.attention=dense"
    )
