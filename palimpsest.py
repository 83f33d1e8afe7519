"""Palimpsest under its own name: `palimpsest train ...`, `import palimpsest`.

    palimpsest COMMAND [flags]     train, sweep, table, report, evaluate, ...
    palimpsest COMMAND --help      what it does, and its flags
    palimpsest experiments         the values of --config=NAME
    palimpsest completion bash     for ~/.bashrc: eval "$(palimpsest completion bash)"

In Python, `palimpsest.open_run(source)` opens a run or a published model, and
`palimpsest.train(config, workdir)` trains one (`launch.runs`).
"""

import argparse
import ast
import importlib
import importlib.metadata
import importlib.util
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch import cli
from research.contract.errors import UserError, unknown

if TYPE_CHECKING:  # so that editors complete them
    from launch.runs import Run as Run
    from launch.runs import curves as curves
    from launch.runs import show as show
    from launch.runs import train as train
    from research.use.inference.open_run import open_run as open_run

COMPARE = {
    "sweep": ["--sweep=experiments/sweeps/objectives.py", "--workdir=runs/compare"],
    "report": ["--table=experiments/tables/objectives.py", "--workdir=runs/compare"],
}
"""The commands that `compare` and `make compare` run; it takes the sweep's flags."""

GROUPS = {
    "train and compare": (
        *("train", "sweep", "table", "report", "leaderboard", "compare", "curves"),
        *("diff", "claims"),
    ),
    "score and judge": ("evaluate", "score", "similarity", "babylm", "harness"),
    "use and publish": (
        *("predict", "fill", "generate", "embed", "vectors", "serve", "export"),
        *("shrink",),
    ),
    "data": ("show", "prepare", "images", "link", "augment", "cooccurrences"),
    "hardware": (*("compile", "speed", "benchmark", "benchmark_data"),),
    "about": ("experiments", "completion"),
}
"""Topic -> its commands, in the order of the listing."""

PYTHON = {
    "open_run": "research.use.inference.open_run",
    **dict.fromkeys(("train", "show", "curves", "Run"), "launch.runs"),
}
"""Name that `import palimpsest` has -> the module that defines it."""

OF_ITSELF = {
    "compare": "Compares five objectives, as `make compare` does.",
    "experiments": "Lists the experiments and what each is.",
    "completion": "Prints a shell's completion of the commands: bash.",
}
"""Commands without a module in launch/."""

COMPLETION = """_palimpsest() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}"
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _palimpsest palimpsest
"""


def __getattr__(name: str) -> Any:
    """The names of `PYTHON` and `__version__`; only what they need is imported."""
    if name in PYTHON:
        return getattr(importlib.import_module(PYTHON[name]), name)
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'palimpsest' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *PYTHON, "__version__"])


def version() -> str:
    """The installed version, or that of setup.py if none is installed."""
    try:
        return importlib.metadata.version("palimpsest-lm")
    except importlib.metadata.PackageNotFoundError:
        text = Path(__file__).with_name("setup.py").read_text("utf-8")
        return text.split('version="')[1].partition('"')[0]


def commands() -> dict[str, str]:
    """The commands and what each does, found by listing launch/ and its commands/."""
    found = dict(OF_ITSELF)
    for package in ("launch", "launch.commands"):
        for name, tree in _modules(package):
            if any(getattr(node, "name", "") == "parser" for node in tree.body):
                found[name] = _first_line(tree)
    return dict(sorted(found.items()))


def experiments() -> dict[str, str]:
    """The experiments and what each is, found by listing experiments/."""
    found = dict(_modules("experiments"))
    return {name: _first_line(tree) for name, tree in found.items()}


def _modules(package: str) -> list[tuple[str, ast.Module]]:
    """Names and syntax trees of a package's modules; nothing is imported."""
    folders = importlib.util.find_spec(package).submodule_search_locations
    files = sorted(Path(folders[0]).glob("[!_]*.py"))
    return [(file.stem, ast.parse(file.read_text("utf-8"))) for file in files]


def _first_line(tree: ast.Module) -> str:
    return ast.get_docstring(tree).partition("\n")[0].partition(": `")[0]


def main() -> None:
    """Runs the command of the first argument."""
    arguments = sys.argv[1:]
    if _is_other_clone(Path()):
        print(
            f"palimpsest runs the installed copy in {Path(__file__).parent}, not the "
            "clone in this folder; to run the clone: pip install -e .",
            file=sys.stderr,
        )
    try:
        if not arguments or arguments[0] in ("-h", "--help", "help"):
            print(f"{__doc__}\n{_listed_by_group(commands())}")
        elif arguments[0] in ("--version", "version"):
            print(f"palimpsest {version()}")
        elif arguments[0] == "experiments":
            print(_listed(experiments()))
        elif arguments[0] == "completion":
            if arguments[1:] != ["bash"]:
                raise UserError("completion of which shell? write: completion bash")
            print(COMPLETION.format(commands=" ".join(commands())), end="")
        elif arguments[0] == "compare":
            _compare(arguments[1:])
        elif arguments[0] in commands():
            _run(arguments[0], arguments[1:])
        else:
            raise unknown("command", arguments[0], commands())
        sys.stdout.flush()
    except UserError as error:
        sys.exit(cli.print_exit(*cli.exit_code_for(error)))
    except BrokenPipeError:
        cli.leave_stdout()


def _is_other_clone(folder: Path) -> bool:
    """True if a folder is a clone whose code differs from what runs.

    Takes 0.06 s in a clone of the same code, whose files are all read.
    """
    here, names = Path(__file__).parent, ("research", "launch", "experiments")
    if not (folder / "palimpsest.py").is_file() or folder.samefile(here):
        return False

    def sources(root: Path) -> dict[Path, bytes]:
        files = [root / "palimpsest.py"]
        files += [file for name in names for file in (root / name).rglob("*.py")]
        return {file.relative_to(root): file.read_bytes() for file in files}

    return sources(folder) != sources(here)


def _compare(flags: list[str]) -> None:
    """Runs the sweep and, if it succeeds, the report."""
    sweep = [*COMPARE["sweep"], "--scale=smoke", "--parallel=2", *flags]
    try:
        _run("sweep", sweep)
    except SystemExit as end:
        if end.code:
            raise
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    known.add_argument("--workdir", action="append", default=[])
    workdirs = known.parse_known_args(flags)[0].workdir
    _run("report", [*COMPARE["report"], *(f"--workdir={each}" for each in workdirs)])


def _run(command: str, flags: list[str]) -> None:
    sys.argv = [f"palimpsest {command}", *flags]
    runpy.run_module(module_of(command), run_name="__main__")


def module_of(command: str) -> str:
    """The module that a command runs, in launch/ or in launch/commands/."""
    above = f"launch.{command}"
    is_above = importlib.util.find_spec(above)
    return above if is_above else f"launch.commands.{command}"


def _listed_by_group(lines: dict[str, str]) -> str:
    width = max(map(len, lines))
    return "\n\n".join(
        "\n".join([group, *(f"  {name:{width}}  {lines[name]}" for name in names)])
        for group, names in GROUPS.items()
    )


def _listed(lines: dict[str, str]) -> str:
    width = max(map(len, lines))
    return "\n".join(f"  {name:{width}}  {text}" for name, text in lines.items())


if __name__ == "__main__":
    main()
