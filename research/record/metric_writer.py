"""Writes a run's metrics: metrics.jsonl, speed.jsonl, TensorBoard, a tracker."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from etils import epath

from research.contract.errors import UserError
from research.files.bucket_file import BucketFile
from research.files.existence import exists
from research.files.json_files import NUMBER, read_json_lines
from research.files.output_files import replace_text
from research.files.paths import is_in_bucket
from research.metrics import Item
from research.record.trackers import Tracker, open_tracker

METRICS_FILE, SPEED_FILE = "metrics.jsonl", "speed.jsonl"

BEST_STEP = "best_step"
"""Key in the last line of a run with train.best_metric: the step whose parameters were
evaluated. All other lines evaluate the parameters after their `step`."""

SAMPLE_COLUMNS = ("text", "prediction", "gold")
MAX_SAMPLE_CHARS = 400
"""Characters of a text of a sample that are shown."""

FLUSH_INTERVAL_S = 10.0
"""Seconds between two flushes of the TensorBoard events."""


def read_metrics(workdir: epath.PathLike) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl: `step` and named metrics."""
    return _read_lines(epath.Path(workdir) / METRICS_FILE)


def read_speed(workdir: epath.PathLike) -> list[dict[str, Any]]:
    """The lines of a run's speed.jsonl: `step`, and `seconds` of all steps so far."""
    return _read_lines(epath.Path(workdir) / SPEED_FILE)


def latest_metrics(lines: list[dict[str, Any]]) -> dict[str, float]:
    """The latest value of each metric in the lines of a metrics.jsonl.

    A line with the loss of a split, or of training with the tokens seen, has all of its
    metrics that are defined: one that it leaves out has no value, whatever earlier
    lines say.
    """
    latest: dict[str, float] = {}
    for line in lines:
        measured = tuple(k.removesuffix("loss") for k in line if k.endswith("/loss"))
        measured += ("train/",) * ("tokens_seen" in line)
        gone = {k for k in latest if k.startswith(measured)} - line.keys()
        latest = {k: v for k, v in latest.items() if k not in gone} | line
    return {k: v for k, v in latest.items() if k not in ("step", BEST_STEP)}


def _read_lines(path: epath.Path) -> list[dict[str, Any]]:
    return read_json_lines(path, {"step": int}, values=NUMBER)


