"""The contract of every kernel of attention, found by listing the folder."""

# B batch, L queries and keys, H heads, K head width, F width of relative terms

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo as cudnn

from research.contract.errors import UserError
from research.networks.shared.dense_attention import (
    AttentionInputs,
    DenseMask,
    dense_attention,
    dense_mask,
)
from research.networks.transformer import kernels
from research.networks.transformer.positions import t5
from research.program.flops import count_flops
from tests.testing import interval_patterns
from tests.testing.trees import assert_close

LENGTH, HEADS = 24, 2
CASES = {
    "full": ("full", {}),
    "causal": ("causal", {}),
    "window": ("causal", {"window": 3}),
    "permuted": ("general", {}),
    **{name: ("general", {}) for name in interval_patterns.PATTERNS},
    "bias": ("general", {}),
    "one-way bias": ("causal", {"one_way": True}),
    "relative": ("general", {}),
    "relative with mems": ("causal", {"mems": 5}),
}
"""Case -> the pattern of its `AttentionInputs`, and more of it."""

each_kernel = pytest.mark.parametrize("name", kernels.FOLDER.names())
LONG = (
    *("causal window", "global tokens", "block diffusion", "one-way bias"),
    *("full", "window", "permuted", "relative"),
)
"""Cases of which others have each part: a bias, mems, windows, intervals of ranks."""
each_case = pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.long] * (c in LONG)) for c in CASES]
)


def kernel_named(name):
    return kernels.FOLDER.part_class(name, "kernel")()


def make_inputs(case):
    """Two packed and padded rows of a case."""
    random, (pattern, more) = np.random.default_rng(0), CASES[case]
    segment = np.zeros((2, LENGTH), np.int32)
    segment[0, :20], segment[1] = np.repeat([1, 2], [7, 13]), 1
    index = np.arange(LENGTH, dtype=np.int32)
    rank = random.permuted(np.tile(index, (2, 1)), axis=1)
    group = {"segment": segment, "rank": rank, "reach": rank - 1}
    group["position"] = 3 * np.tile(index, (2, 1))
    if case in interval_patterns.PATTERNS:
        group |= interval_patterns.draw_rows(case, rows=2, length=LENGTH)[0]
    mems = None
    if count := more.get("mems"):
        mems = random.integers(0, 2, (2, count), dtype=np.int32)
    table = np.float32(random.normal(size=(t5.NUM_BUCKETS, HEADS)))
    return AttentionInputs(
        group,
        group,
        pattern,
        mems,
        t5.Bias(table, more.get("one_way", False)) if "bias" in case else None,
        window=more.get("window", 0),
    )


def value_and_gradients(kernel, inputs, *, width=8, dtype="float32", relative=False):
    """Output and gradients by queries, keys, values, the table of the bias and relative
    terms, of all queries and of a few that are scored."""
    random = np.random.default_rng(1)
    mems = 0 if inputs.mems_segment is None else inputs.mems_segment.shape[1]

    def draw(*shape):
        return jnp.asarray(random.normal(size=shape), dtype)

    sizes = (LENGTH, mems + LENGTH, mems + LENGTH)
    states = [draw(2, size, HEADS, width) for size in sizes]
    factors = draw(2, LENGTH, HEADS, 12), draw(2, mems + LENGTH, 12)
    scored = np.array([[19, 22, 0], [1, 23, 4]], np.int32)

    def attend(mask, query, query_rel, *states):
        own = {"relative": (query_rel, factors[1])} if relative else {}
        if isinstance(mask, DenseMask):
            return dense_attention(query, *states, mask, **own)
        return mask.attend(query, *states, **own)

    def run(states, table, query_rel):
        queries = states[0], query_rel
        few = (jnp.take_along_axis(x, scored[..., None, None], axis=1) for x in queries)
        bias = table if table is None else inputs.bias._replace(table=table)
        mask = kernel.mask(inputs._replace(bias=bias), width, dtype)
        both = (mask, *queries), (mask.at(scored), *few)
        outputs = [attend(*each, *states[1:]) for each in both]
        return sum(jnp.sum(jnp.sin(2 * jnp.float32(x))) for x in outputs), outputs

    arguments = states, inputs.bias and inputs.bias.table, factors[0]
    return jax.value_and_grad(run, argnums=(0, 1, 2), has_aux=True), arguments


def options(attention, *features):
    """What is read of the options of a network."""
    sizes = {"key_width": 8, "operand_dtype": "float32"}
    return SimpleNamespace(attention=attention, attention_features=features, **sizes)


def runs_here(name):
    kernel = kernel_named(name)
    return not kernel.platforms or "cpu" in kernel.platforms or kernel.is_interpreted


