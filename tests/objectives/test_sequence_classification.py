"""sequence_classification: labels, sets and numbers, pooling, GPT's auxiliary loss."""

import jax
import numpy as np
import pytest

from research import networks, objectives
from research.contract.batch import PART
from research.contract.errors import UserError
from research.data.documents import LABEL_SEPARATOR
from research.networks.transformer.blocks import Encoded
from research.objectives.tasks import sequence_classification
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

TEXTS = texts(9, [9, 4, 0, 6], vocab())._replace(
    label=np.array([2, 0, 1, -1], np.int32),
    first_length=np.array([4, 4, 0, 6], np.int32),
)


def corrupt(labels, **fields):
    objective = objectives.make_objective("sequence_classification", **fields)
    return objective.corrupt(TEXTS, keys(4), vocab(labels=labels), 16)


def test_labels_are_classes_sets_or_numbers():
    numbers = ("0.5", "3", "4.25")
    batch = corrupt(numbers, task="regression", label_scale=5.0)
    assert batch["label"].tolist() == [4.25, 0.5, 0, 0]
    sets = ("a", f"a{LABEL_SEPARATOR}c", f"b{LABEL_SEPARATOR}c")
    assert corrupt(sets, task="multi")["label"].tolist() == [0b110, 0b001, 0, 0]
    batch = corrupt(("x", "y", "z"))
    assert batch["label"].tolist() == [2, 0, 0, 0]
    assert batch["label_weight"].tolist() == [1, 1, 0, 0]  # no text, and no label


def test_the_end_of_a_long_text_is_no_second_part():
    flags = TEXTS.flags.copy()
    flags[0, 4] |= PART
    text = TEXTS._replace(flags=flags, first_length=np.array([4, 1, 0, 6], np.int32))
    objective = objectives.make_objective("sequence_classification", tail=3)
    assert objective.text_spec(16).tail == 3
    batch = objective.corrupt(text, keys(4), vocab(), 16)
    eos = vocab().eos_id
    positions = [np.flatnonzero(row == eos).tolist() for row in batch["token"]]
    assert positions == [[5, 11], [5], [], [7]]
    assert batch["token"][1, 1:5].tolist() == TEXTS.token[1, :4].tolist()
    assert not batch["token_type"][1:].any()


def test_chunks_have_a_stride():
    objective = objectives.make_objective("sequence_classification", stride=5)
    spec = objective.text_spec(16)
    assert (spec.length, spec.stride, spec.max_first) == (14, 5, 0)


def test_regression_is_the_squared_error_of_scaled_labels():
    objective = objectives.make_objective(
        "sequence_classification", task="regression", label_scale=5.0
    )
    labels = vocab(labels=("0.5", "3", "4.25"))
    batch = objective.corrupt(TEXTS, keys(4), labels, 16)

    class Net:
        def features(self, batch, scored):
            return np.zeros((4, 1, 2), np.float32)

        def head(self, name, states):
            return np.array([[0.5], [0.25], [9], [9]], np.float32)

    terms, _ = objective.loss(Net(), batch, None)
    expected = (0.5 - 4.25 / 5) ** 2 + (0.25 - 0.5 / 5) ** 2
    assert float(terms["squared_error"].total) == pytest.approx(expected)
    assert float(terms["squared_error"].weight) == 2
    assert np.ravel(objective.predictions(Net(), batch)["logits"])[:2].tolist() == [
        2.5,
        1.25,
    ]


@pytest.mark.parametrize(
    ("fields", "size", "activation"),
    [
        ({}, 3, "tanh"),
        ({"head": "linear"}, 3, "none"),
        ({"task": "regression"}, 1, "tanh"),
    ],
)
def test_the_head(fields, size, activation):
    objective = objectives.make_objective("sequence_classification", **fields)
    head = networks.HeadSpec(size, activation, dropout=True)
    assert objective.needs(vocab()).heads == {"label": head}


def test_a_network_of_format_gpt_is_causal():
    for name, pattern in (("bert", "full"), ("gpt", "causal")):
        objective = objectives.make_objective("sequence_classification", format=name)
        assert objective.needs(vocab()).pattern == pattern


