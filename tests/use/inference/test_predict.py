"""What a tuned model predicts for new texts: of a run, and of its exported folder."""

import json
from pathlib import Path

import numpy as np
import pytest

from launch.commands import predict as command
from research.config.config import Config
from research.contract.errors import UserError
from research.interop.partial_restore import in_label_order, saved_params
from research.predictions import softmax
from research.use.export import export_run
from research.use.inference.open_run import open_run
from research.use.inference.predict import WORD, Predictor
from tests.testing import prediction_cases, task_runs
from tests.testing.tiny_runs import save_untrained, tiny_config

LABELS = sorted(task_runs.LABELS)
PIPELINES = Path(__file__).parents[2] / "goldens" / "pipelines"


LONG = ("without_types", "gelu")
"""Two more texts of one class, whose heads and formats tests/interop exports."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in task_runs.CASES],
)
def test_predictions_are_those_of_evaluations_and_of_the_exported_folder(
    name, tmp_path
):
    run, to = task_runs.make(name, tmp_path), tmp_path / "to"
    export_run(run.workdir, to)
    of_run, of_folder = (
        open_run(source).predict(run.parts) for source in (run.workdir, f"hf:{to}")
    )
    assert len(of_run) == len(of_folder) == len(run.values)
    for item, other, values in zip(of_run, of_folder, run.values, strict=True):
        assert item.gold is item.score is None
        if name == "tags":
            assert item.prediction == other.prediction
            tags = [LABELS[tag] for tag in values[1 : 1 + len(item.texts)]]
            assert item.prediction == tags
            assert item.details["chunks"] == []  # tags of no scheme
        elif name == "numbers":
            np.testing.assert_allclose(item.prediction, values[0], rtol=1e-5)
            np.testing.assert_allclose(other.prediction, values[0], rtol=1e-5)
        else:
            expected = dict(zip(LABELS, softmax(values), strict=True))
            for found in (item, other):
                probabilities = found.details["probabilities"]
                assert probabilities.keys() == expected.keys()
                for label, value in probabilities.items():
                    np.testing.assert_allclose(value, expected[label], rtol=1e-4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "It's 3.5 km (U.S.), e\u0301t\u0301!",
            "It's 3.5 km ( U.S . ) , e\u0301t\u0301 !",
        ),
        ("हिन्दी भाषा है।", "हिन्दी भाषा है ।"),  # nltk/nltk #2409, RasaHQ/rasa #5998
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("東京は、JR線", "東 京 は 、 JR 線"),
    ],
)
def test_a_tagged_text_is_divided_into_words_of_any_script(text, words):
    assert WORD.findall(text) == words.split(" ")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return task_runs.make("pairs", tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def opened(pairs):
    return open_run(pairs.workdir)


def test_values_of_a_foreign_head_keep_their_names(pairs, tmp_path):
    """The order of labels there is any; here it is theirs when sorted.

    A training or a teacher that reads it has this order, too (huggingface/transformers
    #10386, QData/TextAttack #684).
    """
    to = tmp_path / "to"
    export_run(pairs.workdir, to)
    path, names = to / "config.json", ("z", "a", "m")
    config = json.loads(path.read_text())
    config["id2label"] = {str(n): name for n, name in enumerate(names)}
    path.write_text(json.dumps(config))
    items = open_run(f"hf:{to}").predict(pairs.parts[:3])
    for item, logits in zip(items, pairs.values, strict=False):
        assert item.prediction == names[int(np.argmax(logits))]
    params = open_run(pairs.workdir).run.params
    read = {"vocabulary": "", "num_pieces": 0, "labels": ("A", "m", "z")}
    found = saved_params(f"hf:{to}", params, **read).by_name
    for name, array in params["head_label"]["out"].items():
        theirs = np.asarray(array)[..., [1, 2, 0]]
        np.testing.assert_array_equal(found[f"head_label/out/{name}"], theirs)


@pytest.mark.parametrize(
    ("theirs", "ours", "order"),
    [
        ("c a b", "a b c", [1, 2, 0]),
        ("Entailment neutral", "entailment neutral", [0, 1]),
        ("LABEL_0 LABEL_1 LABEL_2", "2 0 1", [2, 0, 1]),
        ("a A", "A a", [1, 0]),
        ("LABEL_0 LABEL_1", "neg pos", None),
    ],
)
def test_a_head_is_read_in_the_order_of_our_labels(theirs, ours, order, capsys):
    """A line says where labels are others, whose values keep their order."""
    theirs, ours = theirs.split(), ours.split()
    values = np.arange(len(theirs))[None]
    head = {"head_tag/out/kernel": values, "stack/out/kernel": values}
    found = in_label_order("SOURCE", head, theirs, ours)
    assert found["stack/out/kernel"] is values
    expected = list(range(len(theirs))) if order is None else order
    assert found["head_tag/out/kernel"].tolist() == [expected]
    is_told = "the head of SOURCE has the labels" in capsys.readouterr().err
    assert is_told == (order is None)


def test_a_file_has_the_run_s_columns_and_its_label_may_lack(
    pairs, opened, tmp_path, capsys
):
    file = tmp_path / "new.tsv"
    rows = ["one\ttwo", *("\t".join(parts) for parts in pairs.parts)]
    file.write_text("\n".join(rows) + "\n")
    predictor = Predictor(opened)
    items = predictor.predict_file(str(file))
    assert {item.gold for item in items} == {None}
    expected = predictor.predict(pairs.parts)
    assert [i.prediction for i in items] == [i.prediction for i in expected]
    given = ["--workdir", str(pairs.workdir), "--data", str(file)]
    command.run(command.parser().parse_args(given))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["prediction"] for line in lines] == [i.prediction for i in items]


def test_a_text_is_written_for_the_first_part_alone(tmp_path):
    """As palimpsest predict --workdir=R "a text" does, which a training names."""
    _, keys = task_runs.write_examples(tmp_path, "pairs")
    keys = keys | {"data.fields": "one,two", "data.label": ""}
    keys |= {"data.vocabulary": str(tmp_path / "vocab.txt"), "data.sentinels": 0}
    keys |= {"objective.name": "sequence_to_sequence", "objective.format": "bart"}
    keys |= {"objective.target_length": 4, "data.corpus": None}
    workdir, *_ = save_untrained(
        tmp_path / "run", tiny_config(tmp_path, "finetune", **keys)
    )
    items = open_run(workdir).predict(["the old river", ["small", "stone"]])
    assert [item.texts[0] for item in items] == ["the old river", "small"]
    assert {type(item.prediction) for item in items} == {str}
    (tmp_path / "new.tsv").write_text("one\ttwo\nthe old river\tsmall stone\n")
    (item,) = Predictor(open_run(workdir)).predict_file(str(tmp_path / "new.tsv"))
    assert item.gold == "small stone" and item.score is not None
    assert item.prediction == items[0].prediction


def test_a_text_without_a_prediction_ends_no_others(pairs, opened, tmp_path, capsys):
    """It has an error, and the next one keeps its number."""
    predictor = Predictor(opened)
    first, second = pairs.parts[:2]
    found = predictor.predict_each([first, ["a", " "], second])
    assert isinstance(found[1], UserError) and found[2].id == "3"
    assert found[2].prediction == predictor.predict([second])[0].prediction


@pytest.mark.parametrize(
    "examples, words",
    [
        ("a text", r"examples must be a list; for one text write \['a text'\]"),
        (None, "examples must be a list of texts; got NoneType"),
        ({"a": 1}, "examples must be a list of texts; got dict"),
        ([" "], "example 1: ' ' is blank"),
        ([["a", "b"], None], "example 2 is of type NoneType; it must be a text"),
        ([["a", 3]], "example 1: 3 is blank or not text"),
        (["a"], "example 1 has 1 text, but the run reads 2: "),
        ([["a", "b", "c"]], "example 1 has 3 texts, but the run reads 2: "),
    ],
)
def test_what_is_no_example_is_refused(opened, examples, words):
    with pytest.raises(UserError, match=words):
        opened.predict(examples)


@pytest.mark.parametrize("name", ["classes", "tags", "answers"])
def test_predictions_are_those_of_transformers_pipelines(name):
    """`make pipelines-hf` wrote what they say of 50 inputs."""
    folder = PIPELINES / name
    golden = json.loads((folder / "pipeline.json").read_text("utf-8"))
    items = open_run(f"hf:{folder}").predict(golden["inputs"])
    assert len(items) == len(golden["outputs"]) == 50
    for item, said in zip(items, golden["outputs"], strict=True):
        if name == "answers":
            assert item.prediction == said
        elif name == "classes":
            np.testing.assert_allclose(
                [item.details["probabilities"][label] for label in said],
                [*said.values()],
                atol=2e-6,
            )
        else:
            of_words = {begin: (tag, score) for begin, tag, score in said["pieces"]}
            text, begin = golden["inputs"][int(item.id) - 1], 0
            probabilities = item.details["probabilities"]
            for word, tag, probability in zip(
                item.texts, item.prediction, probabilities, strict=True
            ):
                begin = text.index(word, begin)
                expected, score = of_words[begin]
                assert tag == expected
                np.testing.assert_allclose(probability, score, atol=2e-6)
                begin += len(word)
            chunks = item.details["chunks"]
            found = [[each["type"], each["begin"], each["end"]] for each in chunks]
            assert found == said["chunks"]


def test_a_text_without_tokens_is_read_as_an_unknown_one():
    model = open_run(f"hf:{PIPELINES / 'classes'}")
    nothing, unknown = model.predict(["\u200b", "\N{SNOWMAN}"])
    assert nothing.details == unknown.details


def _opened(folder, name):
    """An untrained run of a kind of predictions."""
    case = prediction_cases.cases()[name]
    parts = case.objective, case.file, case.keys
    config = prediction_cases.task_config(folder, *parts, **case.fields)
    config.optimizer.warmup_steps = 2
    return Predictor(open_run(save_untrained(folder / name, Config.of(config))[0]))


def test_questions_and_words_are_read_from_tables(tmp_path):
    """Their training files are no tables."""
    folder, file = prediction_cases.write_files(tmp_path), tmp_path / "new.jsonl"
    asked = {"question": "ab cd?", "context": "ef gh ab cd", "id": 3}
    file.write_text(json.dumps(asked) + "\n")
    predictor = _opened(folder, "span")
    (item,) = predictor.predict_file(str(file))
    (expected,) = predictor.predict([(asked["question"], asked["context"])])
    assert (item.texts, item.prediction) == (expected.texts, expected.prediction)
    predictor = _opened(folder, "tags")
    for words, text in ((["ab", "cd"], ["ab", "cd"]), ("ab cd", "ab cd")):
        file.write_text(json.dumps({"text": "no", "words": words}) + "\n")
        (item,) = predictor.predict_file(str(file), fields="words")
        (expected,) = predictor.predict([text])
        assert item == expected and item.texts == ("ab", "cd")
