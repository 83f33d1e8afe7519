"""What a folder of sentence-transformers says about vectors of texts."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from research.contract.errors import UserError
from research.interop.huggingface.folder import read_json

MODULES = "modules.json"
POOLINGS = {"mean": "mean", "cls": "first", "lasttoken": "last"}
"""Hugging Face's poolings that are known -> the state that a vector is."""
SETTINGS = tuple(
    f"sentence_{name}_config.json"
    for name in (
        "bert",
        "roberta",
        "distilbert",
        "camembert",
        "albert",
        "xlm-roberta",
        "xlnet",
    )
)
"""Files of the network's settings, of which the first one counts: all that
sentence-transformers looks for, whatever the network."""
LENGTH, NO_LENGTH = "model_max_length", 1e20
OLD_KEY = "pooling_mode_"
OLD_NAMES = {"mean_tokens": "mean", "cls_token": "cls"}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How vectors are made of states.

    Attributes:
      folder: holds the network and its tokenizer.
      pool: "mean", or "first" or "last": the state of that token.
      max_length: tokens of a text that are read; 0: as many as the model reads.
    """

    folder: Path
    pool: str
    normalize: bool
    max_length: int


def read_recipe(path: Path) -> Recipe | None:
    """The recipe of a folder; None: it is none of sentence-transformers.

    Raises:
      UserError: a module or a value is not known, as vectors would be others.
    """
    if not (path / MODULES).is_file():
        return None
    modules = read_json(path / MODULES, list)
    try:
        found = {
            str(each["type"]).split(".")[-1]: path / each["path"] for each in modules
        }
    except (KeyError, TypeError) as error:
        raise UserError(f"{path / MODULES}: a module lacks {error}") from error
    for each in found.values():
        if not Path(os.path.abspath(each)).is_relative_to(os.path.abspath(path)):
            raise UserError(f"{path / MODULES}: {each} is not in this folder")
    if unknown := [
        n for n in found if n not in ("Transformer", "Pooling", "Normalize")
    ]:
        raise UserError(
            f"{path / MODULES}: the module {unknown[0]} is not known; known: "
            "Transformer, Pooling, Normalize"
        )
    if not {"Transformer", "Pooling"} <= found.keys():
        raise UserError(f"{path / MODULES} has no Transformer or no Pooling")
    folder = found["Transformer"]
    settings = next(filter(None, (_read_if(folder / name) for name in SETTINGS)), {})
    rest = _read_if(path / "config_sentence_transformers.json")
    for name, config in (("do_lower_case", settings), ("default_prompt_name", rest)):
        if config.get(name):
            raise UserError(f"{path}: {name} {config[name]!r} is not known here")
    pooling = _pooling(found["Pooling"] / "config.json")
    return Recipe(folder, pooling, "Normalize" in found, _length(folder, settings))


def _length(folder: Path, settings: dict[str, Any]) -> int:
    """The most tokens of a text, special ones included.

    0: the model's (sentence-transformers 6.2, base/modules/transformer.py, __init__).

    Raises:
      UserError: an argument of the tokenizer is not known, or it is no length.
    """
    arguments = settings.get("processor_kwargs", settings.get("tokenizer_args"))
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict) or arguments.keys() - {LENGTH, "use_fast"}:
        raise UserError(
            f"{folder}: arguments of the tokenizer must be {LENGTH}, got {arguments!r}"
        )
    tokenizer = _read_if(folder / "tokenizer_config.json")
    lengths = (
        arguments.get(LENGTH),
        settings.get("max_seq_length"),
        tokenizer.get(LENGTH, tokenizer.get("max_len")),
    )
    length = next((each for each in lengths if each is not None), NO_LENGTH)
    if type(length) not in (int, float) or not length >= 1:
        raise UserError(
            f"{folder}: max_seq_length, or {LENGTH} of tokenizer_config.json, must be "
            f"a number of tokens, got {length!r}"
        )
    return int(length) if length < NO_LENGTH else 0


def _read_if(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _pooling(path: Path) -> str:
    """One of the values of POOLINGS."""
    config = read_json(path)
    modes = config.get("pooling_mode")
    if modes is None:
        chosen = [k for k, v in config.items() if k.startswith(OLD_KEY) and v is True]
        names = [key.removeprefix(OLD_KEY) for key in chosen]
        modes = [OLD_NAMES.get(name, name) for name in names]
    modes = [modes] if isinstance(modes, str) else modes
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise UserError(
            f"{path}: pooling {', '.join(map(str, modes)) or 'none'} is not known; "
            f"known: one of {', '.join(POOLINGS)}"
        )
    return POOLINGS[modes[0]]
