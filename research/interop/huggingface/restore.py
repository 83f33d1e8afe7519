"""Starts from a model in Hugging Face's layout: `train.init_from=hf:DIR`."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research import objectives
from research.contract import fields
from research.contract.errors import UserError
from research.data.tokenize.model_files import MODEL_FILES
from research.data.tokenize.vocabulary import load_vocabulary
from research.files.paths import user_path
from research.interop.huggingface import SOURCE, rows
from research.interop.huggingface import folder as folders
from research.interop.huggingface.families import family_of
from research.interop.huggingface.family import ONLY_TRAINED_WITH, Family, class_names
from research.networks.transformer import transformer
from research.networks.transformer.electra import generator_options
from research.objectives.tasks.heads import TEXT

DISCRIMINATOR, GENERATOR = "discriminator", "generator"
"""ELECTRA's networks: parts of our parameters, and folders in a folder of both."""


class Model(NamedTuple):
    """A model that was opened."""

    path: Path
    family: Family
    config: dict[str, Any]
    tensors: folders.Tensors
    options: dict[str, Any]  # what config and tensors mean
    sizes: rows.Sizes


class Restored(NamedTuple):
    """Parameters by their path, and what does not match."""

    params: dict[str, np.ndarray]
    num_rows: dict[str, int]  # of tables that have fewer rows there than here
    unused: list[str]  # keys that no parameter has
    labels: tuple[str, ...] = ()  # of the values of a head, in their order


HEAD_VALUES = ("head_label/out/", "head_tag/out/")
"""Parameters that have a value for each label in their last dimension."""
PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model", "*.spm")
"""Files of a model that are fetched: no pickles, which can run code."""


def find_folder(source: str) -> Path:
    """The folder that `hf:DIR` names; `hf:ORG/NAME` is fetched over the network.

    `hf:ORG/NAME@REVISION` is a branch, tag or commit of it.

    Raises:
      UserError: there is no such folder, and it cannot be fetched.
    """
    name = source.removeprefix(SOURCE)
    path = Path(user_path(name))
    if path.is_dir():
        return path
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise UserError(f"{source}: no such folder")
    try:
        from huggingface_hub import HfApi  # its import takes time

        repository, _, revision = name.partition("@")
        return Path(
            HfApi().snapshot_download(
                repository, revision=revision or None, allow_patterns=[*PATTERNS]
            )
        )
    except Exception as error:  # the package is missing, or one of its many errors
        raise UserError(
            f"{source}: no such folder, and it could not be fetched "
            f"({type(error).__name__}: {str(error).splitlines()[0][:100]})"
        ) from error


def open_model(path: Path) -> Model:
    """Opens a folder; tensors are read when they are asked for.

    Raises:
      UserError: it is of no family that is known, or something in it is wrong.
    """
    config = folders.read_json(path / folders.CONFIG)
    family = family_of(config, path)
    tensors = folders.Tensors(path, family.prefix)
    try:
        vocab_size = config.get("vocab_size")
        if type(vocab_size) is not int or not 0 < vocab_size < 2**31:
            raise UserError(f"config.json has vocab_size {vocab_size!r}")
        options = family.read_options(config, tensors)
        _check_options(options)
        _check_tensors(family, tensors, options)
        _check_layers(family, config, tensors)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except (AttributeError, TypeError) as error:  # of what JSON may be in its place
        raise UserError(
            f"{path}: config.json has a value of the wrong type ({error})"
        ) from error
    heads, width = options["heads"], options["width"]
    sizes = rows.Sizes(
        vocab=config["vocab_size"],
        heads=heads,
        key_width=options["head_width"] or width // heads,
        table_width=options["embedding_width"] or width,
        pad_id=family.padding(config),
    )
    try:
        _check_sizes(family, tensors, options, sizes)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return Model(path, family, config, tensors, options, sizes)


def _check_options(options: Mapping[str, Any]) -> None:
    """Raises UserError: config.json means a value that is not legal for our key."""
    declared = {field.name: field for field in dataclasses.fields(transformer.Network)}
    try:
        fields.check_values(
            [declared[name] for name in options], options, prefix="model."
        )
        transformer.Network(**options)
    except ValueError as error:
        raise UserError(f"config.json: {error}") from error


