"""The command that evaluates a model by BabyLM's tasks, and its files."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from launch import cli, glue
from launch.commands import babylm, generate
from research.evaluation.babylm.rules import RULES
from research.evaluation.babylm.tasks.glue import Finetuning
from research.use.babylm import checkpoints as found
from research.use.export import export_run
from tests.testing.babylm_golden import assert_equal, golden, write_golden
from tests.testing.tiny_runs import tiny_config, train, write_corpus

NAMES = ("chck_1M", "chck_2M")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The golden set; models/revisions has tiny-gpt2 as each of its revisions."""
    folder = write_golden(tmp_path_factory.mktemp("babylm"))
    for name in (*NAMES, "main"):
        model = folder / "models/tiny-gpt2"
        shutil.copytree(model, folder / "revisions" / name)
    return folder


def run(folder, workdir, to, *flags):
    """The exit code of the command on the golden data."""
    data = f"--data={folder / 'evaluation_data'}"
    with pytest.raises(SystemExit) as end:
        cli.main(
            babylm.run,
            babylm.parser(),
            [f"--workdir={workdir}", data, f"--to={to}", *flags],
        )
    return end.value.code


def test_a_submission_is_the_pipelines_file(folder, tmp_path, capsys):
    source = f"hf:{folder / 'revisions'}"
    assert run(folder, source, tmp_path) == 0
    printed = capsys.readouterr().out
    assert "main reading: 9.54 [" in printed and "chck_2M blimp: 66.67 [" in printed
    path = tmp_path / "revisions/all_full_preds_and_fast_scores_causal.json"
    ours, expected = json.loads(path.read_text()), dict(golden()["collated"])
    for name in ("aoa_surprisals", "aoa", "glue"):  # of other, invented values there
        del ours[name], expected[name]
    fast = {k: v[:2] for k, v in expected.pop("fast_eval_results").items()}
    fast["ewok"] = [fast["ewok"][0] | {uid: 0.5 for uid in fast["ewok"][0]}] * 2
    # A task that the pipeline lacks has no data here: its scores are null.
    own_fast = {k: v[:2] for k, v in ours.pop("fast_eval_results").items() if any(v)}
    ours = {k: v for k, v in ours.items() if k in expected or v}
    assert ours.keys() == expected.keys()
    ties = ours["entity_tracking_filtered"]["ambiref_0_ops"]
    assert ties == expected["entity_tracking_filtered"]["ambiref_0_ops"]
    assert_equal(ours, expected)
    assert_equal(own_fast, fast)
    assert run(folder, source, tmp_path) == 0  # computes nothing again
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if ": no folder " not in line]) < 4
    files = path, path.with_name("palimpsest_babylm_2026_causal.json")
    whole = [file.read_text() for file in files]
    assert run(folder, source, tmp_path, "--tasks=blimp", "--checkpoints=main") == 0
    assert [file.read_text() for file in files] == whole  # one task keeps the others


def test_a_run_and_its_export_have_the_same_results(folder, tmp_path):
    corpus = write_corpus(tmp_path)
    keys = {"train.checkpoint_words": [1000], "data.length": 256}
    keys |= {"train.steps": 3, "train.batch": 8}
    config = tiny_config(corpus, "lm", **keys)
    train(config, tmp_path / "model")
    export_run(tmp_path / "model", tmp_path / "exported/model", revisions=True)
    flags = ("--tasks=blimp,reading,aoa",)
    for source, to in (("model", "ours"), ("hf:exported/model", "theirs")):
        kind, _, name = source.rpartition(":")
        workdir = f"{kind}:{tmp_path / name}" if kind else tmp_path / name
        assert run(folder, workdir, tmp_path / to, *flags) == 0
    name = "model/palimpsest_babylm_2026_causal.json"
    texts = ((tmp_path / to / name).read_text() for to in ("ours", "theirs"))
    ours, theirs = map(json.loads, texts)
    assert [*ours["revisions"]] == ["chck_1K", "main"]
    assert_equal(ours["revisions"], theirs["revisions"])


