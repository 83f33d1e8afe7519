"""Every table of experiments/tables: its sweep plans at each scale."""

import functools
import inspect
import json
import math
import re
import shutil
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from experiments.sweeps import babylm as babylm_sweep
from experiments.sweeps import ulmfit, xnlg
from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from launch.reports import cells, tables
from launch.reports.columns import named, scored
from launch.reports.result_columns import task_margin, task_score, valid_score
from launch.reports.table_files import load_table
from launch.sweeps import benchmarks, budgets, finetuning, published, sweep_plan
from launch.sweeps.scales import SCALES
from launch.sweeps.tasks import Task
from launch.user_code import module_at
from research import objectives
from research.config.config import Config
from research.contract.errors import UserError
from research.program import flops
from research.program.setup import build_program
from tests.testing import fake_sweep

FOLDER = Path(tables.__file__).parents[2] / "experiments"
FILES = {
    path.stem: f"experiments/tables/{path.name}"
    for path in sorted((FOLDER / "tables").glob("[!_]*.*"))
}
NAMES = [name for name in FILES if (FOLDER / "sweeps" / f"{name}.py").exists()]
KEYS = {"data.train": "a.tsv", "data.valid": "b.tsv", "data.fields": "0"}
TASKS = dict.fromkeys(
    ("MNLI", "OCNLI", "XNLI de"), Task("SICK", KEYS | {"data.label": "1"})
)
TASKS["POS, frozen"] = Task("", {"data.train": "a.conll", "data.valid": "b.conll"})
TASKS["IMDb"] = Task("", {"data.train": "a.tsv", "data.valid": "b.tsv"})
TASKS["MRPC"] = Task("", {"data.train": "c.tsv", "data.valid": "d.tsv"})
TASKS["CoNLL-2000"] = Task("", {"data.train": "e.conll", "data.valid": "f.conll"})
TASKS["CoNLL-2000, all tags"] = Task(
    "", {"data.train": "all.conll", "data.valid": "f.conll"}
)
TASKS |= dict.fromkeys(("FewRel", "medical NER"), Task("", KEYS | {"data.label": "1"}))
QUESTIONS = Task("", KEYS | {"objective.name": "question_answering"})


@functools.cache
def _plan(name, scale):
    """The trials of a sweep, with one seed and one learning rate."""
    file = f"experiments/sweeps/{name}.py"
    takes_tasks = "tasks" in inspect.signature(module_at(file).sweep).parameters
    tasks = TASKS if takes_tasks else {}
    return sweep_plan.make_plan(file, "runs/x", scale=scale, shared={}, tasks=tasks)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """One seed, one learning rate, and no FLOPs counted."""
    one = {scale: finetuning.Repeats(1, 1, (1e-3,)) for scale in SCALES}
    monkeypatch.setattr(finetuning, "REPEATS", one)
    monkeypatch.setattr(budgets, "step_flops", lambda experiment, keys: 1e9)


BETWEEN = [s for s in SCALES if s not in ("smoke", "paper")]
each_scale = pytest.mark.parametrize(
    "scale",
    [pytest.param(s, marks=[pytest.mark.long] * (s in BETWEEN)) for s in SCALES],
)
"""The scales between the smallest and that of the paper are long."""


@each_scale
@pytest.mark.parametrize("name", NAMES)
def test_every_sweep_plans_and_its_table_knows_each_trial(name, scale):
    trials = _plan(name, scale)
    table = load_table(FILES[name])
    table = tables.for_sweep(table, trials, TASKS)
    rows = tables.table_rows(table, trials)
    shown = [t.id for row in rows.values() for group in row.values() for t in group]
    first_stages = {
        origin.id
        for trial in trials
        if trial.row
        for origin in trial.parents.values()
        if not origin.row
    }
    assert sorted(shown) == sorted({trial.id for trial in trials} - first_stages)
    grid = cells.fill_table(table, trials)
    assert list(grid) == list(rows) and not cells.is_complete(grid)


@pytest.mark.parametrize("name", NAMES)
def test_a_sweep_of_pretrainings_alone_plans_without_tasks(name):
    trials = _plan(name, "smoke")
    if {trial.group for trial in trials} == {"pretraining"}:
        file, plan = f"experiments/sweeps/{name}.py", sweep_plan.make_plan
        alone = plan(file, "runs/x", scale="smoke", shared={}, tasks={})
        assert [trial.id for trial in alone] == [trial.id for trial in trials]


