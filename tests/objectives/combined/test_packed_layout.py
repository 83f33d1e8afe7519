"""Packed rows have room for every packing, and what cannot be packed is refused."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from ml_collections import ConfigDict

from research import objectives
from research.config.objective import make_run_objective
from research.contract.batch import PIECE, PIECE_SPECIALS, piece_columns
from research.contract.errors import UserError
from research.objectives.combined.packed_layout import make_layout
from research.objectives.combined.packed_rows import PackedRows
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.objective_cases import VOCAB, input_prefixes

LENGTH = 96
MAX_RAW = LENGTH - PIECE_SPECIALS

MANY_MASKS = {"infill_rate": 0.5, "poisson_lambda": 0.1, "permute_rate": 0.0}
"""Of empty spans, for which a row of a piece's own length has no room."""


PACKED = [
    ("lm", {}),
    ("lm", {"direction": "both", "prefix": "random"}),
    ("fim", {"rate": 1.0}),
    ("mlm", {}),
    ("mlm", {"unit": "span", "boundary_targets": 4}),
    ("mlm", {"rounding": "independent"}),
    ("plm", {}),
    ("electra", {}),
    ("dae", {}),
    ("dae", {"noise_mask": "iid", "mode": "X", "rate": 0.3}),
    ("dae", {"layout": "prefix"}),
    ("bart", {"insert_rate": 0.2}),
    ("bart", MANY_MASKS),
    ("mass", {"cross_attention": "unmasked"}),
]


@pytest.mark.parametrize(("name", "fields"), PACKED)
def test_every_packing_fits(name, fields):
    # The rows that need the most of each array: as many pieces of one size as fit.
    objective = PackedRows(objectives.make_objective(name, **fields))
    specs, length = objective.batch_spec(LENGTH), MAX_RAW + 1
    for size in range(1, MAX_RAW + 1):
        count = LENGTH // int(piece_columns(size, MAX_RAW))
        pieces = texts(size, [size] * count, VOCAB, seed=size)
        row = texts(length, [size * count], VOCAB)
        row.token[0, : size * count] = pieces.token.ravel()
        row.flags[0, : size * count] = pieces.flags.ravel()
        row.flags[0, : size * count : size] |= PIECE
        batch = objective.corrupt(row, keys(1, seed=size), VOCAB, LENGTH)
        for prefix in input_prefixes(batch):
            segment = batch[prefix + "segment"]
            assert (segment == np.arange(1, count + 1)[:, None]).any(axis=1).all()
        for array, spec in specs.items():
            assert batch[array].shape == (1, *spec.shape)


def test_a_row_has_little_more_room_than_its_text():
    full = {"lm": 512, "mlm": 512, "electra": 512, "bart": 512, "mass": 512}
    for name, expected in full.items():
        objective = objectives.make_objective(name)
        layout = make_layout(objective, 512)
        assert max(layout.num_keys.values()) == expected
    assert make_layout(objectives.make_objective("mlm"), 512).specs["target"].shape < (
        110,
    )
    t5 = make_layout(objectives.make_objective("dae"), 512).num_keys
    assert t5["encoder_"] < 465 and t5["decoder_"] < 140
    plm = make_layout(objectives.make_objective("plm"), 512)
    num_scored = plm.specs["target"].shape[0]
    assert plm.num_keys[""] == 512 and num_scored < 110
    assert plm.specs["token"].shape == (512 + num_scored,)


def config(name, length=LENGTH, packing="best_fit", sentinels=20, **fields):
    return SimpleNamespace(
        objective=ConfigDict({"name": name, **fields}),
        data=SimpleNamespace(
            length=length,
            packing=packing,
            length_buckets=[],
            vocabulary="unigram",
            sentinels=sentinels,
            task="",
        ),
    )


def objective_of(config):
    return make_run_objective(config.objective.to_dict(), config.data)


def test_the_config_says_whether_rows_are_packed():
    packed = objective_of(config("mlm", rate=0.3))
    plain = objective_of(config("mlm", packing="none", rate=0.3))
    assert packed == PackedRows(plain)
    assert packed.text_spec(LENGTH).unit == "packed"
    assert packed.score_methods == plain.score_methods
    with pytest.raises(UserError, match="needs at least 4"):
        objective_of(config("mlm", length=3))
    assert packed.for_evaluation() is packed


@pytest.mark.parametrize("packing", ["none", "best_fit"])
def test_a_config_has_as_many_sentinels_as_the_longest_text_needs(packing):
    """A packed text is shorter than one that fills the encoder's row alone."""
    chosen = {"packing": packing, "length": 512, "rate": 0.5}
    count = {"none": 128, "best_fit": 96}[packing]
    dae = objective_of(config("dae", sentinels=count, **chosen))
    few, spec = vocab(200, sentinels=count), dae.text_spec(512)
    text = texts(spec.width, [spec.length], few)
    text.flags[:, 0] |= PIECE
    dae.corrupt(text, keys(1), few, 512)
    too_few = config("dae", sentinels=count - 1, **chosen)
    with pytest.raises(UserError, match=f"sentinels is {count - 1}, .* set .*={count}"):
        objective_of(too_few)
    too_few.data.vocabulary = "a/model/file"  # which may have more
    assert objective_of(too_few) == dae


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("lm", {"mem_len": 8}, "objective lm reads a stream from row to row"),
        (
            "mlm",
            {"format": "segment_pair"},
            "objective mlm reads text of the unit 'pair'",
        ),
        ("mlm", {"format": "full_sentences"}, "reads text of the unit 'sentences'"),
        ("bart", {"text_unit": "passage"}, "reads text of the unit 'passage'"),
        ("unilm", {}, "objective unilm reads text of the unit 'pair'"),
        ("tlm", {}, "objective tlm reads text of the unit 'document'"),
        ("sequence_classification", {}, "objective sequence_classification reads text"),
        ("plm", {"format": "pair"}, "objective plm reads text ahead of its row"),
        ("joint", {}, "objective joint has arrays that cannot be joined (step)"),
        ("infoword", {}, "objective infoword reads text of the unit 'passage'"),
        ("wklm", {}, "objective wklm has arrays that cannot be joined"),
        ("coco_lm", {}, "has arrays that cannot be joined (crop_weight)"),
        ("clip", {"images": "random"}, "objective clip reads text of the unit"),
        ("knowbert", {"entities": "random"}, "has arrays that cannot be joined"),
        ("retromae", {}, "objective retromae has arrays that cannot be joined"),
        (
            "mix",
            {"base_objective": "dae", "parts": {"a": {"rate": 0.5}, "b": {}}},
            "objective mix has parts that read texts of different lengths",
        ),
    ],
)
def test_what_cannot_be_packed_is_refused_in_one_line(name, fields, words):
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        objective_of(config(name, **fields))
    assert "set data.packing=none" in str(caught.value)
    assert "\n" not in str(caught.value)
