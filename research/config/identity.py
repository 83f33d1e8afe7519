"""The identity of a config, which new keys do not change: trial ids, resume, old runs.

It consists of the keys of first_keys.json, which every config had when the first runs
were kept, and of each later key whose value is not neutral. The neutral value of a key
is what runs did before the key existed: its default, or `neutral` in the metadata of
its field if the default has changed since.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etils import epath

from research.config.sections import OPEN_SECTIONS, SECTIONS, dotted, is_open
from research.contract.errors import UserError, unknown
from research.contract.parameter_names import NAME_KEYS, earlier_name
from research.contract.parts import default_of, section_fields
from research.files.existence import exists
from research.files.json_files import parse_json, read_json

CONFIG_FILE = "config.json"
"""The file of a run's config in its workdir."""

UNDECLARED = object()

EARLIER_KEYS = {"lstm": {"layer_dropout": "hidden_dropout"}}
"""Network -> a key of it in earlier versions -> today's; identities have the earlier
one."""

_FIRST_KEYS = {
    network: {new: old for old, new in names.items()}
    for network, names in EARLIER_KEYS.items()
}
"""EARLIER_KEYS, the other way."""

UNREAD_FIRST_KEYS = {"adam": {"optimizer.weight_decay": 0.0}}
"""Optimizer -> values in its first runs of keys that it does not read, where these are
not the defaults of first_keys.json."""


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value; tuples become lists, as in JSON."""
    flat = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = _plain(value)
    return flat


def identity(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The keys and values that distinguish a config from others.

    Args:
      flat: a config of this version or of an earlier one, dotted key -> value; an open
        section may be one dict.
    """
    flat = _with_earlier_names(with_current_keys(flat))
    first, neutral = _first_values(flat), neutral_values(flat)
    same = {key: value for key, value in first.items() if not isinstance(value, dict)}
    own = {
        key: value
        for key, value in flat.items()
        if key in first or _plain(value) != neutral.get(key, UNDECLARED)
    }
    return same | _renamed(own, _FIRST_KEYS)


def with_current_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config of an earlier version, flat or nested, with today's names of keys."""
    return _renamed(config, EARLIER_KEYS)


def _renamed(
    config: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """The config with other names of the keys beside a key `network`.

    Args:
      names: network -> key -> its other name.
    """
    found = {}
    for key, value in config.items():
        head, dot, own = key.rpartition(".")
        network = str(config.get(f"{head}{dot}network"))
        name = f"{head}{dot}{names.get(network, {}).get(own, own)}"
        found[name] = _renamed(value, names) if isinstance(value, Mapping) else value
    return found


def _with_earlier_names(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The config with the names that parameters had in the first runs."""
    named = {key: flat[key] for key in NAME_KEYS if isinstance(flat.get(key), str)}
    return {**flat, **{key: earlier_name(value) for key, value in named.items()}}


def neutral_values(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> neutral value, for all keys of a config that chooses these parts.

    Raises:
      UserError: the config chooses a part that does not exist.
    """
    found = {}
    for name in SECTIONS:
        for key, field in _declared(name, flat).items():
            value = _plain(field.metadata.get("neutral", default_of(field)))
            found[dotted(name) + key] = {} if is_open(name, key) else value
    return found


def complete_config(content: Mapping[str, Any], path: epath.PathLike) -> dict[str, Any]:
    """A run's config with all keys of this version; missing keys are neutral.

    Args:
      content: the content of config.json, nested, of this version or of an earlier one.
      path: the file, for errors.

    Raises:
      UserError: a section is missing, or a key is not known to this version.
    """
    for name in filter(None, SECTIONS):
        if not isinstance(content.get(name), dict):
            raise UserError(f"{path} is damaged ({name} is missing); train it again")
    content = with_current_keys(content)
    flat = flatten(content)
    try:
        neutral = neutral_values(flat)
    except UserError as error:
        raise UserError(f"{path} is of another version: {error}") from error
    first = _first_values(flat)
    for key, value in flat.items():
        is_open = key.startswith(tuple(f"{name}." for name in OPEN_SECTIONS))
        if key in neutral or is_open:
            continue
        if key in first and (_is_of_another_part(key) or first[key] == value):
            continue  # an optimizer's key that the chosen one does not read
        raise UserError(
            f"{path} is of another version: {unknown('config key', key, neutral)}"
        )
    completed: dict[str, Any] = {}
    for key, value in neutral.items():
        name, _, own = key.rpartition(".")
        section = completed.setdefault(name, {}) if name else completed
        given = content[name] if name else content
        section[own] = given.get(own, value)
    return completed


def read_run_config(workdir: epath.Path) -> dict[str, Any]:
    """The config of a run, by `complete_config`.

    Raises:
      UserError: the folder is no run, or its config.json is damaged or has a key that
        is not known.
    """
    path = workdir / CONFIG_FILE
    if not exists(path):
        raise UserError(f"{workdir} is no run: it has no config.json")
    return complete_config(read_json(path, "train the run again"), path)


@functools.cache
def _first_keys() -> dict[str, Any]:
    return parse_json(Path(__file__).with_name("first_keys.json").read_bytes())


def _first_values(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The first keys of a config that chooses these parts, and their first defaults."""
    content = _first_keys()
    own = content["objectives"].get(flat.get("objective.name"), {})
    unread = UNREAD_FIRST_KEYS.get(flat.get("optimizer.name"), {})
    own_keys = {f"objective.{key}": value for key, value in own.items()}
    return content["keys"] | own_keys | unread


def _declared(name: str, flat: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a section, with those of the parts that the config chooses."""
    prefix = dotted(name)
    own = SECTIONS[name].__dataclass_fields__
    values = {key: flat[prefix + key] for key in own if prefix + key in flat}
    return section_fields(SECTIONS[name], values, prefix)


def _is_of_another_part(key: str) -> bool:
    """Whether some part that the section could choose has the key."""
    name, _, own = key.rpartition(".")
    folders = (
        field.metadata["folder"]
        for field in SECTIONS[name].__dataclass_fields__.values()
        if "folder" in field.metadata
    )
    return any(
        own in folder.part_class(each, key).__dataclass_fields__
        for folder in folders
        for each in folder.names()
    )


def _plain(value: Any) -> Any:
    """The value with lists in place of tuples, also of those inside, as in JSON."""
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value
