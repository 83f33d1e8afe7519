"""What single kinds of predictions do, and how evaluations use them."""

import json
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import sentencepiece
from etils import epath

from research.config.config import Config
from research.data.documents import Document
from research.distributed import sharding
from research.evaluation.evaluate import evaluate
from research.evaluation.items import item_margins, score_predictions
from research.evaluation.prediction_files import write_predictions
from research.evaluation.statistics import estimate, wilson_interval
from research.evaluation.written_texts import write_texts
from research.metrics import Item, measure
from research.predictions import MAX_PROBABILITIES, Rows, prediction_kind
from research.program.setup import build_program, make_eval_zeros
from tests.testing import fake_tfds
from tests.testing.prediction_cases import (
    PAIR,
    WORDS,
    cases,
    one_hot,
    open_task,
    task_config,
    write_files,
)
from tests.testing.tiny_runs import random_state


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("tasks"))


SHORT = {"target_length": 5, "beams": 1}
GPT = {"format": "gpt", "lm_coef": 0.5}


@pytest.mark.parametrize("kind", ["class", "choice", "set", "tags", "span"])
def test_probabilities_are_those_of_the_logits(folder, kind):
    objective, data = cases()[kind].open(folder)
    items = score_predictions(objective, cases()[kind].predict(data), data).items
    for item in items:
        line = item._asdict() | dict(item.details)
        if kind == "span":
            if item.prediction:
                assert (line["answer_score"], line["no_answer_score"]) == (6, -1)
        else:
            check_probabilities(kind, line["probabilities"], line)
    if kind == "set":
        assert any(item.gold is None for item in items)
    if kind == "span":  # in windows
        assert sum(item.prediction == "" for item in items) == 3
        rows = sum(len(batch["null"]) for batch in cases()[kind].predict(data))
        assert rows > len(items)


def check_probabilities(kind, found, line):
    """They are those of the oracle's logits, by the names of what they are of."""
    match kind:
        case "class" | "choice":
            assert sum(found.values()) == pytest.approx(1, abs=1e-5)
            right, *others = found
            assert right == line["gold"] == line["prediction"]
            for name in others:
                assert found[name] == pytest.approx(found[right] / np.e, rel=1e-4)
            if kind == "choice":
                assert len(found) == len(line["texts"]) - 1
        case "set":
            high, low = 1 / (1 + np.exp([-0.5, 0.5]))
            expected = {n: high if n in line["prediction"] else low for n in "xy"}
            assert found == pytest.approx(expected, rel=1e-5)
        case "tags":
            assert found == [0.75] * len(line["texts"])


def test_a_choice_has_its_letter_where_the_training_text_lacks_one_before_it():
    document = Document("q a b c", starts=(2, 4, 6), label="C")
    rows = Rows(document, [{"logits": np.array([0.0, 1.0, 2.0, 9.0])}], [0])
    data = SimpleNamespace(vocab=SimpleNamespace(labels=("A", "C")))
    item = prediction_kind("choice").item(rows, None, data)
    assert (item.prediction, item.gold, item.score) == ("C", "C", 1.0)
    assert [*item.details["probabilities"]] == ["C", "B", "A"]


def test_a_long_text_and_many_classes_are_cut(tmp_path):
    names = [f"c{n}" for n in range(MAX_PROBABILITIES + 5)]
    logits = np.arange(len(names)) / 50
    rows = Rows(Document("a" * 20_001, label="c3"), [{"logits": logits}], [0])
    data = SimpleNamespace(vocab=SimpleNamespace(labels=names))
    item = prediction_kind("class").item(rows, None, data)
    write_predictions(epath.Path(tmp_path / "p.jsonl"), [item])
    line = json.loads((tmp_path / "p.jsonl").read_text())
    assert line["texts"] == ["a" * 20_000 + "…"]
    assert [*line["probabilities"]] == names[:4:-1]
    whole = np.exp(logits).sum()
    for name, probability in line["probabilities"].items():
        expected = np.exp(int(name[1:]) / 50) / whole
        assert probability == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "fields", "file", "keys"),
    [
        ("sequence_classification", GPT, "rows.jsonl", PAIR),
        ("token_classification", {"head": "crf"}, "words.conll", {}),
        ("sequence_to_sequence", SHORT, "rows.jsonl", {"fields": "one,two"}),
    ],
)
def test_losses_and_items_do_not_depend_on_the_length_of_a_batch(
    folder, name, fields, file, keys
):
    found, params = [], None
    for lengths in ([], [16, 30]):
        config = task_config(folder, name, file, keys, **fields)
        config.data.length_buckets = lengths
        config.optimizer.warmup_steps = 1
        config.model.update({"layers": 1, "width": 32, "heads": 2, "feedforward": 64})
        program = build_program(Config.of(config), jax.devices()[:1])
        with sharding.context(program.mesh):
            if params is None:
                params = random_state(program).params
            zeros = make_eval_zeros(program)()
            found.append(evaluate(program, params, zeros, with_margins=False))
    expected, scores = found
    assert scores.metrics == pytest.approx(expected.metrics, rel=1e-5)
    assert len(expected.items) > 8
    assert [item.id for item in scores.items] == [item.id for item in expected.items]
    for item, other in zip(scores.items, expected.items, strict=True):
        assert item.prediction == other.prediction and item.gold == other.gold


