"""Reading, converting and setting the keys of a config."""

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ml_collections import ConfigDict

from launch.other_names import our_key
from research.config.sections import OPEN_SECTIONS, SECTIONS, choices, dotted
from research.contract.errors import UserError, unknown
from research.contract.fields import bounds_words
from research.contract.parts import section_fields
from research.files.json_files import parse_json

CHECKED_LATER = ("objective.base", "objective.teacher_model")
"""Open sections: an objective and a network check their keys themselves."""


def flatten(config: ConfigDict) -> dict[str, Any]:
    """Dotted key -> value, in the config's order; an open section stays a dict."""
    flat = {}

    def walk(section: ConfigDict, prefix: str) -> None:
        for key, value in section.items():
            if isinstance(value, ConfigDict) and prefix + key not in OPEN_SECTIONS:
                walk(value, f"{prefix}{key}.")
            else:
                flat[prefix + key] = plain(value)

    walk(config, "")
    return flat


def plain(value: Any) -> Any:
    """A section as a dict; any other value as it is."""
    return value.to_dict() if isinstance(value, ConfigDict) else value


def override(config: ConfigDict, key: str, value: Any) -> None:
    """Sets one dotted key of a config, in place.

    Raises:
      UserError: the key does not exist, or the value has the wrong type.
    """
    flat = flatten(config)
    opened = [name for name in OPEN_SECTIONS if key.startswith(name + ".")]
    if opened and isinstance(flat.get(opened[0]), dict):
        (key,), inside = opened, key.removeprefix(opened[0] + ".")
        if not flat[key] and key not in CHECKED_LATER:
            raise UserError(
                f"{key} is empty, so that it has no {inside!r}; give it as a whole, as "
                f"""in --config.{key}='{{"NAME": ...}}'"""
            )
        value = _replaced(flat[key], inside, value, key)
    if key not in flat:
        inside = [name for name in flat if name.startswith(key + ".")]
        if inside:
            raise UserError(f"{key} is a section; its keys: {', '.join(inside)}")
        raise unknown_key("config key", key, flat)
    section, _, name = key.rpartition(".")
    config = config[section] if section else config
    fields = section_fields(SECTIONS[section], config)
    value = convert(value, flat[key], key, fields[name].metadata.get("bounds", {}))
    if isinstance(value, dict):
        with config.unlocked():
            config[name] = ConfigDict(value, allow_dotted_keys=True)
    else:
        config[name] = value


def unknown_key(what: str, key: str, flat: Mapping[str, Any]) -> UserError:
    """The error for a dotted key that a flat config does not have.

    It names the parts that have the key, or else our key that has this name in another
    section or in another library.
    """
    ours, name = our_key(key), key.rpartition(".")[2]
    flat = {other: value for other, value in flat.items() if other != key}
    opened = (section for section in OPEN_SECTIONS if key.startswith(section + "."))
    if owners := _parts_with(flat, next(opened, key)):
        return UserError(f"unknown {what} {key!r}; {owners}")
    if same := [each for each in flat if each.rpartition(".")[2] == name]:
        return UserError(f"unknown {what} {key!r}; did you mean {' or '.join(same)}?")
    if ours in flat:
        return UserError(f"unknown {what} {key!r}; did you mean {ours}?")
    if ours and (owners := _parts_with(flat, ours)):
        return UserError(f"unknown {what} {key!r}; it is {ours} here, and {owners}")
    if found := _misspelt(flat, key):
        owners = "" if found in flat else f" {_parts_with(flat, found)}"
        return UserError(f"unknown {what} {key!r}; did you mean {found}?{owners}")
    return unknown(what, key, flat)


def _misspelt(flat: Mapping[str, Any], key: str) -> str:
    """The key of this section, of the chosen parts or of others, with the nearest name.

    "": none is near.
    """
    section, _, name = key.rpartition(".")
    paths = (other.rpartition(".") for other in flat)
    known = {last for own, _, last in paths if own == section}
    for _, parts in _parts(flat, section):
        known |= {*itertools.chain(*parts.values())}
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"{dotted(section)}{near[0]}" if near else ""


