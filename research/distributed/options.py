"""The config section `mesh`: over how many devices each axis goes."""

from dataclasses import dataclass

from research.contract.fields import number


@dataclass(frozen=True)
class MeshOptions:
    """Sizes of the mesh axes; their product is the number of devices."""

    data: int = number(-1, least=-1)  # -1: the rest
    fsdp: int = number(1, least=-1)
    tensor: int = number(1, least=-1)