PAPERS = {
    name: keys["paper"]
    for name in NAMES
    if FILES[name].endswith(".toml")
    if "paper" in (keys := tomllib.loads((FOLDER.parent / FILES[name]).read_text()))
}
"""Tables that name a paper -> its ledger of experiments/claims."""


@each_scale
@pytest.mark.parametrize("name", PAPERS)
def test_a_scale_does_not_change_the_question(name, scale):
    """At each scale the rows are the arms of the ledger, or those that probes tell
    apart."""
    table = load_table(FILES[name])
    paper = published.read_published(PAPERS[name])
    rows, first = (tables.labelled_rows(_plan(name, s)) for s in (scale, "smoke"))
    assert [row for row in first if row in rows] == list(rows)
    assert set(first) == set(paper.arms)
    assert set(rows) == set(first) or SCALES[scale].probes
    assert all((row, column) in table.papers for row, column in table.papers)
    assert {row for row, _ in table.papers} >= set(paper.arms)
    for row, groups in rows.items():
        for trial in groups.get("pretraining", ()):
            own = paper.arms[row][1]
            assert {key: trial.config[key] for key in own} == own


def test_a_fine_tuning_has_the_network_of_its_pretraining(tmp_path):
    for trial in _plan("bart1", "smoke"):
        if start := trial.parents.get("train.init_from"):
            for key, value in start.config.items():
                if key.startswith("model.") and key != "model.dropout":
                    assert trial.config[key] == value, key
            assert trial.config["data.length"] == start.config["data.length"]


def _without(keys, trial):
    return {key: value for key, value in trial.config.items() if key not in keys}


def test_ulmfit_has_three_stages_and_lacks_the_first_two_one_by_one():
    """All classifiers have one network, vocabulary and budget."""
    trials = [t for t in _plan("ulmfit", "smoke") if t.config["seed"] == 0]
    (tuned,) = (t for t in trials if t.group == "pretraining")
    general = tuned.parents["train.init_from"]
    found = {t.row: t for t in trials if t.group == "IMDb"}
    assert [*found] == ["three stages", "without the second stage", "no pretraining"]
    starts = [t.parents.get("train.init_from") for t in found.values()]
    assert starts == [tuned, general, None]
    assert found["no pretraining"].parents["data.vocabulary"] == general
    assert tuned.config["data.train"] == "a.tsv" and not general.config["data.train"]
    alone = found["no pretraining"].config
    assert not alone["optimizer.unfreeze_every"] and not alone["optimizer.layer_rates"]
    own = ("train.init_from", "data.vocabulary", "optimizer.unfreeze_every")
    own += ("optimizer.layer_rates", "optimizer.learning_rate")
    same = [_without(own, trial) for trial in found.values()]
    assert same[0] == same[1] == same[2]


@pytest.mark.parametrize("scale", ["paper", "quick"])
def test_ulmfits_language_models_have_the_released_rates_and_dropouts(scale):
    """fastai, imdb_scripts/pretrain_lm.py and finetune_lm.py; quick underfits."""
    trials = [t for t in _plan("ulmfit", scale) if t.config["seed"] == 0]
    (tuned,) = (t for t in trials if t.group == "pretraining")
    general = tuned.parents["train.init_from"].config
    keys = ("clip_norm", "beta1", "beta2", "warmup", "final_fraction", "learning_rate")
    found = [tuned.config[f"optimizer.{key}"] for key in keys]
    assert found == [0.3, 0.8, 0.99, "slanted", 1 / 32, 4e-3]
    below = [1 / 6, 1 / 3] if scale == "paper" else [1 / 3]
    assert tuned.config["optimizer.layer_rates"] == [1 / 2, *below, 1, 1 / 2]
    if scale == "paper":
        assert general["optimizer.layer_rates"] == [1, *below, 1, 1]
        for key, rate in ulmfit.DROPOUT.items():
            assert (general[key], tuned.config[key]) == (rate / 2, rate)


