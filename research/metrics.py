"""What a run writes down: metrics.jsonl always, TensorBoard events beside it."""

import json
from collections.abc import Mapping
from typing import Any

from etils import epath

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
    """Appends lines to metrics.jsonl and events for TensorBoard.

    Lines past `step` are dropped at the start, so that a run that goes on from a
    checkpoint leaves the same file as one that was never stopped.
    """

    def __init__(self, workdir: epath.PathLike, *, step: int):
        self.folder = epath.Path(workdir)
        self.path = self.folder / "metrics.jsonl"
        self.lines = [line for line in _lines(self.path) if line["step"] <= step]
        self._rewrite()
        self.file = self.path.open("a")
        from tensorboardX import SummaryWriter  # slow to import, not needed to compile

        self.board = SummaryWriter(str(self.folder / "tensorboard"), purge_step=step)

    def latest(self) -> dict[str, float]:
        """The latest value of each metric."""
        merged = {name: value for line in self.lines for name, value in line.items()}
        merged.pop("step", None)
        return merged

    def write(self, step: int, values: Mapping[str, float]) -> None:
        line = {"step": step} | dict(values)
        self.lines.append(line)
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        for name, value in values.items():
            self.board.add_scalar(name, value, step)

    def close(self) -> None:
        self.file.close()
        self.board.close()

    def _rewrite(self) -> None:
        part = self.path.with_suffix(".part")
        part.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        part.replace(self.path)


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