def _check_tensors(family: Family, tensors: Any, options: Mapping[str, Any]) -> None:
    """Raises UserError: there are tensors that config.json does not count.

    They are of a layer beyond its number, or of token types of which it has none.

    The first layers of a model alone would be another model.
    """
    for key in tensors if options.get("token_types") == 0 else ():
        if "token_type_embeddings" in key:
            raise UserError(f"config.json: type_vocab_size is 0, but there is {key}")
    for row in family.rows():
        of_decoder = row.paths[0].startswith("decoder/") and options["decoder_layers"]
        count = of_decoder or options["layers"]
        key = row.key.replace(rows.LAYER, str(count))
        if rows.LAYER in row.key and key in tensors:
            raise UserError(f"config.json counts {count} layers, but there is {key}")
        first, last = (row.key.replace(rows.LAYER, str(n)) for n in (0, count - 1))
        if rows.LAYER in row.key and first in tensors and last not in tensors:
            raise UserError(
                f"config.json counts {count} layers, but there is no {last}"
            )


def _check_sizes(
    family: Family,
    tensors: folders.Tensors,
    options: Mapping[str, Any],
    sizes: rows.Sizes,
) -> None:
    """Raises UserError: config.json has a size that the tensors do not have.

    The shapes are in the head of a file: nothing is read, nor made in a size that only
    config.json has.
    """
    width = options["width"]
    expected = {
        "token/embedding": (sizes.vocab, sizes.table_width),
        "feedforward/in/kernel": (width, options["feedforward"]),
        "attention/query/kernel": (width, sizes.heads * sizes.key_width),
    }
    of_one_stack = (row for row in family.body if "decoder/" not in row.paths[0])
    for row in of_one_stack:
        key = row.key.replace(rows.LAYER, "0")
        ends = (end for end in expected if row.paths[0].endswith(end))
        if key not in tensors or (end := next(ends, None)) is None:
            continue
        shape = tensors.shape(key)
        if math.prod(shape) != math.prod(expected[end]) * len(row.paths):
            raise UserError(
                f"{key} has shape {list(shape)}, but by config.json (vocab_size, "
                f"widths) it is of {' x '.join(map(str, expected[end]))}"
            )


def _check_layers(family: Family, config: Mapping[str, Any], tensors: Any) -> None:
    """Raises UserError: there is no tensor of a first layer.

    So it is of LlamaForQuestionAnswering, whose keys begin with another name.
    """
    keys = [row.key for row in family.body if rows.LAYER in row.key]
    if keys and not any(key.replace(rows.LAYER, "0") in tensors for key in keys):
        raise UserError(
            f"a {' or '.join(class_names(config)) or 'model'} whose layers are not "
            f"where {family.model_type} models have them (there is no "
            f"{keys[0].replace(rows.LAYER, '0')}); known: "
            f"{', '.join(dict(family.architectures))}"
        )


def has_vocabulary(path: Path) -> bool:
    """Whether the folder has a file that `data.vocabulary` can name."""
    return any((path / name).is_file() for name in (*MODEL_FILES, "merges.txt"))


def check_tokenizer(model: Model) -> None:
    """Raises UserError: the folder lacks the one file that has the model's ids."""
    name = model.family.tokenizer
    if name and not (model.path / name).is_file():
        raise UserError(
            f"{model.path} has no {name}; other files of a vocabulary do not have the "
            f"ids of a {model.family.model_type} model. Write one where transformers "
            "is: AutoTokenizer.from_pretrained(DIR).save_pretrained(NEW)"
        )


def config_overrides(source: str, objective: str) -> dict[str, Any]:
    """Config keys of a run that starts from `hf:DIR`: its model and its vocabulary.

    Args:
      objective: the name of the run's objective.

    Raises:
      UserError: the folder cannot be read.
    """
    path, changes = find_folder(source), {}
    if (path / DISCRIMINATOR).is_dir():
        model = open_model(path / DISCRIMINATOR)
        fields = objectives.objective_class(objective).__dataclass_fields__
        if "generator_size" in fields and (path / GENERATOR).is_dir():
            generator = open_model(path / GENERATOR).options
            for key, name in (("size", "width"), ("depth", "layers")):
                ratio = generator[name] / model.options[name]
                changes[f"objective.generator_{key}"] = ratio
        path = path / DISCRIMINATOR
    else:
        model = open_model(path)
    changes |= {f"model.{name}": value for name, value in model.options.items()}
    if has_vocabulary(path):
        check_tokenizer(model)
        changes["data.vocabulary"] = str(path)
    if not model.family.sentinels:
        changes["data.sentinels"] = 0
    return changes | head_keys(model, objective)


def task_of(model: Model) -> str:
    """The objective of the task of a model's class; "" of one without such a head."""
    each = (name for name in objectives.names() if _has_head(model, name))
    return next(each, "")