class MetricWriter:
    """Appends lines to metrics.jsonl and speed.jsonl, and events for TensorBoard.

    TensorBoard has the config as hyperparameters, too, and examples of predictions as
    text; so has the tracker that train.track names.

    Lines past `step` are dropped at the start, so that a run that resumes from a
    checkpoint leaves the same files as one that was never stopped.

    Args:
      step: the step from which the run resumes.
      config: flat, dotted key -> value.
      write_files: True in one process of a run; the others keep lines in memory only.
    """

    def __init__(
        self,
        workdir: epath.PathLike,
        *,
        step: int,
        config: Mapping[str, Any] = MappingProxyType({}),
        write_files: bool = True,
    ):
        self.folder = epath.Path(workdir)
        self.lines: list[dict[str, Any]] = []
        self.files: dict[str, Any] = {}
        self.tensorboard: TensorBoardWriter | None = None
        self.tracker: Tracker | None = None
        if not write_files:
            return
        if track := config.get("train.track"):
            self.tracker = open_tracker(track, self.folder, config)
        self.lines = self._open(METRICS_FILE, step)
        self._open(SPEED_FILE, step)
        self.tensorboard = TensorBoardWriter(self.tensorboard_folder, step)
        if config:
            self.tensorboard.write_config(config)

    @property
    def tensorboard_folder(self) -> epath.Path:
        return self.folder / "tensorboard"

    def latest(self) -> dict[str, float]:
        """The latest value of each metric."""
        return latest_metrics(self.lines)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the metrics of a step, unless they were written before a restart."""
        line = {"step": step} | dict(values)
        if self.lines[-1:] == [line]:
            return
        self.lines.append(line)
        if self.tensorboard:
            self._append(METRICS_FILE, line)
            self.tensorboard.write(step, values)
        if self.tracker:
            self.tracker.write(step, values)

    def write_samples(self, step: int, name: str, samples: Sequence[Item]) -> None:
        """Shows some predictions of an evaluation, where texts can be shown."""
        rows = [
            [_short(" | ".join(each.texts)), *map(_short, (each.prediction, each.gold))]
            for each in samples
        ]
        if self.tensorboard:
            self.tensorboard.write_table(step, name, SAMPLE_COLUMNS, rows)
        if self.tracker:
            self.tracker.write_table(step, name, SAMPLE_COLUMNS, rows)

    def write_speed(self, step: int, values: Mapping[str, float]) -> None:
        """Writes times to speed.jsonl, since they differ between runs of one config."""
        if self.files:
            self._append(SPEED_FILE, {"step": step} | dict(values))

    def check_in_place(self) -> None:
        """Checks that the open files are still those of the folder.

        Else what is written to them, and what is written to the folder's path, would be
        in two places.

        Raises:
          UserError: the folder, or one of the files, was moved or deleted.
        """
        if is_in_bucket(self.folder):
            return
        for name, file in self.files.items():
            path = self.folder / name
            if not (
                exists(path) and os.path.samestat(*map(os.stat, (path, file.fileno())))
            ):
                raise UserError(
                    f"{path} was moved, deleted or replaced while the run wrote it: "
                    "the run has ended; if it is brought back, the run continues from "
                    "its newest checkpoint"
                )

    def upload(self) -> None:
        """Writes all lines so far to files in a bucket, which lack the newest.

        A run that resumes from a checkpoint needs those up to its step.
        """
        if is_in_bucket(self.folder):
            for file in self.files.values():
                file.upload()

    def close(self) -> None:
        for file in self.files.values():
            file.close()
        if self.tensorboard:
            self.tensorboard.close()
        if self.tracker:
            self.tracker.close()

    def _open(self, name: str, step: int) -> list[dict[str, Any]]:
        """Drops the lines past `step` from a file and opens it; returns the others."""
        path = self.folder / name
        lines = [line for line in _read_lines(path) if line["step"] <= step]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        replace_text(path, text)
        if is_in_bucket(path):
            self.files[name] = BucketFile(path, text.encode("utf-8"))
        else:
            self.files[name] = path.open("ab")
        return lines

    def _append(self, name: str, line: dict[str, Any]) -> None:
        self.check_in_place()
        with _name_path_in_errors(self.folder / name):
            self.files[name].write(f"{json.dumps(line)}\n".encode())
            self.files[name].flush()


class TensorBoardWriter:
    """Writes TensorBoard events in the calling thread, so that a full disk raises here.

    tensorboardX's writer has a thread; if a full disk killed that, the run would wait
    for it forever.

    Args:
      step: the step from which the run resumes; TensorBoard ignores later events of
        earlier files.
    """

    def __init__(self, folder: epath.Path, step: int):
        from tensorboardX import record_writer
        from tensorboardX.event_file_writer import EventsWriter  # slow to import, and
        from tensorboardX.proto import event_pb2  # not needed to compile

        if is_in_bucket(folder):  # its own writers need each bucket's own package
            scheme, _ = str(folder).split("://", 1)
            record_writer.register_writer_factory(scheme, BucketEvents())
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.event_pb2, self.events = event_pb2, EventsWriter(str(folder / "events"))
        self.flushed = time.monotonic()
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(step + 1, session_log=start)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboardX.summary import scalar

        with _name_path_in_errors(self.folder):
            for name, value in values.items():
                self._add(step, summary=scalar(name, value))
            if time.monotonic() - self.flushed > FLUSH_INTERVAL_S:
                self.events.flush()  # waits for the disk
                self.flushed = time.monotonic()

    def write_config(self, config: Mapping[str, Any]) -> None:
        """The keys and values as hyperparameters, and as a table."""
        from tensorboardX.summary import hparams

        plain = (bool, int, float, str)
        given = {
            key: value if isinstance(value, plain) else json.dumps(value)
            for key, value in config.items()
        }
        split = config.get("data.eval_split", "valid")
        with _name_path_in_errors(self.folder):
            for summary in hparams(given, {f"{split}/loss": 0.0}):
                self._add(0, summary=summary)
        rows = [[key, str(value)] for key, value in given.items()]
        self.write_table(0, "config", ("key", "value"), rows)

    def write_table(
        self, step: int, name: str, columns: Sequence[str], rows: Sequence[list[str]]
    ) -> None:
        """A table of texts, which TensorBoard shows as Markdown."""
        from tensorboardX.summary import text

        cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        lines = [columns, ["---"] * len(columns), *cells]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        with _name_path_in_errors(self.folder):
            self._add(step, summary=text(name, table))

    def close(self) -> None:
        self.events.close()

    def _add(self, step: int, **content: Any) -> None:
        event = self.event_pb2.Event(step=step, wall_time=time.time(), **content)
        self.events.write_event(event)


class BucketEvents:
    """Opens files of events in buckets for tensorboardX."""

    def open(self, path: str) -> BucketFile:
        return BucketFile(path)

    def directory_check(self, path: str) -> None:
        """A bucket needs no folder before its files."""


def _short(value: Any) -> str:
    """A text, tags or an answer as one line for people."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return f"{text[:MAX_SAMPLE_CHARS]}…" if len(text) > MAX_SAMPLE_CHARS else text


@contextlib.contextmanager
def _name_path_in_errors(path: epath.Path) -> Iterator[None]:
    """Adds the path to an OSError of an open file, which lacks it."""
    try:
        yield
    except OSError as error:
        if error.errno:
            error.filename = error.filename or str(path)
        raise
