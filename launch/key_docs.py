"""The keys of a config: defaults, legal values, and the comments of their lines."""

import ast
import dataclasses
import functools
import inspect
import io
import tokenize
from collections.abc import Mapping
from typing import Any, NamedTuple

from research.config.sections import SECTIONS, choices
from research.contract.parts import default_of, key_fields

BOUNDS = {"least": "at least", "above": "above", "most": "at most", "below": "below"}


class Key(NamedTuple):
    """A config key and what documentation says about it."""

    name: str  # such as train.steps
    default: str
    legal: str  # such as "at least 1" or "pre, post"; "": its type, or one of `lines`
    meaning: str
    lines: Mapping[str, str]  # legal value -> what it is


def all_keys() -> dict[str, list[Key]]:
    """Title -> keys: of the sections, then of each part that has its own keys."""
    found = {
        name or "outside all sections": keys_of(cls, f"{name}." if name else "")
        for name, cls in SECTIONS.items()
    }
    for section, key, folder in choices():
        for part in folder.names():
            if part not in folder.more:
                cls = folder.part_class(part, f"{section}.{key}")
                found[f"{section}.{key}={part}"] = keys_of(cls, f"{section}.")
    return {title: keys for title, keys in found.items() if keys}


def keys_of(cls: type, prefix: str) -> list[Key]:
    """The keys of a section or a part, inherited ones first."""
    meanings = _meanings(cls)
    return [
        Key(
            f"{prefix}{field.name}",
            repr(default_of(field)),
            _legal(field.metadata),
            meanings.get(field.name) or _of_parts(field),
            _lines(field.metadata),
        )
        for field in key_fields(cls)
    ]


def _meanings(cls: type) -> dict[str, str]:
    """Field name -> comment, for the fields that a class declares or inherits."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if dataclasses.is_dataclass(owner):
            found |= _comments(owner)
    return found


def _of_parts(field: dataclasses.Field) -> str:
    """The comments of a field of `keys_of_parts`, each after its parts' names."""
    owners = field.metadata.get("parts", {})
    found = {name: _meanings(cls)[field.name] for name, cls in owners.items()}
    return "; ".join(f"{name}: {words}" for name, words in found.items())


def _lines(declared: Mapping[str, Any]) -> Mapping[str, str]:
    """Legal value -> its description, from a field's metadata."""
    folder = declared.get("folder")
    return folder.lines() if folder else declared.get("lines", {})


def _legal(declared: Mapping[str, Any]) -> str:
    """The legal values of a field that have no lines, from its metadata."""
    if "folder" in declared:
        return ", ".join(declared["folder"].more)
    if "values" in declared:
        others = [v for v in declared["values"] if v not in declared.get("lines", {})]
        return ", ".join(value or '""' for value in others)
    bounds = declared.get("bounds", {})
    return ", ".join(f"{BOUNDS[name]} {bound}" for name, bound in bounds.items())


@functools.cache
def _comments(cls: type) -> dict[str, str]:
    """Field name -> comment, for the fields that a class itself declares."""
    source = inspect.cleandoc("\n" + inspect.getsource(cls))
    body = ast.parse(source).body[0].body
    lines = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    ends = [node.lineno for node in body[1:]] + [len(source.splitlines()) + 1]
    found = {}
    for node, end in zip(body, ends, strict=True):
        if isinstance(node, ast.AnnAssign):
            words = (lines.get(number, "") for number in range(node.lineno, end))
            found[node.target.id] = " ".join(filter(None, words))
    return found
