"""With a cache, a text that is read in parts has the states of the whole text."""

import jax
import numpy as np
import pytest

from research import networks
from research.contract.batch import NEVER
from research.networks.transformer.encoder_decoder import EncoderDecoder
from research.networks.transformer.one_stack import Transformer
from tests.testing.compiled_apply import apply
from tests.testing.interval_patterns import with_sinks

PREFIX = 5
LENGTH = 9

DECODERS = {
    "learned": {"num_kv_heads": 1, "qk_norm": True, "position_bias": "t5"},
    "rotary": {"position": "rotary", "norm_placement": "post", "scan_unroll": 2},
    "t5": {"position": "t5", "init": "t5", "bias": False, "shared_layers": True},
    "window": {
        **{"position": "rotary", "window": 2, "global_every": 2},
        **{"rope_theta_local": 100.0, "parallel_residual": True},
        **{"rotary_fraction": 0.5, "rope_scaling": [4, 0.5, 2, 16]},
    },
    "relative": {
        **{"position": "relative", "shared_relative_biases": True, "scan_unroll": 3},
        **{"token_type_encoding": "relative", "token_types": 2},
    },
}


def texts(make_group):
    """Two texts of which the second has less before the rest, so that it is padded."""
    group = make_group(2, LENGTH, causal=True)
    group["token_type"] = group["position"] % 2
    segment = np.ones((2, LENGTH), np.int32)
    segment[1, 3:PREFIX] = 0
    group["segment"] = segment
    group["position"] = np.cumsum(segment, axis=1, dtype=np.int32) - 1
    group["rank"] = group["reach"] = np.maximum(0, group["position"] - 2)
    return group


def part(group, *ends):
    return {name: array[:, slice(*ends)] for name, array in group.items()}


SHORT = (("learned", "general"), ("window", "causal"), ("relative", "general"))
"""A bias of attention as a table and as products, and windows; the others are long:
tests/laws/test_network.py reads each variant of a network in parts."""


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        pytest.param(
            *(changes, pattern),
            id=f"{name}-{pattern}",
            marks=[pytest.mark.long] * ((name, pattern) not in SHORT),
        )
        for name, changes in DECODERS.items()
        for pattern in ("causal", "general")
        if (name, pattern) != ("window", "general")  # which is refused
    ],
)
def test_a_decoder_reads_a_text_in_parts(
    changes, pattern, make_options, make_group, make_params
):
    """Also with the scored positions alone, and with slots that stay empty."""
    group = texts(make_group)
    network = Transformer(make_options(layers=3, **changes), 50, pattern)
    params = make_params(network, lambda net: net.states(group))

    @jax.jit
    def read_first(group):
        def run(net):
            cache, scored = net.empty_cache(2, LENGTH + 3), np.array([[1], [2]])
            outputs = net.outputs(group, scored=scored, cache=cache)
            return outputs.states, outputs.cache

        return networks.apply(network, params, run)

    @jax.jit  # compiled once for all tokens that follow
    def read_next(group, cache):
        run = lambda net: net.outputs(group, cache=cache)  # noqa: E731
        outputs = networks.apply(network, params, run)
        return outputs.states, outputs.cache

    whole = apply(network, params, lambda net: net.states(group))
    first, cache = read_first(part(group, 0, PREFIX))
    np.testing.assert_allclose(first[0, 0], whole[0, 1], atol=1e-5)
    np.testing.assert_allclose(first[1, 0], whole[1, 2], atol=1e-5)
    for n in range(PREFIX, LENGTH):
        state, cache = read_next(part(group, n, n + 1), cache)
        np.testing.assert_allclose(state, whole[:, n : n + 1], atol=1e-5)


def test_padding_within_a_text_is_no_part_of_a_window(
    make_options, make_group, make_params
):
    group = texts(make_group)
    network = Transformer(make_options(**DECODERS["window"]), 50, "causal")
    params = make_params(network, lambda net: net.states(group))
    here = group["segment"][1] > 0
    packed = {name: array[1:, here] for name, array in group.items()}
    padded, alone = (
        apply(network, params, lambda net, own=own: net.states(own))
        for own in (group, packed)
    )
    np.testing.assert_allclose(padded[1, here], alone[0], atol=1e-5)


def test_intervals_of_ranks_hold_for_keys_in_the_cache(
    make_options, make_group, make_params
):
    """Each query attends to the first two tokens and to the last ones."""
    group = with_sinks(texts(make_group), window=2)
    network = Transformer(make_options(), 50, "general")
    params = make_params(network, lambda net: net.states(group))
    whole = apply(network, params, lambda net: net.states(group))

    def in_parts(net):
        cache = net.empty_cache(2, LENGTH)
        first = net.outputs(part(group, 0, PREFIX), cache=cache)
        last = net.outputs(part(group, PREFIX, LENGTH), cache=first.cache)
        return jax.numpy.concatenate([first.states, last.states], axis=1)

    inside = group["segment"] > 0
    read = apply(network, params, in_parts)
    np.testing.assert_allclose(read[inside], whole[inside], atol=1e-5)


@pytest.mark.parametrize("position", ["t5", "sinusoidal"])
def test_a_decoder_keeps_the_keys_of_its_encoder(
    position, make_options, make_group, make_params
):
    group, source = texts(make_group), make_group(2, 7, seed=1)
    source["segment"][1, 4:] = 0
    options = make_options(position=position, num_kv_heads=1, decoder_layers=3)
    network = EncoderDecoder(options, 50)
    run_whole = lambda net: net.states(group, encoded=net.encode(source))  # noqa: E731
    params = make_params(network, run_whole)
    whole = apply(network, params, run_whole)

    @jax.jit
    def in_parts(params):
        def run(net):
            cache, encoded = net.empty_cache(2, LENGTH), net.encode(source)
            first = net.outputs(part(group, 0, PREFIX), encoded=encoded, cache=cache)
            last = net.outputs(part(group, PREFIX, LENGTH), cache=first.cache)
            return jax.numpy.concatenate([first.states, last.states], axis=1)

        return networks.apply(network, params, run)

    inside = group["segment"] > 0
    np.testing.assert_allclose(in_parts(params)[inside], whole[inside], atol=1e-5)


def test_appended_queries_are_not_kept(make_options, make_group, make_params):
    """XLNet: each call reads a token and a query at the next position."""
    group = make_group(2, LENGTH, causal=True)
    queries = {name: array[:, 1:] for name, array in group.items()}
    queries["rank"], queries["reach"] = 0 * queries["rank"] + NEVER, queries["rank"] - 1
    options = make_options(position="relative")
    network = Transformer(options, 50, "general")

    def join(tokens, query):
        return {name: np.concatenate([tokens[name], query[name]], 1) for name in tokens}

    both = join(group, queries)
    run_whole = lambda net: net.states(both, num_keys=LENGTH)  # noqa: E731
    params = make_params(network, run_whole)
    whole = apply(network, params, run_whole)[:, LENGTH:]

    @jax.jit
    def in_parts(params):
        def run(net):
            cache, states = net.empty_cache(2, 6), []  # with slots for keys alone
            for begin, end in ((0, 4), (4, 5), (5, 6)):
                pair = join(part(group, begin, end), part(queries, end - 1, end))
                found = net.outputs(pair, num_keys=end - begin, cache=cache)
                cache = found.cache
                states.append(found.states[:, -1])
            return jax.numpy.stack(states, axis=1)

        return networks.apply(network, params, run)

    np.testing.assert_allclose(in_parts(params), whole[:, 3:6], atol=1e-5)
