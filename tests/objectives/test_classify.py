"""classify: the classified position, attention, labels and pooling."""

import jax
import numpy as np
import pytest

from research import models, objectives
from research.batch import attention_mask, input_group
from research.errors import UserError
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab()
EXAMPLE = texts(14, [14, 5, 1, 0, 9], VOCAB)._replace(
    label=np.array([0, 2, -1, 1, 1], np.int32)
)


def corrupt(vocabulary=VOCAB, **fields):
    objective = objectives.make_objective("classify", **fields)
    return objective.corrupt(EXAMPLE, keys(5), vocabulary, 16)


def classified_tokens(batch, prefix="") -> list[int]:
    """The token whose state is classified, for each non-empty row."""
    token = np.take_along_axis(batch[prefix + "token"], batch["scored"], axis=1)
    return list(token[EXAMPLE.length > 0, 0])


@pytest.mark.parametrize(
    ("fields", "prefix", "token"),
    [
        ({}, "", VOCAB.bos_id),
        ({"bos": "last"}, "", VOCAB.bos_id),
        ({"architecture": "decoder"}, "", VOCAB.eos_id),
        ({"architecture": "encdec"}, "decoder_", VOCAB.eos_id),
    ],
)
def test_the_classified_token(fields, prefix, token):
    batch = corrupt(**fields)
    assert classified_tokens(batch, prefix) == [token] * 4
    last = batch[prefix + "segment"].sum(axis=1) - 1
    at_end = batch["scored"][:, 0] == np.maximum(last, 0)
    assert at_end.all() or fields == {}


@pytest.mark.parametrize(
    ("fields", "activation"), [({}, "tanh"), ({"head": "linear"}, "none")]
)
@pytest.mark.parametrize("architecture", ["encoder", "encdec"])
def test_a_classifier_is_tanh_or_linear_with_dropout(fields, activation, architecture):
    objective = objectives.make_objective(
        "classify", architecture=architecture, **fields
    )
    network = objective.network(model_options(), VOCAB)
    expected = models.HeadSpec(len(VOCAB.labels), activation, dropout=True)
    assert network.heads == {"label": expected}


@pytest.mark.parametrize("task", ["nsp", "sop", "structural"])
def test_fine_tuning_starts_from_the_pooler_of_pretraining(task):
    """BERT's code: a checkpoint's parameters are restored by their names."""
    pretraining = {"format": "segment_pair", "sentence_task": task}

    def shapes(name, **fields):
        objective = objectives.make_objective(name, **fields)
        network = objective.network(model_options(), VOCAB)
        batch = {
            array: np.zeros((2, *spec.shape), spec.dtype)
            for array, spec in objective.batch_spec(16).items()
        }
        made = jax.eval_shape(
            lambda: models.init(
                network, lambda net: objective.loss(net, batch, None), jax.random.key(0)
            )
        )
        leaves = jax.tree_util.tree_leaves_with_path(models.unbox(made))
        return {jax.tree_util.keystr(path): leaf.shape for path, leaf in leaves}

    saved, tuned = shapes("mlm", **pretraining), shapes("classify")
    new = {name for name in tuned if tuned[name] != saved.get(name)}
    assert new == {
        "['answer_label']['out']['bias']",
        "['answer_label']['out']['kernel']",
    }
    assert {name for name in saved if "pooler" in name} <= tuned.keys()


def test_both_sides_of_an_encoder_decoder_read_the_same_text():
    batch = corrupt(architecture="encdec")
    for name in ("token", "position", "segment"):
        encoder, decoder = (
            input_group(batch, side)[name] for side in ("encoder_", "decoder_")
        )
        np.testing.assert_array_equal(encoder, decoder)


def test_a_decoder_is_causal_and_an_encoder_bidirectional():
    # As in pretraining: the same network is fine-tuned.
    here = corrupt()["segment"] > 0
    both = here[:, :, None] & here[:, None]
    np.testing.assert_array_equal(attention_mask(corrupt()), both)
    causal = attention_mask(corrupt(architecture="decoder"))
    np.testing.assert_array_equal(causal, np.tril(both))


def test_pooling_excludes_padding():
    class Net:
        states = staticmethod(lambda batch, scored: values)
        head = staticmethod(lambda name, state: pooled.append(state) or state)

    pooled = []
    values = np.float32(np.random.default_rng(0).normal(size=(5, 16, 4)))
    batch = corrupt(pool="mean")
    assert "scored" not in batch
    objectives.make_objective("classify", pool="mean").loss(Net, batch, None)
    for row, state in enumerate(pooled[0]):
        here = batch["segment"][row] > 0
        mean = values[row][here].mean(axis=0) if here.any() else np.zeros(4)
        np.testing.assert_allclose(state, mean, rtol=1e-5, atol=1e-6)


def test_only_labelled_documents_count():
    batch = corrupt()
    assert list(batch["label_weight"]) == [1, 1, 0, 0, 1]
    assert list(batch["label"][[0, 1, 4]]) == [0, 2, 1]


@pytest.mark.parametrize("labels", [(), ("only",)])
def test_a_corpus_without_two_labels_is_refused(labels):
    unlabelled = vocab(labels=labels)
    with pytest.raises(UserError, match=r"data\.corpus has .*(no labels|'only' alone)"):
        corrupt(unlabelled)
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
def test_illegal_fields_are_refused(fields):
    with pytest.raises(UserError, match="objective classify"):
        objectives.make_objective("classify", **fields)