@each_kernel
def test_it_says_what_it_is(name):
    kernel = kernel_named(name)
    assert dataclasses.is_dataclass(kernel) and not dataclasses.fields(kernel)
    assert kernel.attention in kernels.names() and kernel.attention != "auto"
    assert {*kernel.features} <= {*kernels.FEATURES}
    if kernel.preference:  # of a platform whose "auto" it may be, it is the only one
        for platform in kernel.platforms:
            others = [k for k in kernels.all_kernels() if platform in k.platforms]
            assert [k.preference for k in others].count(kernel.preference) == 1


@each_case
@pytest.mark.parametrize(
    "name", sorted({*filter(runs_here, kernels.FOLDER.names())} - {"dense"})
)
def test_values_and_gradients_are_those_of_the_reference(name, case):
    """Each array by itself, and queries without keys have zeros."""
    kernel, inputs = kernel_named(name), make_inputs(case)
    needed = {feature for feature in ("bias", "relative") if feature in case}
    if needed - {*kernel.features}:
        with pytest.raises(UserError, match=f"attention {kernel.attention} .*has no"):
            kernels.choose_kernel(options(kernel.attention, *needed), inputs)
        return
    relative = "relative" in case
    actual, expected = (
        jax.jit(run)(*arguments)
        for each in (kernel, kernel_named("dense"))
        for run, arguments in [value_and_gradients(each, inputs, relative=relative)]
    )
    for x, y in zip(*map(jax.tree.leaves, (actual, expected)), strict=True):
        assert_close(x, y)
    (whole, _), hidden = actual[0][1], ~dense_mask(inputs).has_keys
    assert hidden.any() and not whole[hidden].any()


@each_kernel
def test_elsewhere_it_is_traced_or_refuses_in_one_line(name, monkeypatch):
    """For each of its platforms, with the types and shapes of the reference."""
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91100)
    kernel, inputs = kernel_named(name), make_inputs("causal")
    for platform in kernel.platforms:
        monkeypatch.setattr(kernels, "platform", lambda platform=platform: platform)
        own = {"width": 64, "dtype": "bfloat16"}
        run, arguments = value_and_gradients(kernel_named("dense"), inputs, **own)
        expected = jax.eval_shape(run, *arguments)
        run, arguments = value_and_gradients(kernel, inputs, **own)
        try:
            assert jax.eval_shape(run, *arguments) == expected
        except UserError as error:
            assert "\n" not in str(error) and kernel.attention in str(error)


@each_kernel
def test_its_products_are_counted(name, monkeypatch):
    """Where each position attends to all they are those of dense attention.

    They may be fewer by those of a few queries, and more by scores that are computed
    again.
    """
    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91100)
    kernel, inputs = kernel_named(name), make_inputs("full")
    group = inputs.query | {"segment": np.ones((2, LENGTH), np.int32)}
    inputs = inputs._replace(query=group, key=group)
    own = {"width": 64, "dtype": "bfloat16"}
    run, arguments = value_and_gradients(kernel_named("dense"), inputs, **own)
    dense, pairs = count_flops(run, *arguments), 2 * LENGTH**2
    for platform in kernel.platforms or ("cpu",):
        monkeypatch.setattr(kernels, "platform", lambda platform=platform: platform)
        run, arguments = value_and_gradients(kernel, inputs, **own)
        try:
            counted = count_flops(run, *arguments)
        except UserError:  # it has no such types or shapes
            continue
        assert 6 * 2 * HEADS * 64 * pairs <= counted <= 1.25 * dense, (
            f"{platform}: {counted / dense:.2g} of dense attention's FLOPs count; "
            "`products` names its primitives; a Pallas kernel has a cost_estimate"
        )


@dataclasses.dataclass(frozen=True)
class Elsewhere(kernels.Kernel):
    attention = "elsewhere"
    platforms = ("rocm", "metal")

    def mask(self, inputs, head_width, dtype):
        raise AssertionError("it is chosen where it does not run")


def test_a_kernel_that_cannot_run_here_says_where_it_does(monkeypatch):
    """By its name; "auto" passes it by. One that is interpreted may be refused too."""
    parts = *kernels.all_kernels(), Elsewhere()
    monkeypatch.setattr(kernels, "all_kernels", lambda: parts)
    assert "elsewhere" in kernels.names() and "elsewhere" not in kernels.names("cpu")
    words = "elsewhere runs on metal or rocm, not cpu; set model.attention=dense"
    inputs = make_inputs("causal")
    with pytest.raises(UserError, match=f"^model.attention {words}$"):
        kernels.choose_kernel(options("elsewhere"), inputs)
    with pytest.raises(UserError, match="interval runs on cuda or tpu, not cpu"):
        kernels.kernel_for("interval", "cpu", interpret=False)
    assert kernels.kernel_for("elsewhere", "metal") == Elsewhere()
    assert kernels.choose_kernel(options("auto"), inputs).attention == "dense"
