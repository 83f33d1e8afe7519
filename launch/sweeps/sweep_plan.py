"""The plan of a sweep: its trials, from a sweep file and kept in `sweep.json`."""

import dataclasses
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from etils import epath

from launch import config, config_starts, config_values, user_code
from launch.sweeps import shared_keys
from launch.sweeps.scales import SCALES
from launch.sweeps.tasks import Task
from launch.sweeps.trial import Trial
from research.config.identity import default_values, identity, with_track
from research.contract.errors import UserError, unknown
from research.files.existence import exists
from research.files.json_files import check_object, digest, read_json, write_json
from research.files.paths import absolute_path

KEYS_OUTSIDE_ID = ("data.cache_dir",)
"""Keys of paths; results, and so the ids of trials, do not depend on them."""

MAX_TRIALS = 10_000
"""Most trials of a sweep, so that an endless generator is rejected."""

VOCABULARY_TEXT = (
    *("data.corpus", "data.train", "data.mixture"),
    *("data.vocabulary_size", "data.normalizer"),
)
"""Keys of the text that a vocabulary is trained on, and of its training."""

TRIAL_FIELDS = {
    **{name: str for name in ("id", "name", "experiment", "row", "group")},
    **{name: dict for name in ("overrides", "parents", "config")},
}
HEADER_FIELDS = {
    **{name: str for name in ("sweep", "scale", "on")},
    **{name: int for name in ("round", "retries", "preemptions")},
    **{name: dict for name in ("resources", "flags")},
    "trials": list,
}
"""The JSON type of each field of `sweep.json`; TRIAL_FIELDS has those of its trials."""

REMEDY = (
    "start the sweep again with --sweep, which writes it anew; finished trials are kept"
)
OTHER_VERSION = "is of another version of this program, or was edited"


Item = tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], tuple[str, str]]
"""What a sweep yields: an experiment, its overrides, and optionally (row, group): the
row of its table and the group in that row."""


def make_plan(
    file: str,
    workdir: str | Path,
    sweep: Callable | None = None,
    *,
    scale: str,
    shared: Mapping[str, Any],
    tasks: Mapping[str, Task] | None = None,
    first_seed: int = 0,
    seeds: int | None = None,
) -> list[Trial]:
    """All trials of a sweep file, each once, parents before their children.

    Args:
      sweep: the function, if no file defines it; `file` then names it in errors.
      shared: dotted key -> value, for trials whose overrides do not set the key; a
        trial that starts from another one keeps that one's network.
      tasks: the tasks of --tasks, for a sweep that fine-tunes on them.
      first_seed: added to every seed, for a repeat with other seeds.
      seeds: how many pretraining seeds of each row are kept, the lowest; None: all.

    Raises:
      UserError: the file, the scale or a config is wrong, or a shared key is set by
        every trial, or by the pretrainings of only some rows.
    """
    sweep = sweep or getattr(user_code.module_at(file), "sweep", None)
    if sweep is None:
        raise UserError(f"{file} is not a sweep: it does not define sweep(scale)")
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    trials: dict[str, Trial] = {}
    ids: dict[str, str] = {}
    with shared_keys.given(shared):
        items = _items(file, sweep, scale, tasks or {})
    if first_seed:
        if "seed" in shared:
            raise UserError("--first_seed and --config.seed both set seeds")
        items = [
            (experiment, _reseeded(own, first_seed), *label)
            for experiment, own, *label in items
        ]
    _check_unset(file, shared, [own for _, own, *_ in items])
    of_rows: list[tuple[Trial, Mapping[str, Any]]] = []  # pretrainings, own overrides
    for experiment, own, *label in items:
        folder = absolute_path(workdir)
        try:
            trial = _add_trial(trials, ids, folder, experiment, own, shared)
        except UserError as error:
            where = ": ".join(dict.fromkeys([str(file), experiment]))
            raise UserError(f"{where}: {error}") from error
        for row, group in label:
            if trial.row and (trial.row, trial.group) != (row, group):
                raise UserError(
                    f"{file}: {trial.row}, {trial.group} and {row}, {group} are the "
                    "same trial; make them differ"
                )
            trials[trial.id] = dataclasses.replace(trial, row=row, group=group)
            if group == "pretraining":
                of_rows.append((trials[trial.id], own))
    _check_rows(file, shared, of_rows)
    named = _with_distinct_names(list(trials.values()))
    return _of_first_seeds(named, seeds) if seeds else named


