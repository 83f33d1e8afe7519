"""A run's config: an experiment's file, its objective's defaults, then overrides."""

import dataclasses
import hashlib
import importlib.util
import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from research import objectives
from research.errors import UserError, unknown

OPEN = ("data.mixture", "objective.parts")
"""Sections whose keys are the user's own; they are overridden as a whole, by JSON."""


def load(spec: str, overrides: Mapping[str, Any] | Sequence[str] = ()) -> ConfigDict:
    """The locked config of an experiment.

    Args:
      spec: "experiments/bert.py", or "experiments/bert.py:base" with a size.
      overrides: dotted key -> value, or "key=value"; text takes the key's own type.

    Raises:
      UserError: a file, size, key or value that is not right.
    """
    config = from_file(spec)
    if not isinstance(overrides, Mapping):
        overrides = dict(_pair(item) for item in overrides)
    name = overrides.get("objective.name", config.objective.name)
    if name != config.objective.name:
        config.objective = ConfigDict({"name": name})
    _complete(config.objective)
    config.lock()
    for key, value in overrides.items():
        override(config, key, value)
    objectives.make_objective(**config.objective)
    return config


def from_file(spec: str) -> ConfigDict:
    """What an experiment's file says, before the objective's defaults."""
    path, _, size = spec.partition(":")
    module = module_at(path)
    get_config = getattr(module, "get_config", None)
    if get_config is None:
        raise UserError(f"{path} is no experiment: it defines no get_config()")
    sizes = getattr(module, "SIZES", ())
    if size and not inspect.signature(get_config).parameters:
        raise UserError(f"{path} comes in one size; write it without ':{size}'")
    if size and sizes and size not in sizes:
        raise unknown(f"size of {path}", size, sizes)
    return get_config(size) if size else get_config()


def module_at(path: str) -> ModuleType:
    """Imports a Python file by its path.

    Raises:
      UserError: there is no such file, or it is not Python.
    """
    if not Path(path).is_file():
        near = [str(file) for file in sorted(Path(path).parent.glob("[!_]*.py"))]
        raise unknown("file", path, near) if near else UserError(f"no file {path}")
    if not path.endswith(".py"):
        raise UserError(f"{path} is no Python file; its name must end in .py")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UserError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    return module


def flatten(config: ConfigDict) -> dict[str, Any]:
    """Dotted key -> value, in the config's order; an open section stays a dict."""
    flat = {}

    def walk(section: ConfigDict, prefix: str) -> None:
        for key, value in section.items():
            if isinstance(value, ConfigDict) and prefix + key not in OPEN:
                walk(value, f"{prefix}{key}.")
            else:
                flat[prefix + key] = plain(value)

    walk(config, "")
    return flat


def plain(value: Any) -> Any:
    """A value as JSON would hold it, but for tuples."""
    return value.to_dict() if isinstance(value, ConfigDict) else value


def digest(config: ConfigDict | Mapping[str, Any]) -> str:
    """Twelve hex digits that change with any value and not with the order of keys."""
    flat = flatten(config) if isinstance(config, ConfigDict) else dict(config)
    text = json.dumps(flat, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def override(config: ConfigDict, key: str, value: Any) -> None:
    """Sets one dotted key of a config, in place.

    Raises:
      UserError: there is no such key, or the value is not of its type.
    """
    flat = flatten(config)
    opened = [name for name in OPEN if key.startswith(name + ".")]
    if opened and isinstance(flat.get(opened[0]), dict):
        (key,), inside = opened, key.removeprefix(opened[0] + ".")
        value = _replaced(flat[key], inside, value, key)
    if key not in flat:
        inside = [name for name in flat if name.startswith(key + ".")]
        if inside:
            raise UserError(f"{key} is a section; its keys: {', '.join(inside)}")
        raise unknown("config key", key, flat)
    *sections, name = key.split(".")
    for section in sections:
        config = config[section]
    value = convert(value, flat[key], key)
    if isinstance(value, dict):
        with config.unlocked():
            config[name] = ConfigDict(value, allow_dotted_keys=True)
    else:
        config[name] = value


def _replaced(held: dict, key: str, value: Any, where: str) -> dict:
    """A copy of an open section's part with a value, JSON perhaps, at a dotted key.

    Raises:
      UserError: there is no such key, nor a part that could have it.
    """
    first = max((k for k in held if key == k or key.startswith(f"{k}.")), default="")
    if not first:
        raise unknown("config key", f"{where}.{key}", [f"{where}.{k}" for k in held])
    rest, inner = key.removeprefix(first).removeprefix("."), held[first]
    if rest and isinstance(inner, dict) and "." not in rest:
        inner = inner | {rest: _json(value)}
    elif rest:
        inner = _replaced(inner if isinstance(inner, dict) else {}, rest, value, where)
    else:
        inner = _json(value)
    return held | {first: inner}


def _json(value: Any) -> Any:
    """What text says as JSON; itself where it is none, or no text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return value


def convert(value: Any, like: Any, key: str) -> Any:
    """`value`, text perhaps, as the type of `like`; `key` is named in errors."""
    kind = type(like)
    try:
        if isinstance(value, str):
            return READ[kind](value)
        if isinstance(value, bool) != (kind is bool) or not isinstance(
            value, ACCEPTED.get(kind, kind)
        ):
            raise ValueError
        return kind(value)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{key}: {value!r} is not {NAMES[kind]}") from error


READ = {
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    dict: lambda text: dict(json.loads(text)),
    float: float,
    int: int,
    str: str,
    tuple: lambda text: tuple(json.loads(f"[{text.strip('()[]')}]")),
}
ACCEPTED = {float: int | float, tuple: tuple | list}
NAMES = {
    bool: "true or false",
    dict: "a JSON object",
    float: "a number",
    int: "an int",
    str: "text",
    tuple: "a list such as 1,2",
}


def _complete(section: ConfigDict) -> None:
    """Adds the objective's own defaults for the fields that are not set.

    An open section is empty then: the objective knows what it does without.
    """
    for field in dataclasses.fields(objectives.objective_class(section.name)):
        if field.name in section:
            continue
        if f"objective.{field.name}" in OPEN and field.default == ():
            section[field.name] = ConfigDict()
        elif field.default is not dataclasses.MISSING:
            section[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            section[field.name] = field.default_factory()


def _pair(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise UserError(f"override {item!r} has no value; write {key}=VALUE")
    return key, value