@pytest.mark.long  # tests/evaluation/babylm/test_pipeline.py has each backend
@pytest.mark.parametrize(
    ("objective", "backend"), [("plm", "own"), ("electra", "own"), ("mlm", "mlm")]
)
def test_objectives_that_the_pipeline_lacks_are_judged(
    folder, tmp_path, objective, backend
):
    corpus = write_corpus(tmp_path)
    keys = {"train.checkpoint_words": [1000], "train.steps": 3, "data.length": 128}
    train(tiny_config(corpus, objective, **keys), tmp_path / "model")
    assert run(folder, tmp_path / "model", tmp_path / "to") == 0
    path = tmp_path / f"to/model/palimpsest_babylm_2026_{backend}.json"
    results = json.loads(path.read_text())["revisions"]
    assert results["main"]["comps"]["count"] == 4
    assert {"blimp", "reading", "entity_tracking"} <= results["chck_1K"].keys()


@pytest.mark.long
def test_glue_is_fine_tuned_on(folder, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    for split, count in (("train", 24), ("valid", 9)):
        lines = [
            {"sentence1": f"The {n} cats.", "sentence2": "Cats.", "label": n % 2}
            for n in range(count)
        ]
        text = "\n".join(map(json.dumps, lines))
        (rows / f"rte.{split}.jsonl").write_text(text)
    task = Finetuning("{sentence1}", "{sentence2}", 2, batch=8, epochs=2)
    source = found.find_checkpoints(f"hf:{folder / 'models/tiny-bert'}")
    to = tmp_path / "finetune"
    rules, cache = RULES["babylm_2026"], {"cache_dir": str(tmp_path)}
    results = glue.finetune(source, rows, to, rules, {"rte": task}, **cache)
    written = json.loads((to / "rte/predictions.json").read_text())
    predictions = written["rte"]["predictions"]
    assert [line["id"] for line in predictions] == [f"rte_{n}" for n in range(9)]
    right = np.mean([line["pred"] == n % 2 for n, line in enumerate(predictions)])
    assert results["rte"].value == pytest.approx(right)
    assert (to / "rte/results.txt").read_text().startswith(f"accuracy: {right}")


WRONG = [
    (
        (),
        {"--tasks": "blimb"},
        "unknown task of babylm_2026 'blimb'; did you mean blimp",
    ),
    ((), {"--rules": "babylm_2024"}, "argument --rules: invalid choice: 'babylm_2024'"),
    ((), {"--backend": "mlm"}, "does not fit a network with attention causal"),
    ((), {"--backend": "casual"}, "no backend 'casual'; --backend is one of causal,"),
    ((), {"--data": "elsewhere"}, "--data=elsewhere is not a folder"),
    ((), {"--workdir": "hf:nowhere"}, "hf:nowhere: no such folder"),
    (
        ("evaluation_data/full_eval/comps",),
        {"--tasks": "comps"},
        "no folder full_eval/comps",
    ),
    (
        ("revisions/chck_1M",),
        {},
        "has seen 2,000,000 words but has no checkpoint chck_1M",
    ),
    (("revisions/main",), {}, "has no config.json and no folder main"),
    (("revisions/main/tokenizer.json",), {}, "no tokenizer"),
]


@pytest.mark.parametrize("deleted, flags, problem", WRONG)
def test_what_is_wrong_is_said_in_one_line(
    folder, tmp_path, capsys, deleted, flags, problem
):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for name in deleted:
        path = copy / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    chosen = {"--tasks": "blimp"} if not deleted else {}
    flags = [f"{name}={value}" for name, value in (chosen | flags).items()]
    assert run(copy, f"hf:{copy / 'revisions'}", tmp_path / "to", *flags) == 2
    message = capsys.readouterr().err
    assert problem in message and message.count("\n") == 1


def test_a_wrong_row_and_a_model_without_a_head(folder, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    row = next((copy / "evaluation_data/full_eval/blimp_filtered").iterdir())
    row.write_text('{"sentence_good": "a b"}\n')
    bert = f"hf:{copy / 'models/tiny-bert'}"
    assert run(copy, bert, tmp_path / "to", "--tasks=blimp", "--checkpoints=main") == 2
    assert f"{row}, line 1: not a row of blimp (KeyError" in capsys.readouterr().err
    weights = copy / "models/tiny-bert/model.safetensors"
    save_file({k: v for k, v in load_file(weights).items() if "cls." not in k}, weights)
    assert run(folder, bert, tmp_path / "to", "--tasks=blimp") == 2
    assert "the model has no readout" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(generate.run, generate.parser(), [f"--workdir={bert}", "a"])
    assert "the model has no readout" in capsys.readouterr().err
