"""classify: where the label is read, and which rows count."""

import numpy as np
import pytest

from research import objectives
from research.batch import attention_mask, input_group
from research.errors import UserError
from tests.testing.example_batches import keys, texts, vocab

OF = vocab()
EXAMPLE = texts(14, [14, 5, 1, 0, 9], OF)._replace(
    label=np.array([0, 2, -1, 1, 1], np.int32)
)


def corrupt(of=OF, **fields):
    objective = objectives.make_objective("classify", **fields)
    return objective.corrupt(EXAMPLE, keys(5), of, 16)


def read(batch, prefix="") -> list[int]:
    """The token at which each non-empty row's label is read."""
    token = np.take_along_axis(batch[prefix + "token"], batch["scored"], axis=1)
    return list(token[EXAMPLE.length > 0, 0])


@pytest.mark.parametrize(
    ("fields", "prefix", "where"),
    [
        ({}, "", OF.bos_id),
        ({"bos": "last"}, "", OF.bos_id),
        ({"architecture": "decoder"}, "", OF.eos_id),
        ({"architecture": "encdec"}, "decoder_", OF.eos_id),
    ],
)
def test_the_label_is_read_at_its_token(fields, prefix, where):
    batch = corrupt(**fields)
    assert read(batch, prefix) == [where] * 4
    last = batch[prefix + "segment"].sum(axis=1) - 1
    at_end = batch["scored"][:, 0] == np.maximum(last, 0)
    assert at_end.all() or fields == {}


def test_both_sides_of_an_encoder_decoder_read_the_same_text():
    batch = corrupt(architecture="encdec")
    for name in ("token", "position", "segment"):
        encoder, decoder = (
            input_group(batch, side)[name] for side in ("encoder_", "decoder_")
        )
        np.testing.assert_array_equal(encoder, decoder)


def test_a_decoder_looks_back_and_an_encoder_both_ways():
    # As they did in pretraining: what is fine-tuned is the same network.
    here = corrupt()["segment"] > 0
    both = here[:, :, None] & here[:, None]
    np.testing.assert_array_equal(attention_mask(corrupt()), both)
    looks_back = attention_mask(corrupt(architecture="decoder"))
    np.testing.assert_array_equal(looks_back, np.tril(both))


def test_a_mean_is_of_what_is_no_padding():
    class Net:
        states = staticmethod(lambda batch, scored: values)
        head = staticmethod(lambda name, state: heard.append(state) or state)

    heard = []
    values = np.float32(np.random.default_rng(0).normal(size=(5, 16, 4)))
    batch = corrupt(pool="mean")
    assert "scored" not in batch
    objectives.make_objective("classify", pool="mean").loss(Net, batch, None)
    for row, state in enumerate(heard[0]):
        here = batch["segment"][row] > 0
        mean = values[row][here].mean(axis=0) if here.any() else np.zeros(4)
        np.testing.assert_allclose(state, mean, rtol=1e-5, atol=1e-6)


def test_only_labelled_documents_count():
    batch = corrupt()
    assert list(batch["label_weight"]) == [1, 1, 0, 0, 1]
    assert list(batch["label"][[0, 1, 4]]) == [0, 2, 1]


def test_a_corpus_without_labels_is_refused():
    unlabelled = vocab(labels=())
    with pytest.raises(UserError, match=r"data\.corpus"):
        corrupt(of=unlabelled)
    with pytest.raises(UserError, match=r"data\.corpus"):
        objectives.make_objective("classify").network(None, unlabelled)


@pytest.mark.parametrize(
    "fields",
    [
        {"architecture": "both"},
        {"bos": "x"},
        {"architecture": "decoder", "bos": "last"},
    ],
)
def test_what_makes_no_sense_is_refused(fields):
    with pytest.raises(UserError, match="objective classify"):
        objectives.make_objective("classify", **fields)
