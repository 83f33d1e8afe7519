"""Best checkpoints and early stopping: which step is kept, and what a restart sees."""

import jax
import numpy as np
import pytest
from etils import epath

from launch.config import load_config
from research import train as loop
from research.config.config import Config
from research.config.phases import Phase
from research.contract.errors import UserError
from research.distributed import sharding
from research.evaluation.best_evaluation import (
    BestEvaluation,
    check_best_metric,
    find_best,
)
from research.evaluation.evaluate import evaluate
from research.evaluation.evaluations import Evaluations
from research.interop.partial_restore import find_checkpoint, load_on_host
from research.program import compiled_phases
from research.program.restored import run_params
from research.program.setup import make_eval_zeros, open_run_data
from research.record.metric_writer import latest_metrics, read_metrics
from research.record.workdir import read_result
from tests.testing import small_data, tiny_runs
from tests.testing.tiny_runs import tiny_config, train

LOSSES = {2: 3.0, 4: 2.0, 6: 2.0, 8: 2.5}
"""Of evaluations, by step: the one after step 4 is the best, and a later equal one is
not better, so that two are left after it."""
KEYS = {
    "train.best_metric": "loss",
    "train.early_stopping_patience": 2,
    "train.eval_every": 2,
    "train.keep_checkpoints": 1,
    "optimizer.ema_decay": 0.5,
}


