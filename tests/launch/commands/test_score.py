"""score: tables and scores of each text on disk, and one-line errors."""

import json
import math
import shutil
from types import SimpleNamespace

import pytest

from launch.cli import DONE, FAILED, MISTAKE, main
from launch.commands.score import parser, run
from launch.reports.columns import scored
from launch.sweeps import sweep_plan
from research.config.identity import write_run_config
from research.data.tokenize.vocabulary import load_vocabulary
from research.evaluation.score_windows import encode
from tests.testing import tiny_runs

PAIRS = [("the old stone reads", "stone reads the old")] * 3 + [("a river", "a river")]
WORDS = [("the small river sees the old", "stone"), ("by and", "by")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of lm in `run`, one that gives no scores in `other`, and tasks' files."""
    folder = tiny_runs.write_corpus(tmp_path_factory.mktemp("score"))
    config = tiny_runs.tiny_config(
        folder, "lm", **{"train.steps": 3, "train.checkpoint_every": 2}
    )
    tiny_runs.train(config, folder / "run")
    (folder / "other").mkdir()
    other = tiny_runs.tiny_config(folder, "finetune")
    write_run_config(folder / "other", other.values)
    rows = [
        {"sentence_good": good, "sentence_bad": bad, "UID": "x"} for good, bad in PAIRS
    ]
    write(folder / "pairs.jsonl", rows)
    rows = [{"context": context, "continuation": word} for context, word in WORDS]
    write(folder / "words.jsonl", rows)
    write(folder / "one.jsonl", [{"text": "a river", "label": 1}] * 2)
    write(folder / "bad.jsonl", [{"query": "a", "choices": ["b", "c"], "gold": 2}])
    return folder


SWEEP = """
def sweep(scale):
    for objective in ("lm", "finetune"):
        for seed in range(3):
            yield f"experiments/{objective}.py", {"seed": seed}
"""


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def score(capsys, *flags):
    """The exit code, the lines of stdout, and stderr."""
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), list(flags))
    out, error = capsys.readouterr()
    return stop.value.code, out.splitlines(), error


def test_pairs_and_last_words(folder, capsys):
    flags = [f"--workdir={folder}/run", "--task=blimp", f"--data={folder}/pairs.jsonl"]
    code, lines, _ = score(capsys, *flags)
    assert code == DONE
    assert lines[-6] == "blimp by likelihood (left_to_right)"
    assert [line.startswith(("| x | 4 | ", "| all | 4 | ")) for line in lines[-3:]] == [
        True,
        True,
        False,
    ]
    with open(f"{lines[-1]}/scores.jsonl") as file:
        items = list(map(json.loads, file))
    with open(f"{lines[-1]}/table.json") as file:
        table = json.load(file)
    assert [item["id"] for item in items] == [f"pairs.jsonl:{n + 1}" for n in range(4)]
    good, bad = items[0]["scores"]
    right = (good["log_prob"] > bad["log_prob"]) * 3 + 0.5  # one pair is a tie
    assert table["table"]["x"]["accuracy, sum"]["value"] == right / 4
    assert good["log_prob"] < 0 and good["num_tokens"] == bad["num_tokens"] >= 4
    assert good["num_bytes"] == len(PAIRS[0][0])

    flags = [f"--workdir={folder}/run", "--task=lambada"]
    code, lines, _ = score(capsys, *flags, f"--data={folder}/words.jsonl")
    assert code == DONE
    with open(f"{lines[-1]}/scores.jsonl") as file:
        words = [json.loads(line)["scores"][0] for line in file]
    assert [word["num_bytes"] for word in words] == [5, 2]
    assert all(word["all_best"] in (True, False) for word in words)


def test_a_table_reads_scores_of_one_paradigm_and_of_one_text(folder, tmp_path, capsys):
    without = shutil.ignore_patterns("evaluations")  # of the tests before
    shutil.copytree(folder / "run", tmp_path / "run", ignore=without)
    (tmp_path / "one.txt").write_text("ab cd abc ef\n")
    for task, file in (("blimp", folder / "pairs.jsonl"), ("sentences", "one.txt")):
        flags = [f"--workdir={tmp_path}/run", f"--task={task}"]
        code, lines, _ = score(capsys, *flags, f"--data={tmp_path / file}")
        assert code == DONE and "nan" not in "".join(lines)
    for file in tmp_path.glob("run/evaluations/*/table.json"):
        json.loads(file.read_text(), parse_constant=pytest.fail)  # NaN is no JSON
    run = {"folder": tmp_path / "run", "gives_scores": True, "opened_step": 3}
    trial = SimpleNamespace(**run)
    columns = {column.name: column for column in scored.Columns.columns}
    assert len(columns["BLiMP"].value(trial)) == 4
    assert 0 < columns["BLiMP"].margin(trial) < 50
    assert columns["bits a byte"].value(trial) > 0
    assert math.isnan(columns["bits a byte"].margin(trial))


def test_scores_of_some_items_are_none_of_a_table(folder, tmp_path, capsys):
    without = shutil.ignore_patterns("evaluations")  # of the tests before
    shutil.copytree(folder / "run", tmp_path / "run", ignore=without)
    flags = [f"--workdir={tmp_path}/run", "--task=blimp"]
    flags += [f"--data={folder}/pairs.jsonl", "--limit=2"]
    code, lines, _ = score(capsys, *flags)
    (own,) = (tmp_path / "run" / "evaluations").glob("*/scores.jsonl")
    assert code == DONE and lines[-1] == str(own.parent) and "." in own.parent.name
    assert len(own.read_text().splitlines()) == 2
    run = {"folder": tmp_path / "run", "gives_scores": True, "opened_step": 3}
    trial = SimpleNamespace(**run)
    assert not scored.score_folders(trial, "blimp")
    own.parent.rename(str(own.parent).rpartition(".")[0])
    assert scored.score_folders(trial, "blimp")


