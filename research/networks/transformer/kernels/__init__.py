"""Kernels of attention: each says on which platforms it runs and what it supports.

A module here defines a frozen dataclass `Kernel(kernels.Kernel)` without fields, which
is found by listing the folder. `model.attention` is a kernel's `attention`, which
kernels of several platforms may share. A module imports Pallas, which takes a second,
only when it makes a mask.
"""

import abc
import functools
import types
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import jax

from research.contract.errors import UserError
from research.contract.parts import Folder
from research.networks.shared.dense_attention import AttentionInputs

FOLDER = Folder(
    "research.networks.transformer.kernels", "Kernel", named_by="model.attention"
)

FEATURES = {
    "relative": "relative terms (model.position, model.token_type_encoding)",
    "logits": "logits of positions (model.position, model.position_bias)",
    "distance_dropout": "dropout of distances (model.position_dropout_unit)",
    "dropout": "dropout of attention weights (model.attention_dropout)",
    "bias": "bias of relative positions (model.position, model.position_bias)",
    "clamp_len": "largest distance (objective.eval_clamp_len)",
}
"""What only some kernels support -> its description in errors."""


class Kernel(abc.ABC):
    """The base of all kernels."""

    attention: ClassVar[str]
    """The value of `model.attention` that chooses it."""

    platforms: ClassVar[tuple[str, ...]] = ()
    """Platforms that it is compiled for: cpu, tpu, cuda or rocm; (): every platform."""

    is_interpreted: ClassVar[bool] = False
    """Whether it runs, slowly, on platforms without a kernel of its `attention`."""

    features: ClassVar[tuple[str, ...]] = ()
    """The FEATURES that it supports."""

    preference: ClassVar[int] = 0
    """`model.attention` "auto" is the usable kernel of the platform with the highest
    preference; 0: never."""

    products: ClassVar[Mapping[str, int]] = types.MappingProxyType({})
    """JAX primitive that computes it, whose first operands are queries [B, L, H, K] and
    keys [B, M, H, K] -> number of matrix products that dense attention has instead.
    Without Pallas, whose kernels state their FLOPs in `cost_estimate`."""

    def is_usable(self, inputs: AttentionInputs, head_width: int, dtype: str) -> bool:
        """Whether "auto" may choose this kernel on one of its platforms."""
        return True

    @abc.abstractmethod
    def mask(self, inputs: AttentionInputs, head_width: int, dtype: str) -> Any:
        """The mask of all queries and keys, the same in every layer.

        A mask has `attend` and `at`; `kernel_attention.IntervalMask` documents both.

        Args:
          dtype: of queries, keys and values.

        Raises:
          UserError: the kernel does not support these.
        """


@functools.cache
def all_kernels() -> tuple[Kernel, ...]:
    """The kernels of all modules of this folder, by name."""
    return tuple(FOLDER.part_class(name, "kernel")() for name in FOLDER.names())


@functools.cache
def _products() -> Mapping[str, int]:
    return {k: n for kernel in all_kernels() for k, n in kernel.products.items()}


def num_products(primitive: str) -> int:
    """Matrix products of dense attention that a primitive replaces; 0: none."""
    return _products().get(primitive, 0)


def names(platform: str = "") -> tuple[str, ...]:
    """The values of `model.attention`.

    They are all, or "dense" and those for which a platform has its own kernel.
    """
    has = (k for k in all_kernels() if not platform or platform in k.platforms)
    return tuple(sorted({"dense", *(kernel.attention for kernel in has)}))


def lines() -> dict[str, str]:
    """Value of `model.attention` -> what its kernels are."""
    found = {"auto": "on each platform the fastest that supports what is needed"}
    own = FOLDER.lines()
    for name in FOLDER.names():
        value = FOLDER.part_class(name, "model.attention").attention
        found[value] = "; ".join(filter(None, [found.get(value, ""), own[name]]))
    return dict(sorted(found.items()))


def platform() -> str:
    """The platform of the mesh, whose devices need not be present, else JAX's.

    JAX calls every GPU "gpu"; here AMD's are "rocm" and all others "cuda".
    """
    device = jax.sharding.get_abstract_mesh().abstract_device or jax.devices()[0]
    if device.platform != "gpu":
        return device.platform
    return "rocm" if device.device_kind.startswith(("AMD", "gfx")) else "cuda"


def kernel_for(attention: str, platform: str, *, interpret: bool = True) -> Kernel:
    """The kernel for a value of `model.attention` on a platform.

    Args:
      interpret: whether the kernel may be interpreted there.

    Raises:
      UserError: there is no such kernel.
    """
    of_name = [kernel for kernel in all_kernels() if kernel.attention == attention]
    compiled = [kernel for kernel in of_name if platform in kernel.platforms]
    others = [k for k in of_name if not k.platforms or k.is_interpreted * interpret]
    if found := compiled or others:
        return found[0]
    runs_on = " or ".join(sorted({p for kernel in of_name for p in kernel.platforms}))
    raise UserError(
        f"model.attention {attention} runs on {runs_on}, not {platform}; set "
        "model.attention=dense"
    )


def choose_kernel(options: Any, inputs: AttentionInputs) -> Kernel:
    """The kernel of the platform; for "auto" a usable one, else "dense".

    Args:
      options: `TransformerOptions`, whose `attention` is the name.

    Raises:
      UserError: the platform has none of this name, or it lacks a feature.
    """
    here, features = platform(), [*options.attention_features]
    if inputs.clamp_len:
        features.append("clamp_len")
    if options.attention != "auto":
        kernel = kernel_for(options.attention, here)
        check_features(options.attention, features, [kernel], f" on {here}")
        return kernel
    usable = [
        kernel
        for kernel in all_kernels()
        if kernel.preference and here in kernel.platforms
        if not {*features} - {*kernel.features}
        if kernel.is_usable(inputs, options.key_width, options.operand_dtype)
    ]
    dense = kernel_for("dense", here)
    return max(usable, key=lambda kernel: kernel.preference, default=dense)


def check_features(
    attention: str,
    features: Collection[str],
    kernels: Collection[Kernel] | None = None,
    where: str = "",
) -> None:
    """Checks that one of the kernels, by default all of a name, supports the features.

    Raises:
      UserError: none does.
    """
    if kernels is None:
        kernels = [kernel for kernel in all_kernels() if kernel.attention == attention]
    supported = {name for kernel in kernels for name in kernel.features}
    for name in FEATURES:
        if name in features and name not in supported:
            raise UserError(
                f"model.attention {attention}{where} has no {FEATURES[name]}; set "
                "model.attention=dense"
            )
