"""Collectives of compiled steps are counted with the trips of their loops."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from launch.measure.hlo_collectives import Collective, count_collectives
from launch.measure.hlo_text import parse


def count(hlo):
    return count_collectives(parse(hlo))


def test_a_collective_in_a_loop_is_counted_once_for_each_iteration():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("x"))

    def looped(x, w):
        def body(y, _):
            return jnp.tanh(w.T @ (w @ y)), None

        return jax.lax.scan(body, x, None, length=7)[0]

    shapes = (
        jax.ShapeDtypeStruct((32, 4), jnp.float32),
        jax.ShapeDtypeStruct((64, 32), jnp.float32, sharding=rows),
    )
    found = count(jax.jit(looped).lower(*shapes).compile().as_text())
    size = 32 * 4 * 4
    expected = Collective(7, 7 * size, 7 * size * 2 * 7 / 8)
    assert found == {"all-reduce": expected}


HLO = """
HloModule step

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %s = f32[] add(%a, %b)
}

%all-reduce-scatter.8.clone.1 (p: bf16[8,4]) -> bf16[2,4] {
  %r = bf16[8,4]{1,0} all-reduce(%p), to_apply=%add
  ROOT %d = bf16[2,4]{1,0} dynamic-slice(%r, %c)
}

%begins (p: bf16[2]) -> bf16[4] {
  %all-gather.1 = bf16[4]{0} all-gather(%p), channel_id=5, dimensions={0}
}

%ends (p: bf16[2]) -> bf16[4] {
  %all-gather.2 = bf16[4]{0} all-gather(%p), channel_id=5, dimensions={0}
}

%more (t: (s32[], bf16[2])) -> pred[] {
  %five = s32[]{:T(128)} constant(5)
  ROOT %lt = pred[]{:T(512)} compare(%i, %five), direction=LT
}

%again (t: (s32[], bf16[2])) -> (s32[], bf16[2]) {
  %x = bf16[4]{0} fusion(%y), kind=kCustom, calls=%begins
  %z = bf16[4]{0} fusion(%x), kind=kCustom, calls=%ends
  %s = (s32[2]{0}, s32[3]{0}) all-to-all(%u, %v), channel_id=1, dimensions={0}
  %t = (s32[2]{0}, s32[3]{0}) all-to-all(%u, %v), channel_id=1, dimensions={0}
  %all-reduce-scatter.9 = bf16[2]{0} fusion(%y), kind=kCustom, calls=%ends.1
  %o = bf16[2]{0} fusion(%all-reduce-scatter.9), kind=kLoop, calls=%ends.2
}

%body (t: (s32[], bf16[8,4])) -> (s32[], bf16[8,4]) {
  %fusion.46 = bf16[2,4]{1,0} fusion(%x), kind=kCustom, \
calls=%all-reduce-scatter.8.clone.1, metadata={}
  ROOT %g = (bf16[2,4]{1,0}, bf16[8,4]{1,0}) all-gather-start(%y), dimensions={0}
}

ENTRY %main (p: bf16[8,4]) -> bf16[8,4] {
  %w = (s32[], bf16[8,4]{1,0}) while(%t), condition=%c, body=%body, \
backend_config={"known_trip_count":{"n":"12"},"known_init_step":{"init":"0"}}
  %n = (s32[], bf16[2]{0}) while(%t), condition=%more, body=%again, metadata={}
  %k = (f32[2]{0}, f32[]) all-reduce(%u, %v), to_apply=%add
  ROOT %e = bf16[8,4]{1,0} copy(%w)
}
"""


def test_the_hlo_of_a_tpu_is_parsed():
    found = count(HLO)
    assert found["reduce-scatter"][:2] == (12 + 5, 12 * 2 * 4 * 2 + 5 * 2 * 2)
    assert found["all-gather"][:2] == (12 + 5, 12 * 8 * 4 * 2 + 5 * 4 * 2)
    assert found["all-to-all"][:2] == (10, 5 * 2 * 20)
    assert found["all-reduce"][:2] == (1, 12)


GROUPS = """
HloModule jit_step, is_scheduled=true, num_partitions=8

%all-reduce-scatter.1 (p: bf16[8]) -> bf16[2] {
  %p = bf16[8]{0} parameter(0)
  %r = bf16[8]{0} all-reduce(%p), replica_groups=[2,4]<=[8], to_apply=%add
  ROOT %d = bf16[2]{0} dynamic-slice(%r, %c), dynamic_slice_sizes={2}
}

ENTRY %main (p: bf16[8]) -> bf16[8] {
  %p = bf16[8]{0} parameter(0)
  %all = f32[100]{0} all-reduce(%x), replica_groups={}, to_apply=%add
  %pairs = f32[100]{0} all-reduce(%x), replica_groups={{0,1},{2,3},{4,5},{6,7}}
  %axes = f32[100]{0} all-gather(%x), replica_groups=mesh['a'=2,'b'=4], \
device_ids=([4,2]T(1,0)) {'b'}, dimensions={0}
  %part = f32[100]{0} all-to-all(%x), replica_groups=mesh['a'=2,'b'=4] {'a','b':(1)2}
  %one = (f32[100]{0}, f32[100]{0}, u32[], u32[]) collective-permute-start(%x), \
source_target_pairs={{0,1},{1,0}}
  ROOT %s = bf16[2]{0} fusion(%p), kind=kCustom, calls=%all-reduce-scatter.1
}
"""


def test_what_a_device_sends_follows_from_the_size_of_its_group():
    sent = {name: each.sent_bytes for name, each in count(GROUPS).items()}
    assert sent == {
        "all-reduce": 400 * 2 * 7 / 8 + 400 * 2 * 1 / 2,
        "all-gather": 400 * 3 / 4,
        "all-to-all": 400 * 3 / 4,
        "collective-permute": 400,
        "reduce-scatter": 4 * 3,
    }
