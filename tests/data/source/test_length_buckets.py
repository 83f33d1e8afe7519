"""Batches of texts of like lengths: the same rows as without buckets, less padded."""

import json
from collections import Counter

import numpy as np
import pytest

from research.config.config import Config
from research.contract.errors import UserError
from tests.testing import small_data
from tests.testing.toy_objectives import assert_same_batch, concatenate

LENGTHS, LENGTH = (12, 24), 48
WORDS = ["ab", "cd", "abc", "ef", "dab", "fg", "gh", "ha"]
PAIR = {"fields": "one,two", "label": "class"}
NAMES = ("sequence_classification", "sequence_to_sequence", "token_classification")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("buckets")
    rng = np.random.default_rng(0)
    text = small_data.write_corpus(folder, "text", seed=0)
    vocabulary = small_data.open_small(small_data.config(text, folder / "cache"))[0]
    vocabulary.vocabulary.save(folder)

    def text(most):
        return " ".join(rng.choice(WORDS, rng.integers(1, most + 1)))

    for number, name in enumerate(("a", "b")):
        rows = [
            {"class": "xyz"[n % 3]}
            | {part: text(size) for part, size in (("one", 15), ("two", 4))}
            for n in range(90 - 30 * number)
        ]
        (folder / name).mkdir()
        (folder / name / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    sentences = [[(word, word[0]) for word in text(20).split()] for _ in range(90)]
    lines = ("\n".join(map(" ".join, sentence)) for sentence in sentences)
    (folder / "words.conll").write_text("\n\n".join(lines))
    return folder


@pytest.fixture
def make(folder):
    """make(name, lengths, files, fields of the objective, **keys of config.data)."""

    def make(name=NAMES[0], lengths=LENGTHS, files=("a",), batch=4, fields=(), **keys):
        paths = [str(folder / file) for file in files]
        corpus = dict.fromkeys(paths, 0.5) if len(files) > 1 else paths[0]
        if name == "token_classification":
            corpus = str(folder / "words.conll")
        config = small_data.config(corpus, folder / "cache", name, **dict(fields))
        if name != "token_classification":
            config.data.update(PAIR)
        config.data.update({"stride": 0, "length": LENGTH, "held_out": 0.3} | keys)
        config.data.vocabulary = str(folder)
        config.data.length_buckets = [*lengths]
        config.train.batch = batch
        return small_data.open_with(config, Config.of(config).objective)

    return make


def row_texts(batches):
    """How often each example with its tokens and its answer is in the batches."""
    found = Counter()
    for batch in batches:
        name = "encoder_" if "encoder_token" in batch else ""
        for row in range(len(batch["example"])):
            used = batch[f"{name}segment"][row] > 0
            text = batch[f"{name}token"][row][used].tobytes()
            answer = batch["label" if "label" in batch else "target"][row]
            scored = batch.get("weight", np.ones_like(batch.get("target", [])))[row:]
            answer = answer[scored[0] > 0] if answer.ndim else answer
            found[int(batch["example"][row]), text, answer.tobytes()] += 1
    return found


def row_columns(batch):
    """[B]: columns of each row that have a token."""
    name = "encoder_segment" if "encoder_segment" in batch else "segment"
    return (batch[name] > 0).sum(axis=1)


def columns(batch):
    return batch.get("token", batch.get("encoder_token")).shape[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_window_has_the_rows_that_it_has_without_buckets(make, name):
    plain, bucketed = make(name, ()).train, make(name).train
    for window in (0, 2):
        size = bucketed.buckets.steps
        steps = range(window * size, (window + 1) * size)
        found, expected = ([p.batch(s) for s in steps] for p in (bucketed, plain))
        assert row_texts(found) == row_texts(expected)
        for batch in found:
            needed = row_columns(batch).max()
            assert columns(batch) == min(n for n in (*LENGTHS, LENGTH) if n >= needed)
        widths = Counter(map(columns, found))
        assert len(widths) > 1 and widths == +Counter(
            bucketed.buckets.count_steps(steps.start, steps.stop)
        )
        order = [*map(columns, found)]
        assert order != sorted(order)


def test_a_text_that_fills_a_length_is_in_its_bucket(make):
    data, plain = make("token_classification").eval, make("token_classification", ())
    needed = np.concatenate([*map(row_columns, plain.eval.evaluation())])
    assert {*LENGTHS} & {*needed.tolist()}
    for number in range(data.num_examples):
        expected = min(n for n in (*LENGTHS, LENGTH) if n >= needed[number])
        assert data.buckets.longest(np.array([number])) == expected


def test_rows_of_a_mixture_have_their_own_lengths(make):
    data = make(files=("a", "b"))
    steps = range(data.train.buckets.steps)
    plain = make(files=("a", "b"), lengths=()).train
    assert row_texts(map(data.train.batch, steps)) == row_texts(map(plain.batch, steps))


def test_an_epoch_of_few_texts_has_each_once(make):
    data = make(batch=8).train
    steps = data.num_examples // 8
    read = np.concatenate([data.batch(step)["example"] for step in range(steps)])
    assert 1 < steps < 10 and len({*read.tolist()}) == len(read)


def test_a_batch_is_a_function_of_its_step_on_any_number_of_hosts(make):
    data, again = make().train, make().train
    size = data.buckets.steps
    read = list(data.batches(0, None, 2 * size))
    for step in (size + 6, 3, 2 * size - 1, 0, size, size - 1):
        assert_same_batch(read[step], again.batch(step))
        hosts = [again.batch(step, rows) for rows in (slice(0, 1), slice(1, 4))]
        assert_same_batch(read[step], concatenate(hosts))
        ranges = (slice(0, 3), slice(3, 4))
        hosts = [next(again.batches(step, rows, step + 1)) for rows in ranges]
        assert_same_batch(read[step], concatenate(hosts))


def test_rows_have_the_step_that_reads_them(make):
    schedule = {"teacher": "none", "replacing_rate": [[0, 0.3], [30, 1.0]]}
    fields = schedule | {"base_objective": NAMES[0]}
    data = make("theseus", fields=fields).train
    for step in (0, 1, 7, data.buckets.steps, 70):
        assert data.batch(step)["step"].tolist() == [step] * 4


@pytest.mark.parametrize("name", NAMES)
def test_an_evaluation_reads_each_example_once_in_its_own_order(make, name):
    plain, bucketed = make(name, ()).eval, make(name).eval
    batches = list(bucketed.evaluation())
    assert {len(batch["example"]) for batch in batches} == {4}
    order = bucketed.evaluation_order()
    assert plain.evaluation_order() is None and sorted(order) == [*range(len(order))]
    read = np.concatenate([batch["example"] for batch in batches])
    assert read[: len(order)].tolist() == order.tolist() != sorted(order)
    expected = row_texts(plain.evaluation())
    assert row_texts(batches) == expected
    widths = [columns(batch) for batch in batches]
    assert widths[:-1] == sorted(widths[:-1]) and widths[0] < LENGTH


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"lengths": (20, 10)},
            r"is \[20, 10\]; it must have ascending whole numbers from",
        ),
        ({"lengths": (10, 10)}, "ascending"),
        ({"lengths": (48,)}, "from 3 to data.length - 1, 47"),
        ({"lengths": (2,)}, "from 3 to"),
        ({"lengths": (10.5,)}, "whole numbers"),
        ({"mixing": "batches"}, "mixes the corpora of a batch"),
        ({"reader": "seqio"}, "needs a corpus that data.reader=native reads"),
        ({"name": "multiple_choice"}, "rows of objective multiple_choice have one"),
    ],
)
def test_lengths_that_cannot_be_are_named(make, keys, message):
    with pytest.raises(UserError, match=f"data.length_buckets.*{message}"):
        make(**keys)
