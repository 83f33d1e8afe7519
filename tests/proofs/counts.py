"""Counts what the code weighs: `python -m tests.proofs.counts [--repo DIR] [--json]`.

Reads files as text, so that it counts any commit's tree alike.

- *importers*: modules of research/ that exactly one other module imports.
- *Any*: parameters and fields annotated with a bare `Any`.
- *circles*: groups of modules that import one another, directly or through others.
- *config stops*: functions below launch/ that take a whole config, by a parameter
  named `config` or annotated `Config`, and the files that they are in.
"""

import argparse
import ast
import collections
import json
from pathlib import Path

SOURCE = ("research", "launch", "experiments", "docs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repo", default=str(Path(__file__).parents[2]))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    counted = counts(Path(args.repo))
    if args.json:
        print(json.dumps(counted))
        return
    for name, value in counted.items():
        print(f"{name:32} {value:>8,}")


def counts(repo: Path) -> dict[str, int]:
    """Name -> number, of a checkout."""
    source = {file: file.read_text("utf-8") for file in _files(repo, SOURCE)}
    tests = [file.read_text("utf-8") for file in _files(repo, ("tests",))]
    trees = {_module(repo, file): ast.parse(text) for file, text in source.items()}
    imports = _imports(trees)
    importers = collections.Counter(
        target for targets in imports.values() for target in targets
    )
    stops = [
        (module, node.name)
        for module, tree in trees.items()
        if module.startswith("research.")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(map(_is_config, _args(node)))
    ]
    lines_of = lambda texts: sum(text.count("\n") for text in texts)  # noqa: E731
    return {
        "source files": len(source),
        "source lines": lines_of(source.values()),
        "test files": len(tests),
        "test lines": lines_of(tests),
        "modules with one importer": sum(
            importers[module] == 1 for module in trees if module.startswith("research.")
        ),
        "Any": sum(_count_any(tree) for tree in trees.values()),
        "circles": len(_circles(imports)),
        "config stops": len(stops),
        "files with config stops": len({module for module, _ in stops}),
    }


def _files(repo: Path, folders: tuple[str, ...]) -> list[Path]:
    return sorted(file for name in folders for file in (repo / name).rglob("*.py"))


def _module(repo: Path, file: Path) -> str:
    parts = file.relative_to(repo).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Module -> the modules that it imports, but for those for types alone."""
    imports: dict[str, set[str]] = {module: set() for module in trees}
    for module, tree in trees.items():
        for node in _without_type_checking(tree):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                target = inner if inner in trees else node.module
                if target in trees and target != module:
                    imports[module].add(target)
    return imports


def _without_type_checking(tree: ast.AST):
    """All nodes, without the bodies of `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        test = getattr(node, "test", None)
        if isinstance(node, ast.If) and getattr(test, "id", "") == "TYPE_CHECKING":
            continue
        yield node
        yield from _without_type_checking(node)


def _circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module, by Kosaraju."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(start: str, edges: dict[str, set[str]], out: list[str]) -> None:
        stack = [(start, iter(edges[start]))]
        seen.add(start)
        while stack:
            _, rest = stack[-1]
            following = next((n for n in rest if n not in seen), None)
            if following is None:
                out.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(edges[following])))

    for module in imports:
        if module not in seen:
            visit(module, imports, order)
    backward: dict[str, set[str]] = {module: set() for module in imports}
    for module, targets in imports.items():
        for target in targets:
            backward[target].add(module)
    seen.clear()
    circles: list[set[str]] = []
    for module in reversed(order):
        if module not in seen:
            component: list[str] = []
            visit(module, backward, component)
            circles += [set(component)] if len(component) > 1 else []
    return circles


def _args(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _is_config(arg: ast.arg) -> bool:
    annotation = ast.unparse(arg.annotation) if arg.annotation else ""
    return annotation in ("Config", "ConfigDict") or (
        arg.arg == "config" and annotation in ("", "Any")
    )


def _count_any(tree: ast.Module) -> int:
    return sum(
        isinstance(getattr(node, "annotation", None), ast.Name)
        and node.annotation.id == "Any"
        for node in ast.walk(tree)
    )


if __name__ == "__main__":
    main()
