"""Needs of objectives that train one network are merged, or refused in one line."""

import dataclasses

import pytest

from research import networks
from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.networks import HeadSpec, Needs, merge_needs
from tests.testing.example_batches import vocab
from tests.testing.model_options import model_options

VOCAB: VocabInfo = vocab()
ELECTRA = Needs(
    pattern="full", stacks="generator_discriminator", generator_size=0.25, tie="token"
)


def full(**fields):
    return Needs(**{"pattern": "full"} | fields)


def test_heads_are_united_and_patterns_generalised():
    first = full(heads={"next": HeadSpec(2), "label": HeadSpec(3)}, token_types=2)
    second = full(
        pattern="causal",
        transform=True,
        heads={"label": HeadSpec(3), "other": HeadSpec(3)},
        mems=True,
        boundary_offsets=7,
    )
    assert merge_needs([first, second, full(queries=True, token_types=3)]) == Needs(
        pattern="general",
        transform=True,
        heads={"next": HeadSpec(2), "label": HeadSpec(3), "other": HeadSpec(3)},
        token_types=3,
        mems=True,
        queries=True,
        boundary_offsets=7,
    )


def test_equal_needs_merge_to_the_same():
    for needs in (ELECTRA, full(stacks="encoder_decoder", features="mix")):
        assert merge_needs([needs, needs]) == needs


@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        (full(), full(stacks="encoder_decoder"), "stacks is 'one' or 'encoder_dec"),
        (
            full(heads={"next": HeadSpec(2)}),
            full(heads={"next": HeadSpec(4)}),
            r"'next' is HeadSpec\(size=2.* and HeadSpec\(size=4.*rename one",
        ),
        (full(boundary_offsets=3), full(boundary_offsets=4), "offsets is 3 or 4"),
        (
            ELECTRA,
            dataclasses.replace(ELECTRA, generator_size=0.5),
            "generator_size is 0.25 or 0.5",
        ),
    ],
)
def test_the_error_names_what_cannot_be_merged(first, other, message):
    with pytest.raises(UserError, match=message):
        merge_needs([first, other])


@pytest.mark.parametrize(
    ("options", "needs", "message"),
    [
        ({}, {"mems": True}, r"position is 'learned', but mems.*position=relative"),
        (
            {"position": "relative", "position_bias": "t5"},
            {"mems": True},
            r"position_bias is 't5'.*no distances to mems.*position_bias=auto",
        ),
        (
            {"token_types": 1},
            {"token_types": 2},
            r"token_types is 1,.*at least 2, or 0",
        ),
        (
            {"decoder_layers": 3},
            {},
            r"decoder_layers is 3.*not an encoder-decoder.*must be 0",
        ),
        (
            {"shared_embeddings": False},
            {},
            r"shared_embeddings is False.*not an encoder-decoder",
        ),
        ({"shared_stacks": True}, {}, r"shared_stacks is True.*not an encoder-decoder"),
        (
            {"shared_stacks": True, "decoder_layers": 3},
            {"stacks": "encoder_decoder"},
            r"decoder_layers is 3.*shared_stacks.*set it to 0",
        ),
        (
            {"cutoffs": [9], "output_head": "bias"},
            {"stacks": "encoder_decoder"},
            "cutoffs is for networks of one stack",
        ),
        (
            {"cutoffs": [9], "output_head": "bias"},
            {"stacks": "generator_discriminator", "tie": "all"},
            "cutoffs is for networks of one stack",
        ),
        (
            {"cutoffs": [9], "output_head": "bias"},
            {"boundary_offsets": 2},
            r"cutoffs cannot be combined with objective\.boundary",
        ),
    ],
)
def test_a_transformers_keys_that_do_not_go_with_the_needs(options, needs, message):
    with pytest.raises(UserError, match=message):
        networks.build(model_options(**options), full(**needs), VOCAB)


IMAGE = {"image_positions": 4, "input_features": 12}


@pytest.mark.parametrize(
    ("network", "options", "needs", "message"),
    [
        ("fusion", {"layers": 2, "plain_layers": 2}, {}, r"below model\.layers 2"),
        ("fusion", {"activation": "swiglu"}, {}, r"activation must not be swiglu"),
        (
            "fusion",
            {"entity_heads": 4},
            {"input_features": 6},
            r"entity_heads is 4; it must divide the width 6",
        ),
        (
            "kar",
            {"layers": 2, "link_after": 2},
            {"span_width": 8},
            r"link_after is 2; it must be below model\.layers 2",
        ),
        ("kar", {"entity_heads": 4}, {"span_width": 6}, r"must divide the width 6 of"),
        ("two_streams", {"layers": 2, "co_layers": 3}, IMAGE, "at most model.layers 2"),
        (
            "two_streams",
            {"width": 16, "image_heads": 3},
            IMAGE,
            r"image_heads is 3; it must divide model\.width 16",
        ),
        (
            "two_streams",
            {"heads": 4, "width": 16, "cross": "shared", "image_heads": 2},
            IMAGE,
            r"cross shared needs model\.image_heads 0 or model\.heads 4, got 2",
        ),
    ],
)
def test_a_networks_keys_that_do_not_go_together(network, options, needs, message):
    small = {"layers": 2, "width": 16, "heads": 2, "norm_placement": "post"}
    own = model_options(network=network, **(small | options))
    with pytest.raises(UserError, match=message):
        networks.build(own, full(**needs), VOCAB)


def test_a_network_without_embeddings_of_languages_is_refused():
    needs = full(stacks="encoder_decoder", token_types=3, languages=True)
    none, some = (model_options(token_types=number) for number in (0, 3))
    with pytest.raises(UserError, match=r"languages are .* model.token_types=3"):
        networks.build(none, needs, VOCAB)
    networks.build(some, needs, VOCAB)
    networks.build(none, dataclasses.replace(needs, languages=False), VOCAB)
