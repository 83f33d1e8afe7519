"""Which objectives, with which fields, every contract and every law is tested on."""

import pytest

from research import objectives

VARIANTS = {
    "mlm": [{}, {"unit": "word"}],
    "plm": [{}, {"parts": 1}],
    "dae": [{}, {"rate": 0.5}],
    "classify": [
        {},
        {"bos": "last"},
        {"architecture": "decoder"},
        {"architecture": "encdec"},
        {"pool": "mean"},
        {"architecture": "encdec", "pool": "mean"},
    ],
}
"""Fields that change what an objective makes; others are tested as they stand."""

CASES = [
    pytest.param(name, fields, id=" ".join([name, *map(str, fields.values())]))
    for name in objectives.names()
    for fields in VARIANTS.get(name, [{}])
]
every = pytest.mark.parametrize(("name", "fields"), CASES)
