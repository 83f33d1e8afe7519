"""Batches saved to a folder ahead of a run, and the source that reads them back."""

import dataclasses
import io
import json
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from etils import epath

from research.contract.batch import Lexicon, Triples, VocabInfo
from research.contract.errors import UserError
from research.data.cache import fingerprint
from research.data.options import DataOptions
from research.data.order.mixture_schedule import MIXINGS
from research.data.progress import progress

if TYPE_CHECKING:
    from research.objectives import Objective

# n rows

META_FILE = "batches.json"
"""File that is written last: a folder without it is incomplete."""

VOCAB_ARRAYS = {
    "is_special": bool,
    "ordinary_ids": np.int32,
    "lowercase_ids": np.int32,
    "token_count": np.int64,
    "starts_word": bool,
}
"""Fields of `VocabInfo` that are arrays -> dtype; other lists in JSON are tuples."""


class SavedSource:
    """The saved examples of one split: a `pipeline.Source`."""

    def __init__(self, folder: epath.Path, split: str, meta: dict):
        """Reads `split`, train or eval, of a folder with the given META_FILE."""
        self._folder = folder
        self._split = split
        self._rows_per_file = meta["batch"]
        self._num_rows = meta["rows"][split]
        self._cached_file: tuple[int, dict] = (-1, {})
        self.contiguous = meta["contiguous"]
        self.num_examples = meta["num_examples"][split]
        self.fingerprint = meta["fingerprints"][split]

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Training rows of the counters g [n] int64, ascending.

        Raises:
          UserError: fewer rows were saved.
        """
        if counter.max() >= self._num_rows:
            raise UserError(
                f"data.task {self._folder} holds {self._num_rows} rows; save more with "
                "launch.commands.prepare --batches"
            )
        file_of_row = counter // self._rows_per_file
        parts = []
        for number in np.unique(file_of_row):
            row = counter[file_of_row == number] - number * self._rows_per_file
            file = self._read_file(number)
            parts.append({name: array[row] for name, array in file.items()})
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, `size` rows at a time."""
        for begin in range(0, self._num_rows, size):
            yield self.rows(np.arange(begin, min(begin + size, self._num_rows)))

    def empty_rows(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text."""
        row = _load_npz(self._folder / "empty.npz")
        return {name: np.repeat(array, num, axis=0) for name, array in row.items()}

    def _read_file(self, number: int) -> dict[str, np.ndarray]:
        if self._cached_file[0] != number:
            path = self._folder / f"{self._split}-{number:06d}.npz"
            self._cached_file = number, _load_npz(path)
        return self._cached_file[1]


def save_batches(
    options: DataOptions,
    objective: "Objective",
    data: Any,
    folder: epath.Path,
    *,
    seed: int,
    steps: int,
) -> None:
    """Saves the batches of the first `steps` steps of a run, and its whole evaluation.

    Args:
      data: the result of `open_data` for these options.
      folder: is created; batches in it are replaced.

    Raises:
      UserError: the batches have several lengths (data.length_buckets).
    """
    if data.train.buckets is not None:
        raise UserError(
            "batches of several lengths cannot be saved; set data.length_buckets=[]"
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / META_FILE).unlink(missing_ok=True)
    size = data.train.batch_size
    num_rows = {"train": steps * size, "eval": 0}
    with progress("writing batches", steps) as report:
        for step, batch in enumerate(data.train.batches(0, None, steps)):
            _save_npz(folder / f"train-{step:06d}.npz", batch)
            report(step + 1, f"{step + 1} of {steps}")
    for number, batch in enumerate(data.eval.source.in_order(size)):
        _save_npz(folder / f"eval-{number:06d}.npz", batch)
        num_rows["eval"] += len(batch["example"])
    _save_npz(folder / "empty.npz", data.train.source.empty_rows(1))
    meta = {
        "made_of": _batch_settings(options, objective, seed),
        "batch": size,
        "contiguous": data.train.source.contiguous,
        "rows": num_rows,
        "num_examples": {
            "train": data.train.num_examples,
            "eval": data.eval.num_examples or num_rows["eval"],
        },
        "fingerprints": {
            "train": data.train.fingerprint,
            "eval": data.eval.fingerprint,
        },
        "counts": data.counts,
        "vocab": _vocab_to_json(data.vocab),
    }
    meta["digest"] = fingerprint(json.loads(json.dumps(meta)))
    (folder / META_FILE).write_text(json.dumps(meta), encoding="utf-8")


def has_saved_batches(task: str) -> bool:
    """Whether data.task is a folder that `save_batches` completed."""
    return bool(task) and (epath.Path(task) / META_FILE).exists()


def open_saved_batches(
    options: DataOptions,
    objective: "Objective",
    *,
    seed: int,
    batch_size: int,
    num_steps: int,
) -> tuple[VocabInfo, SavedSource, SavedSource, dict]:
    """The vocabulary, train and eval sources, and counts of the folder data.task.

    Raises:
      UserError: a file is damaged; the batches were saved with another config or for
        fewer steps; or the config has another batch size although it matters which rows
        a step has.
    """
    folder = epath.Path(options.task)
    meta = _read_meta(folder / META_FILE)
    settings = json.loads(json.dumps(_batch_settings(options, objective, seed)))
    made_of = meta["made_of"]
    for key in made_of | settings:
        if settings.get(key) != made_of.get(key):
            raise UserError(
                f"data.task {folder} was saved with {key}={made_of.get(key)!r}, but "
                f"the config has {settings.get(key)!r}; set that, or save them again"
            )
    needed = num_steps * batch_size
    if needed > meta["rows"]["train"]:
        raise UserError(
            f"data.task {folder} holds {meta['rows']['train']} rows, but "
            f"train.steps * train.batch is {needed}; save more batches"
        )
    if batch_size != meta["batch"]:
        _check_any_batch(options, objective, batch_size, meta, folder)
    train, held_out = (SavedSource(folder, split, meta) for split in ("train", "eval"))
    return _vocab_from_json(meta["vocab"]), train, held_out, meta["counts"]


def _check_any_batch(
    options: DataOptions,
    objective: "Objective",
    batch_size: int,
    meta: dict,
    folder: epath.Path,
) -> None:
    """Raises UserError: rows may not be divided into steps of another batch size."""
    reason = ""
    if meta["contiguous"]:
        reason = f"holds {meta['batch']} streams that continue from step to step"
    elif MIXINGS[options.mixing].depends_on_batch:
        reason = f"holds batches of {meta['batch']} rows, each of one corpus"
    elif objective.reads_step:
        reason = (
            f"holds batches of {meta['batch']} rows, and objective "
            f"{objective.name} reads the training step of each"
        )
    if reason:
        raise UserError(
            f"data.task {folder} {reason}; set train.batch={meta['batch']}, not "
            f"{batch_size}"
        )


def _batch_settings(
    options: DataOptions, objective: "Objective", seed: int
) -> dict[str, Any]:
    """Values of the config keys on which batches depend, besides those of the text."""
    values = {"name": objective.name} | objective.field_values
    fields = {f"objective.{key}": value for key, value in values.items()}
    keys = [f.name for f in dataclasses.fields(options) if f.metadata.get("of_batches")]
    data = {f"data.{key}": getattr(options, key) for key in keys}
    return {"seed": seed} | data | fields


def _vocab_to_json(vocab: VocabInfo) -> dict[str, Any]:
    fields = vocab._replace(pieces=None)._asdict()  # batches are not corrupted again
    if vocab.lexicon:
        lexicon = _arrays_to_lists(vocab.lexicon._asdict())
        if triples := vocab.lexicon.triples:
            lexicon["triples"] = _arrays_to_lists(triples._asdict())
        fields["lexicon"] = lexicon
    return _arrays_to_lists(fields)


def _arrays_to_lists(fields: dict[str, Any]) -> dict[str, Any]:
    arrays = {k: v.tolist() for k, v in fields.items() if isinstance(v, np.ndarray)}
    return fields | arrays


def _vocab_from_json(fields: dict[str, Any]) -> VocabInfo:
    """The inverse of `_vocab_to_json`."""
    if lexicon := fields["lexicon"]:
        names = ("token", "size", "entry_type")
        arrays = {name: np.array(lexicon[name], np.int32) for name in names}
        triples = lexicon.get("triples")
        if triples:
            triples = Triples(**{k: np.array(v, np.int32) for k, v in triples.items()})
        fields["lexicon"] = Lexicon(
            **arrays, type_names=tuple(lexicon["type_names"]), triples=triples
        )
    for name, value in fields.items():
        if isinstance(value, list):
            dtype = VOCAB_ARRAYS.get(name)
            fields[name] = np.array(value, dtype) if dtype else tuple(value)
    return VocabInfo(**fields)


def _save_npz(path: epath.Path, batch: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **batch)
    path.write_bytes(buffer.getvalue())


def _load_npz(path: epath.Path) -> dict[str, np.ndarray]:
    """The arrays of a file, with the checksums of the zip format verified.

    Raises:
      UserError: it is missing or damaged.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes())) as file:
            return dict(file)
    except (
        FileNotFoundError,
        ValueError,
        EOFError,
        OSError,
        zipfile.BadZipFile,
    ) as error:
        raise _damaged(path, error) from error


def _read_meta(path: epath.Path) -> dict[str, Any]:
    """The content of META_FILE, which contains a digest of its other entries.

    Raises:
      UserError: it is damaged.
    """
    try:
        meta = json.loads(path.read_bytes())
        if meta.pop("digest") != fingerprint(meta):
            raise ValueError("not as it was written")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from error
    return meta


def _damaged(path: epath.Path, error: Exception) -> UserError:
    return UserError(
        f"data.task: {path} is damaged ({error}); save the batches again with "
        "launch.commands.prepare --batches"
    )
