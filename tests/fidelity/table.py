"""The facts that each published experiment is held to, compared with its config.

A file of the folder `facts` belongs to the experiment of its name:

title     = the system, its paper
like      = the file whose rows it takes over, where the code is the same; a row here
            replaces the one of the same key or name there; statistics are its own
without   = the keys and names of rows of that file that do not hold
[sources] = the names that sources begin with -> paper, or repository and commit

Each list has rows of one kind:

equal      [key, official value, source]
departs    [key, official value, source, why ours is another]
open       [key, official value, source]: ours is another, which is to be repaired
unmodelled [what, official value, source, ours]: no key expresses it; ours, or "the
           same", is what the guard of that name finds in our code, see `guards`
unverified [key or what, why it could not be verified]
measured   [statistic, official value, tolerance, source]: see `statistics.py`
apart      the same, of a statistic that differs by more, which is to be repaired
misstated  [what summaries of the system say, what the source says, source]

A value that differs between sizes is a table from size to value. Numbers agree if they
do so to four digits, whole numbers if they are the same. Keys of a part of a mixture or
sum are objective.parts.NAME.FIELD.
"""

import ast
import dataclasses
import functools
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from launch.config import load_config
from launch.config_values import flatten
from launch.user_code import module_at
from research import objectives
from research.config import base
from research.config.identity import default_values

ROOT = Path(__file__).parents[2]
FACTS = Path(__file__).with_name("facts")
COLUMNS = {
    "equal": 3,
    "departs": 4,
    "open": 3,
    "unmodelled": 4,
    "unverified": 2,
    "measured": 4,
    "apart": 4,
    "misstated": 3,
}
"""Kind of row -> its number of columns."""
SOURCE = {
    "equal": 2,
    "departs": 2,
    "open": 2,
    "unmodelled": 2,
    "measured": 3,
    "apart": 3,
    "misstated": 2,
}
"""Kind of row -> the column of its source; `unverified` rows have none."""
CORE = (
    *(f"model.{name}" for name in ("layers", "width", "heads", "feedforward")),
    *(f"model.{name}" for name in ("position", "norm", "norm_placement", "activation")),
    *(f"model.{name}" for name in ("norm_epsilon", "init", "dropout", "bias")),
    *(f"model.{name}" for name in ("tie_embeddings", "token_types")),
    *(f"optimizer.{name}" for name in ("name", "learning_rate", "schedule")),
    *(f"optimizer.{name}" for name in ("warmup_steps", "weight_decay", "clip_norm")),
    *("data.vocabulary", "data.vocabulary_size", "data.length"),
    *("train.steps", "train.batch", "objective.name"),
)
"""Keys of which every experiment that has them has a row, whatever their value."""
SAME = "the same"
"""Ours, of a row `unmodelled` in which it is the official value."""
TECHNICAL = ("model.dtype", "model.remat", "model.scan_unroll", "data.sentinels")
"""Keys that an experiment may set without a row: they change no result, or only which
ids are set aside."""


DEPARTS = "Departs (docs/fidelity.md has the values): "
"""How the paragraph begins that lists what is not as published."""


@dataclasses.dataclass(frozen=True)
class System:
    """The facts of one experiment."""

    name: str
    title: str
    sources: Mapping[str, str]
    rows: Mapping[str, tuple[tuple, ...]]  # kind -> rows
    like: str = ""

    @property
    def sizes(self) -> tuple[str, ...]:
        """The experiment's sizes at which it is the published system."""
        return published_sizes(ROOT / "experiments" / f"{self.name}.py")

    def config(self, size: str) -> Any:
        """The experiment's config at a size."""
        return _config(self.name, size)

    def covers(self, key: str) -> bool:
        """Whether some row is about a config key."""
        named = (row[0] for rows in self.rows.values() for row in rows)
        return any(name == key or name.startswith(f"{key}.") for name in named)