def test_xnlg_tunes_an_encoder_or_all_and_lacks_the_first_stages_one_by_one():
    """Of a seed; networks of all tunings are the same."""
    tasks = {"captions": Task("", {"data.train": "a/t.jsonl", "data.valid": "v"})}
    with pytest.raises(UserError, match="--tasks has no captions"):
        list(xnlg.sweep("smoke", TASKS))
    trials = sweep_plan.make_plan(
        "experiments/sweeps/xnlg.py", "runs/x", scale="smoke", shared={}, tasks=tasks
    )
    found = {t.row: t for t in trials if t.config["seed"] == 0}
    first, second = found["XLM"], found["not tuned"]
    assert second.parents["train.init_from"] == first and len(trials) == 3 * len(found)
    alone = found["not tuned, without stage 1"]
    assert alone.parents == {"data.vocabulary": first}
    assert not alone.config["optimizer.frozen"] and second.config["optimizer.frozen"]
    starts = {
        "encoder tuned": second,
        "all tuned": second,
        "all tuned, without stage 2": first,
        "encoder tuned, without stage 1": alone,
    }
    for row, start in starts.items():
        trial = found[row]
        assert trial.parents["train.init_from"] == start
        assert bool(trial.config["optimizer.frozen"]) == row.startswith("encoder")
    network = [
        {k: v for k, v in found[row].config.items() if k.startswith("model.")}
        for row in starts
    ]
    assert all(each == network[0] for each in network)
    assert network[0]["model.token_types"] == 3


@pytest.mark.parametrize("name", ["babylm", "bart1"])
def test_no_row_beside_others_is_a_single_sentence(name):
    """Its positions would be mostly empty, and its tokens a fraction of others'."""
    trials = [t for t in _plan(name, "quick") if t.group == "pretraining"]
    for trial in trials:
        own = {k: v for k, v in trial.config.items() if k.startswith("objective.")}
        fields = {key.partition(".")[2]: value for key, value in own.items()}
        objective = objectives.make_objective(**fields)
        assert objective.text_spec(64).unit != "sentence", trial.row
    assert len(trials) > 10


@pytest.mark.parametrize("scale", SCALES)
def test_stages_of_ernie_are_a_third_of_the_steps(scale):
    trials = [t for t in _plan("chinese", scale) if t.group == "pretraining"]
    own = next(t.config for t in trials if t.row == "ernie")
    first, last = own["train.steps"] // 3, 2 * own["train.steps"] // 3
    parts = own["objective.parts"]
    mixed = objectives.make_objective("mix", base_objective="mlm", parts=parts)
    at = np.array([0, first - 1, first, last - 1, last, own["train.steps"] - 1])
    keys = np.arange(300, dtype=np.uint64)
    drawn = [mixed.draw_parts(keys, np.full(len(keys), step)) for step in at]
    names = [{sorted(parts)[number] for number in each} for each in drawn]
    expected = ["token", "token", "phrase", "phrase", "entity", "entity"]
    assert names == [{name} for name in expected]


def test_bert_small_is_that_of_electra():
    trials = [t for t in _plan("electra_small", "quick") if t.group == "pretraining"]
    found = {trial.row: trial.config for trial in trials}
    electra, bert = found["ELECTRA-small"], found["BERT-small"]
    assert electra["objective.rate"] == bert["objective.rate"] == 0.15
    assert bert["objective.sentence_task"] == "none"