def program_that_writes(folder, format, layout):
    """Of a small network with as many learned positions as training needs."""
    fields = SHORT | {"target_length": 6, "format": format, "layout": layout}
    keys = {"fields": "one,two", "length": 4}
    config = task_config(folder, "sequence_to_sequence", "rows.jsonl", keys, **fields)
    config.optimizer.warmup_steps = 1
    config.model.update({"layers": 1, "width": 32, "heads": 2, "feedforward": 64})
    config.model.position = "learned"
    config.model.max_length = 4 + 6 if layout == "decoder" else 6
    return build_program(Config.of(config), jax.devices()[:1])


@pytest.mark.parametrize(
    ("format", "layout", "expected"),
    [("t5", "decoder", 6), ("bart", "decoder", 5), ("bart", "encoder_decoder", 5)],
)
def test_texts_are_as_long_as_targets_of_training(folder, format, layout, expected):
    """Learned positions for training are enough, and bos is not among new tokens."""
    program = program_that_writes(folder, format, layout)
    with sharding.context(program.mesh):
        found = write_texts(program, random_state(program).params)["written"]
    assert found.shape == (29, expected)


def test_a_stop_is_heard_before_each_batch_of_texts(folder):
    program, calls = program_that_writes(folder, "t5", "decoder"), []
    rows = len(program.abstract_batch["token"])
    with sharding.context(program.mesh):
        params, zeros = random_state(program).params, make_eval_zeros(program)()
        evaluate(program, params, zeros, lambda: calls.append(0), with_margins=False)
    num_batches = -(-29 // rows)
    assert num_batches > 1
    assert len(calls) == 2 * num_batches  # of the loss, and of the texts


def test_words_past_the_row_are_predicted_to_be_outside(folder):
    objective, data = open_task(folder, "token_classification", "words.conll", {})
    batches = [
        cases()["tags"].oracle(batch, data.vocab) for batch in data.eval.evaluation()
    ]
    for batch in batches:
        batch["weight"][:, 4:] = 0
    scores = score_predictions(objective, batches, data)
    first = scores.items[0]
    assert len(first.prediction) == len(first.gold) == 9
    assert first.prediction[-1] == "O" and first.score < 1


@pytest.mark.parametrize("place", ["first", "inside", "last", "twice"])
def test_a_word_without_a_token_moves_no_tag(folder, place):
    """SentencePiece's normalisation leaves nothing of a zero width space."""
    path = folder / "pieces.model"
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([" ".join(WORDS)] * 50),
            model_writer=file,
            vocab_size=15,
            minloglevel=2,
        )
    words = [("ab", "V"), ("fggh", "D"), ("dab", "N"), ("haefgh", "P")]
    for index in {"first": [0], "inside": [2], "last": [4], "twice": [2, 2]}[place]:
        words.insert(index, ("\u200b", "X"))
    lines = "\n".join(map(" ".join, words))
    (folder / f"{place}.conll").write_text(lines + "\n")
    keys = {"vocabulary": str(path), "sentinels": 0}
    objective, data = open_task(folder, "token_classification", f"{place}.conll", keys)
    batch, *_ = batches = [*data.eval.evaluation()]
    target = batch["target"][0][batch["weight"][0] > 0]
    assert [data.vocab.labels[tag] for tag in target] == ["V", "D", "N", "P"]
    assert len(data.vocabulary.encode("haefgh")[0]) > 1
    predicted = [cases()["tags"].oracle(batch, data.vocab) for batch in batches]
    (item,) = score_predictions(objective, predicted, data).items
    assert item.prediction == [tag if tag != "X" else "O" for _, tag in words]
    unknown = [probability is None for probability in item.details["probabilities"]]
    assert unknown == [tag == "X" for _, tag in words]