def _has_head(model: Model, objective: str) -> bool:
    """Whether a model's class has the head of an objective."""
    own = vars(objectives.objective_class(objective))  # no subclass is of that class
    end = own.get("huggingface_class", "")
    return any(end and name.endswith(end) for name in class_names(model.config))


def head_keys(model: Model, objective: str) -> dict[str, str]:
    """The keys of a task's head where config.json says what it reads.

    Raises:
      UserError: no key means that.
    """
    if len(model.family.pools) == 1 or not _has_head(model, objective):
        return {}
    found, pool = {"objective.head": model.family.head_activation}, "token"
    if model.config.get("classifier_pooling", "cls") == "mean":
        pool = "mean"
    if "pool" in objectives.objective_class(objective).__dataclass_fields__:
        return found | {"objective.pool": pool}
    reads = objectives.objective_class(objective).head_reads
    if reads == TEXT and pool == "mean":
        raise UserError(
            f"{model.path}: it reads choices by the mean of their states "
            f"(classifier_pooling), but objective {objective} reads one token"
        )
    return found


def restore(
    source: str,
    scope: str,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    vocabulary: str = "",
    num_pieces: int = 0,
) -> Restored:
    """The parameters with these paths and shapes, as far as `hf:DIR` has them.

    Args:
      scope: which network of a folder of two to start from; "": discriminator.
      vocabulary: hash of the run's vocabulary; "": it is not ours to check.
      num_pieces: how many pieces the vocabulary's model file has.

    Raises:
      UserError: the folder cannot be read, or is of another vocabulary.
    """
    path = find_folder(source)
    has_two = (path / DISCRIMINATOR).is_dir()
    own = path / DISCRIMINATOR if has_two else path
    checks = num_pieces, _has_same_vocabulary(own, vocabulary)
    if not any(name.startswith(f"{DISCRIMINATOR}/") for name in shapes):
        path = path / (scope or DISCRIMINATOR) if has_two else path
        return restore_network(open_model(path), shapes, *checks)
    params, num_rows, unused = {}, {}, []
    for part in (DISCRIMINATOR, GENERATOR) if has_two else (DISCRIMINATOR,):
        start = f"{part}/"
        own = {
            name.removeprefix(start): shape
            for name, shape in shapes.items()
            if name.startswith(start)
        }
        model = open_model(path / part if has_two else path)
        if part == GENERATOR and any(name.startswith("stack/") for name in own):
            _check_generator(open_model(path / DISCRIMINATOR), model)
        found = restore_network(model, own, *checks)
        params |= {start + name: array for name, array in found.params.items()}
        num_rows |= {start + name: count for name, count in found.num_rows.items()}
        unused += [f"{part}: {key}" for key in found.unused]
    return Restored(params, num_rows, unused)


def _check_generator(discriminator: Model, generator: Model) -> None:
    """Raises UserError: beside this discriminator a generator here is another one."""
    size, depth = (
        generator.options[name] / discriminator.options[name]
        for name in ("width", "layers")
    )
    whole = transformer.Network(**discriminator.options)
    here = _computing(generator_options(whole, size, depth))
    there = _computing(transformer.Network(**generator.options))
    if differ := [name for name, value in there.items() if here[name] != value]:
        raise UserError(
            f"{generator.path} has "
            + ", ".join(f"model.{name} {there[name]}" for name in differ)
            + ", but a generator of objective electra beside this discriminator has "
            + ", ".join(str(here[name]) for name in differ)
        )


def _computing(options: transformer.Network) -> dict[str, Any]:
    """Options that a trained network computes with, each in one spelling."""
    values = dataclasses.asdict(options) | {
        "head_width": options.key_width,
        "embedding_width": options.table_width,
    }
    return {name: x for name, x in values.items() if name not in ONLY_TRAINED_WITH}


def _has_same_vocabulary(path: Path, vocabulary: str) -> bool:
    """Whether the folder has a vocabulary that is known to be the run's.

    Raises:
      UserError: it has another one.
    """
    if not vocabulary or not has_vocabulary(path):
        return False
    try:
        own = load_vocabulary(path, 0).sha256
    except UserError:  # of a kind that is not known here: the sizes are checked alone
        return False
    if own != vocabulary:
        raise UserError(
            f"{path} has another vocabulary than this run; set data.vocabulary={path}"
        )
    return True


