"""Parts of the program that a config chooses by name, each one dataclass in one file.

A folder of parts is a package, such as research/objectives. A part is a module in it or
in one of its subpackages that defines a frozen dataclass with the folder's class name;
other modules hold what parts share. The fields of the dataclass are the part's config
keys, with their legal values (`research.contract.fields`). A part is found by listing
the folder: nothing else names it. The first line of its module says what it is, to
readers of `palimpsest show --keys` and of docs/parts.md.
"""

import dataclasses
import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from research.contract import fields
from research.contract.errors import UserError, unknown

T = TypeVar("T")

SUMMARY = re.compile(r'r?"""(.*?)(?:"""|$)', re.MULTILINE)
"""The first line of a module's docstring."""


@dataclasses.dataclass(frozen=True)
class Folder:
    """The parts of one kind.

    Attributes:
      package: such as "research.objectives".
      class_name: the name of the dataclass that the module of a part defines.
      more: other legal values of the key that name no part, such as "auto".
      share_keys: whether a key that two parts have means the same in both, so that it
        keeps its value when another part is chosen.
      named_by: the key or flag whose values are the names, for docs/parts.md.
    """

    package: str
    class_name: str
    more: tuple[str, ...] = ()
    share_keys: bool = True
    named_by: str = ""

    def modules(self) -> dict[str, str]:
        """Name of each part -> its module, sorted by name. Imports none of them."""
        return {name: module for name, module, _ in self._parts()}

    def names(self) -> list[str]:
        """The parts' names, sorted. Imports none of them."""
        return [*self.modules()]

    def lines(self) -> dict[str, str]:
        """What each part is: the first line of its module. Imports none of them."""
        return {name: line for name, _, line in self._parts()}

    def _parts(self) -> tuple[tuple[str, str, str], ...]:
        spec = importlib.util.find_spec(self.package)
        assert spec is not None, self.package
        locations = tuple(spec.submodule_search_locations or ())
        return _part_modules(self.package, locations, self.class_name)

    def part_class(self, name: str, key: str) -> type:
        """The dataclass of a part.

        Args:
          key: the config key that chooses the part, for the error.

        Raises:
          UserError: there is no such part.
        """
        modules = self.modules()
        if not modules:
            raise UserError(
                f"{key}: the program's folder {self.package.replace('.', '/')} is gone "
                "or empty; was it deleted while this ran? Install it again"
            )
        if name not in modules:
            raise unknown(key, name, [*modules, *self.more])
        return getattr(importlib.import_module(modules[name]), self.class_name)

    def make(self, section: Mapping[str, Any], key: str, prefix: str = "") -> Any:
        """The part that `key` of a config section chooses, with its values."""
        cls = self.part_class(section[key], f"{prefix}{key}")
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: section[name] for name in names if name in section})


class PartTable(NamedTuple):
    """Parts that are not files of a folder, but entries of a table, for docs/parts.md.

    It is found where a module assigns it, as a `Folder` is.
    """

    title: str
    named_by: str  # the flag whose values are the names
    lines: Mapping[str, str]  # name -> what it is


@functools.cache
def _part_modules(
    package: str, locations: tuple[str, ...], class_name: str
) -> tuple[tuple[str, str, str], ...]:
    """(name, module, line) of the modules below a package that define the class."""
    defines_class = re.compile(rf"^class {class_name}\b", re.MULTILINE)
    found: dict[str, tuple[str, str, str]] = {}
    for location in locations:
        for file in Path(location).rglob("*.py"):
            path = file.relative_to(location).with_suffix("")
            if file.stem == "__init__" or any(p.startswith(".") for p in path.parts):
                continue  # such as a notebook's copies, in .ipynb_checkpoints
            text = file.read_text("utf-8")
            if not defines_class.search(text):
                continue
            module, summary = ".".join([package, *path.parts]), SUMMARY.match(text)
            line = summary[1].rstrip(".") if summary else ""
            other = found.setdefault(file.stem, (file.stem, module, line))[1]
            if other != module:
                raise UserError(
                    f"{other} and {module} are parts with the same name; rename or "
                    "delete one"
                )
    return tuple(sorted(found.values()))


