"""The identity of a config, for trial ids and resuming; new keys do not change it.

It consists of the keys whose values differ from their defaults, so that a key added
later is only in the identities of runs that set it.
"""

from collections.abc import Mapping
from typing import Any

from etils import epath

from research.config.sections import (
    OPEN_SECTIONS,
    SECTIONS,
    TRACKERS,
    dotted,
    is_open,
)
from research.contract.errors import UserError, unknown
from research.contract.parts import default_of, key_fields, section_fields
from research.files.existence import exists, missing_part
from research.files.json_files import read_json, write_json

CONFIG_FILE = "config.json"
"""The file of a run's config in its workdir."""

FORMAT = "0.2"
"""The version of the program that first wrote runs of this format.

It is raised by any change that gives earlier runs another meaning (a renamed parameter
or key, another default): runs of another format are rejected.
"""


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value; tuples become lists, as in JSON."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = _plain(value)
    return flat


def identity(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The keys and values that distinguish the config from others.

    Args:
      flat: dotted key -> value; an open section may be one dict.
    """
    defaults = default_values(flat)
    return {
        key: value for key, value in flat.items() if _plain(value) != defaults.get(key)
    }


def default_values(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> default, for all keys of a config that chooses these parts.

    Raises:
      UserError: the config chooses a part that does not exist.
    """
    defaults = {}
    for name in SECTIONS:
        for key, field in _declared(name, flat).items():
            value = {} if is_open(name, key) else _plain(default_of(field))
            defaults[dotted(name) + key] = value
    return defaults


def complete_config(content: Mapping[str, Any], path: epath.PathLike) -> dict[str, Any]:
    """A run's config with all keys of this version; missing keys have their defaults.

    Args:
      content: the content of config.json, nested.
      path: the file, for errors.

    Raises:
      UserError: it has another format, a section is missing, or a key is unknown.
    """
    content = dict(content)
    if (version := content.pop("format", None)) != FORMAT:
        raise UserError(
            f"{path} must have format {FORMAT!r}, got {version!r}, of another version "
            "of this program; train the run again"
        )
    for name in filter(None, SECTIONS):
        if not isinstance(content.get(name), dict):
            raise UserError(f"{path} is damaged ({name} is missing); train it again")
    content["train"] = with_track(content["train"])
    flat = flatten(content)
    try:
        defaults = default_values(flat)
    except UserError as error:
        raise UserError(f"{path} is of another version: {error}") from error
    open_keys = tuple(f"{name}." for name in OPEN_SECTIONS)
    for key in flat.keys() - defaults.keys():
        if not key.startswith(open_keys):
            raise UserError(
                f"{path} is of another version: {unknown('config key', key, defaults)}"
            )
    completed: dict[str, Any] = {}
    for key, value in defaults.items():
        name, _, field = key.rpartition(".")
        section = completed.setdefault(name, {}) if name else completed
        values = content[name] if name else content
        section[field] = values.get(field, value)
    return completed


def with_track(keys: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The keys of `train` with train.track for a key that a tracker replaces.

    Args:
      prefix: of all keys: "train." for a flat config.
    """
    new = dict(keys)
    for name in TRACKERS.names():
        cls: Any = TRACKERS.part_class(name, "train.track")
        if project := new.pop(f"{prefix}{cls.replaces}", ""):
            new[f"{prefix}track"] = f"{name}:{project}"
    return new


def write_run_config(workdir: epath.Path, config: Mapping[str, Any]) -> None:
    """Writes the config of a run, nested, as CONFIG_FILE of its workdir."""
    write_json(workdir / CONFIG_FILE, {"format": FORMAT, **config})


def read_run_config(workdir: epath.Path) -> dict[str, Any]:
    """The config of a run, by `complete_config`.

    Raises:
      UserError: the folder is not a run, or its config.json is damaged, has another
        format or an unknown key.
    """
    path = workdir / CONFIG_FILE
    if not exists(path):
        raise no_run(workdir)
    return complete_config(read_json(path, "train the run again"), path)


def no_run(workdir: epath.PathLike, name: str = "") -> UserError:
    """The error for a folder that does not exist or has no config.json.

    Args:
      name: of the flag, e.g. "RUN=".
    """
    reason = missing_part(workdir) or f"it has no {CONFIG_FILE}"
    return UserError(f"{name}{workdir} is not a run: {reason}")


def _declared(name: str, flat: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a section, with those of the parts that the config chooses."""
    prefix = dotted(name)
    own = [field.name for field in key_fields(SECTIONS[name])]
    values = {key: flat[prefix + key] for key in own if prefix + key in flat}
    return section_fields(SECTIONS[name], values, prefix)


def _plain(value: Any) -> Any:
    """The value with tuples converted to lists at all levels, as in JSON."""
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value
