"""Options: values that do not fit together are refused; a rate is a place's own."""

import jax
import pytest

from research.contract.errors import UserError

KEY = jax.random.key(0)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"width": 30, "heads": 4}, r"model\.heads is 4.*divide model\.width 30"),
        ({"num_kv_heads": 3}, r"num_kv_heads is 3; it must divide model\.heads 2"),
        ({"position": "rotary", "head_width": 3}, r"rotary needs an even width.*not 3"),
        ({"cross_output": "token_type"}, r"cross_output token_type needs.*at least 2"),
        ({"shared_relative_biases": True}, r"model\.position relative, not learned"),
        ({"position_dropout": 0.1}, r"position disent.* or relative, not learned"),
        (
            {"position": "disentangled", "distance_buckets": 7},
            r"distance_buckets must be even, .* got 7 and 512",
        ),
        ({"position": "disentangled", "qk_norm": True}, r"qk_norm False.*got True"),
        (
            {"position": "disentangled", "attention": "library"},
            r"library has no logits of positions",
        ),
        (
            {"layer_mixing": "sublayers", "parallel_residual": True},
            r"sublayers needs model\.parallel_residual False",
        ),
        (
            {"layer_mixing": "layers", "layer_dropout": 0.1},
            r"layer_mixing reads each layer, but model\.layer_dropout skips some",
        ),
        (
            {"attention_dropout": -0.1},
            r"attention_dropout must be at least 0, or -1.*-0\.1",
        ),
        ({"position": "rotary", "width": 6}, r"rotary needs an even width"),
        (
            {"position": "rotary", "head_width": 8, "rotary_fraction": 0.4},
            r"even width of heads that is rotated, at least 2, not 3",
        ),
        (
            {"position": "rotary", "head_width": 8, "rotary_fraction": 0.1},
            r"even width of heads that is rotated, at least 2, not 0",
        ),
        ({"rotary_fraction": 0.5}, r"rotary_fraction needs model\.position rotary"),
        ({"rope_scaling": [8, 1, 4, 64]}, r"rope_scaling needs model\.position rotary"),
        (
            {"position": "rotary", "rope_scaling": [8, 4, 1, 64]},
            r"factor >= 1 and 0 < low < high, not \[8, 4, 1, 64\]",
        ),
        ({"position": "rotary", "rope_scaling": [8]}, r"\[factor, low, high, length\]"),
        (
            {"position": "rotary", "rope_scaling": [8, 1, 4, 0]},
            r"a length above 0, of finite numbers",
        ),
        (
            {"parallel_residual": True, "norm_placement": "post"},
            r"parallel_residual needs model\.norm_placement pre, not post",
        ),
        (
            {"position_bias": "t5", "attention": "library"},
            r"library has no bias of relative positions",
        ),
        (
            {"qk_norm": True, "init": "t5"},
            r"model\.init t5 .*model\.qk_norm makes them",
        ),
        ({"position_buckets": "two_way"}, r"buckets needs model\.position t5, not"),
        (
            {"cutoffs": [9], "output_head": "bias", "quantization": "int8"},
            r"model\.cutoffs needs model\.quantization none, not int8",
        ),
        ({"global_every": 3}, r"global_every is 3, but there is no window; set model"),
        ({"window": 4, "rope_theta_local": 9.0}, r"local needs model\.position rotary"),
        ({"position": "relative", "width": 15, "heads": 3}, r"an even model\.width"),
        (
            {"token_type_encoding": "relative"},
            r"model\.token_types of at least 2, not 0",
        ),
    ],
)
def test_the_error_names_the_wrong_key(changes, message, make_options):
    with pytest.raises(UserError, match=message):
        make_options(**changes)


def test_a_place_without_a_rate_of_its_own_has_that_of_dropout(make_options):
    options = make_options(dropout=0.3, attention_dropout=0.0, output_dropout=-1)
    rates = {place: options.dropout_rate(place) for place in options.dropout_places}
    assert {place for place, rate in rates.items() if rate == 0.3} == {
        "embedding",
        "residual",
        "output",
        "head",
    }
    assert set(rates.values()) == {0.0, 0.3}
    assert make_options(attention_dropout=0.1).has_dropout
    assert not make_options(attention_dropout=0.0).has_dropout
