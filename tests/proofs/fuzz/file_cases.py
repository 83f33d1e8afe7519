"""Whole commands on damaged runs, folders of hf:, sweeps, task files and texts, and on
outputs that are links, pipes or on a full disk.

The law: a command says what is wrong in one line, or says so on stderr and goes on, or
does what it does without the damage. What is refused leaves its output as it was.
"""

import contextlib
import functools
import io
import json
import os
import resource
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
from hypothesis import strategies as st

from launch import cli, report, sweep, table, train
from launch.commands import augment, embed, evaluate, export, fill, generate, score
from launch.measure import timing
from tests.proofs import permissions
from tests.proofs.fuzz import command
from tests.proofs.fuzz.command_cases import replaced
from tests.proofs.fuzz.damage import DAMAGES, ODD_VALUES, damage
from tests.proofs.fuzz.subjects import (
    INPUTS,
    SUBJECTS,
    copy_subject,
    damageable,
    files_of,
    flags_of,
    subjects,
)
from tests.testing import fake_sweep

MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(augment, embed, evaluate, export, fill, generate, report),
        *(score, table, train),
    )
}
"""Command -> its module; others are actions of a sweep."""

TABLE = f"--table={fake_sweep.__file__}"
FLAGS = {
    "augment": (
        *("--texts=@inputs/rows.tsv", "--fields=text", "--to=@out/new.tsv"),
        *("--vectors=@inputs/vectors.txt", "--passes=2"),
    ),
    "embed": ("--texts=@inputs/texts.txt", "--to=@out/v.npy"),
    "evaluate": (),
    "evaluate rows": ("--config.data.valid=@file", "--config.data.cache_dir=@cache"),
    "export": ("--to=@out/to",),
    "fill": ("--texts=@inputs/texts.txt",),
    "generate": ("--texts=@inputs/prompts.txt", "--max_tokens=4"),
    "score": ("--task=pairs", "--data=@inputs/pairs.jsonl"),
    "table": (TABLE,),
    "table output": (TABLE, "--output=@out/table.md"),
    "report": (TABLE,),
    "run": ("--sweep=@copy/sweep.py",),
    "run plan": ("--sweep=@copy/sweep.py", "--tasks=@copy/tasks.toml", "--dry_run"),
    "init": ("--config.train.init_from=@source",),
}
"""Command, with the subject where it has others -> its flags besides --workdir."""

START = ("data.corpus", "data.cache_dir", "data.held_out", "data.length", "train.steps")
START += ("train.batch", "train.eval_every", "optimizer.warmup_steps")
"""Keys of a run that takes its network and vocabulary from another one."""

TARGETS = {"embed": "v.npy", "export": "to", "table": "table.md", "report": "report.md"}
"""Command -> the output that is a link, a pipe and so on."""

OUTPUTS = ("link", "dangling", "pipe", "full", "unwritable", "folder", "below a file")
REFUSED = ("full", "unwritable", "folder", "below a file")
"""Of a report, links and pipes are replaced; of other commands they are written to."""


class FileCase(NamedTuple):
    """A command, and the damage of a file that it may read."""

    command: str
    subject: str  # one of SUBJECTS
    file: int  # which of the subject's files, from the first again past the last
    damage: str  # one of DAMAGES, of an output one of OUTPUTS
    position: int = 0
    value: Any = None


@st.composite
def cases(draw: st.DrawFn, subjects: Iterable[str] = SUBJECTS) -> FileCase:
    subject = draw(st.sampled_from(list(subjects)))
    return FileCase(
        draw(st.sampled_from(SUBJECTS[subject])),
        subject,
        draw(st.integers(0, 2**10)),
        draw(st.sampled_from(OUTPUTS if subject == "output" else DAMAGES)),
        draw(st.integers(0, 2**16)),
        draw(st.sampled_from(ODD_VALUES)),
    )


class Done(NamedTuple):
    """What a command has printed and written."""

    outcome: command.Outcome
    written: dict[str, bytes]


