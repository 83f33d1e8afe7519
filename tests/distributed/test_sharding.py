"""The mesh: sizes that do not fit are refused, dims not divisible are replicated."""

import jax
import pytest
from jax.sharding import PartitionSpec as P

from research.contract.errors import UserError
from research.distributed import sharding
from research.distributed.options import MeshOptions


def sizes(data=-1, fsdp=1, tensor=1):
    return {"data": data, "fsdp": fsdp, "tensor": tensor}


def test_minus_1_is_the_rest_of_the_devices():
    assert dict(
        sharding.make_mesh(MeshOptions(**sizes(fsdp=2, tensor=2))).shape
    ) == sizes(2, 2, 2)


@pytest.mark.parametrize(
    "wrong",
    [sizes(data=3), sizes(data=0), sizes(data=-2), sizes(fsdp=-1), sizes(fsdp=16)],
)
def test_a_mesh_that_does_not_fit_is_refused_by_name(wrong):
    with pytest.raises(UserError, match=r"mesh\.data="):
        sharding.make_mesh(MeshOptions(**wrong))


def test_a_dim_that_its_axis_does_not_divide_is_replicated():
    mesh = sharding.make_mesh(MeshOptions(**sizes(data=2, fsdp=2, tensor=2)))
    assert sharding.parameter_sharding(P("embed", "heads"), (6, 8), mesh).spec == P(
        "fsdp", "tensor"
    )
    odd = sharding.parameter_sharding(P("embed", "heads"), (6, 3), mesh)
    assert odd.spec == P("fsdp", None)
    axes = {"kernel": P("embed", "heads")}
    shapes = {"kernel": jax.ShapeDtypeStruct((6, 3), "float32")}
    assert sharding.replicated_dims(axes, shapes, mesh) == ["heads (3) over tensor (2)"]


@pytest.mark.parametrize(("batch", "accumulate"), [(12, 1), (16, 4), (0, 1), (8, 0)])
def test_a_batch_that_does_not_divide_is_refused_by_name(batch, accumulate):
    mesh = sharding.make_mesh(MeshOptions(**sizes()))
    with pytest.raises(UserError, match=r"train\.batch"):
        sharding.check_batch_divides(mesh, batch, accumulate)
    sharding.check_batch_divides(mesh, 16, 2)
