"""What single sweeps of experiments/sweeps keep equal, or take from their papers."""

import jax
import numpy as np
import pytest

from experiments.sweeps import features, since_2020, ulmfit
from launch.sweeps import finetuning, sweep_plan
from launch.sweeps.scales import SCALES
from launch.sweeps.tasks import Task
from launch.user_code import module_at
from research import objectives
from research.contract.errors import UserError
from research.optimize.schedule import make_schedule
from tests.testing.objective_cases import VOCAB
from tests.testing.optimizer_section import section

FILES = {"data.train": "a.tsv", "data.valid": "b.tsv"}
TASKS = {name: Task("", FILES) for name in ("MNLI", "OCNLI", "POS, frozen", "captions")}


def _rows(name, scale):
    """Row -> the config of its first pretraining."""
    found = {}
    sweep = module_at(f"experiments/sweeps/{name}.py").sweep
    given = (scale, TASKS) if sweep_plan.takes_tasks(sweep) else (scale,)
    for *arm, (row, group) in sweep(*given):
        if group == "pretraining":
            found.setdefault(row, finetuning.flat_config(tuple(arm)))
    return found


def _raw_length(config):
    """Tokens of text in a row, before the objective corrupts it."""
    own = {k: v for k, v in config.items() if k.startswith("objective.")}
    fields = {key.partition(".")[2]: value for key, value in own.items()}
    return objectives.make_objective(**fields).text_spec(config["data.length"]).length


@pytest.mark.parametrize("scale", SCALES)
def test_rows_of_all_families_begin_at_the_same_tokens(scale):
    """And leave none out."""
    rows = _rows("tasks", scale)
    strides = {config["data.stride"] for config in rows.values()}
    assert strides == {min(map(_raw_length, rows.values()))}


@pytest.mark.parametrize("scale", SCALES)
def test_chinese_rows_differ_in_their_masks_alone(scale):
    rows = _rows("chinese", scale)
    wwm, ernie = rows["bert_wwm"], rows["ernie"]
    for key in {*wwm, *ernie}:
        assert key.startswith("objective.") or wwm[key] == ernie[key], key
    for part in ernie["objective.parts"].values():
        for name in ("format", "sentence_task", "rate"):
            assert part[name] == wwm[f"objective.{name}"]


@pytest.mark.parametrize("scale", SCALES)
def test_rows_of_babylms_scores_differ_in_their_objective_alone(scale):
    rows = _rows("babylm_equal_tokens", scale)
    lm = rows.pop("LM")
    for row, config in rows.items():
        keys = {key for key in {*lm, *config} if lm.get(key) != config.get(key)}
        assert keys, row
        assert all(key.startswith("objective.") for key in keys), (row, keys)


@pytest.mark.parametrize("name", ["spanbert6", "spanbert7"])
def test_ablations_of_spanbert_have_half_of_its_steps(name):
    """Joshi et al. 2020, section 6, footnote 10."""
    steps = {config["train.steps"] for config in _rows(name, "paper").values()}
    assert steps == {1_200_000}


def _decay_steps(config):
    """How many of the last steps have a learning rate below its peak."""
    keys = {k: v for k, v in config.items() if k.startswith("optimizer.")}
    optimizer = section(**{key.partition(".")[2]: value for key, value in keys.items()})
    steps = config["train.steps"]
    step = np.arange(optimizer.warmup_steps, steps + 1)
    rate = jax.jit(jax.vmap(make_schedule(optimizer, steps)))(step)
    return int((rate < optimizer.learning_rate).sum())


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_decays_are_as_long_as_the_papers(scale):
    """Gisserot-Boukhlef et al. 2025: 2 of 42 thousand steps, in each row. Ettin: 10 of
    the 50 billion further tokens."""
    rows = _rows("gisserot2025", scale)
    steps = rows["MLM 42K"]["train.steps"]
    found = {_decay_steps(config) for config in rows.values()}
    assert found == {round(steps * 2 / 42)}
    rows = _rows("weller2025", scale)
    for config in (rows["encoder from decoder"], rows["decoder from encoder"]):
        assert _decay_steps(config) == round(config["train.steps"] * 10 / 50)