@pytest.mark.parametrize("task", ["nsp", "sop", "structural"])
def test_fine_tuning_starts_from_the_pooler_of_pretraining(task):
    """BERT's code: a checkpoint's parameters are restored by their names."""
    pretraining = {"format": "segment_pair", "sentence_task": task}

    def shapes(name, **fields):
        objective = objectives.make_objective(name, **fields)
        network = networks.build(model_options(), objective.needs(vocab()), vocab())
        batch = {
            array: np.zeros((2, *spec.shape), spec.dtype)
            for array, spec in objective.batch_spec(16).items()
        }
        made = jax.eval_shape(
            lambda: networks.init(
                network, lambda net: objective.loss(net, batch, None), jax.random.key(0)
            )
        )
        leaves = jax.tree_util.tree_leaves_with_path(networks.unbox(made))
        return {jax.tree_util.keystr(path): leaf.shape for path, leaf in leaves}

    saved, tuned = shapes("mlm", **pretraining), shapes("sequence_classification")
    new = {name for name in tuned if tuned[name] != saved.get(name)}
    assert new == {
        "['head_label']['out']['bias']",
        "['head_label']['out']['kernel']",
    }
    assert {name for name in saved if "pooler" in name} <= tuned.keys()


def test_concat_pooling_is_the_last_state_the_largest_values_and_the_mean():
    """ULMFiT's, without the padding that its code pools, and of an empty row 0."""
    states = np.float32([[[1, -2], [3, 4], [-1, 1], [9, 9]], np.full((4, 2), 9)])
    segment = np.array([[1, 1, 1, 0], [0, 0, 0, 0]])
    pooled = sequence_classification.POOLS["concat"](states, segment)
    np.testing.assert_allclose(pooled[0], [-1, 1, 3, 4, 1, 1])
    np.testing.assert_allclose(pooled[1, 2:], 0)


def test_pooling_excludes_padding():
    """Of format bart the encoder is read alone."""

    class Net:
        features = staticmethod(lambda batch, scored: values)
        encode = staticmethod(lambda group: Encoded(values, group["segment"]))
        head = staticmethod(lambda name, state: pooled.append(state) or state)

    pooled = []
    values = np.float32(np.random.default_rng(0).normal(size=(4, 16, 4)))
    for name, prefix in (("xlnet", ""), ("bart", "encoder_")):
        fields = {"format": name, "pool": "mean"}
        objective = objectives.make_objective("sequence_classification", **fields)
        batch = objective.corrupt(TEXTS, keys(4), vocab(), 16)
        assert "pooled" not in batch and "decoder_token" not in batch
        objective.loss(Net, batch, None)
        for row, state in enumerate(pooled.pop()):
            here = batch[prefix + "segment"][row] > 0
            mean = values[row][here].mean(axis=0) if here.any() else np.zeros(4)
            np.testing.assert_allclose(state, mean, rtol=1e-5, atol=1e-6)


def test_gpts_auxiliary_loss_predicts_the_next_token():
    batch = corrupt(("x", "y", "z"), format="gpt", lm_coef=0.5)
    for row, size in enumerate(batch["segment"].sum(axis=1)):
        scored = batch["weight"][row] > 0
        assert scored.tolist() == [n + 1 < size for n in range(16)]
        following = batch["token"][row, 1:][scored[:-1]]
        assert batch["target"][row][scored].tolist() == following.tolist()
    # The loss is a mean over texts, long or short: openai/finetune-transformer-lm,
    # train.py, divides the sum of each row by the row's number of targets.
    np.testing.assert_allclose(batch["weight"].sum(axis=1), batch["segment"].any(1))
    assert len(np.unique(batch["segment"].sum(axis=1))) > 2


def test_wrong_labels_are_refused():
    with pytest.raises(UserError, match="at most 31 labels"):
        corrupt(tuple(f"{n:02}" for n in range(32)), task="multi")
    with pytest.raises(UserError, match=r"data\.label"):
        corrupt(())
    needs = objectives.make_objective("sequence_classification").needs(vocab())
    with pytest.raises(UserError, match=r"model\.token_types"):
        networks.build(model_options(token_types=1), needs, vocab())
