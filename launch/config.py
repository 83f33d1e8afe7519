"""The config of a run: an experiment's file, its objective's defaults, overrides."""

import dataclasses
import inspect
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from experiments import base
from launch import user_code
from research import networks, objectives
from research.checkpoints.huggingface import SOURCE
from research.errors import UserError, unknown
from research.files.existence import exists
from research.files.json_files import digest, parse_json
from research.parts import check_section, default_of
from research.run import sections
from research.run.identity import CONFIG_FILE, read_run_config
from research.run.phases import run_phases
from research.run.sections import OPEN_SECTIONS, SECTIONS

EVALUATED_TEXT = ("data.eval_split", "data.valid", "data.test")
"""The keys that choose the evaluated text."""


_UNKNOWN = object()

READ_WITH = {
    "train.init_scope": "train.init_from",
    "train.init_layers": "train.init_from",
    "data.alpha": "data.mixture",
    "data.mixing": "data.mixture",
}
"""Key -> another one, without which it is not read."""


def load_config(
    spec: str,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    *,
    workdir: epath.PathLike = "",
    reads_start: bool = True,
) -> ConfigDict:
    """The locked config of an experiment.

    A run whose parameters it starts from (train.init_from) sets the keys of
    `start_keys` that are not given; so does a model hf:DIR.

    Args:
      spec: "experiments/bert.py", or "experiments/bert.py:base" with a size.
      overrides: dotted key -> value, or "key=value"; text is converted to the type of
        the key's default.
      workdir: of the run; if it has begun, its own config sets these keys.
      reads_start: whether a run in train.init_from is read.

    Raises:
      UserError: unknown file, size or key, or a value that is not legal.
    """
    config = from_file(spec)
    _check_names(spec, config)
    if not isinstance(overrides, Mapping):
        overrides = dict(_pair(item) for item in overrides)
    _complete(spec, config)
    given = set(overrides)
    source = str(overrides.get("train.init_from", config.train.init_from))
    if reads_start and source and not source.startswith(SOURCE):
        overrides = _start_of(source, workdir, overrides) | dict(overrides)
    for section, key, _ in sections.choices():
        if f"{section}.{key}" in overrides:
            _choose_part(config, section, key, str(overrides[f"{section}.{key}"]))
    config.lock()
    name = config.objective.name
    if source.startswith(SOURCE):
        overrides = _folder_keys("train.init_from", source, name, overrides)
    if reads_start:
        overrides = _teacher_keys(config, workdir, overrides) | dict(overrides)
    for key, value in overrides.items():
        override(config, key, value)
    _set_num_layers(config, given)
    _check_sections(config)
    if reads_start:
        _tell_unread(config, overrides)
    pattern = objectives.config_objective(config).pattern
    network = networks.from_config(config.model)
    networks.check_abilities(network, networks.Needs(pattern=pattern))
    if config.train.phases:
        for phase in run_phases(config):
            _check_sections(phase.config, where="train.phases: ")
            objectives.config_objective(phase.config)
    return config


def _set_num_layers(config: ConfigDict, given: Collection[str]) -> None:
    """Gives a network as many layers as train.init_layers has, unless it is given.

    Raises:
      UserError: model.layers is given, and differs.
    """
    layers = config.train.init_layers
    if not layers or not config.train.init_from:
        return
    if "model.layers" not in given:
        config.model.layers = len(layers)
    if config.model.layers != len(layers):
        raise UserError(
            f"train.init_layers has {len(layers)} layers, and model.layers is "
            f"{config.model.layers}; it names a layer of train.init_from for each"
        )


def _tell_unread(config: ConfigDict, overrides: Mapping[str, Any]) -> None:
    """Prints a line for each key that is given, and not read without another one."""
    flat, default = flatten(config), flatten(base.every_key())
    for key, needed in READ_WITH.items():
        if key in overrides and flat[key] != default[key] and not flat[needed]:
            print(
                f"{key}={flat[key]} is not read: it needs {needed}, which is not set",
                file=sys.stderr,
            )