def perform(case: FileCase, file: str, folder: Path) -> Done:
    """Runs a command on the copy of a subject."""
    name, subject = case.command, case.subject
    copy, out = folder / "copy", folder / "out"
    prefix = "hf:" if subject.endswith("hf") else ""
    of_rows = name == "evaluate" and subject in INPUTS
    words = FLAGS.get(f"{name} {'rows' if of_rows else subject}") or FLAGS.get(name, ())
    names = {
        "@source": f"{prefix}{copy}",
        "@copy": copy,
        "@inputs": copy if subject in INPUTS else folder / "inputs",
        "@out": out,
        "@cache": folder / "new_cache",
        "@file": copy / file,
    }
    for old, new in names.items():
        words = [word.replace(old, str(new)) for word in words]
    workdir = out / "new" if name == "init" else copy
    words += [f"--workdir={'' if name == 'init' else prefix}{workdir}"]
    if name == "train":
        words += flags_of(folder)
    elif name == "init":
        experiment, *flags = flags_of(folder)
        kept = tuple(f"--config.{key}=" for key in START)
        words += [experiment, *(flag for flag in flags if flag.startswith(kept))]
    module = MODULES.get("train" if name == "init" else name, sweep)
    action = [name] if module is sweep else []
    before = set(files_of(copy)) if copy.is_dir() else set()
    without_right = case.damage in ("unreadable", "unwritable")
    with permissions.obeyed() if without_right else contextlib.nullcontext():
        outcome = command.run(module, [*action, *words], patches(name))
    files = {f"out/{file}": out / file for file in files_of(out)}
    new = [file for file in files_of(copy) if file not in before]
    files |= {file: copy / file for file in new if file.startswith("evaluations")}
    if name in ("train", "init"):
        files = {"metrics": workdir / "result.json"}
    compared = {n: p for n, p in files.items() if p.is_file() and p.suffix != ".md"}
    return Done(outcome, {name: _content(path) for name, path in compared.items()})


def _content(path: Path) -> bytes:
    """The content of a file; of a result, which has times, the metrics alone."""
    if path.name != "result.json":
        return path.read_bytes()
    return json.dumps(json.loads(path.read_bytes())["metrics"]).encode()


def patches(name: str) -> list[Any]:
    """Of what a command changes in its process, of standard input, and of what would
    start or end processes."""
    if name in ("stop", "resume", "run"):
        return replaced()
    return [
        mock.patch.object(jax.config, "update"),
        mock.patch("launch.cli.silence_orbax"),
        mock.patch.object(timing, "TURN_SECONDS", 0.001),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a prompt\n"))),
    ]


def _prepare(case: FileCase, folder: Path) -> Path:
    """The copy of a case's subject before the damage; empties `out`."""
    for path in (folder / "out", folder / "new_cache"):
        if path.is_file():
            path.unlink()
        shutil.rmtree(path, ignore_errors=True)
    (folder / "out").mkdir()
    copy = copy_subject(case.subject, folder)
    if case.command == "train" and case.position % 4:  # else it has ended
        (copy / "result.json").unlink(missing_ok=True)
    return copy


@functools.cache
def undamaged(name: str, subject: str, file: str, folder: Path) -> Done:
    """What the command does with the subject as it is."""
    case = FileCase(name, subject, 0, "", position=1)
    _prepare(case, folder)
    done = perform(case, file, folder)
    assert done.outcome.code in (0, None), (name, subject, done.outcome)
    return done


def check(case: FileCase, folder: Path) -> command.Outcome:
    """Runs the command on a copy with the damage."""
    subjects(folder)
    if case.subject == "output":
        return _check_output(case, folder)
    files = damageable(case.subject, folder)
    file = files[case.file % len(files)]
    own = file if case.subject in INPUTS else ""
    expected = undamaged(case.command, case.subject, own, folder)
    copy = _prepare(case, folder)
    damage(copy / file, case.damage, case.position, case.value)
    done = perform(case, file, folder)
    if case.damage == "unreadable":
        (copy / file).chmod(0o700)
    outcome = done.outcome
    is_table = case.command in ("table", "report")
    if is_table and outcome.code == cli.FAILED and not outcome.error:
        return outcome._replace(code=cli.DONE)  # a cell is empty
    if outcome.code == cli.NON_FINITE and case.command in ("train", "init"):
        outcome = outcome._replace(code=cli.MISTAKE)  # it has diverged
    problem = command.complaint(outcome, {*Path(file).parts, *_names(case, copy, file)})
    said = {*outcome.error.splitlines()} - {*expected.outcome.error.splitlines()}
    if not problem and outcome.code in (0, None) and not said:
        problem = "" if _is_free(case, file) else _difference(case, done, expected)
    assert not problem, f"{problem}\n{file}, {case}"
    return outcome


