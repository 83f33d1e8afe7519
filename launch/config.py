"""The config of a run: an experiment's file, its objective's defaults, overrides."""

import dataclasses
import inspect
import reprlib
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from launch import user_code
from launch.config_starts import (
    check_needed,
    folder_keys,
    is_of_pieces,
    set_layers,
    start_of,
    teacher_keys,
)
from launch.config_values import flatten, override, pair, plain, unknown_key
from research import networks
from research.config import base, sections
from research.config.config import Config
from research.config.identity import read_run_config
from research.config.phases import run_phases
from research.config.sections import SECTIONS
from research.contract.errors import UserError, unknown
from research.contract.notices import report
from research.contract.parts import default_of
from research.files.json_files import digest
from research.interop.huggingface import SOURCE
from research.objectives import objective_class

EVALUATED_TEXT = ("data.eval_split", "data.valid", "data.test")
"""The keys that choose the evaluated text."""


PRUNE = "optimizer.prune"

READ_WITH: dict[str, tuple[str, tuple[str, ...]]] = {
    "train.init_scope": ("train.init_from", ()),
    "train.init_layers": ("train.init_from", ()),
    "data.alpha": ("data.mixture", ()),
    "data.mixing": ("data.mixture", ()),
    "optimizer.warmup": ("optimizer.warmup_steps", ()),
    "optimizer.prune_scope": (PRUNE, ("magnitude", "movement")),
    "optimizer.prune_kept": (PRUNE, ("magnitude", "movement")),
    "optimizer.prune_begin": (PRUNE, ("magnitude", "movement", "soft_movement")),
    "optimizer.prune_end": (PRUNE, ("magnitude", "movement", "soft_movement")),
    "optimizer.prune_score_rate": (PRUNE, ("movement", "soft_movement", "l0")),
    "optimizer.prune_threshold": (PRUNE, ("soft_movement",)),
    "optimizer.prune_penalty": (PRUNE, ("soft_movement", "l0")),
}
"""Key -> the key that it depends on, and values of that for which it is read.

(): any value but 0 or empty.
"""


def load_config(
    spec: str,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    *,
    workdir: epath.PathLike = "",
    reads_start: bool = True,
) -> Config:
    """The config of an experiment, checked.

    A run or a model hf:DIR whose parameters it starts from (train.init_from) sets those
    keys of `start_keys` that are not given.

    Args:
      spec: "experiments/bert.py", or "experiments/bert.py:base" with a size.
      overrides: dotted key -> value, or "key=value"; text is converted to the type of
        the key's default.
      workdir: of the run; if it has begun, its own config sets these keys.
      reads_start: whether the run in train.init_from is read.

    Raises:
      UserError: a file, size or key is unknown, or a value is not legal.
    """
    config = from_file(spec)
    _check_names(spec, config)
    if not isinstance(overrides, Mapping):
        overrides = dict(pair(item) for item in overrides)
    _complete(spec, config)
    given = set(overrides)
    source = str(overrides.get("train.init_from", config.train.init_from))
    if reads_start and source and not source.startswith(SOURCE):
        overrides = start_of(source, workdir, overrides) | dict(overrides)
    of_file = config.objective.to_dict()
    for section, key, _ in sections.choices():
        if f"{section}.{key}" in overrides:
            _choose_part(config, section, key, str(overrides[f"{section}.{key}"]))
    _tell_reset(spec, of_file, config.objective.to_dict(), overrides)
    if "objective.base_objective" in overrides:
        _choose_base(config, overrides["objective.base_objective"])
    config.lock()
    name = config.objective.name
    if source.startswith(SOURCE):
        overrides = folder_keys("train.init_from", source, name, overrides)
    if reads_start:
        overrides = teacher_keys(config, workdir, overrides) | dict(overrides)
    for key, value in overrides.items():
        override(config, key, value)
    if reads_start:
        check_needed(config, workdir)
    set_layers(config, given)
    _fit_warmup(config, given)
    if reads_start:
        _tell_unread(flatten(config), overrides)
    typed = Config.of(config)
    if reads_start:
        sections.check_split(typed.data)
        if workdir and typed.objective.lexicon_lines and not typed.data.lexicon:
            raise UserError(
                f"data.lexicon is not set; objective {name} needs a file of "
                f"{typed.objective.lexicon_lines}"
            )
    needs = networks.Needs(pattern=typed.objective.pattern)
    networks.check_abilities(typed.model, needs)
    if typed.model.spelled_by and is_of_pieces(typed.data):
        raise networks.no_spelling(typed.model.spelled_by)
    if typed.train.phases:
        run_phases(typed)  # which checks them
        if reads_start and "train.phases" in overrides:
            changes = {k: v for _, own in typed.train.phases for k, v in own.items()}
            _tell_unread(flatten(config) | changes, changes)
    return typed