def _start_of(
    source: str, workdir: epath.PathLike, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys that a run takes from the one it starts from; {} if that is none.

    Args:
      source: the other run's workdir, or the folder of one of its checkpoints.
      workdir: as of `load_config`.

    Raises:
      UserError: a config.json is damaged.
    """
    from research.data.tokenizers.model_files import MODEL_FILES  # imports tokenizers

    own, path = epath.Path(workdir).expanduser(), epath.Path(source).expanduser()
    begun = [own] if workdir and exists(own / CONFIG_FILE) else []
    others = [p for p in (path, path.parent.parent) if exists(p / CONFIG_FILE)]
    if not begun + others:
        return {}
    run = (begun + others)[0]
    flat = flatten(ConfigDict(read_run_config(run), allow_dotted_keys=True))
    keys = start_keys(flat, str(run))
    if begun:
        keys["data.vocabulary"] = flat["data.vocabulary"]
    elif not any(exists(run / name) for name in MODEL_FILES):
        del keys["data.vocabulary"]
    if overrides.get("model.network", keys["model.network"]) != keys["model.network"]:
        keys = {k: v for k, v in keys.items() if not k.startswith("model.")}
    return keys


def _teacher_keys(
    config: ConfigDict, workdir: epath.PathLike, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys that a run takes from the one that is its objective's teacher.

    These are the teacher's network, in a field that is declared by `fields.model_of`,
    and its vocabulary. A run that has begun has them in its own config.

    Args:
      config: the run's, without overrides.
      workdir: as of `load_config`.

    Raises:
      UserError: there is no run, or its config cannot be read.
    """
    found, own = {}, epath.Path(workdir).expanduser()
    kind = objectives.objective_class(config.objective.name)
    for field in dataclasses.fields(kind):
        of, key = field.metadata.get("model_of"), f"objective.{field.name}"
        if of is None or key in overrides:
            continue
        source = str(overrides.get(f"objective.{of}", config.objective[of]))
        if workdir and exists(own / CONFIG_FILE):
            begun = ConfigDict(read_run_config(own), allow_dotted_keys=True)
            keys = ("data.sentinels", "data.whitespace", "data.vocabulary", key)
            found |= {k: v for k, v in flatten(begun).items() if k in keys}
        elif source:
            try:
                found |= _keys_of_teacher(source, config.objective.name, key, overrides)
            except UserError as error:
                raise UserError(f"objective.{of}: {error}") from error
    return found


def _folder_keys(
    flag: str, source: str, objective: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The overrides, and the keys that a run takes from hf:DIR and that these lack.

    Args:
      flag: the key that names the folder.

    Raises:
      UserError: the folder cannot be read, or has no vocabulary and none is given.
    """
    from research.checkpoints.huggingface import restore  # imports all families

    keys = restore.config_overrides(source, objective) | dict(overrides)
    if "data.vocabulary" not in keys:
        raise UserError(
            f"{flag}={source} has no vocabulary, such as a tokenizer.json; give "
            "data.vocabulary"
        )
    return keys


def inherited_keys(
    given: Mapping[str, Any], parents: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The keys that a run takes from those it starts from and learns from, and that are
    not given.

    Args:
      given: dotted key -> value, the run's overrides.
      parents: dotted key -> the flat config of the run that it names.
    """
    found: dict[str, Any] = {}
    for key, flat in parents.items():
        keys = start_keys(flat, str(flat["data.vocabulary"]))
        if key == "train.init_from":
            found |= keys
            if "train.init_layers" in given:
                del found["model.layers"]
        else:
            for name in _model_fields(given, key):
                found[name] = _teacher_model(keys)
    return {key: value for key, value in found.items() if key not in given}


def _model_fields(given: Mapping[str, Any], teacher: str) -> list[str]:
    """The keys of an objective that have the network of the run that a key names."""
    if "objective.name" not in given:
        return []
    fields = dataclasses.fields(objectives.objective_class(given["objective.name"]))
    return [
        f"objective.{field.name}"
        for field in fields
        if f"objective.{field.metadata.get('model_of')}" == teacher
    ]


def _keys_of_teacher(
    source: str, objective: str, key: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The teacher's keys of `model`, as the value of `key`, and those of `data`.

    Those of `model` are the network, and what differs from its defaults.
    """
    if source.startswith(SOURCE):
        given = {k: v for k, v in overrides.items() if k == "data.vocabulary"}
        keys = _folder_keys("teacher", source, objective, given)
    else:
        keys = _start_of(source, "", {})
    model = {name: keys.pop(name) for name in [*keys] if name.startswith("model.")}
    return keys | ({key: _teacher_model(model)} if model else {})


def _teacher_model(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The network, and what differs from its defaults, of dotted keys of `model`."""
    prefix = "model."
    own = {k.removeprefix(prefix): v for k, v in keys.items() if k.startswith(prefix)}
    name = own.setdefault("network", "transformer")
    network = networks.FOLDER.part_class(name, "model.network")
    default = {field.name: default_of(field) for field in dataclasses.fields(network)}
    return {k: v for k, v in own.items() if v != default.get(k, _UNKNOWN)}


def start_keys(flat: Mapping[str, Any], run: str) -> dict[str, Any]:
    """The keys that a run takes from the one it starts from, unless they are given.

    These are the network, without what says how it is computed and rates of dropout,
    and the vocabulary.

    Args:
      flat: the other run's config, dotted key -> value.
      run: its folder.
    """
    network = networks.FOLDER.part_class(flat["model.network"], "model.network")
    names = (f"model.{name}" for name in ("network", *network.parameter_keys()))
    keys = (*names, "data.sentinels", "data.whitespace")
    return {key: flat[key] for key in keys} | {"data.vocabulary": run}


def run_config(workdir: epath.Path, overrides: Mapping[str, str]) -> ConfigDict:
    """A run's config with some other values, and the run's vocabulary.

    Raises:
      UserError: there is no run, or an override would change its network.
    """
    flat = flatten(ConfigDict(read_run_config(workdir), allow_dotted_keys=True))
    flat |= {"train.init_from": "", "data.vocabulary": str(workdir), **overrides}
    for key in overrides:
        if key.startswith("model.") or key == "objective.name":
            raise UserError(f"--config.{key}: a run's {key} cannot be changed")
    return load_config(base.__file__, flat, reads_start=False)


def changes_suffix(workdir: epath.Path, config: ConfigDict) -> str:
    """A suffix for the folder of an evaluation whose config differs from the run's.

    Args:
      config: the result of `run_config`. The keys of the evaluated text do not count,
        since the folder's name has a hash of the text.

    Returns:
      "", or a dot and a hash of the keys and values that differ.
    """
    from research.run.workdir import fixed_keys  # imports JAX

    own, given = (
        fixed_keys(each.to_dict()) for each in (run_config(workdir, {}), config)
    )
    changed = {
        key: value
        for key, value in given.items()
        if key not in EVALUATED_TEXT and own.get(key) != value
    }
    return f".{digest(changed)[:8]}" if changed else ""


def from_file(spec: str) -> ConfigDict:
    """The config that an experiment's file returns, without the objective's defaults.

    Raises:
      UserError: the file is not an experiment, or has no such size.
    """
    path, _, size = spec.partition(":")
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
        raise UserError(f"{path}: get_config() returns a ConfigDict, not {config!r}")
    return config


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
      UserError: the key does not exist, or the value has another type.
    """
    flat = flatten(config)
    opened = [name for name in OPEN_SECTIONS if key.startswith(name + ".")]
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


def convert(value: Any, like: Any, key: str) -> Any:
    """A value or its text, converted to the type of `like`.

    Raises:
      UserError: it cannot be converted; the line names `key`.
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
        raise UserError(f"{key}: {value!r} is not {_TYPE_NAMES[expected]}") from error


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
    int: "an int",
    list: "a JSON list",
    str: "text",
    tuple: "a list such as 1,2",
}


def _check_names(spec: str, config: ConfigDict) -> None:
    """Checks that a file's config has exactly the sections, and the keys outside them.

    Raises:
      UserError: one is missing or unknown; names the file and the first of them.
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
                known = [f"{name}.{each}" for each in complete]
                raise unknown(f"config key of {spec}", dotted, known)
        _set_section(config, name, complete)


def _choose_part(config: ConfigDict, section: str, key: str, part: str) -> None:
    """Sets a key that chooses a part, and gives the section that part's keys."""
    values = config[section].to_dict()
    _set_section(config, section, sections.with_part(section, values, key, part))


def _set_section(config: ConfigDict, name: str, values: Mapping[str, Any]) -> None:
    config[name] = ConfigDict(
        {
            key: ConfigDict(value, allow_dotted_keys=True)
            if isinstance(value, dict)
            else value
            for key, value in values.items()
        }
    )


def _check_sections(config: ConfigDict, *, where: str = "") -> None:
    """Checks all keys except the objective's against their declarations.

    Args:
      where: the beginning of the error's line.

    Raises:
      UserError: a key is unknown, or a value is not legal.
    """
    flat = flatten(config)
    for name in SECTIONS.keys() - {"objective"}:
        prefix = sections.dotted(name)
        values = {
            key.removeprefix(prefix): value
            for key, value in flat.items()
            if (key.startswith(prefix) if name else "." not in key)
        }
        try:
            check_section(SECTIONS[name], values, prefix, keys=flat)
        except UserError as error:
            raise UserError(f"{where}{error}") from error


def _pair(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise UserError(f"override {item!r} has no value; write {key}=VALUE")
    return key, value
