"""Inputs and targets of a seqio task: rows as T5 reads them, scores as seqio's own."""

from types import SimpleNamespace

import numpy as np
import pytest
import seqio
import tensorflow as tf

from research.contract.errors import UserError
from research.evaluation import evaluate, written_texts
from research.generation.generate import Text
from tests.testing import small_data

LENGTHS = {"inputs": 32, "targets": 12}
BYTES = seqio.ByteVocabulary()
CONVERTER = seqio.EncDecFeatureConverter(pack=False)
PAIRS = [(f"text {n} " + "ab" * (3 * n), "ab" * n + f" {n}") for n in range(1, 8)]
"""Of both some are too long; what `reply` writes of them is never right."""
REPLIED = [(f"{n}x{n}", f"{n}X{n}") for n in range(9)]


@pytest.fixture(autouse=True)
def registry():
    """Removes what a test registered."""
    with small_data.restored_seqio_registry():
        yield


def register(name, pairs=PAIRS, *, keep_text=True, features=None, **options):
    """Registers a task of texts as T5's tasks are: each ends with eos."""
    texts = dict(zip(LENGTHS, map(list, zip(*pairs, strict=True)), strict=True))

    def tokenize(dataset, output_features):
        return seqio.preprocessors.tokenize(
            dataset, output_features, copy_pretokenized=keep_text
        )

    return seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(
            lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensor_slices(
                texts
            ),
            splits=["train", "validation"],
        ),
        preprocessors=[tokenize, seqio.preprocessors.append_eos_after_trim],
        output_features=features or dict.fromkeys(LENGTHS, seqio.Feature(BYTES)),
        **options,
    )


def open_task(tmp_path, name, **fields):
    config = small_data.config(
        "none", tmp_path, "sequence_to_sequence", target_length=12, **fields
    )
    config.data.task, config.data.length = name, LENGTHS["inputs"]
    return small_data.open_small(config)


def reply(prompt):
    """The prompt from its end: what the network writes in these tests."""
    return list(prompt)[::-1][:11]


def scores_of(task, tmp_path, monkeypatch):
    """An evaluation of a network that writes `reply`."""

    def make_generate(*args, batch, constants, before_batch):
        return lambda prompts: [[Text(reply(each), 0, 0, True)] for each in prompts]

    data, objective = open_task(tmp_path, task)
    monkeypatch.setattr(written_texts, "make_generate", make_generate)
    monkeypatch.setattr(evaluate, "eval_batches", lambda program: ())
    batch = {"target": np.zeros((8, 12))}
    program = SimpleNamespace(
        data=data,
        objective=objective,
        abstract_batch=batch,
        network=None,
        mesh=None,
        constants=SimpleNamespace(arrays={}),
    )
    sums = {"target": (np.float32(3), np.float32(2), np.float32(1))}
    return evaluate.evaluate(program, None, (sums, ()))


def scores_of_seqio(task):
    """TASK/METRIC -> what seqio's Evaluator says of `reply`."""

    def predict(dataset):
        found = []
        for number, row in dataset.as_numpy_iterator():
            tokens = row["encoder_input_tokens"]
            written = reply(tokens[tokens > BYTES.eos_id])
            found.append((number, written + [0] * (12 - len(written))))
        return found

    evaluator = seqio.Evaluator(
        task, CONVERTER, sequence_length=LENGTHS, async_compute_metrics=False
    )
    metrics, _ = evaluator.evaluate(compute_metrics=True, predict_fn=predict)
    return {
        f"{task}/{name}": getattr(value, "value", value)
        for task, values in metrics.result().items()
        for name, value in values.items()
    }


def with_facts(text, *, example, is_target):
    """A postprocess_fn that uses all that it is given."""
    return text.upper(), example["targets"].tolist(), is_target


def right(targets, predictions):
    assert all(each[2] for each in targets)
    assert not any(each[2] for each in predictions)
    equal = [a[:2] == b[:2] for a, b in zip(targets, predictions, strict=True)]
    return {"right": np.mean(equal), "size": seqio.metrics.Scalar(len(targets[0][0]))}


def letters(targets, predictions):
    return {"letters": sum(map(len, predictions)) / sum(map(len, targets))}


