"""Attention by JAX's own function on a GPU is cuDNN's; laws/test_kernel.py has more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo as cudnn

from research import networks
from research.contract.errors import UserError
from research.networks.shared.dense_attention import (
    AttentionInputs,
    dense_attention,
    dense_mask,
)
from research.networks.transformer.kernels.cudnn import Kernel as cuDNN
from research.networks.transformer.library_attention import library_mask
from research.networks.transformer.one_stack import Transformer
from research.program.flops import count_flops


@pytest.mark.parametrize("pattern", ["full", "causal"])
def test_on_a_gpu_it_is_cudnn_with_the_flops_of_dense_attention(
    pattern, make_group, monkeypatch
):
    """Nothing is run: the gradient is traced, and lowered for a GPU."""
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91100)
    group = make_group(2, 128)
    shape = jax.ShapeDtypeStruct((2, 128, 4, 16), jnp.bfloat16)

    def gradient(*states):
        mask = library_mask(
            AttentionInputs(group, group, pattern), implementation="cudnn"
        )
        return jax.vjp(mask.attend, *states)[1](states[0])

    assert count_flops(gradient, *(shape,) * 3) == 6 * 2 * 2 * 4 * 128**2 * 16
    kernels = str(jax.make_jaxpr(gradient)(*(shape,) * 3))
    masks = {name for name in ("CAUSAL", "NO_MASK") if f"MaskType.{name}" in kernels}
    assert masks == {"CAUSAL" if pattern == "causal" else "NO_MASK"}


@pytest.mark.parametrize("queries, keys", [(5, 7), (5, 8), (6, 7)], ids=str)
def test_odd_lengths_are_made_even_for_cudnn(
    queries, keys, make_group, monkeypatch, assert_close
):
    """Traced for a GPU, and computed by XLA in place of it."""
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91100)
    inputs = AttentionInputs(make_group(2, queries), make_group(2, keys))
    mask = library_mask(inputs, implementation="cudnn")
    shapes = [(2, n, 2, 8) for n in (queries, keys, keys)]
    random = np.random.default_rng(0)
    states = [jnp.asarray(random.normal(size=n), jnp.bfloat16) for n in shapes]

    def gradients(attend):
        def total(states):
            out = jnp.float32(attend(*states))
            return jnp.sum(jnp.sin(out)), out

        return lambda states: jax.value_and_grad(total, has_aux=True)(states)

    traced = jax.make_jaxpr(gradients(mask.attend))(states)
    assert "dot_product_attention_bwd" in str(traced)
    library = jax.nn.dot_product_attention

    def by_xla(*states, implementation, **own):
        return library(*states, implementation="xla", **own)

    monkeypatch.setattr(jax.nn, "dot_product_attention", by_xla)
    expected = gradients(lambda *x: dense_attention(*x, dense_mask(inputs)))(states)
    assert_close(gradients(mask.attend)(states), expected, 0.02)


def test_parameters_are_drawn_without_cudnn(make_options, make_group, monkeypatch):
    """JAX 0.11's batching rule refuses a mask that the layers of a `jax.vmap` share."""
    monkeypatch.setattr(
        "research.networks.transformer.kernels.platform", lambda: "cuda"
    )
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91100)
    network = Transformer(
        make_options(attention="library", dtype="bfloat16", layers=3), size=50
    )
    group = make_group(2, 8)

    def states(net):
        return net.states(group)

    def init():
        return networks.unbox(networks.init(network, states, jax.random.key(0)))

    of_scan = str(jax.make_jaxpr(init)()).count("name=_dot_product_attention")
    assert of_scan == 1  # the states after parameters are drawn
    params = jax.eval_shape(init)
    assert all(x.shape[0] == 3 for x in jax.tree.leaves(params["stack"]["blocks"]))
    traced = jax.make_jaxpr(lambda params: networks.apply(network, params, states))
    assert "dot_product_attention_fwd" in str(traced(params))


def test_what_cudnn_does_not_have_is_said_in_one_line(make_group, monkeypatch):
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91100)
    group = make_group(1, 8)
    inputs = AttentionInputs(group, group)
    for dtype, message in (("float32", "has no float32"), ("bfloat16", "head dim")):
        state = jnp.zeros((1, 8, 2, 4), dtype)  # a width of 4 is no multiple of 8
        with pytest.raises(UserError, match=f"model.attention library.*{message}"):
            cuDNN().mask(inputs, 4, dtype).attend(state, state, state)


@pytest.mark.parametrize(
    "changes",
    [{"position": "relative"}, {"position": "t5"}, {"dropout": 0.1}],
    ids=str,
)
def test_what_the_library_does_not_have_is_refused(changes, make_options):
    with pytest.raises(UserError, match="attention library has no"):
        make_options(attention="library", **changes)