def _fit_warmup(config: ConfigDict, given: Collection[str]) -> None:
    """Shortens a warm-up that is not given to a tenth of the steps.

    It does so if train.steps is given and no larger than the warm-up.
    """
    steps, warmup = config.train.steps, config.optimizer.warmup_steps
    if "optimizer.warmup_steps" in given or "train.steps" not in given:
        return
    if warmup >= steps > 0:
        config.optimizer.warmup_steps = steps // 10


def _tell_unread(flat: Mapping[str, Any], given: Iterable[str]) -> None:
    """Prints a line for each given key that is unused without another one."""
    default = flatten(base.every_key())
    read_with = dict(READ_WITH)
    chosen = {
        "objective": objective_class(flat["objective.name"]),
        "model": networks.FOLDER.part_class(flat["model.network"], "model.network"),
    }
    for section, cls in chosen.items():
        for field in dataclasses.fields(cls):
            if needs := field.metadata.get("read_with"):
                name, values = needs
                key = f"{section}.{field.name}"
                default[key] = default_of(field)
                others = field.metadata.get("other_keys", ())
                if not any(flat[f"{section}.{other}"] in values for other in others):
                    read_with[key] = (f"{section}.{name}", values)
    for key, (needed, values) in read_with.items():
        found = flat[needed]
        is_read = found in values if values else found
        if key in given and flat[key] != default[key] and not is_read:
            needs = f"{needed}={' or '.join(values)}" if values else needed
            print(
                f"{key}={flat[key]} is not read: it needs {needs}, but that is "
                f"{found!r}",
                file=sys.stderr,
            )


def run_config(workdir: epath.Path, overrides: Mapping[str, str]) -> Config:
    """A run's config with the given overrides and the run's vocabulary.

    Raises:
      UserError: there is no run, or an override would change its network.
    """
    flat = flatten(ConfigDict(read_run_config(workdir), allow_dotted_keys=True))
    flat |= {"train.init_from": "", "data.vocabulary": str(workdir), **overrides}
    for key in overrides:
        if key.startswith("model.") or key == "objective.name":
            raise UserError(f"--config.{key}: a run's {key} cannot be changed")
    return load_config(base.__file__, flat, reads_start=False)


def changes_suffix(workdir: epath.Path, config: Config) -> str:
    """A suffix for the folder of an evaluation whose config differs from the run's.

    Args:
      config: the result of `run_config`. The keys of the evaluated text are ignored,
        since the folder's name has a hash of the text.

    Returns:
      "", or a dot and a hash of the keys and values that differ.
    """
    from research.record.workdir import fixed_keys  # imports JAX

    own, given = (fixed_keys(each.values) for each in (run_config(workdir, {}), config))
    changed = {
        key: value
        for key, value in given.items()
        if key not in EVALUATED_TEXT and own.get(key) != value
    }
    return f".{digest(changed)[:8]}" if changed else ""