def _difference(case: FileCase, done: Done, expected: Done) -> str:
    """How what a command printed and wrote differs from what it does undamaged."""
    names = done.written.keys() | expected.written.keys()
    other = [n for n in names if done.written.get(n) != expected.written.get(n)]
    if other:
        return f"{', '.join(sorted(other))} has other content"
    output, own = done.outcome.output, expected.outcome.output
    if case.command not in ("train", "init") and output != own:
        return f"it prints {output!r}, not {own!r}"
    return ""


def _is_free(case: FileCase, file: str) -> bool:
    """Whether other content of the file may be legal, and then shows in what is made.

    Folders in Hugging Face's layout have no checksums, a log is any text, what is
    missing of a sweep leaves a cell of a table empty (which ends with 1), and a text or
    a file of tasks may say something else. What may not be read is not missing.
    """
    if case.damage == "unreadable":
        return False
    if case.subject == "sweep":
        return case.command != "table" or file.endswith(("sweep.py", "sweep.json"))
    free = case.subject.endswith("hf") or case.subject == "plan"
    return free or case.subject in INPUTS or file.endswith("log.txt")


def _names(case: FileCase, copy: Path, file: str) -> Iterator[str]:
    """What an error may name instead of the file: a folder, a config key or a flag
    that names it, or a key in it."""
    yield from ("copy", "--workdir", "data.valid", "valid", "text", "prompt")
    yield from ("train.init_from",) if case.command == "init" else ()
    with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
        if (copy / file).is_file():
            yield from json.loads((copy / file).read_bytes()).keys()


def _check_output(case: FileCase, folder: Path) -> command.Outcome:
    """Runs a command whose output is there already, and no file that may be replaced.

    A link that the user names is followed, a pipe is written to; one in a folder of
    results is replaced. What is refused leaves everything as it was.
    """
    source = "sweep" if case.command in ("table", "report") else "run"
    expected = undamaged(case.command, source, "", folder)
    copy = _prepare(case._replace(subject=source), folder)
    of_report, is_folder = case.command == "report", case.command == "export"
    target = (copy if of_report else folder / "out") / TARGETS[case.command]
    own = folder / "own"
    shutil.rmtree(own, ignore_errors=True)
    (own / "empty").mkdir(parents=True)
    (own / "file").write_text("precious")
    with contextlib.ExitStack() as stack:
        match case.damage:
            case "link":
                target.symlink_to(own / ("empty" if is_folder else "file"))
            case "dangling":
                target.symlink_to(own / "new")
            case "pipe":
                os.mkfifo(target)
                stack.callback(os.close, os.open(target, os.O_RDONLY | os.O_NONBLOCK))
            case "full":
                target.mkdir() if is_folder else target.write_text("earlier")
                stack.enter_context(_full_disk())
            case "unwritable":
                target.parent.chmod(0o555)
                stack.callback(target.parent.chmod, 0o755)
            case "folder":
                target.mkdir()
                (target / "file").write_text("precious")
            case "below a file" if of_report:
                target.symlink_to(target)
            case "below a file":
                shutil.rmtree(target.parent)
                target.parent.write_text("precious")
        before = _tree(target.parent) | _tree(own)
        outcome = perform(case, "", folder).outcome
    after = _tree(target.parent) | _tree(own)
    changed = [p for p in before | after if before.get(p) != after.get(p)]
    problem = ""
    if outcome.code:
        lost = [p for p in changed if not of_report or p == str(target)]
        problem = f"refused, but changed {lost}" if lost else ""
    elif of_report:
        is_lost = (own / "file").read_bytes() != b"precious"
        problem = "it wrote where a link leads" if is_lost else ""
    elif case.damage in REFUSED:
        problem = "it was accepted"
    elif case.damage == "pipe":
        problem = "the pipe was replaced" if changed else ""
    elif not target.is_symlink():
        problem = "the link was replaced"
    elif not is_folder and target.read_bytes() != expected.written.get(
        f"out/{target.name}", target.read_bytes()
    ):
        problem = "the file has other content"
    names = {target.name, target.parent.name, "--to", "--output", "new", "empty"}
    problem = problem or command.complaint(outcome, names)
    assert not problem, f"{problem}\n{case}"
    return outcome


@contextlib.contextmanager
def _full_disk() -> Iterator[None]:
    """No file may have more than 100 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _tree(folder: Path) -> dict[str, Any]:
    """What is in a folder: links, pipes and contents by path."""
    if not folder.is_dir():
        return {str(folder): folder.read_bytes()}
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path)] = ("link", os.readlink(path))
        elif path.is_file():
            found[str(path)] = path.read_bytes()
        else:
            found[str(path)] = "folder" if path.is_dir() else "pipe"
    return found