def _of_first_seeds(trials: Sequence[Trial], seeds: int) -> list[Trial]:
    """The trials of the first pretraining seeds of each row, and their ancestors."""
    of_row: dict[str, set[int]] = {}
    for trial in trials:
        of_row.setdefault(trial.row, set()).add(trial.pretraining_seed)
    first = {row: sorted(found)[:seeds] for row, found in of_row.items()}
    kept = {
        each.id
        for trial in trials
        if trial.pretraining_seed in first[trial.row]
        for each in trial.with_ancestors()
    }
    return [trial for trial in trials if trial.id in kept]


def _check_unset(
    file: str, shared: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
) -> None:
    """Raises UserError if no trial takes a shared key."""
    for key in shared:
        if items and all(key in own for own in items):
            raise UserError(f"{key}: every trial of {file} sets this key itself")


def _check_rows(
    file: str,
    shared: Mapping[str, Any],
    pretrainings: Sequence[tuple[Trial, Mapping[str, Any]]],
) -> None:
    """Checks that no shared key applies to the pretrainings of only some rows.

    If all set it themselves, prints that it applies to none.

    Args:
      pretrainings: those of the rows, each with its own overrides.

    Raises:
      UserError: some rows set a shared key to another value, and others do not set it.
    """
    for key in shared:
        taken = [t.config.get(key) for t, own in pretrainings if key not in own]
        setting = [t for t, own in pretrainings if key in own]
        rows = dict.fromkeys(t.row for t in setting if t.config.get(key) not in taken)
        if taken and rows:
            named = ", ".join(repr(row) for row in [*rows][:3])
            raise UserError(
                f"--config.{key}: {file} sets it itself in {len(rows)} of its rows "
                f"({named}), which would not have this value; leave it out, or set it "
                "in the file"
            )
        if setting and not taken:
            print(
                f"--config.{key} is for fine-tunings alone: each pretraining of {file} "
                "sets it itself",
                file=sys.stderr,
            )


def takes_tasks(sweep: Any) -> bool:
    """Whether a file's function `sweep` has the argument of --tasks."""
    return callable(sweep) and "tasks" in inspect.signature(sweep).parameters


def _items(file: str, sweep: Any, scale: str, tasks: Mapping[str, Task]) -> list[Item]:
    """The items that a sweep file yields.

    Raises:
      UserError: its function raises, or yields something else; names the file.
    """
    with_tasks = takes_tasks(sweep)
    if with_tasks and not tasks and _is_required(sweep, "tasks"):
        raise UserError(
            f"{file} fine-tunes on tasks: --tasks=FILE names their files; see "
            "docs/tables.md"
        )
    if tasks and not with_tasks:
        raise UserError(f"--tasks: sweep() of {file} takes no tasks")
    items = user_code.call(file, sweep, scale, *([tasks] if with_tasks else []))
    if not isinstance(items, Iterable):
        raise UserError(
            f"{file}: sweep(scale) must yield pairs (experiment, overrides), not "
            f"{items!r}"
        )
    with user_code.name_line_in_errors(file):  # a generator runs only now
        items = list(itertools.islice(items, MAX_TRIALS + 1))
    if not items:
        raise UserError(f"{file}: sweep({scale!r}) gives no trial")
    if len(items) > MAX_TRIALS:
        raise UserError(
            f"{file}: sweep({scale!r}) gives more than {MAX_TRIALS:,} trials, the "
            "maximum; does it end?"
        )
    for item in items:
        if not _is_item(item):
            raise UserError(
                f"{file}: sweep(scale) must yield pairs (experiment, overrides), not "
                f"{item!r}"
            )
        if _holds_itself(item[1]):
            raise UserError(
                f"{file}: the overrides of {item[0]} contain themselves; a parent "
                "needs overrides of its own"
            )
    return items


def _holds_itself(value: Any, holders: tuple[int, ...] = ()) -> bool:
    """Whether a dict, list or tuple contains itself."""
    if not isinstance(value, (Mapping, list, tuple)):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    holders = (*holders, id(value))
    return any(id(v) in holders or _holds_itself(v, holders) for v in inner)