def _parts(
    flat: Mapping[str, Any], section: str
) -> Iterator[tuple[str, dict[str, Mapping[str, Any]]]]:
    """Keys of a section that choose a part, and the fields of each part."""
    for own, choice, folder in choices():
        chosen = f"{dotted(own)}{choice}"
        if own == section and chosen in flat:
            parts = {part: folder.part_class(part, chosen) for part in folder.names()}
            fields = {n: each.__dataclass_fields__ for n, each in parts.items()}
            yield chosen, fields


def _parts_with(flat: Mapping[str, Any], key: str) -> str:
    """The other parts that have a key, and the chosen part; "": none has it."""
    section, _, name = key.rpartition(".")
    for chosen, parts in _parts(flat, section):
        if owners := [part for part, fields in parts.items() if name in fields]:
            return f"{chosen}={flat[chosen]} has none, but {' or '.join(owners)}"
    return ""


def _replaced(section: dict, key: str, value: Any, name: str) -> dict:
    """A copy of an open section (or of a dict inside it) with a new value at `key`.

    Args:
      key: dotted, relative to `section`; names in an open section may contain dots.
      value: JSON text or a value.
      name: the open section's name, for the error.

    Raises:
      UserError: `section` has no such key.
    """
    matches = (k for k in section if key == k or key.startswith(f"{k}."))
    first = max(matches, default="")
    if not first and name in CHECKED_LATER and key.isidentifier():
        return section | {key: _json(value)}
    if not first:
        raise unknown("config key", f"{name}.{key}", [f"{name}.{k}" for k in section])
    rest, inner = key.removeprefix(first).removeprefix("."), section[first]
    if rest and isinstance(inner, dict) and "." not in rest:
        inner = inner | {rest: _json(value)}
    elif rest:
        inner = _replaced(inner if isinstance(inner, dict) else {}, rest, value, name)
    else:
        inner = _json(value)
    return section | {first: inner}


def _json(value: Any) -> Any:
    """JSON text parsed; anything else as it is."""
    try:
        return parse_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def convert(
    value: Any, like: Any, key: str, bounds: Mapping[str, float] = MappingProxyType({})
) -> Any:
    """A value or its text, converted to the type of `like`.

    Raises:
      UserError: it cannot be converted; the line names `key` and its bounds.
    """
    expected = type(like)
    try:
        if isinstance(value, str):
            return _FROM_TEXT[expected](value)
        accepted = isinstance(value, _ACCEPTED.get(expected, expected))
        if not accepted or isinstance(value, bool) != (expected is bool):
            raise ValueError
        return expected(value)
    except (KeyError, TypeError, ValueError) as error:
        hint = ""
        if expected in (dict, list, tuple) and re.search(r"(?<![\w.])\.\d", str(value)):
            hint = "; JSON has a digit before the point of a number, as in 0.15"
        legal = ", ".join(filter(None, [_TYPE_NAMES[expected], bounds_words(bounds)]))
        raise UserError(f"{key} must be {legal}, not {value!r}{hint}") from error


_FROM_TEXT = {
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    dict: lambda text: dict(parse_json(text)),
    float: float,
    int: int,
    list: lambda text: list(parse_json(text)),
    str: str,
    tuple: lambda text: tuple(parse_json(f"[{text.strip('()[]')}]")),
}
_ACCEPTED = {float: int | float, list: tuple | list, tuple: tuple | list}
_TYPE_NAMES = {
    bool: "true or false",
    dict: "a JSON object",
    float: "a number",
    int: "a whole number",
    list: "a JSON list",
    str: "text",
    tuple: "a list such as 1,2",
}


def pair(item: str) -> tuple[str, str]:
    """Splits KEY=VALUE into a pair.

    Raises:
      UserError: there is no "=".
    """
    key, equals, value = item.partition("=")
    if not equals:
        raise UserError(f"override {item!r} has no value; write {key}=VALUE")
    return key, value
