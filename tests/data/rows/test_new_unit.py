"""A unit of text is one new file: it is read with its field, cached, packed anew."""

import numpy as np
import pytest

from research.contract.errors import UserError
from research.data import rows as units
from research.data.rows import TextSpec
from research.data.store.example_index import build_index
from tests.testing import small_data, toy_objectives

UNIT = '''
"""An excerpt of each document, which begins anywhere in it."""

from dataclasses import dataclass

import numpy as np

from research.data import counter_rng
from research.data.rows import Spans, TextSpec, TokenStream, not_indexed


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """It has the fraction `rate` of its document's tokens, rounded down."""

    rate: float = 1.0
    note: str = not_indexed("")

    has_copies = True

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        start, label = np.asarray(stream.document_offsets[:-1]), stream.labels
        size = stream.document_offsets[1:] - start - stream.separator_length
        length = np.minimum(self.length, (self.rate * size).astype(np.int64))
        start, size, label, length = (
            array[length > 0] for array in (start, size, label, length)
        )
        key = counter_rng.row_key(self.copy, start, 0 * start)
        draw = counter_rng.uniform(key, "excerpt", 1)[:, 0]
        start = start + (draw * (size - length + 1)).astype(np.int64)
        return Spans(start, length, label, total=int(size.sum()))
'''


@pytest.fixture(scope="module", autouse=True)
def excerpt(tmp_path_factory):
    """Adds the unit, as a file of a folder of its own."""
    folder = tmp_path_factory.mktemp("units")
    (folder / "excerpt.py").write_text(UNIT)
    units.__path__.append(str(folder))
    yield
    units.__path__.remove(str(folder))


def test_a_config_reads_a_new_unit_and_packs_it_anew_for_each_copy(tmp_path):
    corpus = small_data.write_corpus(tmp_path, "corpus", seed=0)
    config = small_data.config(corpus, tmp_path / "cache")
    config.data.update(stride=0, pairs="each_copy", dupe_factor=2)
    data = small_data.open_with(config, toy_objectives.Objective("excerpt"))
    source = data.train.source
    count = source.num_examples
    rows = [data.train.batch(step) for step in range(3 * count // 8 + 1)]
    token, weight = (
        np.concatenate([row[name] for row in rows]) for name in ("token", "weight")
    )
    epochs = [
        {tuple(token[n][weight[n] > 0]) for n in range(first, first + count)}
        for first in (0, count, 2 * count)
    ]
    assert epochs[0] == epochs[2] != epochs[1]
    assert max(map(len, epochs[0])) == config.data.length


def test_an_index_depends_on_the_fields_that_say_so(tmp_path):
    stream = toy_objectives.Stream()
    spec = TextSpec("excerpt", 8)

    def index(**fields):
        return build_index(stream, spec.replace(**fields), 0, tmp_path)

    same = [index(), index(rate=1.0, note="another", arrays=("image",), label="x")]
    others = [index(rate=0.5), index(copy=1), index(length=9)]
    assert same[0].fingerprint == same[1].fingerprint
    assert len({each.fingerprint for each in [same[0], *others]}) == 4
    size = np.diff(stream.document_offsets) - 1
    np.testing.assert_array_equal(
        others[0].length, np.minimum(8, size // 2)[size // 2 > 0]
    )


def test_a_field_or_a_unit_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match=r"'excerpts'.*excerpt"):
        TextSpec("excerpts", 8)
    with pytest.raises(TypeError, match="short_rate"):
        TextSpec("excerpt", 8, short_rate=0.1)


def test_what_the_text_determines_has_no_stride(tmp_path):
    with pytest.raises(UserError, match="the unit 'excerpt'"):
        build_index(toy_objectives.Stream(), TextSpec("excerpt", 8), 4, tmp_path)