def restore_network(
    model: Model,
    shapes: Mapping[str, tuple[int, ...]],
    num_pieces: int,
    has_same_vocabulary: bool = False,
) -> Restored:
    """The parameters of one network.

    Args:
      has_same_vocabulary: the model is known to have the run's; rows of its table
        behind ours are then of no token (Qwen2 has 290) and are left out.

    Raises:
      UserError: as `restore`.
    """
    tensors, sizes = model.tensors, model.sizes
    most = 2**31 if has_same_vocabulary else _padded_rows(shapes)
    if not num_pieces <= sizes.vocab <= most:
        raise UserError(
            f"{model.path} has a vocabulary of {sizes.vocab} rows, but that of this "
            f"run has {num_pieces} pieces; set data.vocabulary to the model's own"
        )
    own_rows = _own_rows(model)
    find = functools.partial(rows.find, own_rows, tensors)
    params, num_rows, used, cut = {}, {}, set(), []
    for path, shape in shapes.items():
        if (found := find(path, shape[0] if shape else 0, sizes)) is None:
            continue
        array = found.array
        if found.change.is_vocab and len(array) != sizes.vocab:
            raise UserError(
                f"{model.path}: {found.keys[0]} has {len(array)} rows, but the "
                f"vocab_size of config.json is {sizes.vocab}"
            )
        if found.change.is_vocab and len(array) < shape[0]:
            num_rows[path] = len(array)
            padding = [(0, shape[0] - len(array))] + [(0, 0)] * (array.ndim - 1)
            array = np.pad(array, padding)
        elif found.change.is_vocab and len(array) > shape[0]:
            cut.append(f"{found.keys[0]} from row {shape[0]} on")
            array = array[: shape[0]]
        params[path] = array
        used |= {*found.keys}
    _check_readout(model, params)
    used |= _copies(model, used) | _neutral(model, own_rows, shapes)
    unused = sorted({*tensors} - used) + cut
    has_head = any(name.startswith(HEAD_VALUES) for name in params)
    return Restored(params, num_rows, unused, label_names(model) if has_head else ())


def label_names(model: Model) -> tuple[str, ...]:
    """The names of the values of a head, in their order there.

    Raises:
      UserError: config.json names two alike, or names them by something else.
    """
    given = model.config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    try:
        names = tuple(str(given[str(number)]) for number in range(len(given)))
    except (KeyError, TypeError):
        raise UserError(
            f"{model.path}: id2label of config.json must have the keys 0, 1, ..."
        ) from None
    if len({*names} - {""}) < len(names):
        raise UserError(f"{model.path}: id2label of config.json names two labels alike")
    return names


def _own_rows(model: Model) -> list[rows.Row]:
    """The rows of a model's class.

    An output table that is not in the file is the token table only if the config says
    so.
    """
    family, config = model.family, model.config
    own = family.rows(family.heads_of(config))
    if family.ties_tables(config):
        return own
    (table,) = (r.key for r in own if "token/embedding" in r.paths)
    return [r._replace(instead="") if r.instead == table else r for r in own]


def _check_readout(model: Model, params: Mapping[str, Any]) -> None:
    """Raises UserError: the readout is restored, and has another activation here."""
    own, activation = model.family.readout_activation, model.options["activation"]
    if own not in ("", activation) and "output/dense/kernel" in params:
        raise UserError(
            f"{model.path}: a {model.family.model_type} model predicts tokens with "
            f"activation {own}, but a network here uses that of its layers "
            f"({activation})"
        )


def _padded_rows(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return shapes["token/embedding"][0] if "token/embedding" in shapes else 2**31


def _copies(model: Model, used: set[str]) -> set[str]:
    """Keys that repeat a key that is used.

    A model's own output table repeats none, and is of no use to a network without a
    readout.

    Raises:
      UserError: one of them differs.
    """
    same, tensors = set(), model.tensors
    rows_of_output = (r for r in model.family.rows() if "output/embedding" in r.paths)
    is_tied = model.options["tie_embeddings"]
    own = set() if is_tied else {row.key for row in rows_of_output}
    for key, original in model.family.copies.items():
        if key in tensors and key not in used | own and original in used:
            if not np.array_equal(tensors[key], tensors[original]):
                raise UserError(
                    f"{model.path}: {key} differs from {original}, which is the same "
                    "parameter here"
                )
            same.add(key)
    return same


def _neutral(
    model: Model, own_rows: Sequence[rows.Row], shapes: Mapping[str, tuple[int, ...]]
) -> set[str]:
    """Keys of tensors whose parameters a network may lack and compute the same."""
    return {
        r.key
        for r in own_rows
        if r.neutral and r.key in model.tensors and shapes.keys().isdisjoint(r.paths)
        if np.array_equal(model.tensors[r.key], r.neutral(model.sizes))
    }
