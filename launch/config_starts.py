"""Keys that a run takes from its teacher, or from the run or model it starts from."""

import dataclasses
import difflib
import importlib.util
from collections.abc import Collection, Mapping
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from launch.config_values import flatten
from research import networks, objectives
from research.config.identity import CONFIG_FILE, read_run_config
from research.config.sections import SECTIONS, dotted
from research.contract.errors import UserError, missing_package
from research.contract.parts import default_of, section_fields
from research.files import vector_files
from research.files.checksums import has_checkpoint
from research.files.existence import exists
from research.files.paths import absolute_path, user_path
from research.interop.huggingface import SOURCE
from research.record.trackers import check_track

_UNKNOWN = object()


NUM_LISTED = 20
"""Number of runs that an error lists, at most."""


def check_needed(config: ConfigDict, workdir: epath.PathLike) -> None:
    """Checks that the runs, files and packages of a config exist, before reading text.

    Args:
      workdir: of the run, if one starts; if it has begun, train.init_from may be gone.

    Raises:
      UserError: one is missing; the line lists what exists.
    """
    flat = flatten(config)
    if flat["data.reader"] == "seqio" and importlib.util.find_spec("seqio") is None:
        raise missing_package("data.reader=seqio", "seqio")
    if track := flat["train.track"]:
        check_track(track)
    begun = bool(workdir) and exists(absolute_path(workdir) / CONFIG_FILE)
    for section in SECTIONS:
        prefix = dotted(section)
        values = config[section] if section else config
        for field in section_fields(SECTIONS[section], values, prefix).values():
            kind, key = field.metadata.get("source"), f"{prefix}{field.name}"
            if not kind or (begun and key == "train.init_from"):
                continue
            if flat[key]:
                _check_source(kind, key, flat[key])
                is_words = kind == "vectors" and flat[key].endswith(
                    vector_files.ENDINGS
                )
                if is_words and is_of_pieces(config.data):
                    raise networks.no_spelling(f"{key}={flat[key]}")
            elif workdir and (needed := field.metadata.get("needed")):
                raise UserError(f"{key} is not set; it is {needed}")


def is_of_pieces(data: ConfigDict) -> bool:
    """True if the run trains its vocabulary, and its pieces are not whole words."""
    from research.data.tokenize.train_tokenizer import TOKENIZER_TYPES  # takes long

    return data.vocabulary in TOKENIZER_TYPES


def _check_source(kind: str, key: str, source: str) -> None:
    """Raises UserError if the file or run does not exist; it lists what does."""
    if source.startswith(SOURCE):
        from research.interop.huggingface.restore import find_folder  # imports much

        find_folder(source)
        return
    is_random = source.partition(":")[0] == "random"
    if is_random and kind in ("vectors", "table", "folder"):
        return
    if kind == "files":
        for name in source.split(","):
            _check_source("file", key, name)
        return
    is_file = kind in ("file", "table", "folder")
    is_file |= source.endswith((*vector_files.ENDINGS, ".npz"))
    path = absolute_path(source)
    if kind in ("file", "table") and path.is_dir():
        raise UserError(f"{key}={source} is a folder; it must be a file")
    if exists(path) if is_file else has_checkpoint(path):
        return
    folder = next(each for each in (path, *path.parents) if exists(each))
    problem = "has no checkpoint" if folder == path else "does not exist"
    if is_file:
        found, noun = [entry.name for entry in folder.iterdir()], "files"
    else:
        found = [config.parent.name for config in folder.glob(f"*/{CONFIG_FILE}")]
        noun = "runs"
    near = difflib.get_close_matches(path.name, found, n=1)
    if near and folder == path.parent:
        raise UserError(f"{key}={source} {problem}; did you mean {folder / near[0]}?")
    names = ", ".join(sorted(found)[:NUM_LISTED]) or "none"
    raise UserError(f"{key}={source} {problem}; {noun} in {folder}: {names}")


