"""Command lines: any flags of any command, with values that make sense or do not."""

import argparse
import contextlib
import io
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import jax
from etils import epath
from hypothesis import strategies as st

from launch import report, sweep, table, train
from launch.backends import submit
from launch.backends.backend import FOLDER
from launch.commands import (
    augment,
    benchmark,
    benchmark_data,
    compile,
    diff,
    embed,
    evaluate,
    export,
    fill,
    generate,
    prepare,
    score,
    speed,
)
from launch.sweeps import sweep_plan
from launch.sweeps.trial import Trial
from research.evaluation.score_tasks import task_lines
from tests.proofs.fuzz import command, values
from tests.proofs.fuzz.config_cases import (
    EXPERIMENTS,
    KEYS,
    ROOT,
    keys_of,
    objective_of,
)
from tests.testing import fake_sweep

COMMANDS = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        train,
        sweep,
        table,
        report,
        prepare,
        compile,
        benchmark,
        benchmark_data,
        speed,
        evaluate,
        export,
        score,
        generate,
        embed,
        fill,
        diff,
        augment,
    )
}
LONG = (
    "research.train.build_phases",
    "research.distributed.cluster.join_cluster",
    "launch.commands.prepare.open_run_data",
    "launch.backends.scheduler.Scheduler.run",
    "launch.measure.aot_compile.build_program",
    "launch.measure.mesh_search.search",
    "launch.commands.benchmark.measure",
    "launch.commands.benchmark_data.open_run_data",
    "launch.commands.speed.measure",
    "os.kill",
)
"""What takes long: a command that comes to it has accepted its flags."""

USER_FILES = {
    "raises.py": "raise RuntimeError('no')\n",
    "syntax.py": "def f(:\n",
    "binary.py": "\0",
    "empty.py": "",
    "exits.py": "import sys\nsys.exit(0)\n",
    "nothing.py": "def sweep(scale): pass\ndef get_config(): pass\nTABLE = None\n",
    "arguments.py": "def sweep(): return []\ndef get_config(a, b): pass\nTABLE = 1\n",
    "values.py": "sweep = get_config = 3\nTABLE = 'x'\n",
    "items.py": "def sweep(scale):\n    yield 'experiments/lm.py'\n",
    "late.py": "def sweep(scale):\n    yield 'experiments/lm.py', {}\n    1 / 0\n"
    "def get_config():\n    return {}['x']\n",
    "unknown.py": "def sweep(scale):\n    yield 'experiments/x.py', {'seed': {}}\n",
    "endless.py": "import itertools\n\ndef sweep(scale):\n"
    "    return (('experiments/lm.py', {'seed': n}) for n in itertools.count())\n",
    "itself.py": "own = {}\nown['train.init_from'] = ('experiments/lm.py', own)\n"
    "def sweep(scale):\n    yield 'experiments/lm.py', own\n",
    "list.py": "own = ['train']\nown.append(own)\n"
    "def sweep(scale):\n    yield 'experiments/lm.py', {'train.frozen': own}\n",
    "none.py": "def sweep(scale):\n    yield 'experiments/lm.py', {'seed': None}\n",
    "config.py": "from ml_collections import ConfigDict\n"
    "def get_config():\n    return ConfigDict({'seed': 1, 'objective': 3})\n",
    "rows.py": "from launch.reports.tables import *\n"
    "TABLE = Table('t', 'r', 'n', lambda trials: None, (Column('c', 'g', 'steps'),))\n",
    "column.py": "from launch.reports.tables import *\n"
    "def rows(trials):\n    return {'$x^$ | <b>': {'g': trials[:1]}}\n"
    "TABLE = Table('t', 'r', 'n', rows, (Column('c', 'g', lambda t: t.x),))\n",
    "text.py": "from launch.reports.tables import *\n"
    "def rows(trials):\n    return {'$x^$ | <b>': {'g': trials[:1]}}\n"
    "TABLE = Table('t', 'r', 'n', rows, (Column('c', 'g', 'provenance.commit'),))\n",
    "fine.py": "from launch.reports.tables import *\n"
    "def rows(trials):\n    return {'$x^$ | <b>': {'g': trials[:1]}}\n"
    "TABLE = Table('$t^$', 'r', 'n', rows, (Column('$c_', 'g', 'steps'),),\n"
    "    curves=(Curve('$x_', 'g', ('valid/loss', '$y^')),), bars=('$c_',))\n",
}
"""Files of experiments, sweeps and tables, most of which are wrong."""


