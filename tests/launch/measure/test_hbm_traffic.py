"""Bytes that a step moves, from its HLO: what is on the chip is not moved."""

import jax
import jax.numpy as jnp

from launch.measure.hbm_traffic import hbm_bytes
from launch.measure.hlo_text import parse


def moved(entry, computations=""):
    """Bytes of an entry computation, given as its lines."""
    return hbm_bytes(parse(f"{computations}\nENTRY %main () -> f32[] {{\n{entry}}}\n"))


def test_an_array_on_the_chip_is_not_moved():
    entry = """
  %p = f32[1000]{0:T(1024)} parameter(0)
  %s = (f32[1000]{0:T(1024)S(1)}, f32[1000]{0:T(1024)}, u32[]{:S(2)}) copy-start(%p)
  %d = f32[1000]{0:T(1024)S(1)} copy-done(%s)
  %b = f32[10,100]{1,0:T(8,128)S(1)} bitcast(%d)
  %e = bf16[10,100]{1,0:T(8,128)S(1)} exponential(%b)
  ROOT %n = bf16[10,100]{1,0:T(8,128)} negate(%e)
"""
    assert moved(entry) == 4000 + 2000  # p into the chip, n out of it


LAYERS = """
%fused (p: f32[12,100], i: s32[]) -> (f32[1,100], f32[12,100]) {
  %p = f32[12,100]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %wide = f32[12,100]{1,0} negate(%p)
  %layer = f32[1,100]{1,0} dynamic-slice(%wide, %i, %i), dynamic_slice_sizes={1,100}
  %twice = f32[1,100]{1,0} add(%layer, %layer)
  ROOT %t = (f32[1,100]{1,0}, f32[12,100]{1,0}) tuple(%twice, %p)
}

%put (s: f32[12,100], x: f32[1,100], i: s32[]) -> f32[12,100] {
  %s = f32[12,100]{1,0} parameter(0)
  %x = f32[1,100]{1,0} parameter(1)
  %i = s32[] parameter(2)
  %u = f32[12,100]{1,0} dynamic-update-slice(%s, %x, %i, %i)
  ROOT %b = f32[12,100]{1,0} bitcast(%u)
}

%more (t: (s32[], f32[12,100])) -> pred[] {
  %five = s32[] constant(5)
  ROOT %lt = pred[] compare(%five, %five), direction=LT
}

%again (t: (s32[], f32[12,100])) -> (s32[], f32[12,100]) {
  %t = (s32[]{:S(6)}, f32[12,100]{1,0}) parameter(0)
  %n = s32[]{:S(6)} get-tuple-element(%t), index=0
  %w = f32[12,100]{1,0} get-tuple-element(%t), index=1
  %f = (f32[1,100]{1,0}, f32[12,100]{1,0}) fusion(%w, %n), kind=kLoop, calls=%fused
  %x = f32[1,100]{1,0} get-tuple-element(%f), index=0
  %y = f32[12,100]{1,0} get-tuple-element(%f), index=1
  %o = f32[12,100]{1,0} fusion(%y, %x, %n), kind=kLoop, calls=%put
  ROOT %r = (s32[]{:S(6)}, f32[12,100]{1,0}) tuple(%n, %o)
}
"""


def test_a_loop_reads_and_writes_one_slice_in_each_iteration():
    entry = """
  %p = (s32[], f32[12,100]{1,0}) parameter(0)
  ROOT %w = (s32[], f32[12,100]{1,0}) while(%p), condition=%more, body=%again
"""
    # The fusion reads a layer and writes one; the other reads that and writes it.
    # The condition's compare reads its constant once and writes a byte.
    assert moved(entry, LAYERS) == 5 * (4 * 400 + 4 + 1)


ASYNC = """
%begin (p: bf16[10]) -> (bf16[10], bf16[40], u32[]) {
  %p = bf16[10]{0} parameter(0)
  %g = bf16[40]{0} all-gather(%p), channel_id=7, dimensions={0}
  ROOT %c = (bf16[10]{0}, bf16[40]{0}, u32[]{:S(2)}) custom-call(%g), \
custom_call_target="AsyncCollectiveStart"
}

%async_collective_fusion.1 (p: bf16[10], b: bf16[40], x: f32[50]) -> (f32[50]) {
  %p = bf16[10]{0} parameter(0)
  %b = bf16[40]{0} parameter(1)
  %x = f32[50]{0} parameter(2)
  %y = f32[50]{0} negate(%x)
  %g = bf16[40]{0} all-gather(%p), channel_id=7, dimensions={0}
  ROOT %t = (f32[50]{0}, bf16[40]{0}) tuple(%y, %g)
}

%finish (p: bf16[10], b: bf16[40]) -> bf16[40] {
  %p = bf16[10]{0} parameter(0)
  %b = bf16[40]{0} parameter(1)
  %g = bf16[40]{0} all-gather(%p), channel_id=7, dimensions={0}
  ROOT %c = bf16[40]{0} custom-call(%p, %b, %g), \
custom_call_target="AsyncCollectiveDone"
}
"""


def test_an_asynchronous_collective_moves_its_bytes_once():
    entry = """
  %p = bf16[10]{0} parameter(0)
  %x = f32[50]{0} parameter(1)
  %f = (bf16[10]{0}, bf16[40]{0}, u32[]{:S(2)}) fusion(%p), kind=kCustom, calls=%begin
  %b = bf16[40]{0} get-tuple-element(%f), index=1
  %h = (f32[50]{0}, bf16[40]{0}) fusion(%p, %b, %x), kind=kOutput, \
calls=%async_collective_fusion.1
  %c = bf16[40]{0} get-tuple-element(%h), index=1
  ROOT %o = bf16[40]{0} fusion(%p, %c), kind=kCustom, calls=%finish
"""
    assert moved(entry, ASYNC) == (20 + 80) + 2 * 200


def test_slices_add_up_and_other_uses_do_not():
    fused = """
%fused (p: f32[100]) -> (f32[50], f32[50], f32[25]) {
  %p = f32[100]{0} parameter(0)
  %e = f32[100]{0} exponential(%p)
  %m = f32[100]{0} multiply(%p, %e)
  %a = f32[25]{0} slice(%m), slice={[0:25]}
  %b = f32[25]{0} slice(%m), slice={[25:50]}
  ROOT %t = (f32[25]{0}, f32[25]{0}) tuple(%a, %b)
}
"""
    entry = """
  %p = f32[100]{0} parameter(0)
  ROOT %f = (f32[25]{0}, f32[25]{0}) fusion(%p), kind=kLoop, calls=%fused
"""
    assert moved(entry, fused) == 200 + 200


def test_a_compiled_function_moves_its_arguments_and_its_result():
    function = jax.jit(lambda x, y: jnp.tanh(x) * y + x)
    shape = jax.ShapeDtypeStruct((300, 40), jnp.float32)
    hlo = function.lower(shape, shape).compile().as_text()
    assert hbm_bytes(parse(hlo)) == 3 * 300 * 40 * 4
