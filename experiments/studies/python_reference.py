"""The page of public functions and classes, with their signatures and docstrings."""

import ast
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

MODULES = {
    "Use a model": (
        "palimpsest",
        "research.use.inference.language_model",
        "research.use.inference.bot",
        "research.use.inference.span_reader",
        "research.use.retrieval.passages",
        "research.use.retrieval.search",
    ),
    "Write an objective": (
        "research.contract.batch",
        "research.objectives",
        "research.objectives.losses.cross_entropy",
        "research.data.rows",
        "research.data.counter_rng",
        "research.contract.fields",
    ),
    "Write a network, a metric, a format": (
        "research.networks",
        "research.networks.shared.needs",
        "research.networks.shared.protocol",
        "research.metrics",
        "research.data.read.formats",
    ),
    "Sweeps, tables, statistics": (
        "launch.sweeps.budgets",
        "launch.sweeps.trial",
        "launch.reports.tables",
        "research.evaluation.statistics",
    ),
    "Errors": ("research.contract.errors",),
}
"""Topic -> modules whose public names are for other people's code."""
INTRODUCTION = (
    "# Python\n\n"
    "`import palimpsest` gives `palimpsest.open_run`, in any folder; the other modules "
    "are imported by their own names, in a clone or after `pip install .`. Names that "
    "begin with an underscore, and modules that are not here, may change without "
    "notice. Letters at the end of a name are its axes: `token_BL` has one row a text "
    "(B) and one column a position (L). Optimizers and schedules are parts, too: their "
    "keys are in [Config keys](reference.md), and [Add a part](../CONTRIBUTING.md) "
    "says how one is written.\n"
)
WIDTH = 76  # of a page
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$", re.MULTILINE)


def page() -> str:
    """The page, as Markdown."""
    lines = [INTRODUCTION]
    for topic, modules in MODULES.items():
        lines.append(f"## {topic}\n")
        for name in modules:
            module = importlib.import_module(name)
            lines.append(f"### {name}\n\n{_text(module.__doc__)}\n")
            for entry, value in public(module).items():
                lines.append(_entry(entry, value, "####"))
    return "\n".join(lines)


def public(module: types.ModuleType) -> dict[str, Any]:
    """Public functions and classes that the module defines, in its order.

    The module `palimpsest` also offers what it imports when it is asked for it.
    """
    found = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    }
    if module.__name__ == "palimpsest":
        found = {"open_run": module.open_run} | found
    return found


def methods(cls: type) -> dict[str, Any]:
    """Public methods and properties that the class defines itself: their functions."""
    found = {}
    for name, value in vars(cls).items():
        value = getattr(value, "__func__", value)  # of a class or static method
        value = getattr(value, "fget", getattr(value, "func", value))  # of a property
        if not name.startswith("_") and inspect.isfunction(value):
            found[name] = value
    return found


def own_docstring(value: Any) -> str:
    """The docstring; "" where there is none but what Python makes for some classes."""
    text = inspect.cleandoc(value.__doc__ or "")
    made = inspect.isclass(value) and text.startswith(f"{value.__name__}(")
    return "" if made else text


def _entry(name: str, value: Any, heading: str) -> str:
    """A function, or a class with its methods."""
    declared = fields(value) if inspect.isclass(value) else ""
    shown = declared or signature(name, value)
    parts = [f"{heading} {name}\n", f"```python\n{shown}\n```\n"]
    parts.append(f"{_text(own_docstring(value))}\n")
    if inspect.isclass(value):
        for method, function in methods(value).items():
            parts.append(_entry(f"{name}.{method}", function, f"{heading}#"))
    return "\n".join(parts)


def fields(cls: type) -> str:
    """The fields that a class declares, with their comments, as in its source; "" if it
    declares none."""
    source = inspect.cleandoc("\n" + inspect.getsource(cls))
    (node,), lines = ast.parse(source).body, source.splitlines()
    starts = [_first_line(each) for each in node.body[1:]] + [len(lines) + 1]
    found = []
    for each, end in zip(node.body, starts, strict=True):
        if isinstance(each, ast.AnnAssign) and not each.target.id.startswith("_"):
            found += filter(str.strip, lines[each.lineno - 1 : end - 1])
    bases = ", ".join(map(ast.unparse, node.bases))
    head = f"class {cls.__name__}({bases}):" if bases else f"class {cls.__name__}:"
    return "\n".join([head, *found]) if found else ""


def _first_line(node: ast.stmt) -> int:
    """The line at which a statement begins, its decorators included."""
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def signature(name: str, value: Any) -> str:
    """How it is called, with annotations; in several lines where one is too long."""
    try:
        own = inspect.signature(value)
    except ValueError:  # an exception's class has none
        return name
    parameters = [p for p in own.parameters.values() if p.name not in ("self", "cls")]
    result = own.return_annotation
    end = (
        "" if result is own.empty or inspect.isclass(value) else f" -> {_type(result)}"
    )
    words = list(_parameters(parameters))
    line = f"{name}({', '.join(words)}){end}"
    if len(line) <= WIDTH or not words:
        return line
    body = "".join(f"    {word},\n" for word in words)
    return f"{name}(\n{body}){end}"


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Each parameter with its type and default; `*` before those by keyword alone."""
    kinds = [parameter.kind for parameter in parameters]
    for index, parameter in enumerate(parameters):
        is_keyword = parameter.kind is parameter.KEYWORD_ONLY
        if is_keyword and not {parameter.kind, parameter.VAR_POSITIONAL} & {
            *kinds[:index]
        }:
            yield "*"
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        word = mark.get(parameter.kind, "") + parameter.name
        if parameter.annotation is not parameter.empty:
            word += f": {_type(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text = repr(parameter.default)
            word += f" = {text if '<' not in text else '...'}"
        yield word


def _type(annotation: Any) -> str:
    """An annotation without the names of modules."""
    text = (
        annotation
        if isinstance(annotation, str)
        else inspect.formatannotation(annotation)
    )
    return re.sub(r"\b[a-z_][\w]*\.(?=[\w.]*\b[A-Z]|[a-z])", "", text)


def _text(docstring: str) -> str:
    """A docstring as Markdown: sections of arguments and errors are lists."""
    text, *sections = SECTION.split(inspect.cleandoc(docstring or ""))
    parts = [text.strip()]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        entries = re.split(r"\n(?=  \S)", body.rstrip("\n"))
        lines = [" ".join(entry.split()) for entry in entries if entry.strip()]
        if title not in ("Returns", "Yields"):
            lines = [re.sub(r"^(\*{0,2}[\w, ]+):", r"`\1`:", line) for line in lines]
        parts.append(f"*{title}*\n\n" + "\n".join(f"* {line}" for line in lines))
    return "\n\n".join(parts)
