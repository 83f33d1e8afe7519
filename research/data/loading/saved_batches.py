"""Whole batches written ahead of a run, read back where there is no text."""

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from etils import epath

from research.batch import Lexicon, VocabInfo
from research.data.progress import progress
from research.errors import UserError

META = "batches.json"
"""Written last: a folder without it is not whole."""
ARRAYS = {"is_special": bool, "ordinary_ids": np.int32, "lowercase_ids": np.int32}
"""Of `VocabInfo`, those that are arrays; other lists are tuples."""


class Written:
    """The examples of one split, as many as were written: a `pipeline.Source`."""

    def __init__(self, folder: epath.Path, name: str, meta: dict):
        self._folder = folder
        self._name = name
        self._size = meta["batch"]
        self._rows = meta["rows"][name]
        self._open: tuple[int, dict] = (-1, {})
        self.contiguous = meta["contiguous"]
        self.num_examples = meta["num_examples"][name]
        self.fingerprint = meta["fingerprints"][name]

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Training rows g [n] int64."""
        if counter.max() >= self._rows:
            raise UserError(
                f"data.task {self._folder} holds {self._rows} rows; write more with "
                "launch.prepare --batches"
            )
        parts = []
        for number in np.unique(counter // self._size):
            at = counter[counter // self._size == number] - number * self._size
            parts.append({name: rows[at] for name, rows in self._file(number).items()})
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, `size` at a time."""
        for begin in range(0, self._rows, size):
            yield self.rows(np.arange(begin, min(begin + size, self._rows)))

    def empty(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text."""
        with np.load(_opened(self._folder / "empty.npz")) as row:
            return {name: np.repeat(row[name], num, axis=0) for name in row.files}

    def _file(self, number: int) -> dict[str, np.ndarray]:
        if self._open[0] != number:
            path = self._folder / f"{self._name}-{number:06d}.npz"
            with np.load(_opened(path)) as file:
                self._open = number, dict(file)
        return self._open[1]


def write(config: Any, data: Any, folder: epath.Path, steps: int) -> None:
    """Writes the batches of the first steps of a run, and its whole evaluation.

    Args:
      data: what `open_data` gives for the config.
      folder: is made; batches that it holds already are replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / META).unlink(missing_ok=True)
    size = config.train.batch
    rows = {"train": steps * size, "eval": 0}
    with progress("writing batches", steps) as report:
        for step, batch in enumerate(data.train.batches(0, None, steps)):
            _save(folder / f"train-{step:06d}.npz", batch)
            report(step + 1, f"{step + 1} of {steps}")
    for number, batch in enumerate(data.eval.source.in_order(size)):
        _save(folder / f"eval-{number:06d}.npz", batch)
        rows["eval"] += len(batch["example"])
    _save(folder / "empty.npz", data.train.source.empty(1))
    meta = {
        "made_of": _made_of(config),
        "batch": size,
        "contiguous": data.train.source.contiguous,
        "rows": rows,
        "num_examples": {
            "train": data.train.num_examples,
            "eval": data.eval.num_examples or rows["eval"],
        },
        "fingerprints": {
            "train": data.train.fingerprint,
            "eval": data.eval.fingerprint,
        },
        "counts": data.counts,
        "vocab": _listed(data.vocab),
    }
    (folder / META).write_text(json.dumps(meta))


def found(task: str) -> bool:
    """Whether data.task is a folder that `write` filled."""
    return bool(task) and (epath.Path(task) / META).exists()


def read(config: Any) -> tuple[VocabInfo, Written, Written, dict]:
    """VocabInfo, train and eval rows, and counts of the folder that data.task names.

    Raises:
      UserError: it was written for another config, or for fewer steps; or its rows
        go on from step to step, and the config has another batch size.
    """
    folder = epath.Path(config.data.task)
    meta = json.loads((folder / META).read_text())
    now = json.loads(json.dumps(_made_of(config)))
    for key, old in meta["made_of"].items():
        if now.get(key) != old:
            raise UserError(
                f"data.task {folder} was written with {key}={old!r}, and the config "
                f"says {now.get(key)!r}; write the batches anew, or set that"
            )
    needed = config.train.steps * config.train.batch
    if needed > meta["rows"]["train"]:
        raise UserError(
            f"data.task {folder} holds {meta['rows']['train']} rows, and "
            f"train.steps * train.batch is {needed}; write more batches"
        )
    if meta["contiguous"] and config.train.batch != meta["batch"]:
        raise UserError(
            f"data.task {folder} holds {meta['batch']} streams that go on from step to "
            f"step; set train.batch={meta['batch']}, not {config.train.batch}"
        )
    train, held_out = (Written(folder, name, meta) for name in ("train", "eval"))
    return _vocab(meta["vocab"]), train, held_out, meta["counts"]


def _made_of(config: Any) -> dict[str, Any]:
    """The keys that a batch depends on and that a config without text still has."""
    hides = {f"objective.{key}": value for key, value in config.objective.items()}
    data = {f"data.{key}": config.data[key] for key in ("length", "dupe_factor")}
    return {"seed": config.seed} | data | hides


def _listed(vocab: VocabInfo) -> dict[str, Any]:
    """VocabInfo as JSON holds them."""
    listed = vocab._asdict()
    if vocab.lexicon:
        listed["lexicon"] = _lists(vocab.lexicon._asdict())
    return _lists(listed)


def _lists(named: dict[str, Any]) -> dict[str, Any]:
    arrays = {k: v.tolist() for k, v in named.items() if isinstance(v, np.ndarray)}
    return named | arrays


def _vocab(listed: dict[str, Any]) -> VocabInfo:
    """What `_listed` made a list of."""
    if lexicon := listed["lexicon"]:
        names = ("token", "size", "entry_type")
        arrays = {name: np.array(lexicon[name], np.int32) for name in names}
        listed["lexicon"] = Lexicon(**arrays, type_names=tuple(lexicon["type_names"]))
    for name, value in listed.items():
        if isinstance(value, list):
            kind = ARRAYS.get(name)
            listed[name] = np.array(value, kind) if kind else tuple(value)
    return VocabInfo(**listed)


def _save(path: epath.Path, batch: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **batch)
    path.write_bytes(buffer.getvalue())


def _opened(path: epath.Path) -> io.BytesIO:
    return io.BytesIO(path.read_bytes())
