"""A folder in Hugging Face's layout: its config and tensors, read and written."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from research.contract.errors import UserError
from research.files.json_files import parse_json, read_file

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5")
DTYPES = ("F64", "F32", "F16", "BF16")
LEGACY = {".gamma": ".weight", ".beta": ".bias"}
"""How keys of the first releases end (LayerNorm.gamma), and how they end now."""


class Tensors(Mapping):
    """The tensors of a folder, float32 NumPy arrays that are read when asked for.

    Args:
      folder: holds WEIGHTS, or INDEX and the files that it names.
      prefix: is put before all keys if none begins with it: a file of a model's body
        alone has keys without it.

    Raises:
      UserError: there are no weights, or only pickled ones; a file is missing, damaged
        or outside the folder; or, when it is asked for, a tensor is of another type or
        not finite.
    """

    def __init__(self, folder: Path, prefix: str = ""):
        self._files, self._names = {}, {}
        for file, names in _files(folder).items():
            self._files[file] = handle = _open(file)
            here = [*handle.keys()]
            if missing := sorted(set(names or here) - set(here)):
                raise UserError(
                    f"{file} has no tensor {missing[0]}, which {INDEX} names"
                )
            self._names |= {_modern(name): (file, name) for name in here}
        if not any(name.startswith(prefix) for name in self._names):
            self._names = {prefix + name: at for name, at in self._names.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        file, own_name = self._names[name]
        dtype = self._files[file].get_slice(own_name).get_dtype()
        if dtype not in DTYPES:
            raise UserError(
                f"{file}: {own_name} is of type {dtype}; weights that are read are of "
                f"{', '.join(DTYPES)}"
            )
        found = self._files[file].get_tensor(own_name).astype(np.float32)
        if not np.isfinite(found).all():
            raise UserError(f"{file}: {own_name} has numbers that are not finite")
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, which is not read."""
        file, own_name = self._names[name]
        return tuple(self._files[file].get_slice(own_name).get_shape())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _modern(name: str) -> str:
    for old, new in LEGACY.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _files(folder: Path) -> dict[Path, list[str] | None]:
    """The files of weights, and the tensors that the index expects of each."""
    if (folder / WEIGHTS).is_file():
        return {folder / WEIGHTS: None}
    if not (folder / INDEX).is_file():
        pickles = [name for name in PICKLES if (folder / name).is_file()]
        if pickles:
            raise UserError(
                f"{folder} has its weights in {pickles[0]}, which is not read: a "
                "pickle can run code. Save it as safetensors where it is trusted: "
                "AutoModel.from_pretrained(DIR).save_pretrained(NEW)"
            )
        raise UserError(f"{folder} has no {WEIGHTS}")
    files = {}
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError(f"{folder / INDEX} has no weight_map")
    for name, file in weight_map.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise UserError(
                f"{folder / INDEX} names {file!r}, which is not a file of that folder"
            )
        if not (folder / file).is_file():
            raise UserError(f"{folder / file} is missing, but {INDEX} names it")
        files.setdefault(folder / file, []).append(name)
    return files


def _open(file: Path) -> Any:
    with file.open("rb"):  # safe_open says of what may not be read that it is missing
        pass
    try:
        return safe_open(file, framework="np")
    except SafetensorError as error:
        raise UserError(f"{file} is damaged or cut off ({error})") from error


def read_json(path: Path, kind: type = dict) -> Any:
    """The object, or value of another `kind`, in a JSON file.

    Raises:
      UserError: there is no such file, or it holds something else.
    """
    try:
        content = parse_json(read_file(path))
    except FileNotFoundError as error:
        raise UserError(f"{path.parent} has no {path.name}") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error})") from error
    if not isinstance(content, kind):
        raise UserError(f"{path} is not a JSON {'object' if kind is dict else 'array'}")
    return content


def write_folder(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, np.ndarray]
) -> None:
    """Writes CONFIG and WEIGHTS; the same content always gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2, sort_keys=True)
    (folder / CONFIG).write_text(text + "\n", "utf-8")
    try:
        save_file(dict(tensors), folder / WEIGHTS, metadata={"format": "pt"})
    except SafetensorError as error:  # such as a full disk
        raise OSError(f"{WEIGHTS}: {error}") from error
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors' is 0600