def _reseeded(own: Mapping[str, Any], first_seed: int) -> dict[str, Any]:
    """The overrides of an item, and of the trials that they name, with later seeds."""
    keys = {
        key: (value[0], _reseeded(value[1], first_seed)) if _is_pair(value) else value
        for key, value in own.items()
    }
    seed = own.get("seed", 0)
    if isinstance(seed, int):  # else the config's check reports it
        keys["seed"] = seed + first_seed
    return keys


def finished_trials(workdir: epath.PathLike) -> list[Trial] | None:
    """The finished runs of a sweep; None: no sweep was started in the folder.

    Raises:
      UserError: `sweep.json` is damaged.
    """
    if not exists(absolute_path(workdir) / "sweep.json"):
        return None
    return [trial for trial in read_plan(workdir) if trial.done]


def write_plan(trials: list[Trial], workdir: epath.PathLike, **header: Any) -> None:
    """Writes `sweep.json` atomically: the header's fields, then the trials."""
    names = {field.name for field in dataclasses.fields(Trial)} - {"folder"}
    rows = [
        {name: getattr(trial, name) for name in sorted(names)}
        | {"parents": {key: parent.id for key, parent in trial.parents.items()}}
        for trial in trials
    ]
    write_json(absolute_path(workdir) / "sweep.json", header | {"trials": rows})


def read_plan(workdir: epath.PathLike) -> list[Trial]:
    """The trials of the last sweep that was started in `workdir`.

    Raises:
      UserError: no sweep was started there, or `sweep.json` is damaged.
    """
    trials: dict[str, Trial] = {}
    try:
        for row in _read(workdir, {"trials": list})["trials"]:
            check_object(row, TRIAL_FIELDS)
            row["config"] = with_track(row["config"], "train.")
            if unknown_fields := sorted(row.keys() - TRIAL_FIELDS.keys()):
                raise ValueError(f"{unknown_fields[0]!r} is not a field of a trial")
            if trial_id(row["config"]) != row["id"]:
                raise ValueError(f"id {row['id']!r} is not that of its config")
            texts = {k: v for k, v in row["config"].items() if isinstance(v, str)}
            linked = {key: text for key, text in texts.items() if text in trials}
            if linked != row["parents"]:
                raise ValueError(f"parents of {row['id']} are not those of its config")
            parents = {key: trials[parent] for key, parent in row["parents"].items()}
            folder = absolute_path(workdir) / row["id"]
            own = row["config"]
            own |= {k: v for k, v in default_values(own).items() if k not in own}
            more = {"parents": parents, "folder": folder, "config": own}
            trials[row["id"]] = Trial(**row | more)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{workdir}/sweep.json {OTHER_VERSION} ({error}); {REMEDY}"
        ) from error
    return list(trials.values())


def read_header(workdir: epath.PathLike) -> dict[str, Any]:
    """The content of `sweep.json`.

    Raises:
      UserError: there is no such file, or it is damaged.
    """
    return _read(workdir, HEADER_FIELDS)


def read_tasks(workdir: epath.PathLike) -> dict[str, Task]:
    """The tasks that the sweep was started with; {}: none.

    Raises:
      UserError: there is no `sweep.json`, or it is damaged.
    """
    tasks = _read(workdir, {"trials": list}).get("tasks", {})
    try:
        return {name: Task(**fields) for name, fields in tasks.items()}
    except (AttributeError, TypeError) as error:
        raise UserError(
            f"{workdir}/sweep.json {OTHER_VERSION} ({error}); {REMEDY}"
        ) from None


def _read(workdir: epath.PathLike, fields: Mapping[str, Any]) -> dict[str, Any]:
    path = absolute_path(workdir) / "sweep.json"
    if not exists(path):
        raise UserError(
            f"{str(workdir)!r} holds no sweep (sweep.json); palimpsest sweep makes one"
        )
    content = read_json(path, REMEDY)
    try:
        check_object(content, fields)
    except ValueError as error:
        raise UserError(f"{path} {OTHER_VERSION} ({error}); {REMEDY}") from error
    return content


def _is_required(function: Any, name: str) -> bool:
    default = inspect.signature(function).parameters[name].default
    return default is inspect.Parameter.empty