def from_file(spec: str) -> ConfigDict:
    """The config that an experiment's file returns, without the objective's defaults.

    Raises:
      UserError: the file is not an experiment, or does not have the size.
    """
    path, _, size = spec.partition(":")
    if not path:
        raise UserError(
            f"--config={spec} must be an experiment, as in experiments/mlm.py or "
            "experiments/bert.py:tiny"
        )
    module = user_code.module_at(path)
    get_config = getattr(module, "get_config", None)
    if get_config is None:
        raise UserError(f"{path} is not an experiment: it defines no get_config()")
    sizes = getattr(module, "SIZES", ())
    if size and callable(get_config) and not inspect.signature(get_config).parameters:
        raise UserError(f"{path} has one size only; write it without ':{size}'")
    if size and sizes and size not in sizes:
        raise unknown(f"size of {path}", size, sizes)
    config = user_code.call(path, get_config, *([size] if size else []))
    if not isinstance(config, ConfigDict):
        raise UserError(
            f"{path}: get_config() must return a ConfigDict, not {config!r}"
        )
    return config


def _check_names(spec: str, config: ConfigDict) -> None:
    """Checks that a file's config has exactly the sections and top-level keys.

    Raises:
      UserError: one is missing or unknown; names the file and the first such one.
    """
    known = base.every_key()
    for name in known:
        if type(config.get(name)) is not type(known[name]):
            raise UserError(
                f"{spec}: the config has no legal {name}; begin with base.get_config()"
            )
    for name in config:
        if name not in known:
            raise unknown(f"section of {spec}", name, known)
    if not isinstance(config.objective.get("name"), str):
        raise UserError(f"{spec}: the config has no objective.name")


def _complete(spec: str, config: ConfigDict) -> None:
    """Gives each section the keys of the parts that it chooses.

    A file starts with the keys of the default parts. Keys that the chosen parts do not
    have are removed, unless the file has set them.

    Raises:
      UserError: a part or a key does not exist; names it.
    """
    begun = base.every_key()
    for name in filter(None, SECTIONS):
        values = config[name].to_dict()
        complete = sections.section_defaults(name, values)
        for key in values.keys() - complete.keys():
            dotted = f"{name}.{key}"
            sizes = [size[dotted] for size in base.SIZES.values() if dotted in size]
            begun_with = [begun[name].get(key), *sizes]
            if key not in begun[name] or plain(values[key]) not in begun_with:
                raise unknown_key(f"config key of {spec}", dotted, flatten(config))
        _set_section(config, name, complete)


def _choose_part(config: ConfigDict, section: str, key: str, part: str) -> None:
    """Sets a key that chooses a part, and gives the section that part's keys."""
    values = config[section].to_dict()
    _set_section(config, section, sections.with_part(section, values, key, part))


def _tell_reset(
    spec: str,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    given: Collection[str],
) -> None:
    """Prints which keys of a file's objective are reset by choosing another objective.

    All are, since keys with the same name may mean different things in two objectives.

    Args:
      before: the objective section of the file.
      now: the section with the chosen objective.
    """
    default = sections.section_defaults("objective", {"name": before["name"]})
    found, missing, told = [], [], reprlib.repr
    for name, value in before.items():
        key = f"objective.{name}"
        if key in given or value == default[name]:
            continue
        if name not in now:
            missing.append(key)
        elif now[name] != value:
            found.append(f"{key} is {told(now[name])}, not {told(value)}")
    if missing:
        found.append(f"there is no {', '.join(missing)}")
    if found:
        report(
            f"objective.name={now['name']} has keys of its own, not those that {spec} "
            f"sets for {before['name']}: {'; '.join(found)}"
        )


def _choose_base(config: ConfigDict, name: Any) -> None:
    """Sets the objective that another one wraps, with its fields' defaults."""
    objective = config.objective
    if name != objective.get("base_objective") and "base" in objective:
        objective.base_objective, objective.base = name, ConfigDict()


def _set_section(config: ConfigDict, name: str, values: Mapping[str, Any]) -> None:
    config[name] = ConfigDict(
        {
            key: ConfigDict(value, allow_dotted_keys=True)
            if isinstance(value, dict)
            else value
            for key, value in values.items()
        }
    )