@pytest.mark.parametrize("layout", ["encoder_decoder", "prefix"])
def test_rows_are_those_of_t5(tmp_path, layout, capsys):
    register("pairs", [*PAIRS, ("", "no input")])
    data, _ = open_task(tmp_path, "pairs", layout=layout)
    (rows,) = data.eval.evaluation()
    expected = seqio.get_dataset("pairs", LENGTHS, CONVERTER, "validation")
    for row, want in enumerate(expected.take(len(PAIRS)).as_numpy_iterator()):
        read, target = want["encoder_input_tokens"], want["decoder_target_tokens"]
        scored = rows["weight"][row] > 0
        assert rows["target"][row][scored].tolist() == target[target > 0].tolist()
        if layout == "prefix":
            joined = [0, *read[read > 0], *target[target > 0]][:-1]
            assert rows["token"][row][rows["segment"][row] > 0].tolist() == joined
        else:
            before = want["decoder_input_tokens"][: scored.sum()].tolist()
            assert rows["encoder_token"][row].tolist() == read.tolist()
            assert rows["decoder_token"][row][scored].tolist() == before
    assert not rows["weight"][len(PAIRS)].any()
    assert capsys.readouterr().err.count("without inputs or targets") == 1


def test_the_metrics_of_a_mixture_are_those_of_seqio(tmp_path, monkeypatch):
    own_pairs = [*REPLIED, *PAIRS]
    register("one", own_pairs, postprocess_fn=with_facts, metric_fns=[right])
    pairs = [*REPLIED, ("ab", "ba"), *PAIRS[:2]]
    register("two", pairs, keep_text=False, metric_fns=[letters])
    register("none", PAIRS[:3])
    seqio.MixtureRegistry.add("all", ["one", "two", "none"], default_rate=1)
    scores = scores_of("all", tmp_path, monkeypatch)
    own = {name: value for name, value in scores.metrics.items() if "/" in name}
    assert own == pytest.approx(scores_of_seqio("all"))
    assert set(own) == {"one/right", "one/size", "two/letters"}
    assert own["one/right"] == len(REPLIED) / len(own_pairs)
    found = {item.id: item for item in scores.items}
    assert len(found) == len(scores.items) == len(own_pairs) + len(pairs) + 3
    assert found["two:10"].prediction == found["two:10"].gold == "ba"
    assert found["two:10"].score == 1 and found["one:16"].gold == PAIRS[6][1]
    exact = sum(item.prediction == item.gold for item in scores.items)
    assert scores.metrics["exact_match"] == pytest.approx(exact / len(scores.items))


def by_likelihood(targets, scores):
    return {"likelihood": 0.0}


def fails(targets, predictions):
    raise ValueError("no\nsuch label")


def of_text(targets, predictions):
    return {"sample": seqio.metrics.Text("a"), "nan": float("nan"), "right": 0.0}


TARGETS = {"targets": seqio.Feature(BYTES)}
OTHER = {"inputs": seqio.Feature(seqio.ByteVocabulary(5))} | TARGETS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": TARGETS}, "nor token ids as inputs and targets; it has targets"),
        ({"features": OTHER}, "its inputs and targets have different vocabularies"),
        ({"metric_fns": [by_likelihood]}, "data.task wrong: by_likelihood: metrics of"),
        (
            {"metric_fns": [fails]},
            r"its metric fails: ValueError: no such label \(.*py",
        ),
        ({"metric_fns": [letters] * 2}, "metric letters: another one has the name"),
        (
            {"metric_fns": [lambda a, b: {}]},
            "data.task wrong: ValueError: Metric funct",
        ),
        (
            {"metric_fns": [letters], "postprocess_fn": lambda text: text},
            "its postprocess_fn: TypeError",
        ),
    ],
)
def test_what_cannot_be_computed_is_one_line(tmp_path, monkeypatch, options, message):
    register("wrong", REPLIED, **options)
    with pytest.raises(UserError, match=message) as error:
        scores_of("wrong", tmp_path, monkeypatch)
    assert "\n" not in str(error.value)


def test_what_is_no_number_is_left_out_and_named(tmp_path, monkeypatch, capsys):
    register("odd", REPLIED, metric_fns=[of_text])
    metrics = scores_of("odd", tmp_path, monkeypatch).metrics
    assert {name for name in metrics if "/" in name} == {"odd/right"}
    lines = (line.split(": ") for line in capsys.readouterr().err.splitlines())
    told = [words[2].split()[0] for words in lines if len(words) > 2]
    assert told == ["sample", "nan"]


def test_a_task_has_no_labels(tmp_path):
    register("pairs")
    config = small_data.config("none", tmp_path, "sequence_classification")
    config.data.task = "pairs"
    with pytest.raises(UserError, match="pairs has no labels"):
        small_data.open_small(config)