class CommandCase(NamedTuple):
    """A command and its words; `@/` begins a path in the folder of the cases."""

    command: str
    words: tuple[str, ...]


files = st.sampled_from(
    [f"@/{name}" for name in USER_FILES]
    + ["experiments/mlm.py", "experiments/bert.py:tiny", "experiments/bert.py:x"]
    + ["experiments/sweeps/objectives.py", "experiments/tables/objectives.py"]
    + ["@/folder.py", "@/dangling.py", "@/sweep/sweep.py", fake_sweep.__file__]
)
workdirs = st.sampled_from(
    [f"@/{name}" for name in ("sweep", "new", "late.py", "late.py/x", "x" * 300)]
    + [f"@/{name}" for name in ("dangling.py", "circle", "folder.py", "sweep/x/y")]
    + ["/proc/x/y", ""]
)
PLACES = ("", ":x", "://x")
VALUES = {
    "config": st.one_of(files, st.sampled_from(EXPERIMENTS)),
    "sweep": files,
    "table": files,
    "workdir": workdirs,
    "output": workdirs,
    "to": workdirs | st.sampled_from(["@/a.jsonl", "@/a.npy", "@/late.py/a.jsonl"]),
    "texts": files,
    "data": files,
    "task": st.sampled_from([*task_lines(), "x"]),
    "topology": st.sampled_from(["cpu:1", "cpu:0", "cpu:99999999999", "v5e:4x4", "x"]),
    "on": st.sampled_from([f"{n}{at}" for n in (*FOLDER.names(), "x") for at in PLACES])
    | st.just(":"),
    "scale": st.sampled_from(["smoke", "small", "paper", "x"]),
    "slice": st.sampled_from(["v5e:4x4", "v5e", "v5e:4x4x4", "x:1", ":", "v4:0x0x0"]),
    "format": st.sampled_from(["md", "tex", "csv", "html", "x"]),
}
"""Flag -> values that it may have, besides any other."""

SOUND_VALUES = {
    "config": st.sampled_from(["experiments/mlm.py", "experiments/bert.py:tiny"]),
    "sweep": st.just("experiments/sweeps/objectives.py"),
    "table": st.sampled_from(["@/fine.py", fake_sweep.__file__]),
    "workdir": st.sampled_from(["@/sweep", "@/new"]),
    "output": st.just("@/new"),
    "to": st.just("@/a.jsonl"),
    "topology": st.just("cpu:1"),
    "on": st.just("local"),
    "scale": st.just("smoke"),
    "format": st.sampled_from(["md", "csv"]),
}
"""Flag -> values with which a command can go on; every second case has them."""


@st.composite
def cases(draw: st.DrawFn) -> CommandCase:
    name = draw(st.sampled_from(list(COMMANDS)))
    sound = draw(st.booleans())
    words, chosen = [], []
    if name == "sweep":
        actions = [*sweep.ACTIONS, "", "", "", "x"]
        words += filter(None, [draw(st.sampled_from(actions))])
    flags = [f for f in COMMANDS[name].parser()._actions if f.dest != "help"]
    chosen = [
        f for f in flags if f.required and (sound or draw(st.integers(0, 19)) < 19)
    ]
    if name == "sweep" and not words:
        chosen += [flag for flag in flags if flag.dest == "sweep"]
    chosen += draw(st.lists(st.sampled_from(flags), max_size=1 if sound else 3))
    for flag in chosen:
        words += draw(_flag_words(flag, sound))
    for key in draw(st.lists(st.sampled_from(list(KEYS)), max_size=1 - sound)):
        words.append(f"--config.{key}={draw(values.value_of(KEYS[key]))}")
    if not sound and draw(st.integers(0, 19)) == 19:
        words.append(draw(values.texts))
    return CommandCase(name, tuple(words))


