"""Tasks for fine-tuning: a TOML file with the files and config keys of each.

[MNLI]
stand_in = "SICK"             # the data set in its place; left out: the task itself
data.train = "sick/train.csv" # relative to this file; or a data set's name
data.valid = "sick/dev.csv"
data.fields = "premise,hypothesis"
data.label = "label"
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from research.contract.errors import UserError
from research.data.read.text_sources import source_of
from research.files.paths import find_paths

FILES = ("data.train", "data.valid", "data.test")

PRETRAINING = ("seed", "train.init_from", "data.vocabulary", "data.sentinels")
"""Keys that a fine-tuning takes from its sweep or its pretraining, in addition to those
of `model` except dropout rates."""


class Task(NamedTuple):
    """The files of a task, and config keys to read them and to fine-tune."""

    stand_in: str  # name of the data set that replaces it; "": the task itself
    keys: Mapping[str, Any]  # config key -> value


def load_tasks(path: str) -> dict[str, Task]:
    """Name -> task, from a TOML file.

    Raises:
      UserError: there is no such file, it has no tasks, or a task lacks files.
    """
    if not Path(path).is_file():
        raise UserError(f"--tasks={path}: no such file; docs/tables.md shows one")
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
        return {name: _task(name, entry, path) for name, entry in content.items()}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--tasks={path} is not TOML ({error})") from error


def _task(name: str, entry: Any, path: str) -> Task:
    if not isinstance(entry, dict):
        raise UserError(f"--tasks={path}: {name} is not a table of config keys")
    stand_in, keys = str(entry.pop("stand_in", "")), dict(_flatten(entry))
    for key in FILES[:1] if "data.split" in keys else FILES[:2]:
        if key not in keys:
            raise UserError(f"--tasks={path}: {name} has no {key}")
    for key in keys:
        of_network = key.startswith("model.") and "dropout" not in key
        if key in PRETRAINING or of_network:
            raise UserError(
                f"--tasks={path}: {name} sets {key}, which a fine-tuning takes from "
                "its pretraining; leave it out"
            )
    for key in FILES:
        if key in keys and not source_of(str(keys[key])):
            keys[key] = os.path.join(os.path.dirname(path), str(keys[key]))
            if "://" not in keys[key] and not find_paths(keys[key]):
                raise UserError(f"--tasks={path}: {name}: no file {keys[key]}")
    return Task(stand_in, keys)


def _flatten(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Pairs of dotted config key and value; open sections (data.mixture) stay dicts."""
    for name, value in entry.items():
        if isinstance(value, dict) and not prefix:
            yield from _flatten(value, f"{name}.")
        else:
            yield prefix + name, value
