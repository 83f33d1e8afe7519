"""TensorBoard and trackers have metrics, config and some predictions."""

import sys
from types import SimpleNamespace

import pytest
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto import event_pb2

from research.metrics import Item
from research.record.metric_writer import MetricWriter, read_metrics

CONFIG = {"data.eval_split": "valid", "train.batch": 8, "data.length_buckets": [4, 8]}
ITEMS = [Item("a:1", "x", "y", 0.0, ("one | two", "b" * 500))]


class FakeWandb:
    """Stands in for the package, and keeps what it is given."""

    def __init__(self):
        self.logged, self.started, self.finished = [], [], 0
        self.Table = lambda columns, data: ("table", columns, data)

    def init(self, **keys):
        self.started.append(keys)
        return SimpleNamespace(log=self.log, finish=self.finish)

    def log(self, values, step):
        self.logged.append((step, values))

    def finish(self):
        self.finished += 1


def write(workdir, step=0, **more):
    writer = MetricWriter(workdir, step=step, config=CONFIG | more)
    writer.write(step + 3, {"train/loss": 2.0, "learning_rate": 0.1})
    writer.write(step + 3, {"valid/loss": 1.0})
    writer.write_samples(step + 3, "valid/predictions", ITEMS)
    writer.close()


def events_of(workdir, monkeypatch):
    """The events that are written, in order."""
    found, write_event = [], EventsWriter.write_event

    def keep(self, event):
        copy = event_pb2.Event()
        copy.CopyFrom(event)
        found.append(copy)
        write_event(self, event)

    monkeypatch.setattr(EventsWriter, "write_event", keep)
    write(workdir)
    return found


def test_tensorboard_has_metrics_hyperparameters_and_predictions(tmp_path, monkeypatch):
    values = [
        (event.step, value)
        for event in events_of(tmp_path, monkeypatch)
        for value in event.summary.value
    ]
    scalars = {
        (step, v.tag): v.simple_value
        for step, v in values
        if v.HasField("simple_value")
    }
    logged = {
        (line["step"], name): value
        for line in read_metrics(tmp_path)
        for name, value in line.items()
        if name != "step"
    }
    assert scalars == pytest.approx(logged)
    content = b"".join(
        value.metadata.plugin_data.content
        for _, value in values
        if value.metadata.plugin_data.plugin_name == "hparams"
    )
    assert all(key.encode() in content for key in CONFIG) and b"[4, 8]" in content
    texts = {
        (step, value.tag): value.tensor.string_val[0].decode()
        for step, value in values
        if value.metadata.plugin_data.plugin_name == "text"
    }
    table = texts[3, "valid/predictions/text_summary"].splitlines()
    assert table[0] == "| text | prediction | gold |"
    assert table[2] == f"| one \\| two \\| {'b' * 388}… | x | y |"
    assert "| train.batch | 8 |" in texts[0, "config/text_summary"]


def test_weights_and_biases_gets_the_same_in_one_run_a_workdir(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    write(tmp_path)
    assert not fake.started
    for step in (0, 3):
        write(tmp_path, step, **{"train.track": "wandb:mine"})
    first, second = fake.started
    assert first == second and first["resume"] == "allow" and first["project"] == "mine"
    assert first["config"] == CONFIG | {"train.track": "wandb:mine"}
    assert fake.finished == 2 and [step for step, _ in fake.logged] == [3] * 3 + [6] * 3
    merged = {
        name: value for _, values in fake.logged for name, value in values.items()
    }
    assert merged.pop("valid/predictions")[1] == ["text", "prediction", "gold"]
    assert merged == {"train/loss": 2.0, "learning_rate": 0.1, "valid/loss": 1.0}


def test_trackio_keeps_a_resumed_run_as_one(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    import trackio  # after the variable, which it reads once
    from trackio.sqlite_storage import SQLiteStorage

    workdir = tmp_path / "run"
    workdir.mkdir()
    for step in (0, 3):
        write(workdir, step, **{"train.track": "trackio:mine"})
    (run,) = trackio.Api().runs("mine")
    assert run.name.startswith("run-")
    assert run.config["train.batch"] == CONFIG["train.batch"]
    logs = SQLiteStorage.get_logs("mine", run.name)
    losses = [(log["step"], log["valid/loss"]) for log in logs if "valid/loss" in log]
    assert losses == [(3, 1.0), (6, 1.0)]
