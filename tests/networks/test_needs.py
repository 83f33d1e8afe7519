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
        ({"decoder_layers": 3}, {}, r"decoder_layers is 3.*no decoder.*must be 0"),
        ({"shared_embeddings": False}, {}, r"shared_embeddings is False.*no decoder"),
        ({"shared_stacks": True}, {}, r"shared_stacks is True.*no decoder"),
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
            r"cutoffs excludes objective\.boundary_targets",
        ),
    ],
)
def test_a_transformers_keys_that_do_not_go_with_the_needs(options, needs, message):
    with pytest.raises(UserError, match=message):
        networks.build(model_options(**options), full(**needs), VOCAB)


def test_a_network_without_embeddings_of_languages_is_refused():
    needs = full(stacks="encoder_decoder", token_types=3, languages=True)
    none, some = (model_options(token_types=number) for number in (0, 3))
    with pytest.raises(UserError, match=r"languages are .* model.token_types=3"):
        networks.build(none, needs, VOCAB)
    networks.build(some, needs, VOCAB)
    networks.build(none, dataclasses.replace(needs, languages=False), VOCAB)
