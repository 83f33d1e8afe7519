"""merge_networks: one network serves for all, or an error says why it cannot."""

import pytest

from research import networks
from research.errors import UserError
from research.networks.modules.electra import GeneratorDiscriminator
from research.networks.modules.encoder_decoder import EncoderDecoder
from research.networks.modules.merge import merge_networks
from tests.testing.model_options import model_options

OPTIONS = model_options(layers=1, width=16, heads=2, feedforward=16)


def transformer(**fields):
    return networks.Transformer(OPTIONS, size=40, **({"pattern": "full"} | fields))


def test_heads_are_united_and_patterns_generalised():
    first = transformer(heads={"next": 2, "label": 3})
    second = transformer(
        pattern="causal", transform=True, heads={"label": 3, "other": 3}
    )
    merged = merge_networks([first, second, transformer()])
    assert merged == transformer(
        pattern="general", transform=True, heads={"next": 2, "label": 3, "other": 3}
    )


def test_equal_networks_merge_to_the_same_network():
    network = EncoderDecoder(OPTIONS, size=40, heads={"label": 2})
    assert merge_networks([network, network]) == network
    network = GeneratorDiscriminator(OPTIONS, size=40, fraction=0.5)
    assert merge_networks([network, network]) == network


@pytest.mark.parametrize(
    "other, message",
    [
        (EncoderDecoder(OPTIONS, size=40), "Transformer and another Encoder"),
        (transformer(heads={"next": 4}), "'next' is 2 and 4"),
        (networks.Transformer(OPTIONS, size=50, pattern="full"), "size is 40 or 50"),
    ],
)
def test_the_error_names_what_cannot_be_merged(other, message):
    with pytest.raises(UserError, match=message):
        merge_networks([transformer(heads={"next": 2}), other])


def test_generators_of_different_widths_cannot_be_merged():
    networks = [
        GeneratorDiscriminator(OPTIONS, size=40, fraction=f) for f in (0.25, 0.5)
    ]
    with pytest.raises(UserError, match=r"fraction is 0.25 or 0.5"):
        merge_networks(networks)