def test_a_tag_that_training_lacks_is_an_error_and_moves_no_other(folder, capsys):
    """As I-LST in the official test of CoNLL-2000."""
    lines = (folder / "words.conll").read_text().splitlines()
    lines[3] = f"{lines[3].split()[0]} I-LST"
    (folder / "more.conll").write_text("\n".join(lines))
    keys = {"valid": str(folder / "more.conll")}
    crf = {"head": "crf"}
    for fields in ({}, crf):
        objective, data = open_task(
            folder, "token_classification", "words.conll", keys, **fields
        )
        assert "more.conll:1: label 'I-LST' is unknown" in capsys.readouterr().err
        assert "I-LST" not in data.vocab.labels
        batches = [
            cases()["tags"].oracle(batch | {"weight": batch["word"]}, data.vocab)
            for batch in data.eval.evaluation()
        ]
        scores = score_predictions(objective, batches, data)
        first, *others = scores.items
        assert first.gold[3] == "I-LST" and first.score == 8 / 9
        assert {item.score for item in others} == {1}
        assert scores.metrics["word_accuracy"] == 16 / 17
        assert 0 < scores.metrics["f1"] < 1
        assert sum(batch["weight"].sum() for batch in data.eval.evaluation()) == 16


@pytest.mark.parametrize("sets", [[["x"], ["x", "y"], []], [["x"], ["x"], []]])
def test_a_text_whose_list_of_labels_is_empty_has_none_of_the_classes(folder, sets):
    """It is learned and scored as scikit-learn does a row of zeros."""
    rows = [{"one": "ab cd", "set": sets[n % 3]} for n in range(12)]
    (folder / "sets.jsonl").write_text("\n".join(map(json.dumps, rows)))
    keys = {"fields": "one", "label": "set"}
    objective, data = open_task(
        folder, "sequence_classification", "sets.jsonl", keys, task="multi"
    )
    classes = sorted({name for names in sets for name in names})
    batches = [*data.eval.evaluation()]
    label, weight = (
        np.concatenate([batch[name] for batch in batches])
        for name in ("label", "label_weight")
    )
    assert objective.needs(data.vocab).heads["label"].size == len(classes)
    bits = [sum(1 << classes.index(name) for name in names) for names in sets]
    assert label[:12].tolist() == 4 * bits and weight.sum() == 12
    right = label[:, None] >> np.arange(len(classes)) & 1
    scores = score_predictions(objective, [{"logits": right - 0.5}], data)
    assert scores.metrics == {"f1_micro": 1, "f1_macro": 1, "exact": 1}
    assert [item.gold for item in scores.items] == 4 * sets
    first = one_hot(0 * label, len(classes))
    scores = score_predictions(objective, [{"logits": first - 0.5}], data)
    assert scores.items[2].score == 1 - 1 / len(classes)
    hits, missed = 8, 4 * (len(classes) - 1)
    assert scores.metrics["f1_micro"] == 2 * hits / (2 * hits + 4 + missed)


@pytest.mark.parametrize(("task", "label"), [("single", "class"), ("multi", "set")])
def test_a_class_that_training_lacks_is_an_error(folder, capsys, task, label):
    rows = (folder / "rows.jsonl").read_text().splitlines()
    rows[0] = json.dumps(
        json.loads(rows[0]) | {label: ["x", "new"][task == "single" :]}
    )
    (folder / "more.jsonl").write_text("\n".join(rows))
    keys = PAIR | {"label": label, "valid": str(folder / "more.jsonl")}
    objective, data = open_task(
        folder, "sequence_classification", "rows.jsonl", keys, task=task
    )
    known = 29 if task == "single" else 20
    line = f"label 'new' is unknown to the training text, as are 1 of {known}"
    assert f"more.jsonl:1: {line}" in capsys.readouterr().err
    batches = [
        cases()[objective.predicts].oracle(batch, data.vocab)
        for batch in data.eval.evaluation()
    ]
    scores = score_predictions(objective, batches, data)
    exact = scores.metrics["exact" if task == "multi" else "accuracy"]
    assert exact == pytest.approx(1 - 1 / known)
    assert scores.items[0].score < 1 == scores.items[1].score
    assert item_margins(scores.items, objective, data)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("tfds", ("not_equivalent", "equivalent")),  # tfds:glue/mrpc
        ("tfds", ("entailment", "not_entailment")),  # tfds:glue/rte
        ("tfds", ("spam", "ham")),
        ("file", ("not_duplicate", "duplicate")),
        ("file", ("No hate", "Hate")),
        ("file", ("ham", "spam")),
        ("file", ("0", "1")),
    ],
)
def test_f1_is_that_of_the_positive_class_and_the_head_stays_sorted(
    tmp_path, folder, monkeypatch, source, names
):
    """GLUE's F1 of a constant prediction where 68 % are positive: 0.8095."""

    def row(split, n):
        return {"text": b"ab cd %d" % n, "label": int(n % 25 < 17)}

    rows = [row("", n) for n in range(200)]
    lines = [f"{each['text'].decode()}\t{names[each['label']]}" for each in rows]
    file = tmp_path / "rows.tsv"
    file.write_text("\n".join(["text\tlabel", *lines]))
    features = {"text": None, "label": SimpleNamespace(names=[*names])}
    builder = fake_tfds.make_builder(["train", "test"], row, **features)
    library = SimpleNamespace(builder=lambda name: builder)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", library)
    train = "tfds:glue/made" if source == "tfds" else str(file)
    keys = {"fields": "text", "label": "label", "train": train, "valid": str(file)}
    keys["cache_dir"] = str(tmp_path)
    objective, data = open_task(folder, "sequence_classification", "rows.jsonl", keys)
    assert data.vocab.labels == tuple(sorted(names))
    at = data.vocab.labels.index(names[1])
    batches = [
        {"logits": one_hot(np.full(len(batch["example"]), at), 2)}
        for batch in data.eval.evaluation()
    ]
    scores = score_predictions(objective, batches, data)
    assert scores.metrics["accuracy"] == 0.68
    assert scores.metrics["f1"] == pytest.approx(2 * 0.68 / 1.68)