def test_taggers_of_few_tags_differ_from_cross_view_training_in_their_texts_alone():
    trials = [t for t in _plan("cvt", "smoke") if t.config["seed"] == 0]
    found = {t.row: t for t in trials}
    crossed = found.pop("cross-view training")
    texts = [trial.config["data.train"] for trial in found.values()]
    assert texts == ["e.conll", "e.conll", "all.conll"]
    assert not crossed.config["data.train"] and crossed.config["data.held_out"] == 0
    own = ("objective.consistency", "data.train", "data.vocabulary", "train.steps")
    own += ("data.held_out",)
    for trial in found.values():
        assert trial.parents == {"data.vocabulary": crossed}
        assert trial.config["objective.consistency"] == 0
        assert _without(own, trial) == _without(own, crossed)
    steps = [trial.config["train.steps"] for trial in found.values()]
    whole = crossed.config["train.steps"]
    assert steps == [whole, whole // 2, whole]


def test_perplexities_are_of_one_text_in_one_order():
    """But for network and rate, of which the former has as many parameters or FLOPs."""
    rows = {t.row: t for t in _plan("awd_lstm", "quick") if t.config["seed"] == 0}
    equal = ("data", "train", "seed")
    shared = [
        {k: v for k, v in trial.config.items() if k.split(".")[0] in equal}
        for trial in rows.values()
    ]
    assert shared[0] == shared[1] == shared[2]
    size = {}
    for name, trial in rows.items():
        own = trial.config | budgets.ON_ONE_DEVICE | {"data.vocabulary": "unigram"}
        config = load_config(trial.experiment, own)
        vocab = placeholder_vocab(config)
        program = build_program(Config.of(config), jax.devices()[:1], vocab=vocab)
        shapes = jax.tree.leaves(program.abstract_state.params)
        parameters = sum(math.prod(leaf.shape) for leaf in shapes)
        size[name] = parameters, flops.step_flops(program)[0]
    lstm = size["AWD-LSTM"]
    parameters = size["Transformer, equal parameters"][0]
    assert parameters == pytest.approx(lstm[0], rel=0.01)
    assert size["Transformer, equal FLOPs"][1] == pytest.approx(lstm[1], rel=0.03)


def test_a_mixture_is_the_text_of_pretrainings_alone():
    mixture = {"en.txt": 1.0, "de.txt": 1.0}
    trials = sweep_plan.make_plan(
        "experiments/sweeps/xnli.py",
        "runs/x",
        scale="smoke",
        shared={"data.mixture": mixture},
        tasks=TASKS,
    )
    read = {trial.group: trial.config["data.mixture"] for trial in trials}
    assert read == {"pretraining": mixture, "XNLI de": {}}


def test_babylm_sees_no_text_more_than_ten_times():
    """Not by rows that read more text than they have positions, either."""
    words = {"small": 10e6, "paper": 100e6}
    for scale, given in words.items():
        longer = set()
        for trial in _plan("babylm", scale):
            if trial.group != "pretraining":
                continue
            length, whole = trial.config["data.length"], trial.objective
            parts = getattr(whole, "members", {"": whole}).values()  # equal rates
            read = np.mean([part.text_spec(length).length for part in parts])
            longer |= {trial.row} if read > length else set()
            rows = trial.config["train.batch"] * trial.config["train.steps"]
            assert rows * max(read, length) / 1.3 / given == pytest.approx(10, rel=1e-3)
            assert trial.config["train.checkpoint_words"]
        assert longer == {"span denoising", "mixture of denoisers"}


def test_what_masks_tokens_hides_as_many_in_one_table():
    rates, parts = {}, {}
    for name in ("babylm", "bart1"):
        for trial in _plan(name, "quick"):
            if trial.group == "pretraining":
                rates[trial.row] = trial.config.get("objective.rate")
                parts[trial.row] = trial.config.get("objective.parts")
    masked = ("masked LM", "UniLM", "InfoWord", "Masked LM", "Multitask masked LM")
    assert {rates[row] for row in masked} == {0.4}
    assert (rates["replaced tokens"], rates["span denoising"]) == (0.15, 0.15)
    both = parts["GPT-BERT 15 : 1"]
    assert both["bidirectional"]["rate"] == 0.4 and "rate" not in both["causal"]
    rows = {trial.row for trial in _plan("babylm", "smoke")}
    assert len(rows) >= 12 and "GPT-BERT 15 : 1" in rows


def test_the_claims_of_babylm_are_of_its_arms():
    years = sorted(path.stem for path in published.FOLDER.glob("babylm*.toml"))
    claims = load_table(FILES["babylm"]).claims
    assert {claim.column for claim in claims} == {"BLiMP"}
    papers = [published.read_published(year) for year in years]
    assert len(claims) == sum(len(paper.claims) for paper in papers)
    for paper in papers:
        arms = {row: babylm_sweep.ARMS[row] for row in paper.rows}
        assert paper.arms == arms


def test_a_task_that_an_objective_cannot_read_is_no_cell():
    trials = finetuning.tunings(
        finetuning.pretraining("", ("experiments/lm.py", {}), "smoke"),
        QUESTIONS,
        "smoke",
        {},
    )
    assert not list(trials)


def test_a_task_by_features_tunes_its_head_alone(monkeypatch):
    repeats = {"smoke": finetuning.Repeats(1, 1, (1e-4, 3e-4))}
    monkeypatch.setattr(finetuning, "REPEATS", repeats)
    words = Task("WNUT-17", KEYS | {"objective.name": "token_classification"})
    tasks = {"NER": words, "NER by features": words}
    trials = [
        (group, keys)
        for _, keys, (row, group) in finetuning.sweep("bert8", "smoke", tasks)
        if row == "80 10 10"
    ]
    rates, frozen = {}, {}
    for group, keys in trials[1:]:
        rates.setdefault(group, []).append(keys["optimizer.learning_rate"])
        start = {"train.init_from": "", "data.vocabulary": "unigram"}
        config = load_config(finetuning.EXPERIMENT, keys | start)
        frozen[group] = config.optimizer.frozen
    assert rates == {"NER": [1e-4, 3e-4], "NER by features": [1e-3]}
    assert frozen == {"NER": "", "NER by features": "token,embeddings,stack"}


def test_tasks_that_a_table_does_not_have_are_refused():
    with pytest.raises(UserError, match="none of the tasks of Devlin"):
        finetuning.table_tasks("bert8", {"CoLA": TASKS["MNLI"]}, "smoke")


def _scored_run(folder, step):
    """A run whose scores are in a folder, and which its step `step` opens."""
    return SimpleNamespace(folder=folder, gives_scores=True, opened_step=step)


def test_scores_are_those_of_the_step_that_opens_the_run(tmp_path):
    steps = (("900-0123abcd", 0.5), ("1523-0123abcd", 0.75), ("2000-0123abcd", 0.25))
    for step, value in (*steps, ("1523-0123abcd.4567", 1)):  # of other values: a dot
        folder = tmp_path / "evaluations" / f"lambada-a-b.original-{step}"
        folder.mkdir(parents=True)
        (folder / "scores.jsonl").touch()
        cell = {"value": value, "low": 0.6, "high": 0.8}
        table = {"table": {"all": {"accuracy": cell}}}
        (folder / "table.json").write_text(json.dumps(table))
    trial = _scored_run(tmp_path, 1523)
    column = scored.accuracy_column("LAMBADA", "lambada", "accuracy")
    assert column.ready(trial) and column.value(trial) == 75.0
    assert not column.ready(_scored_run(tmp_path, 1524))
    assert column.margin(trial) == pytest.approx(10.0)
    other = scored.accuracy_column("LAMBADA", "lambada", "fill-in accuracy")
    assert other.value(trial) is None
    assert not named("BLiMP").ready(trial)


def test_the_best_step_opens_a_run_and_else_the_last(tmp_path):
    trial, *_ = fake_sweep.finished(tmp_path)
    assert trial.opened_step == 20
    for best, opened in ((10, 10), (0, 20)):
        fake_sweep.write_run(trial, {}, best_step=best)
        assert trial.opened_step == opened


def test_nearly_equal_scores_of_a_pair_count_half(tmp_path):
    folder = tmp_path / "evaluations" / "blimp-a-9-0123abcd"
    folder.mkdir(parents=True)
    pairs = [(-1.0, -2.0), (-2.0, -1.0), (-100.0, -100.0001)]
    lines = [
        json.dumps({"gold": 0, "scores": [{"log_prob": each} for each in pair]})
        for pair in pairs
    ]
    (folder / "scores.jsonl").write_text("\n".join(lines) + "\n")
    trial = _scored_run(tmp_path, 9)
    assert scored.pairs(trial, "blimp").tolist() == [100, 0, 50]


def test_a_run_without_pairs_of_equal_lengths_has_a_dash(tmp_path):
    folder = tmp_path / "evaluations" / "blimp-a-9-0123abcd"
    folder.mkdir(parents=True)
    pair = [{"log_prob": -1.0, "num_tokens": n} for n in (3, 4)]
    (folder / "scores.jsonl").write_text(f"{json.dumps({'gold': 0, 'scores': pair})}\n")
    trial = _scored_run(tmp_path, 9)
    assert scored.pairs(trial, "blimp").tolist() == [50]
    assert scored.pairs(trial, "blimp", equal_lengths=True) is None


def _write_scores(trial, *names):
    """Scores of four pairs, three of them right, in folders of these names."""
    interval = {"value": 0.75, "low": 0.5, "high": 1.0}
    cells = {"accuracy, sum": interval, "bits a byte": interval}
    cells["accuracy, equal lengths"] = interval
    pair = '{{"gold": {}, "scores": [{{"log_prob": -1}}, {{"log_prob": -2}}]}}\n'
    for name in names:
        folder = trial.folder / "evaluations" / name
        folder.mkdir(parents=True)
        (folder / "scores.jsonl").write_text(3 * pair.format(0) + pair.format(1))
        (folder / "table.json").write_text(json.dumps({"table": {"all": cells}}))


@pytest.mark.parametrize(
    ("row", "names", "words"),
    [
        ("mlm", ["blimp-a-20-0aaa0000", "blimp-a-10-fbbb0000"], ""),
        ("lm", ["blimp-a-20-0aaa0000", "sentences-a-20-fbbb0000"], ""),
        ("lm", ["blimp-a-20-0aaa0000", "blimp-a-20-fbbb0000"], "several scores of bl"),
        ("lm", ["blimp-a-20-0aaa0000", "blimp-b-20-0aaa0000"], "several scores of bl"),
        (
            "lm",
            ["blimp-a-20-fbbb0000"],
            "BLiMP: .* other files .fbbb0000. .* .0aaa0000",
        ),
        (
            "lm",
            ["blimp-b.c-20-0aaa0000"],
            "row lm: .* by b.c for BLiMP, and .* by a for BLiMP",
        ),
        (
            "mlm",
            ["blimp-b-20-0aaa0000"],
            "row mlm: .* by b for BLiMP, and .* by a for BLiMP",
        ),
        (
            "lm",
            ["blimp-a-20-0aaa0000", "sentences-b-20-fbbb0000"],
            "row lm: .* by b for bits a byte, and .* by a for BLiMP",
        ),
    ],
)
def test_scores_of_a_column_are_of_the_same_files_and_of_a_row_by_one_method(
    tmp_path, row, names, words
):
    planned = fake_sweep.finished(tmp_path)
    runs = {
        n: own["first"] for n, own in fake_sweep.rows(planned).items() if n != "none"
    }
    changed = runs[row][-1]
    for trial in {*runs["lm"], *runs["mlm"]} - {changed}:
        _write_scores(trial, "blimp-a-20-0aaa0000")
    if "sentences" in names[-1]:
        for trial in runs["lm"][:2]:
            _write_scores(trial, names[-1].replace("-b-", "-a-"))
    _write_scores(changed, *names)
    bits = scored.bits_column("bits a byte", "bits a byte")
    rows = {name: {"pretraining": own} for name, own in runs.items()}
    table = tables.Table("", "", "", lambda _: rows, (named("BLiMP"), bits))
    if words:
        with pytest.raises(UserError, match=words) as caught:
            cells.fill_table(table, planned)
        assert changed.name in str(caught.value) and "\n" not in str(caught.value)
        return
    grid = cells.fill_table(table, planned)
    for name in runs:
        assert grid[name]["BLiMP"].values == (75.0, 75.0, 75.0)
    assert bool(grid["lm"]["bits a byte"].numbers) == ("sentences" in names[-1])


def test_pairs_of_equal_lengths_are_the_same_ones_in_all_rows(tmp_path):
    """Not only as many: of other vocabularies other pairs are equally long."""
    planned = fake_sweep.finished(tmp_path)
    runs = {n: fake_sweep.rows(planned)[n]["first"] for n in ("lm", "mlm")}
    rows = {name: {"pretraining": own} for name, own in runs.items()}
    column = scored.pair_column("equal", "blimp", True)
    table = tables.Table("", "", "", lambda _: rows, (column,))

    def write(trial, lengths):
        _write_scores(trial, "blimp-a-20-0aaa0000")
        path = trial.folder / "evaluations" / "blimp-a-20-0aaa0000" / "scores.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line, length in zip(lines, lengths, strict=True):
            for score, count in zip(line["scores"], (5, length), strict=True):
                score["num_tokens"] = count
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    for trial in (*runs["lm"], *runs["mlm"]):
        write(trial, (5, 5, 6, 5))
    for row in cells.fill_table(table, planned).values():
        assert row["equal"].numbers[0].scores.tolist() == [100.0, 100.0, 0.0]
    for lengths in ((5, 6, 5, 5), (5, 5, 5, 5)):
        changed = runs["mlm"][1]
        shutil.rmtree(changed.folder / "evaluations")
        write(changed, lengths)
        with pytest.raises(UserError, match=r"^equal: .* have different vocabularies"):
            cells.fill_table(table, planned)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"gold": 0}',
        '{"gold": 2, "scores": [{"log_prob": -1}, {"log_prob": -2}]}',
        '{"gold": "0", "scores": [{"log_prob": -1}, {"log_prob": -2}]}',
        '{"gold": 0, "scores": []}',
        '{"gold": 0, "scores": [{"log_prob": "x"}, {"log_prob": -2}]}',
        '{"gold": 0, "scores": [{"log_prob": NaN}, {"log_prob": -2}]}',
        '{"gold": 0, "scores": [{"log_prob": null}, {"log_prob": -2}]}',
        '{"gold": 0, "scores": [-1, -2]}',
    ],
)
def test_damaged_scores_are_one_line_that_names_them(tmp_path, line):
    folder = tmp_path / "evaluations" / "blimp-a-9-0123abcd"
    folder.mkdir(parents=True)
    sound = '{"gold": 0, "scores": [{"log_prob": -1}, {"log_prob": -2}]}'
    (folder / "scores.jsonl").write_text(f"{sound}\n{line}\n")
    trial = _scored_run(tmp_path, 9)
    with pytest.raises(UserError, match=r"^\S*/scores.jsonl\S* is damaged \(.+\)"):
        scored.pairs(trial, "blimp")


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize(
    ("kind", "metric", "factor"), [("tags", "f1", 100), ("text", "chrf", 1)]
)
def test_a_score_and_its_margin_are_in_per_cent(split, kind, metric, factor):
    result = {
        "metrics": {"valid/f1": 0.5, "valid/chrf": 50.0},
        "margins": {"valid/f1": 0.1, "valid/chrf": 9.0},
        "item_scores": {"valid": [0.5]},
    }
    if split == "test":
        for numbers in (result["metrics"], result["margins"]):
            numbers |= {k.replace("valid", "test"): v / 2 for k, v in numbers.items()}
        result["item_scores"]["test"] = [0.25]
    name, objective = f"{split}/{metric}", SimpleNamespace(predicts=kind)
    trial = SimpleNamespace(result=result, objective=objective)
    assert task_score(metric)(trial) == factor * result["metrics"][name]
    assert task_margin(metric)(trial) == factor * result["margins"][name]
    del result["margins"]
    assert math.isnan(task_margin(metric)(trial))