def _add_trial(
    trials: dict[str, Trial],
    ids: dict[str, str],
    workdir: epath.Path,
    experiment: str,
    own: Mapping[str, Any],
    shared: Mapping[str, Any],
) -> Trial:
    """Adds the trial of a pair (experiment, overrides) after its parents, once.

    Args:
      ids: repr of a pair -> trial id, for pairs whose configs are already resolved.
    """
    pair = repr((experiment, own))
    if pair in ids:
        return trials[ids[pair]]
    parents = {
        key: _add_trial(trials, ids, workdir, *value, shared)
        for key, value in own.items()
        if _is_pair(value)
    }
    if _takes_vocabulary(experiment, own, shared, parents):
        parents["data.vocabulary"] = parents["train.init_from"]
    overrides = {k: v for k, v in {**shared, **own}.items() if k not in parents}
    parent_ids = {key: parent.id for key, parent in parents.items()}
    of_parents = {key: parent.config for key, parent in parents.items()}
    inherited = config_starts.inherited_keys(overrides, of_parents)
    default = config_values.flatten(config.from_file(experiment)) if inherited else {}
    overrides |= {
        k: v
        for k, v in inherited.items()
        if not (k in own or k in parents) and (k in shared or default.get(k) != v)
    }
    keys = overrides | parent_ids
    loaded = config.load_config(experiment, keys, reads_start=False)
    resolved = loaded.flat
    ids[pair] = own_id = trial_id(resolved)
    trial = Trial(
        id=own_id,
        name=Path(experiment.partition(":")[0]).stem,
        experiment=experiment,
        overrides=overrides,
        parents=parents,
        config=resolved,
        folder=workdir / own_id,
    )
    return trials.setdefault(own_id, trial)


def _takes_vocabulary(
    experiment: str,
    own: Mapping[str, Any],
    shared: Mapping[str, Any],
    parents: Mapping[str, Trial],
) -> bool:
    """Whether a trial would train a vocabulary other than the one it has.

    It has that of the trial it starts from, like a run, but reads other text.
    """
    from research.data.tokenize.train_tokenizer import TRAINED_TYPES

    start = parents.get("train.init_from")
    if start is None or "data.vocabulary" in own:
        return False
    if start.config["data.vocabulary"] not in TRAINED_TYPES:
        return "data.vocabulary" in start.parents  # else it is a file
    keys = config_values.flatten(config.from_file(experiment)) | {**shared, **own}
    return any(keys.get(key) != start.config.get(key) for key in VOCABULARY_TEXT)


def trial_id(resolved: Mapping[str, Any]) -> str:
    """A trial's id, the name of its folder, from its flat config: 12 hex digits."""
    own = identity(resolved)
    return digest({k: v for k, v in own.items() if k not in KEYS_OUTSIDE_ID})


def _is_item(value: Any) -> bool:
    """Whether it is a pair, or one followed by (row, group)."""
    match value:
        case (str(), Mapping(), (str(), str())):
            return True
    return _is_pair(value)


def _is_pair(value: Any) -> bool:
    match value:
        case (str(), Mapping()):
            return True
    return False


def _with_distinct_names(trials: list[Trial]) -> list[Trial]:
    """Appends to each name the overrides that differ among similar trials.

    Similar trials have the same row and group or, if the sweep names none, the same
    experiment. A key that the row names is not repeated.
    """
    renamed: dict[str, Trial] = {}
    for trial in trials:
        alike = [other for other in trials if _kind(other) == _kind(trial)]
        name = f"{trial.row}, {trial.group}" if trial.row else trial.name
        differing = (
            f"{key.rpartition('.')[2]}={value}"
            for key, value in trial.overrides.items()
            if any(_value(other, key) != _value(trial, key) for other in alike)
        )
        in_row = trial.row.split(", ")
        words = [name] + [word for word in differing if word not in in_row]
        parents = {key: renamed[parent.id] for key, parent in trial.parents.items()}
        if not trial.row:
            keys = {parent.name: key for key, parent in reversed(parents.items())}
            words += [f"{key.rpartition('.')[2]}={name}" for name, key in keys.items()]
        renamed[trial.id] = dataclasses.replace(
            trial, name=" ".join(words), parents=parents
        )
    return list(renamed.values())


def _value(trial: Trial, key: str) -> Any:
    """The value of a key in the config, where an override "30" is 30.

    A config has a mixture as one value: only overrides have data.mixture.NAME.
    """
    return trial.config.get(key, trial.overrides.get(key))


def _kind(trial: Trial) -> tuple[str, str, str]:
    return trial.row, trial.group, trial.experiment
