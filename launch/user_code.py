"""Imports and calls Python files of the user, with errors in one line."""

import contextlib
import importlib.machinery
import importlib.util
import inspect
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import experiments
from research.contract.errors import UserError, unknown

INSTALLED = Path(experiments.__file__).parents[1]
"""The folder of the package `experiments`."""


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Always compiles the source, since the cache misses edits within a second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def find(path: str) -> str:
    """The path of a file; if experiments/... is not here, that of the installed file.

    A bare name is an experiment: mlm is experiments/mlm.py.
    """
    if path.isidentifier() and not Path(path).exists():
        path = f"experiments/{path}.py"
    installed = INSTALLED / path
    elsewhere = Path(path).parts[:1] == ("experiments",) and not Path(path).exists()
    return str(installed) if elsewhere and installed.is_file() else path


def module_at(path: str) -> ModuleType:
    """Imports a Python file by its path, see `find`.

    Raises:
      UserError: the file does not exist, is not Python, or raises.
    """
    path = find(path)
    if not Path(path).is_file():
        near = [str(file) for file in sorted(Path(path).parent.glob("[!_]*.py"))]
        raise unknown("file", path, near) if near else UserError(f"no file {path}")
    if not path.endswith(".py"):
        raise UserError(f"{path} is not a Python file: its name must end in .py")
    name = Path(path).stem
    loader = SourceLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    with name_line_in_errors(path):
        spec.loader.exec_module(module)
    return module


def call(path: str, function: Callable, *args: Any) -> Any:
    """Calls a function that the file at `path` defines.

    Raises:
      UserError: it takes other arguments, or raises; the line names file and line.
    """
    try:
        inspect.signature(function).bind(*args)
    except TypeError as error:
        code = getattr(function, "__code__", None)
        line = f":{code.co_firstlineno}" if code else ""
        name = getattr(function, "__name__", repr(function))
        raise UserError(
            f"{path}{line}: {name}() cannot be called with {len(args)} argument(s) "
            f"({error})"
        ) from error
    with name_line_in_errors(path):
        return function(*args)


@contextlib.contextmanager
def name_line_in_errors(path: str) -> Iterator[None]:
    """Turns an error raised by code of the file at `path` into one line.

    Errors without a frame of that file are ours and are not changed.

    Raises:
      UserError: names the file, the line, and the error.
    """
    path = find(path)
    try:
        yield
    except UserError:
        raise
    except SyntaxError as error:
        where = f"{error.filename or path}:{error.lineno or 1}"
        raise UserError(f"{where}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        if not lines:
            raise
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise UserError(f"{path}:{lines[-1]}: {reason}") from error
