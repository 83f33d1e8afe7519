"""merged: one network has what each asks for, or it is said why it cannot."""

import pytest

from research import models
from research.errors import UserError
from tests.testing.model_options import model_options

OPTIONS = model_options(layers=1, width=16, heads=2, feedforward=16)


def transformer(**fields):
    return models.Transformer(OPTIONS, size=40, **({"pattern": "full"} | fields))


def test_heads_are_united_and_patterns_generalised():
    one = transformer(heads={"next": 2, "label": 3})
    two = transformer(pattern="causal", transform=True, heads={"label": 3, "far": 3})
    both = models.merged([one, two, transformer()])
    assert both == transformer(
        pattern="general", transform=True, heads={"next": 2, "label": 3, "far": 3}
    )


def test_equal_networks_are_one():
    one = models.EncoderDecoder(OPTIONS, size=40, heads={"label": 2})
    assert models.merged([one, one]) == one
    pair = models.Pair(OPTIONS, size=40, fraction=0.5)
    assert models.merged([pair, pair]) == pair


@pytest.mark.parametrize(
    "other, said",
    [
        (models.EncoderDecoder(OPTIONS, size=40), "Transformer and another Encoder"),
        (transformer(heads={"next": 4}), "'next' is 2 and 4"),
        (models.Transformer(OPTIONS, size=50, pattern="full"), "size is 40 or 50"),
    ],
)
def test_what_does_not_fit_is_told(other, said):
    with pytest.raises(UserError, match=said):
        models.merged([transformer(heads={"next": 2}), other])


def test_pairs_share_their_generator():
    pairs = [models.Pair(OPTIONS, size=40, fraction=f) for f in (0.25, 0.5)]
    with pytest.raises(UserError, match=r"fraction is 0.25 or 0.5"):
        models.merged(pairs)