def test_one_cove_reads_the_vectors_of_all_tasks(monkeypatch):
    """Of the rows of a task, the encoder and its features have one file."""
    tasks = {
        name: Task("", FILES | dict(zip(features.VECTORS, (file, 50), strict=True)))
        for name, file in {"CoNLL-2000": "a.txt", "SST-2": "b.txt"}.items()
    }
    monkeypatch.setattr("launch.config.check_needed", lambda *_: None)
    assert list(features.sweep("smoke", tasks))
    tasks[features.PAIRS] = Task("", FILES | {"data.fields": "en,de"})
    with pytest.raises(UserError, match=r"is a\.txt and b\.txt, but one CoVe"):
        list(features.sweep("smoke", tasks))
    tasks["SST-2"] = tasks["CoNLL-2000"]
    starts = [
        (keys["objective.vectors"], keys[finetuning.INIT_FROM][1]["objective.vectors"])
        for _, keys, (row, _) in features.sweep("smoke", tasks)
        if "CoVe" in row
    ]
    assert set(starts) == {("a.txt", "a.txt")}


def test_stages_of_ulmfit_are_passes_of_their_texts():
    """14 and 15 of the language models' tokens, in rows of 70, and 50 of the labels."""
    budget = ulmfit.BUDGETS["paper"]
    general, tuned, classifier = budget.steps
    tokens = budget.batch * 70
    assert general * tokens / 103e6 == pytest.approx(14, rel=0.01)  # WikiText-103
    assert tuned * tokens / 5.85e6 == pytest.approx(15, rel=0.01)  # IMDb's texts
    assert classifier * budget.batch / 25_000 == pytest.approx(50, rel=0.01)


def test_an_experiment_with_an_optimizer_of_its_own_gets_that_of_all(monkeypatch):
    """GPT-BERT's has a key that AdamW lacks, and the scale names no optimizer."""
    row = "GPT-BERT"
    monkeypatch.setattr(since_2020, "ARMS", {row: since_2020.ARMS[row]})
    monkeypatch.setattr(since_2020, "SEEDS", 1)
    assert _rows("since_2020", "smoke")[row]["optimizer.name"] == "adamw"


def test_the_first_stage_of_xnlg_has_the_batch_of_xlm():
    xlm = finetuning.flat_config(("experiments/xlm.py:base", {}))
    assert _rows("xnlg", "paper")["XLM"]["train.batch"] == xlm["train.batch"]


def test_all_rows_of_robertas_first_table_are_full():
    """RoBERTa trains with full rows alone; BERT, whose rows these are, with short ones
    first (Liu et al. 2019, section 3.1)."""
    for config in _rows("roberta1", "paper").values():
        assert config["train.phases"] == []


@pytest.mark.parametrize("name", objectives.names())
def test_a_task_is_read_by_a_network_like_that_of_its_pretraining(name):
    """It attends to earlier tokens alone, or has a decoder, exactly if that did."""
    own = objectives.make_objective(name)
    if {"image", "link"} & {*own.text_spec(32).arrays}:
        pytest.skip("it needs a file of pictures or entities")
    start = "experiments/lm.py", {"objective.name": name}
    keys = finetuning.form_keys(start, "sequence_classification")
    task = objectives.make_objective(
        "sequence_classification", format=keys["objective.format"]
    )
    stacks = own.needs(VOCAB).stacks
    assert (task.pattern == "causal") == (own.pattern == "causal")
    assert (task.needs(VOCAB).stacks == "encoder_decoder") == (
        stacks == "encoder_decoder"
    )
    assert (keys.get("train.init_scope") == "discriminator") == (
        stacks == "generator_discriminator"
    )


def test_a_prefix_lm_is_tuned_in_the_rows_of_a_causal_one():
    """It scores texts as that does."""
    for prefix in ("none", "random"):
        start = "experiments/lm.py", {"objective.prefix": prefix}
        keys = finetuning.form_keys(start, "sequence_classification")
        assert keys == {"objective.format": "gpt"}


def test_a_scale_sets_the_mask_rate_of_parts_that_set_none():
    parts = {"a": {"objective": "mlm"}, "b": {"objective": "mlm", "rate": 0.2}}
    parts |= {"c": {"objective": "lm"}}
    arm = "experiments/lm.py", {"objective.name": "joint", "objective.parts": parts}
    _, keys = finetuning.pretraining("", arm, "quick")
    rates = {
        part: fields.get("rate") for part, fields in keys["objective.parts"].items()
    }
    assert rates == {"a": 0.4, "b": 0.2, "c": None}
