"""What a run writes down: metrics.jsonl always, TensorBoard events beside it."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from etils import epath

FLUSH = 10.0
"""Seconds after which TensorBoard may see an event."""

Sums = Mapping[str, tuple[float, float, float]]
"""Of each term: its total, its weight, and its weight times its coefficient."""


def means(sums: Sums) -> dict[str, float]:
    """Each term's mean, and `loss`: their sum, weighted by their coefficients."""
    values = {
        name: float(total) / float(weight) if weight else 0.0
        for name, (total, weight, _) in sums.items()
    }
    loss = sum(
        float(part) / float(weight) * values[name]
        for name, (_, weight, part) in sums.items()
        if weight
    )
    return {"loss": loss} | values


def scored(sums: Sums) -> float:
    """Tokens scored: the largest weight among the terms that are trained on."""
    weights = [float(weight) for _, weight, part in sums.values() if part]
    return max(weights, default=0.0)


class Writer:
    """Appends lines to metrics.jsonl and speed.jsonl, and events for TensorBoard.

    Lines past `step` are dropped at the start, so that a run that goes on from a
    checkpoint leaves the same files as one that was never stopped.

    Args:
      step: the run goes on from here.
      silent: only remembers what it is given, as in all processes of a run but one.
    """

    def __init__(self, workdir: epath.PathLike, *, step: int, silent: bool = False):
        self.folder = epath.Path(workdir)
        self.lines: list[dict[str, Any]] = []
        self.files: dict[str, Any] = {}
        if silent:
            return
        self.lines = self._open("metrics.jsonl", step)
        self._open("speed.jsonl", step)
        self.board = Board(self.folder / "tensorboard", step)

    def latest(self) -> dict[str, float]:
        """The latest value of each metric."""
        merged = {name: value for line in self.lines for name, value in line.items()}
        merged.pop("step", None)
        return merged

    def write(self, step: int, values: Mapping[str, float]) -> None:
        line = {"step": step} | dict(values)
        self.lines.append(line)
        if self.files:
            self._append("metrics.jsonl", line)
            self.board.write(step, values)

    def write_speed(self, step: int, values: Mapping[str, float]) -> None:
        """What the clock says, which is another each time."""
        if self.files:
            self._append("speed.jsonl", {"step": step} | dict(values))

    def close(self) -> None:
        for file in self.files.values():
            file.close()
        if self.files:
            self.board.close()

    def _open(self, name: str, step: int) -> list[dict[str, Any]]:
        """The lines up to `step`, which are all that the file now has."""
        path = self.folder / name
        lines = [line for line in _lines(path) if line["step"] <= step]
        part = path.with_suffix(".part")
        part.write_text("".join(json.dumps(line) + "\n" for line in lines))
        part.replace(path)
        self.files[name] = path.open("a")
        return lines

    def _append(self, name: str, line: dict[str, Any]) -> None:
        with _told(self.folder / name):
            self.files[name].write(json.dumps(line) + "\n")
            self.files[name].flush()


class Board:
    """TensorBoard events, written by whoever adds them: a full disk is told at once.

    tensorboardX's own writer has a thread; where that has died of a full disk, the run
    would wait for it for ever.

    Args:
      step: later events of earlier files count no more.
    """

    def __init__(self, folder: epath.Path, step: int):
        from tensorboardX.event_file_writer import EventsWriter  # slow to import, and
        from tensorboardX.proto import event_pb2  # not needed to compile

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.kinds, self.events = event_pb2, EventsWriter(str(folder / "events"))
        self.flushed = time.monotonic()
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(step + 1, session_log=start)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboardX.summary import scalar

        with _told(self.folder):
            for name, value in values.items():
                self._add(step, summary=scalar(name, value))
            if time.monotonic() - self.flushed > FLUSH:
                self.events.flush()  # which waits for the disk
                self.flushed = time.monotonic()

    def close(self) -> None:
        self.events.close()

    def _add(self, step: int, **content: Any) -> None:
        event = self.kinds.Event(step=step, wall_time=time.time(), **content)
        self.events.write_event(event)


@contextlib.contextmanager
def _told(path: epath.Path) -> Iterator[None]:
    """The system's errors of writing to an open file do not say which."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _lines(path: epath.Path) -> list[dict[str, Any]]:
    """The whole lines of a file; the last may have been cut by a kill."""
    lines = []
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def write_json(path: epath.Path, content: Any) -> None:
    """Writes a file and renames it into place: it is whole or not there."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=2) + "\n")
    part.replace(path)