def set_layers(config: ConfigDict, given: Collection[str]) -> None:
    """Gives a network the number of layers and the norm that train.init_layers implies.

    Its first layer has a norm before attention unless it is the source's first. Given
    keys are kept.

    Raises:
      UserError: model.layers is given and differs; or a layer would lose its norm, or
        get one that it was trained without.
    """
    layers = config.train.init_layers
    if not layers or not config.train.init_from:
        return
    if "model.layers" not in given:
        config.model.layers = len(layers)
    if config.model.layers != len(layers):
        raise UserError(
            f"train.init_layers has {len(layers)} layers, but model.layers is "
            f"{config.model.layers}; it must name a layer of train.init_from for each"
        )
    if config.model.get("first_attention_norm", True):
        return
    key = "model.first_attention_norm"
    if 0 not in layers and key not in given:
        config.model.first_attention_norm = True
    elif layers[0] != 0 or 0 in layers[1:]:
        raise UserError(
            f"train.init_layers={[*layers]}: layer 0 of train.init_from has no norm "
            f"before its attention ({key}=False), so it can only come first; if it is "
            f"left out, set {key}=True"
        )


def start_of(
    source: str, workdir: epath.PathLike, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys that a run takes from the one it starts from; {} if it is not a run.

    Args:
      source: the other run's workdir, or the folder of one of its checkpoints.
      workdir: as in `load_config`.

    Raises:
      UserError: a config.json is damaged.
    """
    from research.data.tokenize.model_files import MODEL_FILES  # imports tokenizers

    own, path = epath.Path(user_path(workdir)), epath.Path(user_path(source))
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


def teacher_keys(
    config: ConfigDict, workdir: epath.PathLike, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys that a run takes from its objective's teacher.

    These are the teacher's network, in a field declared by `fields.model_of`, and its
    vocabulary. A run that has begun has them in its own config.

    Args:
      config: the run's, without overrides.
      workdir: as in `load_config`.

    Raises:
      UserError: there is no run, or its config cannot be read.
    """
    found, own = {}, epath.Path(user_path(workdir))
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


def folder_keys(
    flag: str, source: str, objective: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The overrides, and the keys from hf:DIR that are not among them.

    Args:
      flag: the key that names the folder.

    Raises:
      UserError: the folder cannot be read, or has no vocabulary and none is given.
    """
    from research.interop.huggingface import restore  # imports all families

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
    """The keys that a run takes from its start and its teacher, unless given.

    Args:
      given: dotted key -> value, the run's overrides.
      parents: dotted key that names a run -> that run's flat config.
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
    return found


def _model_fields(given: Mapping[str, Any], teacher: str) -> list[str]:
    """The objective's keys that hold the network of the run named by a key."""
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
    """The teacher's `model` keys, as the value of `key`, and its `data` keys.

    The `model` keys are the network, and what differs from its defaults.
    """
    if source.startswith(SOURCE):
        given = {k: v for k, v in overrides.items() if k == "data.vocabulary"}
        keys = folder_keys("teacher", source, objective, given)
    else:
        keys = start_of(source, "", {})
    model = {name: keys.pop(name) for name in [*keys] if name.startswith("model.")}
    return keys | ({key: _teacher_model(model)} if model else {})


def _teacher_model(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The network, and what differs from its defaults, from dotted keys of `model`."""
    prefix = "model."
    own = {k.removeprefix(prefix): v for k, v in keys.items() if k.startswith(prefix)}
    name = own.setdefault("network", "transformer")
    network = networks.FOLDER.part_class(name, "model.network")
    default = {field.name: default_of(field) for field in dataclasses.fields(network)}
    return {k: v for k, v in own.items() if v != default.get(k, _UNKNOWN)}


def start_keys(flat: Mapping[str, Any], run: str) -> dict[str, Any]:
    """The keys that a run takes from the one it starts from, unless they are given.

    These are the network, except how it is computed and its dropout rates, and the
    vocabulary.

    Args:
      flat: the other run's config, dotted key -> value.
      run: its folder.
    """
    network = networks.FOLDER.part_class(flat["model.network"], "model.network")
    names = (f"model.{name}" for name in ("network", *network.parameter_keys()))
    keys = (*names, "data.sentinels", "data.whitespace")
    return {key: flat[key] for key in keys} | {"data.vocabulary": run}