@functools.cache
def _config(name: str, size: str):
    config = load_config(f"{ROOT / 'experiments' / name}.py:{size}")
    return ConfigDict(dict(config.values), allow_dotted_keys=True)


def published_experiments() -> dict[str, tuple[str, ...]]:
    """The experiments that come in a published size -> those sizes."""
    paths = sorted((ROOT / "experiments").glob("*.py"))
    sizes = {path.stem: published_sizes(path) for path in paths}
    return {name: each for name, each in sizes.items() if each}


def published_sizes(path: Path) -> tuple[str, ...]:
    """Its PUBLISHED_SIZES, or else its sizes other than tiny and small."""
    module = module_at(str(path))
    sizes = getattr(module, "SIZES", ())
    large = tuple(size for size in sizes if size not in ("tiny", "small"))
    return getattr(module, "PUBLISHED_SIZES", large)


def system_names() -> list[str]:
    """The systems that have a file of facts."""
    return sorted(path.stem for path in FACTS.glob("*.toml"))


@functools.cache
def load(name: str) -> System:
    """Reads a system's file.

    Raises:
      ValueError: a row has the wrong number of columns, or `without` names no row.
    """
    file = tomllib.loads((FACTS / f"{name}.toml").read_text())
    parent = load(file["like"]) if "like" in file else None
    rows = {kind: tuple(map(tuple, file.get(kind, ()))) for kind in COLUMNS}
    for kind, each in rows.items():
        for row in each:
            if len(row) != COLUMNS[kind]:
                raise ValueError(
                    f"{name}: {kind} has {COLUMNS[kind]} columns, not {row}"
                )
    sources = file.get("sources", {})
    if parent:
        known = {row[0] for each in parent.rows.values() for row in each}
        if stale := set(file.get("without", ())) - known:
            raise ValueError(f"{name}: {parent.name} has no rows {sorted(stale)}")
        own = {row[0] for each in rows.values() for row in each}
        own |= set(file.get("without", ()))
        inherited = {
            kind: tuple(row for row in each if row[0] not in own)
            for kind, each in parent.rows.items()
            if kind not in ("measured", "apart", "misstated")
        }
        rows = {kind: inherited.get(kind, ()) + rows[kind] for kind in rows}
        sources = {**parent.sources, **sources}
    return System(name, file["title"], sources, rows, file.get("like", ""))


def differing_rows(system: System) -> list[str]:
    """Names of the rows in which ours is another than the official value."""
    rows = [row for kind in ("departs", "open") for row in system.rows[kind]]
    rows += [row for row in system.rows["unmodelled"] if row[3] != SAME]
    rows += system.rows["apart"]
    return [row[0] for row in rows]


def said_to_differ(system: System) -> list[str] | None:
    """The names under "Departs" in an experiment's docstring; None: there is no such
    paragraph.
    """
    path = ROOT / "experiments" / f"{system.name}.py"
    text = ast.get_docstring(ast.parse(path.read_text()))
    (*_, paragraph) = text.split("\n\n")
    if not paragraph.startswith(DEPARTS):
        return None
    names = " ".join(paragraph.removeprefix(DEPARTS).split()).removesuffix(".")
    return names.split("; ")


def problems(system: System) -> list[str]:
    """What is wrong with a system's rows, a line for each; none if all hold."""
    lines = []
    names = [row[0] for each in system.rows.values() for row in each]
    lines += [f"{name} has two rows" for name in set(names) if names.count(name) > 1]
    for kind, column in SOURCE.items():
        for row in system.rows[kind]:
            if row[column].partition(" ")[0].rstrip(",;:") not in system.sources:
                lines.append(f"{row[0]}: {row[column]!r} names no source")
    lines += [
        f"{row[0]} gives no reason"
        for kind in ("departs", "unverified")
        for row in system.rows[kind]
        if not row[-1]
    ]
    for size in system.sizes:
        lines += (f"{size}: {line}" for line in _differences(system, size))
    return lines