def test_settings_are_picked_by_a_correlation_that_is_not_defined():
    objective = SimpleNamespace(predicts="number")
    result = {"metrics": {"valid/loss": 2.0, "valid/mean_squared_error": 0.5}}
    trial = SimpleNamespace(result=result, objective=objective, name="t")
    names = ("pearson", "mean_squared_error", "perplexity")
    assert [valid_score(name)(trial) for name in names] == [0.0, 0.5, 2.0]
    with pytest.raises(UserError, match="t has no valid/mean_absolute_error: it is of"):
        valid_score("mean_absolute_error")(trial)
    with pytest.raises(UserError, match="unknown metric of t 'bleu'"):
        valid_score("bleu")(trial)


def test_columns_say_what_is_better_in_their_metric():
    """As the papers say it, and of losses, bits and perplexities lower."""
    for path in published.FOLDER.glob("*.toml"):
        content = tomllib.loads(path.read_text())
        name = content.get("table", path.stem).replace("-", "_")
        table = load_table(FILES[name])
        for column in table.columns:
            of_loss = re.search("^loss$|bits a byte|ppl$", column.name)
            other = "lower" if of_loss else "higher"
            assert column.better == content["metrics"].get(column.name, other)


def test_a_score_that_is_a_mean_of_items_has_their_scores():
    objective = SimpleNamespace(predicts="span")
    result = {"metrics": {"valid/exact_match": 0.5}, "item_scores": {"valid": [1, 0.5]}}
    trial = SimpleNamespace(result=result, objective=objective)
    assert task_score("f1")(trial).tolist() == [100, 50]
    assert task_score("exact_match")(trial) == 50


def test_the_parts_of_a_mean_come_before_it():
    found = benchmarks.columns(("GLUE", "CNN/DM ROUGE-2", "SQuAD EM"))
    assert list(found) == [*benchmarks.MEANS["GLUE"], "GLUE", "SQuAD EM"]
    found = benchmarks.columns(("MNLI", "SST-2", "average"))
    assert found["average"] == ("MNLI", "SST-2")