@st.composite
def _flag_words(draw: st.DrawFn, flag: argparse.Action, sound: bool) -> list[str]:
    odd = not sound and draw(st.integers(0, 9)) == 9
    if flag.nargs == "*":  # texts after the flags
        return draw(st.lists(values.texts, max_size=2 + odd))
    if not flag.option_strings:
        return draw(st.lists(workdirs, min_size=flag.nargs - odd, max_size=flag.nargs))
    name, *_ = flag.option_strings
    if flag.nargs == 0:
        return [name + "=x" * odd]
    number = values.numbers if flag.type in (int, float) else values.anything
    usual = VALUES.get(flag.dest, number)
    usual = SOUND_VALUES.get(flag.dest, usual) if sound else usual
    odd_values = values.words if flag.dest in ("workdir", "output") else values.anything
    value = draw(odd_values if odd else usual)
    return [name, value] if draw(st.booleans()) else [f"{name}={value}"]


def make_files(folder: Path) -> None:
    """Makes a folder of the files that cases name."""
    folder.mkdir()
    for name, text in USER_FILES.items():
        (folder / name).write_text(text)
    (folder / "folder.py").mkdir()
    (folder / "dangling.py").symlink_to(folder / "nowhere")
    (folder / "circle").symlink_to(folder / "circle")
    (folder / "experiments").symlink_to(ROOT / "experiments")
    finished_sweep(folder / "sweep")


def finished_sweep(workdir: Path) -> list[Trial]:
    """Makes a sweep whose trials have results."""
    workdir.mkdir()
    trials = fake_sweep.finished(workdir)
    flags = submit.read_flags(sweep.parser().parse_args(["--workdir=x"]))
    header = {"sweep": "sweep.py", "scale": "smoke", "round": 1}
    sweep_plan.write_plan(trials, epath.Path(workdir), **header, **flags)
    return trials


def check(case: CommandCase, folder: Path) -> command.Outcome:
    """Runs the command up to what takes long; errors name a flag or a file."""
    files, copy = folder / "files", folder / "copy"
    if not files.exists():
        make_files(files)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(files, copy, symlinks=True)
    words = [word.replace("@", str(copy)) for word in case.words]
    module: ModuleType = COMMANDS[case.command]
    with contextlib.chdir(copy):
        outcome = command.run(module, words, replaced())
    problem = command.complaint(outcome, _names(words, module))
    assert not problem, f"{problem}\n{case}"
    return outcome


def replaced(*kept_names: str) -> list[Any]:
    """Patches of what takes long, but for some names, and of what changes a process."""
    names = [name for name in LONG if name not in kept_names]
    stopped = [mock.patch(name, command.stop_here) for name in names]
    kept = [
        mock.patch.object(jax.config, "update"),
        mock.patch("launch.cli.silence_orbax"),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a prompt\n"))),
    ]
    return [*stopped, *kept]


def _unset(experiment: str) -> set[str]:
    """The keys that an experiment leaves to be set: files that are needed."""
    keys = keys_of(objective_of(experiment))
    return {key for key, field in keys.items() if field.metadata.get("needed")}


def _names(words: list[str], module: ModuleType) -> set[str]:
    """Flags, and what they were given, of which an error names one."""
    given = {part for word in words for part in (word, *word.split("=", 1))}
    actions = module.parser()._actions
    flags = {[*action.option_strings, action.metavar][0] for action in actions}
    keys = {name.removeprefix("--config.") for name in given}
    given |= {repr(each) for each in given} | {each.split(":")[0] for each in given}
    keys |= {key for part in given if part in EXPERIMENTS for key in _unset(part)}
    names = given | flags | keys | {name.rpartition(".")[2] for name in keys}
    return {name for name in names if name.strip()} | {"flag", "action"}