class KilledError(Exception):
    """Simulates a kill."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.write_corpus(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def program(folder):
    return compiled_phases.build_program(tiny_config(folder, **KEYS), jax.devices()[:1])


@pytest.fixture(scope="module")
def runs(folder, program, tmp_path_factory):
    """The results of two runs by their workdirs; compiled once. One was killed twice:
    after step 6, which is not saved, and after its last evaluation."""
    config, kills = tiny_config(folder, **KEYS), ["step 6", "end"]
    (phase,) = compiled_phases.compile_phases([Phase(12, config, program)])
    log, metrics = loop.Loop._log, Evaluations._metrics
    run_best = Evaluations.run_best

    def log_or_die(self, step, *args, **kwargs):
        if step == 6 and kills[:1] == ["step 6"]:
            raise KilledError(kills.pop(0))
        log(self, step, *args, **kwargs)

    def measure(self, state, *, last):
        step = int(jax.device_get(state.step))
        return metrics(self, state, last=last) | {"valid/loss": LOSSES[step]}

    def run_best_and_die(self, state, step):
        run_best(self, state, step)
        if kills:
            raise KilledError(kills.pop(0))

    whole, killed = (tmp_path_factory.mktemp(name) for name in ("whole", "killed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "build_phases", lambda *_: (program, [phase]))
        patch.setattr(loop, "compile_phases", lambda phases: phases)
        patch.setattr(loop.Loop, "_log", log_or_die)
        patch.setattr(Evaluations, "_metrics", measure)
        patch.setattr(Evaluations, "run_best", run_best_and_die)
        for cause in ("step 6", "end"):
            with pytest.raises(KilledError, match=cause):
                train(Config.of(config), killed)
            assert not (killed / "result.json").exists()
        return {
            workdir: train(Config.of(config), workdir) for workdir in (killed, whole)
        }


def test_it_stops_early_and_keeps_the_newest_and_the_best_checkpoint(runs):
    for workdir, result in runs.items():
        assert result == read_result(workdir)
        assert (result["steps"], result["best_step"]) == (8, 4)
        names = {path.name for path in (workdir / "checkpoints").iterdir()}
        assert names == {"4", "8"}


def test_the_result_is_the_evaluation_of_the_best_checkpoint(runs):
    for workdir, result in runs.items():
        lines = read_metrics(workdir)
        (best,) = (x for x in lines if x["step"] == 4 and "valid/loss" in x)
        assert lines[-1] == best | {"step": 8, "best_step": 4}
        assert result["metrics"] == latest_metrics(lines)
        assert result["metrics"]["valid/accuracy"] == best["valid/accuracy"]
        assert "best_step" not in result["metrics"]


def test_it_counts_all_tokens_up_to_the_last_step(runs):
    """Two of the eight steps are after the last one that is logged."""
    for result in runs.values():
        assert result["tokens_seen"] == 8 * 16 * 32
        logged = result["metrics"]
        assert logged["tokens_seen"] == 6 * 16 * 32
        expected = pytest.approx(8 / 6 * logged["tokens_scored"], rel=0.05)
        assert result["tokens_scored"] == expected


def test_killed_anywhere_it_gives_the_same_run(runs):
    killed, whole = runs
    assert read_metrics(killed) == read_metrics(whole)
    assert runs[killed]["tokens_scored"] == runs[whole]["tokens_scored"]
    for step in ("4", "8"):
        trees = (
            load_on_host(workdir / "checkpoints" / step, "params", "rest")
            for workdir in runs
        )
        jax.tree.map(np.testing.assert_array_equal, *trees)


def test_the_average_of_the_best_step_opens_the_run(runs, program):
    """Its scores are those of the run's own evaluation; the parameters that are trained
    are others."""
    keys = {"seed": 0, "vocabulary": program.data.vocabulary_hash}
    for workdir, result in runs.items():
        params, step, _ = run_params(program, workdir, 0, **keys)
        with sharding.context(program.mesh):
            scores = evaluate(program, params, make_eval_zeros(program)())
        assert step == 4
        assert scores.metrics["mlm"] == result["metrics"]["valid/mlm"]
        lines = [line for line in read_metrics(workdir) if line["step"] == 4]
        assert scores.metrics["mlm"] == lines[-1]["valid/mlm"]  # before it was saved
        saved = load_on_host(find_checkpoint(workdir), "params", "rest")
        trained = saved["rest"]["opt_state"][-1]["average"]
        same = jax.tree.map(np.array_equal, saved["params"], trained)
        assert not any(jax.tree.leaves(same))
    assert find_checkpoint(workdir / "checkpoints" / "8").name == "8"
    (workdir / "checkpoints" / "4" / "params" / "_METADATA").write_text("")
    with pytest.raises(UserError, match=r"checkpoints/4 is damaged: .*_METADATA"):
        find_checkpoint(workdir)


def test_the_average_is_sharded_like_the_parameters(folder):
    config = tiny_config(folder, **{"optimizer.ema_decay": 0.5, "mesh.fsdp": 4})
    state = compiled_phases.build_program(
        Config.of(config), jax.devices()[:4]
    ).abstract_state
    assert state.opt_state[-1].average == state.params
    assert not all(leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(state))


def find(name, *values, split="valid", patience=0):
    """The best of evaluations with these values, by step from 1; None: without."""
    keys = {"train.best_metric": name, "data.eval_split": split}
    keys["train.early_stopping_patience"] = patience
    config = load_config("experiments/mlm.py", keys)
    lines = [{"step": 0, "train/loss": 0.0}]
    for step, value in enumerate(values, 1):
        measured = {} if value is None else {f"{split}/{name}": value}
        lines.append({"step": step, f"{split}/loss": 1.0} | measured)
    last = {"step": 99, "best_step": 1, f"{split}/loss": 0.0, f"{split}/{name}": 9.0}
    return find_best([*lines, last], config)


def test_the_first_of_the_best_values_is_best():
    assert find("accuracy", 0.1, 0.3, 0.2, 0.3, split="test") == BestEvaluation(2, 2)
    assert find("loss", 3.0, 2.0, 4.0) == BestEvaluation(2, 1)
    assert find("mean_absolute_error", 0.3, None, 0.2, 0.4) == BestEvaluation(3, 1)
    assert find("pearson", None, float("nan"), -0.5) == BestEvaluation(3, 0)
    assert find("pearson", None, None) == BestEvaluation(1, 1)
    assert find("loss") == BestEvaluation()


AWD_LOSSES = (100.0, 90.0, 85.0, 84.0, 83.0, 82.5, 84.0, 83.0, 82.6, 86.0)
"""Of which the last is the first that the released code's NT-ASGD ends SGD at, with its
n of 5 (salesforce/awd-lstm-lm at 1d466ec, main.py)."""


def test_training_stops_where_nt_asgd_begins_to_average(folder):
    for count in range(len(AWD_LOSSES) + 1):
        best = find("loss", *AWD_LOSSES[:count], patience=5)
        assert best.is_nonmonotonic == (count == 10)
    assert not find("loss", *AWD_LOSSES[:5], 101.0, patience=5).is_nonmonotonic
    assert find("accuracy", 0.5, 0.6, float("nan"), patience=1).is_nonmonotonic
    assert not find("loss", 2.0, 2.0, 2.0, patience=1).is_nonmonotonic
    rule = KEYS | {"train.early_stopping_rule": "nonmonotonic"}
    evaluations = object.__new__(Evaluations)
    evaluations._config = tiny_config(folder, **rule)
    for is_nonmonotonic in (True, False):  # whatever the other rule says
        evaluations.best = BestEvaluation(1, 2, is_nonmonotonic)
        assert evaluations.stop_early == is_nonmonotonic


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"train.best_metric": "acuracy"}, "unknown train.best_metric .*mean accuracy"),
        ({"train.early_stopping_patience": 1}, "needs train.best_metric and"),
        ({"train.early_stopping_rule": "nonmonotonic"}, "early_stopping_patience=0"),
        ({**KEYS, "train.eval_every": 0}, "needs train.best_metric and train.eval_ev"),
    ],
)
def test_a_wrong_value_is_refused(folder, keys, words):
    with pytest.raises(UserError, match=words):
        tiny_config(folder, **keys)


def test_the_lowest_error_of_predictions_is_best_and_opens_the_run(folder, tmp_path):
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(tiny_runs.WORDS, 8)) for _ in range(200)]
    lines = ["text\tlabel", *(f"{text}\t{text.count('river')}" for text in texts)]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    keys = {
        "data.train": str(tmp_path / "rows.tsv"),
        "data.valid": str(tmp_path / "rows.tsv"),
        "data.fields": "text",
        "data.label": "label",
        "objective.task": "regression",
        "optimizer.learning_rate": 0.3,  # too high: no later evaluation is surely best
        "train.best_metric": "mean_absolute_error",
        "train.early_stopping_patience": 2,
        "train.eval_every": 1,
    }
    result = train(tiny_config(folder, "finetune", **keys), tmp_path / "run")
    *lines, last = (x for x in read_metrics(tmp_path / "run") if "valid/loss" in x)
    errors = {line["step"]: line["valid/mean_absolute_error"] for line in lines}
    best = result["best_step"]
    assert 0 < best == min(errors, key=errors.get) <= result["steps"] - 2
    assert last["valid/mean_absolute_error"] == errors[best]
    assert find_checkpoint(tmp_path / "run").name == str(best)


def test_splits_without_labels_have_no_metrics(folder, tmp_path, capsys):
    """A test split has its predictions; of evaluations none can be the best one."""
    keys = {"data.fields": "0", "data.label": "1", "train.eval_every": 0}
    keys |= {"data.vocabulary": "bytebpe", "data.vocabulary_size": 264}
    keys["data.sentinels"] = 2
    for name, label in (("train", "x"), ("valid", "y"), ("test", "")):
        keys[f"data.{name}"] = str(tmp_path / f"{name}.tsv")
        rows = (f"{word}\t{label}\n{word} river\t{label and 'y'}\n" for word in "abc")
        (tmp_path / f"{name}.tsv").write_text("".join(rows))
    result = train(tiny_config(folder, "finetune", **keys), tmp_path / "run")
    assert {name.split("/")[0] for name in result["metrics"] if "/" in name} == {
        "train",
        "valid",
    }
    assert "nothing of the split test is scored" in capsys.readouterr().err
    assert len((tmp_path / "run/predictions/test.jsonl").read_text().splitlines()) == 6
    keys |= {"data.valid": keys.pop("data.test"), "train.eval_every": 2}
    keys |= {"train.best_metric": "accuracy"}
    with pytest.raises(UserError, match="nothing of the split valid is scored"):
        train(tiny_config(folder, "finetune", **keys), tmp_path / "best")


def test_a_window_of_which_nothing_is_scored_has_no_loss(folder, tmp_path):
    """Two rows of 24 have a label: in most steps of one row nothing is scored."""
    keys = {"data.fields": "0", "data.label": "1", "train.eval_every": 0}
    keys |= {"data.vocabulary": "bytebpe", "data.vocabulary_size": 264}
    keys |= {"data.sentinels": 2, "train.batch": 1, "train.log_every": 1}
    rows = "".join(
        f"a river\t{'xy'[n - 5] if n in (5, 6) else ''}\n" for n in range(24)
    )
    (tmp_path / "train.tsv").write_text(rows)
    (tmp_path / "valid.tsv").write_text("a stone\tx\n")
    for name in ("train", "valid"):
        keys[f"data.{name}"] = str(tmp_path / f"{name}.tsv")
    result = train(tiny_config(folder, "finetune", **keys), tmp_path / "run")
    lines = [x for x in read_metrics(tmp_path / "run") if "tokens_seen" in x]
    assert len(lines) == result["steps"] == 12
    assert sum("train/loss" in line for line in lines) <= 2
    assert ("train/loss" in result["metrics"]) == ("train/loss" in lines[-1])


def test_a_metric_that_the_objective_lacks_is_refused(folder, program):
    config = tiny_config(folder, **{"train.best_metric": "bleu"})
    words = r"train\.best_metric of mlm 'bleu'; known: accuracy, loss"
    with pytest.raises(UserError, match=words):
        check_best_metric(program, config)


def test_a_metric_of_predictions_that_are_not_scored_is_refused(folder, tmp_path):
    """Saved batches have no texts: its first evaluation would stay the best one."""
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)
    keys = {"data.corpus": corpus, "train.best_metric": "f1"}
    config = tiny_config(folder, "finetune", **keys)
    saved = epath.Path(tmp_path / "saved")
    data, steps = open_run_data(config), config.train.steps
    small_data.save_with(config, config.objective, data, saved, steps)
    keys["data.task"] = f"{tmp_path}/saved"
    config = tiny_config(folder, "finetune", **keys)
    program = compiled_phases.build_program(Config.of(config), jax.devices()[:1])
    words = r"f1 needs scored predictions.* choose one of accuracy, loss$"
    with pytest.raises(UserError, match=words):
        check_best_metric(program, config)
    keys["train.best_metric"] = "accuracy"
    check_best_metric(program, tiny_config(folder, "finetune", **keys))
