"""The metric files: the same after a restart, and never read in part."""

import shutil

import pytest

from research.contract.errors import UserError
from research.files.json_files import write_json
from research.record.metric_writer import (
    MetricWriter,
    latest_metrics,
    read_metrics,
    read_speed,
)
from tests.testing import fake_bucket


def test_a_restart_drops_the_lines_after_its_checkpoint(tmp_path):
    writer = MetricWriter(tmp_path, step=0)
    for step in (10, 20, 30):
        writer.write(step, {"train/loss": 1.0 / step})
    writer.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 40, "train/lo')  # killed while writing
    assert [line["step"] for line in read_metrics(tmp_path)] == [10, 20, 30]
    restarted = MetricWriter(tmp_path, step=20)
    restarted.write(30, {"train/loss": 0.5})
    restarted.close()
    assert [line["step"] for line in read_metrics(tmp_path)] == [10, 20, 30]
    assert restarted.latest() == {"train/loss": 0.5}


def test_a_metric_that_the_last_evaluation_lacks_has_no_value():
    """A correlation with a constant is not defined; BLEU is measured at the end alone,
    and the test split too; all else is the latest."""
    last = {"valid/loss": 1.2, "valid/accuracy": 0.4, "valid/bleu": 7.0}
    last["test/loss"] = 1.1
    lines = [
        {"step": 1, "train/loss": 3.0, "learning_rate": 0.1},
        {"step": 1, "valid/loss": 0.2, "valid/pearson": 0.9, "valid/accuracy": 0.5},
        {"step": 2, "train/loss": 2.0},
        {"step": 2, "best_step": 1} | last,
    ]
    others = {"train/loss": 2.0, "learning_rate": 0.1}
    assert latest_metrics(lines) == others | last
    lines.append({"step": 3, "train/loss": 1.0})
    assert latest_metrics(lines) == others | last | {"train/loss": 1.0}


def test_files_in_a_bucket_are_whole_when_a_checkpoint_is_saved(tmp_path, monkeypatch):
    """A bucket cannot append: a file is uploaded as a whole, and not at each line."""
    folder = fake_bucket.install(monkeypatch, tmp_path) / "bucket" / "run"
    writer = MetricWriter("gs://bucket/run", step=0, config={"seed": 1})
    for step in (10, 20):
        writer.write(step, {"loss": 1.0 / step})
        writer.write_speed(step, {"seconds": 1.0})
    assert [line["step"] for line in read_metrics("gs://bucket/run")] == [10]
    writer.upload()
    assert [line["step"] for line in read_metrics("gs://bucket/run")] == [10, 20]
    for step in (20, 30):
        writer.write(step, {"loss": 1.0 / step})
    writer.close()
    assert len(read_speed(folder)) == 2
    (events,) = folder.glob("tensorboard/*")
    assert b"loss" in events.read_bytes() and b"seed" in events.read_bytes()
    assert [line["step"] for line in read_metrics(folder)] == [10, 20, 30]
    restarted = MetricWriter("gs://bucket/run", step=20)
    restarted.write(30, {"loss": 0.5})
    restarted.close()
    assert read_metrics(folder) == restarted.lines
    assert [line["loss"] for line in restarted.lines] == [0.1, 0.05, 0.5]


@pytest.mark.parametrize("line", ['{"step": 2, "tr', "[2]", "\x00" * 9, "\udcff"])
def test_a_damaged_line_is_named_and_nothing_is_deleted(tmp_path, line):
    lines = ['{"step": 1}', line, '{"step": 3}', '{"step": 4']
    content = "\n".join(lines).encode(errors="surrogateescape")
    (tmp_path / "metrics.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=r"metrics.jsonl:2 is damaged"):
        MetricWriter(tmp_path, step=3)
    assert (tmp_path / "metrics.jsonl").read_bytes() == content


def test_a_json_file_is_complete_or_absent(tmp_path):
    with pytest.raises(TypeError):
        write_json(tmp_path / "result.json", {"x": object()})
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("how", ["moved", "deleted", "replaced"])
def test_a_folder_that_is_moved_or_deleted_ends_the_run(how, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    writer = MetricWriter(run, step=0)
    writer.write(1, {"loss": 1.0})
    if how == "moved":
        run.rename(tmp_path / "elsewhere")
    elif how == "deleted":
        shutil.rmtree(run)
    else:
        (run / "new").write_bytes((run / "metrics.jsonl").read_bytes())
        (run / "new").replace(run / "metrics.jsonl")
    with pytest.raises(UserError, match=r"run/metrics.jsonl was moved, deleted"):
        writer.write(2, {"loss": 1.0})
    if how == "moved":
        assert len(read_metrics(tmp_path / "elsewhere")) == 1
    assert run.exists() == (how == "replaced")