def test_a_sweep_is_scored_where_there_are_no_scores_yet(folder, tmp_path, capsys):
    (tmp_path / "sweep.py").write_text(SWEEP)
    plan = sweep_plan.make_plan(
        str(tmp_path / "sweep.py"), tmp_path, scale="smoke", shared={}
    )
    sweep_plan.write_plan(plan, tmp_path)
    first, second, third, *_ = plan  # finetune gives no scores
    flags = [f"--workdir={tmp_path}", "--task=blimp", f"--data={folder}/pairs.jsonl"]
    shutil.copytree(folder / "run", first.folder)
    code, lines, _ = score(capsys, *flags)
    assert code == FAILED
    assert lines[0] == f"[1/3] {first.name}"
    assert lines[-1] == f"2 runs have no result yet: {second.name}, {third.name}"
    (written,) = first.folder.glob("evaluations/blimp-*/scores.jsonl")
    content = written.read_text()
    written.write_text("kept")
    for trial in (second, third):
        shutil.copytree(folder / "run", trial.folder)
    assert score(capsys, *flags)[0] == DONE
    assert written.read_text() == "kept"
    for trial in (second, third):
        (written,) = trial.folder.glob("evaluations/blimp-*/scores.jsonl")
        assert written.read_text() == content


def test_scores_of_another_step_are_none_of_the_last_one(folder, tmp_path, capsys):
    (tmp_path / "sweep.py").write_text(SWEEP.replace("range(3)", "range(2)"))
    plan = sweep_plan.make_plan(
        str(tmp_path / "sweep.py"), tmp_path, scale="smoke", shared={}
    )
    sweep_plan.write_plan(plan, tmp_path)
    without = shutil.ignore_patterns("evaluations")
    for trial in plan[:2]:
        shutil.copytree(folder / "run", trial.folder, ignore=without)
    shutil.rmtree(plan[1].folder / "checkpoints" / "3")  # the one before opens it
    flags = [f"--workdir={tmp_path}", "--task=blimp", f"--data={folder}/pairs.jsonl"]

    def steps():
        written = [
            trial.folder.glob("evaluations/*/scores.jsonl") for trial in plan[:2]
        ]
        return [
            sorted(f.parent.name.split("-")[-2] for f in files) for files in written
        ]

    assert score(capsys, *flags, "--step=2")[0] == DONE and steps() == [["2"], ["2"]]
    assert not any(scored.is_scored(trial, "blimp") for trial in plan[:2])
    assert score(capsys, *flags)[0] == DONE and steps() == [["2", "3"], ["2"]]
    assert [scored.is_scored(trial, "blimp") for trial in plan[:2]] == [1, 0]
    written = [*tmp_path.glob("*/evaluations/*/scores.jsonl")]
    for file in written:
        file.write_text("kept")
    for step in ("--step=0", "--step=2"):
        assert score(capsys, *flags, step)[0] == DONE
    assert {file.read_text() for file in written} == {"kept"}
    shutil.rmtree(plan[0].folder / "checkpoints")  # its scores are not made again
    assert score(capsys, *flags)[0] == DONE


@pytest.mark.parametrize(
    ("context", "text", "separator", "suffix", "scored"),
    [
        ("", "the old stone", " ", "", "the old stone"),
        ("the old", "stone", " ", "", "stone"),
        ("the old", " stone", "", "", "stone"),
        ("the old ", "stone sees", " ", "", "stone sees"),
        ("the old\n", "a river", " ", "", "a river"),
        ("the", "old", " ", "stone sees", "old"),
        ("", "the old", " ", "stone", "the old"),
    ],
)
def test_the_tokens_of_a_text_between_context_and_suffix(
    folder, context, text, separator, suffix, scored
):
    vocabulary = load_vocabulary(folder / "run", 0)
    token, flags, own = encode(vocabulary, text, context, separator, suffix)
    assert vocabulary.decode(token[own]) == scored
    words = f"{context} {text} {suffix}".split()
    assert vocabulary.decode(token).split() == words
    assert own[-1] == (not suffix) and (flags > 0).sum() >= len(words)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--workdir={0}/none"], "is not a run"),
        (["--task=blimps"], "unknown --task 'blimps'; did you mean blimp?"),
        (["--data={0}/none.jsonl"], "none.jsonl': no file or folder /"),
        (["--data={0}/words.jsonl"], "words.jsonl:1: unknown column"),
        (["--task=choices", "--data={0}/bad.jsonl"], "its label '2' is none of its 2"),
        (["--fields=nothing"], "unknown column"),
        (["--method=original"], "unknown method of scoring of objective lm"),
        (["--step=7"], "has checkpoints of the steps"),
        (["--task=sentences", "--data={0}/one.jsonl"], "all texts have the label 1"),
        (["--workdir={0}/other"], "objective sequence_classification gives"),
        (["--config.model.width=8"], "model.width cannot be changed"),
    ],
)
def test_a_mistake_gives_one_line(folder, capsys, flags, words):
    legal = ["--workdir={0}/run", "--task=blimp", "--data={0}/pairs.jsonl"]
    code, _, error = score(capsys, *(flag.format(folder) for flag in legal + flags))
    assert code == MISTAKE
    assert words in error.splitlines()[-1]