def _differences(system: System, size: str) -> Iterable[str]:
    """How the rows of a size differ from what its config says."""
    config = system.config(size)
    for kind in ("equal", "departs", "open"):
        for key, official, *_ in system.rows[kind]:
            official = at_size(official, size, system.sizes)
            try:
                ours = value_at(config, key)
            except KeyError:
                yield f"{key} is not a config key: move it to unmodelled"
                continue
            same = agrees(ours, official)
            if kind == "equal" and not same:
                yield f"{key} is {ours!r}, officially {official!r}"
            # A row about all sizes may hold for some of them alone.
            if kind != "equal" and same and not _differs_somewhere(system, key):
                yield f"{key} is {ours!r}, as officially: move it to equal"
    for what, *_ in system.rows["unmodelled"]:
        if _has_key(config, what):
            yield f"{what} is a config key: move it to equal or departs"
    for key in CORE:
        if _has_key(config, key) and not system.covers(key):
            yield f"{key} has no row"
    for key in sorted(_set_keys(config, size)):
        if not system.covers(key):
            yield f"{key} is set to {value_at(config, key)!r}, but has no row"


def _differs_somewhere(system: System, key: str) -> bool:
    row = next(r for k in ("departs", "open") for r in system.rows[k] if r[0] == key)
    return any(
        not agrees(
            value_at(system.config(size), key), at_size(row[1], size, system.sizes)
        )
        for size in system.sizes
    )


def _set_keys(config, size: str) -> set[str]:
    """Keys of which the experiment sets another value than its size's default."""
    default = base.get_config(size if size in base.SIZES else "base")
    default.objective.name = config.objective.name
    default.model.network = config.model.network
    ours = flatten(config)
    values = {
        key: value
        for key, value in flatten(default).items()
        if not isinstance(value, dict) and key in ours
    }
    default = load_config(str(ROOT / "research/config/base.py"), values).flat
    default = default_values(ours) | default  # of another optimizer's keys
    changed = {key for key in ours if not agrees(ours[key], default[key])}
    return changed - set(TECHNICAL)


def value_at(config, key: str) -> Any:
    """The value of a dotted key; a part's fields have its objective's defaults.

    Raises:
      KeyError: there is no such key.
    """
    value, names = config, key.split(".")
    for depth, name in enumerate(names):
        if name not in value:
            if names[:2] == ["objective", "parts"] and depth == 3:
                return _part_default(config, names[2], name)
            if names[:2] == ["objective", "base"] and depth == 2:
                return _field_default(config.objective.base_objective, name)
            raise KeyError(key)
        value = value[name]
    return value.to_dict() if hasattr(value, "to_dict") else value


def _part_default(config, part: str, field: str) -> Any:
    fields = config.objective.parts[part]
    name = fields.get("objective", config.objective.get("base_objective", part))
    return _field_default(name, field)


def _field_default(name: str, field: str) -> Any:
    made = objectives.objective_class(name)
    defaults = {f.name: f.default for f in dataclasses.fields(made)}
    return defaults[field]


def _has_key(config, key: str) -> bool:
    try:
        value_at(config, key)
    except (KeyError, TypeError):
        return False
    return True


def at_size(official: Any, size: str, sizes: tuple[str, ...]) -> Any:
    """The value at a size of a row's value, which may be a table over sizes."""
    if isinstance(official, Mapping) and set(official) == set(sizes):
        return official[size]
    return official


def agrees(ours: Any, official: Any) -> bool:
    """Whether two values are the same; numbers that are not whole up to four digits."""
    if isinstance(ours, bool) or isinstance(official, bool):
        return ours is official
    if isinstance(ours, int) and isinstance(official, int):
        return ours == official
    if isinstance(ours, int | float) and isinstance(official, int | float):
        return math.isclose(ours, official, rel_tol=1e-4)
    if isinstance(ours, list | tuple) and isinstance(official, list | tuple):
        return len(ours) == len(official) and all(map(agrees, ours, official))
    return ours == official
