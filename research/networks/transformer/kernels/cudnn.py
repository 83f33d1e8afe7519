"""cuDNN's kernel on a GPU: no relative terms, T5's bias or dropout of weights."""

from dataclasses import dataclass
from types import MappingProxyType

from research.contract.errors import UserError
from research.networks.transformer import kernels
from research.networks.transformer.library_attention import library_mask


@dataclass(frozen=True)
class Kernel(kernels.Kernel):
    """Supports bfloat16 and, on all GPUs, head widths up to 128 divisible by 8."""

    attention = "library"
    platforms = ("cuda",)
    preference = 1
    products = MappingProxyType(  # jax._src.cudnn.fused_attention_stablehlo
        {
            "dot_product_attention_fwd_wrapper": 2,
            "dot_product_attention_bwd_wrapper": 4,
        }
    )

    def is_usable(self, inputs, head_width, dtype):
        return head_width <= 128 and head_width % 8 == 0 and dtype == "bfloat16"

    def mask(self, inputs, head_width, dtype):
        if dtype != "bfloat16":
            raise UserError(
                f"model.attention library on a GPU has no {dtype}; set "
                "model.dtype=bfloat16 or model.attention=dense"
            )
        return library_mask(inputs, implementation="cudnn")