@pytest.mark.parametrize(
    ("task", "label"), [("single", "class"), ("multi", "set"), ("regression", "number")]
)
def test_the_chunks_of_a_text_have_the_mean_of_their_logits(folder, task, label):
    length, stride, rng = 16, 7, np.random.default_rng(1)
    objective, data = open_task(
        folder,
        "sequence_classification",
        "rows.jsonl",
        {"fields": "one", "label": label, "length": length},
        task=task,
        stride=stride,
    )
    num_logits = {"single": 3, "multi": 2, "regression": 1}[task]
    rows = [len(batch["example"]) for batch in data.eval.evaluation()]
    batches = [{"logits": rng.normal(size=(size, num_logits))} for size in rows]
    scores = score_predictions(objective, batches, data)
    documents = list(data.documents())
    room = length - 2
    sizes = [len(data.vocabulary.encode(each.text)[0]) for each in documents]
    chunks = [1 + max(0, -(-(size - room) // stride)) for size in sizes]
    assert max(chunks) > 2 and min(chunks) == 1
    logits = np.concatenate([batch["logits"] for batch in batches])[: sum(chunks)]
    pooled = [each.mean(0) for each in np.split(logits, np.cumsum(chunks)[:-1])]
    assert [item.id for item in scores.items] == [each.id for each in documents]
    predictions, names = [item.prediction for item in scores.items], data.vocab.labels
    if task == "single":
        assert predictions == [names[each.argmax()] for each in pooled]
        golds = [each.label for each in documents]
        assert golds == [item.gold for item in scores.items]
        assert scores.metrics == measure("class", scores.items, names)
    elif task == "multi":
        sets = [
            [name for name, on in zip("xy", row > 0, strict=True) if on]
            for row in pooled
        ]
        assert predictions == sets
    else:
        assert predictions == pytest.approx([float(each[0]) for each in pooled])
        golds = [float(each.label) for each in documents]
        assert golds == [item.gold for item in scores.items]
        assert scores.metrics == measure("number", scores.items, names)


class _Choices:
    predicts = "choice"


class _Labels:
    """Stands in for `Data`: what metrics read of it."""

    labels = classes = ("x", "y", "z")
    vocab = property(lambda self: self)


def _items(scores):
    return [Item(str(n), "x", "x", float(score)) for n, score in enumerate(scores)]


class _Classes:
    predicts = "class"


def test_the_margin_of_right_and_wrong_is_wilsons_and_that_of_parts_students():
    scores = np.random.default_rng(0).random(20 * 13)
    found = item_margins(_items(scores < 0.7), _Choices, _Labels())
    low, high = wilson_interval((scores < 0.7).mean(), len(scores))
    assert found == {"accuracy": pytest.approx((high - low) / 2)}
    found = item_margins(_items(scores), _Choices, _Labels())
    assert found == {"accuracy": pytest.approx(estimate(scores).margin)}


def test_the_margin_of_what_is_no_mean_is_students_over_groups_of_the_items():
    random = np.random.default_rng(0)
    golds, guesses = random.choice([*"xyz"], (2, 20 * 13))
    guesses = np.where(random.random(len(golds)) < 0.4, golds, guesses)
    pairs = zip(guesses, golds, strict=True)
    items = [Item("", str(p), str(g), float(p == g)) for p, g in pairs]

    def f1(chosen):
        return measure("class", [items[n] for n in chosen], "xyz")["f1"]

    order = np.random.default_rng(0).permutation(len(items))
    without = [np.delete(order, np.s_[n : n + 13]) for n in range(0, 20 * 13, 13)]
    values = [20 * f1(order) - 19 * f1(others) for others in without]
    found = item_margins(items, _Classes, _Labels())
    assert found["f1"] == pytest.approx(estimate(values).margin)