def part(default: str, folder: Folder) -> Any:
    """A dataclass field that names a part, whose keys its section then also has."""
    return dataclasses.field(default=default, metadata={"folder": folder})


def chosen(key: str) -> Any:
    """A dataclass field (no config key) with the part that the section's key names."""
    return dataclasses.field(default=None, compare=False, metadata={"chosen_by": key})


def keys_of_parts(
    folder: Folder, key: str = "", *other_keys: str
) -> Callable[[type[T]], type[T]]:
    """A decorator that adds all fields of all parts to a class, before `dataclass`.

    The class's own field `key` names the part that is read, as `folder.make` makes it.
    A field is read if that part has it, or a part that `other_keys` name. A field that
    several parts have has one declaration. Without `key` all fields are read.
    """

    def add_fields(cls: type[T]) -> type[T]:
        owners: dict[str, dict[str, type]] = {}
        for name in folder.names():
            part_class = folder.part_class(name, key)
            for field in dataclasses.fields(part_class):
                owners.setdefault(field.name, {})[name] = part_class
        for name, parts_of in owners.items():
            first, *others = (field_of(each, name) for each in parts_of.values())
            for field in others:
                same = (field.default, field.metadata) == (
                    first.default,
                    first.metadata,
                )
                assert same, f"{name} differs in {' and '.join(parts_of)}"
            made = fields.read_with(key, [*parts_of], first) if key else first
            assert not hasattr(cls, name), f"{cls.__name__}.{name} is declared twice"
            cls.__annotations__[name] = first.type
            metadata = {"parts": parts_of, "other_keys": other_keys}
            setattr(cls, name, fields.with_metadata(made, **metadata))
        return cls

    return add_fields


def field_of(section: type, name: str) -> dataclasses.Field[Any]:
    """The field of a dataclass that has this name."""
    return next(f for f in dataclasses.fields(section) if f.name == name)


def key_fields(section: type) -> list[dataclasses.Field[Any]]:
    """The fields of a section that are config keys."""
    fields = dataclasses.fields(section)
    return [field for field in fields if "chosen_by" not in field.metadata]


def section_fields(
    section: type, values: Mapping[str, Any], prefix: str = ""
) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a section by name: its own, then those of the parts it chooses.

    Args:
      section: a dataclass, some of whose fields may be made by `part`.
      values: by key; a missing key that chooses a part has its default.
      prefix: of keys in errors, such as "model.".

    Raises:
      UserError: it chooses a part that does not exist.
    """
    found = {field.name: field for field in key_fields(section)}
    for field in [*found.values()]:
        for cls in _chosen_class(field, values, prefix):
            for own in dataclasses.fields(cls):
                assert own.name not in found, f"{prefix}{own.name} is declared twice"
                found[own.name] = own
    return found


def _chosen_class(
    field: dataclasses.Field[Any], values: Mapping[str, Any], prefix: str
) -> list[type]:
    """The class of the part that a field chooses: one, or none."""
    folder = field.metadata.get("folder")
    name = values.get(field.name, field.default)
    if folder is None or name in folder.more:
        return []
    return [folder.part_class(name, f"{prefix}{field.name}")]


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a dataclass field; MISSING if it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def make_section(
    section: type, values: Mapping[str, Any], prefix: str, *, keys: Collection[str] = ()
) -> Any:
    """A section with its values and the parts that it chooses, all checked.

    Args:
      values: by key, all keys of `section_fields`.
      keys: keys that may be suggested for an unknown one; by default the section's.

    Raises:
      UserError: a key is unknown or a value is not legal; the message names it.
    """
    known = section_fields(section, values, prefix)
    for key in values:
        if key not in known:
            near = keys or [f"{prefix}{name}" for name in known]
            raise unknown("config key", f"{prefix}{key}", near)
    try:
        fields.check_values(known.values(), values, prefix=prefix)
        made = {field.name: values[field.name] for field in key_fields(section)}
        for field in dataclasses.fields(section):
            if choice := field.metadata.get("chosen_by"):
                folder = field_of(section, choice).metadata["folder"]
                if values[choice] not in folder.more:
                    made[field.name] = folder.make(values, choice, prefix)
        return section(**made)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error
