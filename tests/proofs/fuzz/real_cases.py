"""Whole commands on damaged runs, hf: folders, sweeps, task files, seqio tasks, and on
outputs that are links, pipes or on a full disk: nothing stands for the loop, the data
or the model.

The law: a command says what is wrong in one line, or says so on stderr and goes on, or
does what it does without the damage. Where other content is legal (a value of an hf:
config, a text), the case says which damages have to be told. An output appears whole,
and what was there stays where it does not.
"""

import contextlib
import functools
import io
import json
import os
import random
import re
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from hypothesis import strategies as st

from launch import cli, report, sweep, table, train
from launch.commands import (
    augment,
    embed,
    evaluate,
    export,
    fill,
    generate,
    score,
    shrink,
)
from launch.measure import timing
from research.distributed.file_lock import file_lock
from research.files.checksums import write_checksums
from tests.proofs import permissions
from tests.proofs.fuzz import command, wrong_inputs
from tests.proofs.fuzz.command_cases import replaced
from tests.proofs.fuzz.damage import DAMAGES, ODD_VALUES, damage
from tests.proofs.fuzz.subjects import (
    INPUTS,
    MODULE,
    SUBJECTS,
    copy_subject,
    damageable,
    files_of,
    flags_of,
    importable,
    subjects,
)
from tests.testing import fake_sweep

MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(augment, embed, evaluate, export, fill, generate, report),
        *(score, shrink, sweep, table, train),
    )
}
TABLE = f"--table={fake_sweep.__file__}"
EVALUATED = ("--config.data.valid=@copy/@file", "--config.data.cache_dir=@cache")
"""Of a new cache: what is left out of a file is told when it is first read."""
WORDS = {
    "augment": (
        *("--texts=@inputs/rows.tsv", "--fields=text", "--to=@out/new.tsv"),
        *("--vectors=@inputs/vectors.txt", "--passes=2"),
    ),
    "embed": ("--texts=@inputs/texts.txt", "--to=@out/v.npy"),
    "evaluate": (),
    "evaluate corpus": EVALUATED,
    "evaluate rows": EVALUATED,
    "evaluate words": EVALUATED,
    "evaluate questions": EVALUATED,
    "export": ("--to=@out/to",),
    "fill": ("--texts=@inputs/texts.txt",),
    "fill outputs": ("--texts=@inputs/texts.txt", "--to=@out/texts.jsonl"),
    "generate": ("--texts=@inputs/prompts.txt", "--max_tokens=4"),
    "score": ("--task=pairs", "--data=@inputs/pairs.jsonl"),
    "shrink": ("--recipe=layers", "--layers=0", "--to=@out/to"),
    "table": (TABLE,),
    "table reports": (TABLE, "--output=@out/table.md"),
    "report": (TABLE,),
    "run": ("--sweep=@copy/sweep.py",),
    "run plan": ("--sweep=@copy/sweep.py", "--tasks=@copy/tasks.toml", "--dry_run"),
    "train": (),
    "init": ("--config.train.init_from=@source",),
    "status": (),
    "logs": (),
    "stop": (),
    "resume": (),
}
"""Command, and the subject where it has others -> its flags."""

START = ("data.corpus", "data.cache_dir", "data.held_out", "data.length", "train.steps")
START += ("train.batch", "train.eval_every", "optimizer.warmup_steps")
"""Keys of a run that takes its network and vocabulary from another one."""

TARGETS = {
    "augment": "new.tsv",
    "embed": "v.npy",
    "fill": "texts.jsonl",
    "export": "to",
    "shrink": "to",
    "table": "table.md",
    "report": "report.md",
}
"""Command -> the output that is a link, a pipe and so on."""

OUTPUTS = ("link", "dangling", "pipe", "full", "unwritable", "folder", "below a file")
OWN_DAMAGES = {
    "run": ("edited key", "not a number"),
    "causal": ("edited key", "not a number"),
    "hf": ("wrong key", "wrong weights", "wrong tokenizer"),
    "sweep": ("not a number",),
    "plan": ("wrong line",),
    "seqio": ("wrong module", "wrong module", "same"),
    **{subject: ("wrong", "wrong", "same") for subject in INPUTS if subject != "seqio"},
}
"""Subject -> damages that have to be told, or, where they are the `same`, not."""

CARD = "README.md"
"""A file of an export that has lines of logs."""


class RealCase(NamedTuple):
    """A command, and the damage of a file that it may read."""

    command: str
    subject: str  # one of SUBJECTS
    file: int  # which of the subject's files, from the first again past the last
    damage: str  # see `damage.damage`, OWN_DAMAGES and OUTPUTS
    position: int
    value: Any


@st.composite
def cases(draw: st.DrawFn, subjects: Iterable[str] = SUBJECTS) -> RealCase:
    subject = draw(st.sampled_from(list(subjects)))
    how = OUTPUTS if subject in ("outputs", "reports") else DAMAGES
    if subject in OWN_DAMAGES and draw(st.booleans()):
        how = OWN_DAMAGES[subject]
    return RealCase(
        draw(st.sampled_from(SUBJECTS[subject])),
        subject,
        draw(st.integers(0, 2**10)),
        draw(st.sampled_from(how)),
        draw(st.integers(0, 2**16)),
        draw(st.sampled_from(ODD_VALUES)),
    )


def every_damage(rng: random.Random, folder: Path) -> Iterator[RealCase]:
    """A case for each file and damage, by one of the commands that read it."""
    for subject, commands in SUBJECTS.items():
        is_output = subject in ("outputs", "reports")
        ways = OUTPUTS if is_output else DAMAGES + OWN_DAMAGES.get(subject, ())
        files = [""] if is_output else damageable(subject, folder)
        for number in range(len(files)):
            for how in ways:
                at, value = rng.randrange(2**16), rng.choice(ODD_VALUES)
                yield RealCase(rng.choice(commands), subject, number, how, at, value)


class Done(NamedTuple):
    """What a command has printed and written."""

    outcome: command.Outcome
    written: dict[str, bytes]


def perform(case: RealCase, file: str, folder: Path) -> Done:
    """Runs a command on the copy of a subject."""
    name, subject = case.command, case.subject
    copy, out, workdir = folder / "copy", folder / "out", folder / "copy"
    if name == "init":
        workdir = out / "new"
    inputs = copy if subject in INPUTS else folder / "inputs"
    prefix = "hf:" if subject.endswith("hf") else ""
    words = list(WORDS.get(f"{name} {subject}") or WORDS[name])
    for old, new in {
        "@source": f"{prefix}{copy}",
        "@copy": str(copy),
        "@inputs": str(inputs),
        "@out": str(out),
        "@cache": str(folder / "new_cache"),
        "@file": file,
    }.items():
        words = [word.replace(old, new) for word in words]
    words += [f"--workdir={'' if name == 'init' else prefix}{workdir}"]
    if name == "train":
        words += flags_of(folder, subject)
    elif name == "init" or (name == "shrink" and prefix):
        experiment, *flags = flags_of(folder, subject)
        kept = tuple(f"--config.{key}=" for key in START)
        words += [flag for flag in flags if flag.startswith(kept)]
        words += [experiment] if name == "init" else []
    module: ModuleType = MODULES.get("train" if name == "init" else name, sweep)
    before = set(files_of(copy)) if copy.is_dir() else set()
    with contextlib.ExitStack() as stack:
        if subject == "seqio":
            stack.enter_context(importable(copy))
        if case.damage in ("unreadable", "unwritable"):
            stack.enter_context(permissions.obeyed())
        driver = copy / "driver.json"
        if name == "status" and "driver" in file and driver.is_file():
            stack.enter_context(file_lock(driver))  # as if it were running
        outcome = command.run(
            module, [*([name] if module is sweep else []), *words], patches(name)
        )
    files = {f"out/{file}": out / file for file in files_of(out)}
    new = [file for file in files_of(copy) if file not in before]
    files |= {file: copy / file for file in new if file.startswith("evaluations")}
    if name in ("train", "init"):
        files = {"metrics": workdir / "result.json"}
    elif name == "shrink":
        files = {"networks": out / "to" / shrink.FILE}
    compared = {n: p for n, p in files.items() if p.is_file() and p.name != CARD}
    return Done(outcome, {name: _content(path) for name, path in compared.items()})


def _content(path: Path) -> bytes:
    """The content of a file; of a result and of what shrink.json has of networks the
    metrics alone: they have times, too."""
    if path.name not in ("result.json", shrink.FILE):
        return path.read_bytes()
    content = json.loads(path.read_bytes())
    results = [content] if path.name == "result.json" else content["networks"]
    metrics = [result["metrics"] for result in results]
    return json.dumps(metrics, sort_keys=True).encode()


def patches(name: str) -> list[Any]:
    """Of what a command changes in its process, and standard input; and of what would
    start or end processes."""
    if name in ("stop", "resume", "run"):
        return replaced()
    stdin = io.TextIOWrapper(io.BytesIO(b"a prompt\n"))
    return [
        mock.patch.object(jax.config, "update"),
        mock.patch("launch.cli.silence_orbax"),
        mock.patch.object(timing, "TURN_SECONDS", 0.001),
        mock.patch("sys.stdin", stdin),
    ]


def _prepare(case: RealCase, folder: Path) -> Path:
    """The copy of a case's subject before the damage; empties `out`."""
    out = folder / "out"
    if out.is_file():
        out.unlink()
    for path in (out, folder / "new_cache"):
        shutil.rmtree(path, ignore_errors=True)
    out.mkdir()
    copy = copy_subject(case.subject, folder)
    has_ended = case.damage in DAMAGES and case.position % 4 == 0
    if case.command == "train" and not has_ended:
        (copy / "result.json").unlink(missing_ok=True)
    return copy


@functools.cache
def undamaged(name: str, subject: str, file: str, folder: Path) -> Done:
    """What the command does with the subject as it is."""
    case = RealCase(name, subject, 0, "", 1, None)
    _prepare(case, folder)
    done = perform(case, file, folder)
    assert done.outcome.code in (0, None), (name, subject, done.outcome)
    return done


def check(case: RealCase, folder: Path) -> command.Outcome:
    """Runs the command on a copy with the damage."""
    subjects(folder)
    files = damageable(case.subject, folder)
    file = files[case.file % len(files)]
    expected = undamaged(
        case.command, case.subject, file if case.subject in INPUTS else "", folder
    )
    copy = _prepare(case, folder)
    if case.damage in OUTPUTS and case.subject in ("outputs", "reports"):
        return _check_output(case, copy, folder, expected)
    if case.damage in DAMAGES:
        damage(copy / file, case.damage, case.position, case.value)
    else:
        file = WAYS[case.damage](case, copy, file) or file
    done = perform(case, file, folder)
    if case.damage == "unreadable":
        (copy / file).chmod(0o700)
    outcome = done.outcome
    is_table = case.command in ("table", "report")
    has_empty_cell = outcome.code == cli.FAILED and not outcome.error
    if is_table and has_empty_cell and case.damage != "unreadable":
        return outcome._replace(code=cli.DONE)
    if outcome.code == cli.NON_FINITE and case.command in ("train", "init"):
        outcome = outcome._replace(code=cli.MISTAKE)  # it has diverged
    names = {*Path(file).parts, *_names(copy, file), *_keys_of(case)}
    problem = command.complaint(outcome, names)
    said = {*outcome.error.splitlines()} - {*expected.outcome.error.splitlines()}
    is_told = outcome.code not in (0, None) or bool(said)
    diverged = case.damage == "not a number" and case.subject == "sweep"
    must_tell = case.damage not in (*DAMAGES, "same") and not diverged
    if not problem and must_tell and not is_told:
        problem = "it was accepted"
    if not problem and diverged:  # a state of its trial: it blocks no other one
        problem = outcome.error if outcome.code else ""
    elif not problem and case.damage == "same":
        problem = outcome.error if outcome.code else _difference(case, done, expected)
    elif not problem and not is_told and not _is_free(case, file):
        problem = _difference(case, done, expected)
    assert not problem, f"{problem}\n{file}, {case}"
    return outcome


def _difference(case: RealCase, done: Done, expected: Done) -> str:
    """How what a command printed and wrote differs from what it does undamaged."""
    given, own = done.outcome.output, expected.outcome.output
    if case.damage == "same":  # its folder is named by a hash of the file
        given, own = (_without_folders(text) for text in (given, own))
    elif done.written != expected.written:
        names = done.written.keys() | expected.written.keys()
        other = [n for n in names if done.written.get(n) != expected.written.get(n)]
        return f"{', '.join(sorted(other))} has other content"
    if case.command == "shrink":  # it prints times
        given, own = (_without_figures(text) for text in (given, own))
    if case.command not in ("train", "init") and given != own:
        return f"it prints {given!r}, not {own!r}"
    return ""


def _without_figures(text: str) -> str:
    """The words of a text, and where its figures are, in columns of any width."""
    return " ".join(re.sub(r"\d+\.\d+", "0", text).split())


def _without_folders(text: str) -> str:
    return "".join(line for line in text.splitlines(True) if "/copy/" not in line)


def _is_free(case: RealCase, file: str) -> bool:
    """Whether other content of the file may be legal, and then shows in what is made.

    Folders in Hugging Face's layout have no checksums, a log is any text, what is
    missing of a sweep leaves a cell of a table empty (which ends with 1), and a text or
    a file of tasks may say something else. What may not be read is not missing.
    """
    if case.damage in ("same", "unreadable"):
        return False
    if case.subject == "sweep":
        return case.command != "table" or file.endswith(("sweep.py", "sweep.json"))
    free = case.subject.endswith("hf") or case.subject == "plan"
    return free or case.subject in INPUTS or file.endswith("log.txt")


def _names(copy: Path, file: str) -> Iterator[str]:
    """What an error may name instead of the file: its folder, or a key in it."""
    yield from (copy.name, "copy", "--workdir")
    with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
        if (copy / file).is_file():
            yield from json.loads((copy / file).read_bytes()).keys()


def _keys_of(case: RealCase) -> tuple[str, ...]:
    """The config keys that name what is damaged, for an error to name."""
    if case.subject == "seqio":
        return ("data.task", MODULE)
    if case.subject in ("corpus", "rows", "words", "questions"):
        return ("data.valid", "valid")
    if case.subject in ("texts", "prompts"):
        return ("text", "prompt")
    return ("train.init_from",) if case.command == "init" else ()


# The damages that have to be told: each returns the file's name if it is another.


def _wrong(case: RealCase, copy: Path, file: str) -> None:
    """A wrong line in a task's file, or another content."""
    path, at = copy / file, case.position
    lines = wrong_inputs.WRONG_LINES.get(file, ())
    contents = wrong_inputs.WRONG_CONTENTS.get(file, ())
    number = case.file // 7 % (len(lines) + len(contents))
    if number >= len(lines):
        path.write_bytes(contents[number - len(lines)]())
        return
    kept = path.read_bytes().split(b"\n")
    least = int(file.endswith((".csv", ".tsv")))  # behind the header
    kept.insert(least + at % (len(kept) - least), lines[number])
    path.write_bytes(b"\n".join(kept))


def _same(case: RealCase, copy: Path, file: str) -> None:
    """Another spelling of the same content."""
    path = copy / file
    if ways := wrong_inputs.SAME.get(file, ()):
        path.write_bytes(ways[case.position % len(ways)](path.read_bytes()))


def _wrong_toml_line(case: RealCase, copy: Path, file: str) -> str:
    path = copy / "tasks.toml"
    line = wrong_inputs.WRONG_TOML[case.position % len(wrong_inputs.WRONG_TOML)]
    text = path.read_text()
    if line.startswith(("data.train", "train.steps")) and "\n" not in line:
        key = line.split(" ")[0]
        old = next(each for each in text.splitlines() if each.startswith(key))
        path.write_text(text.replace(old, line))
    else:
        path.write_text(f"{text}{line}\n")
    return path.name


def _wrong_module(case: RealCase, copy: Path, file: str) -> None:
    path = copy / file
    wrong = [(old, new) for old, new, _ in wrong_inputs.WRONG_MODULES.values()]
    wrong += wrong_inputs.WRONG_TASKS.values()
    old, new = wrong[case.position % len(wrong)]
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def _wrong_key(case: RealCase, copy: Path, file: str) -> str:
    path = copy / "config.json"
    content = json.loads(path.read_bytes())
    values = wrong_inputs.WRONG_VALUES.items()
    pairs = [(key, value) for key, own in values for value in own]
    key, value = pairs[case.position % len(pairs)]
    path.write_text(json.dumps(content | {key: value}))
    return path.name


def _wrong_tokenizer(case: RealCase, copy: Path, file: str) -> str:
    path = copy / "tokenizer.json"
    contents = wrong_inputs.wrong_tokenizers(json.loads(path.read_bytes()))
    path.write_text(json.dumps(contents[case.position % len(contents)]))
    return path.name


def _edited_key(case: RealCase, copy: Path, file: str) -> str:
    """A value of a run's config that may be legal, but is not the run's."""
    path = copy / "config.json"
    content = json.loads(path.read_bytes())
    sections = wrong_inputs.EDITED_VALUES.items()
    found = [
        (name, key, value)
        for name, keys in sections
        for key, value in keys.items()
        if content[name].get(key) != value
    ]
    section, key, value = found[case.position % len(found)]
    content[section][key] = value
    path.write_text(json.dumps(content))
    return path.name


def _not_a_number(case: RealCase, copy: Path, file: str) -> str:
    """Of a run a parameter, of a sweep a metric of a trial: what training left that
    diverged."""
    if case.subject == "sweep":
        results = sorted(copy.glob("*/result.json"))
        folder = results[case.file % len(results)].parent
        result = json.loads((folder / "result.json").read_bytes())
        result.pop("digest")
        name = sorted(result["metrics"])[-1]
        result["metrics"][name] = float("nan")
        from research.record.workdir import write_result

        write_result(epath.Path(folder), result)
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        last = json.loads(lines[-1]) | {name: float("nan")}
        text = "\n".join([*lines[:-1], json.dumps(last), ""])
        (folder / "metrics.jsonl").write_text(text)
        return folder.name
    steps = sorted((copy / "checkpoints").iterdir(), key=lambda path: int(path.name))
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
        params = checkpointer.restore(steps[-1] / "params")
        leaves, tree = jax.tree.flatten(jax.tree.map(np.array, params))
        leaf = leaves[case.file % len(leaves)]
        leaf.flat[case.position % leaf.size] = (np.nan, np.inf)[case.position % 2]
        shutil.rmtree(steps[-1] / "params")
        checkpointer.save(steps[-1] / "params", jax.tree.unflatten(tree, leaves))
    (steps[-1] / "checksums.json").unlink()
    write_checksums(epath.Path(steps[-1]))
    return steps[-1].name


def _wrong_weights(case: RealCase, copy: Path, file: str) -> str:
    from safetensors.numpy import load_file, save_file

    path, at = copy / "model.safetensors", case.position
    tensors = load_file(path)
    name = sorted(tensors)[at % len(tensors)]
    array = tensors[name]
    match case.file % 4:
        case 0:
            array.flat[at % array.size] = float("nan")
        case 1:
            array = array.astype("int32")
        case 2:
            array = array[..., :-1].copy()
        case 3:
            array = array[None]
    save_file(tensors | {name: array}, path, metadata={"format": "pt"})
    return path.name


WAYS: dict[str, Callable[[RealCase, Path, str], str | None]] = {
    "wrong": _wrong,
    "same": _same,
    "wrong line": _wrong_toml_line,
    "wrong module": _wrong_module,
    "wrong key": _wrong_key,
    "edited key": _edited_key,
    "not a number": _not_a_number,
    "wrong weights": _wrong_weights,
    "wrong tokenizer": _wrong_tokenizer,
}


# Outputs


def _check_output(
    case: RealCase, copy: Path, folder: Path, expected: Done
) -> command.Outcome:
    """Runs a command whose output is there already, and no file that may be replaced.

    A link that the user names is followed, a pipe is written to; one in a folder of
    results is replaced. What is refused leaves everything as it was.
    """
    of_report = case.command == "report"
    is_folder = case.command in ("export", "shrink")
    target = (copy if of_report else folder / "out") / TARGETS[case.command]
    own = folder / "own"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    (own / "file").write_text("precious")
    (own / "empty").mkdir()
    reader = -1
    with contextlib.ExitStack() as stack:
        match case.damage:
            case "link":
                target.symlink_to(own / ("empty" if is_folder else "file"))
            case "dangling":
                target.symlink_to(own / "new")
            case "pipe":
                os.mkfifo(target)
                reader = os.open(target, os.O_RDONLY | os.O_NONBLOCK)
                stack.callback(os.close, reader)
            case "full":
                target.mkdir() if is_folder else target.write_text("earlier")
                stack.enter_context(_full_disk())
            case "unwritable":
                target.parent.chmod(0o555)
                stack.callback(target.parent.chmod, 0o755)
            case "folder":
                target.mkdir()
                (target / "file").write_text("precious")
            case "below a file":
                target = _below_a_file(case, target)
        before = _tree(target.parent) | _tree(own)
        outcome = perform(case, "", folder).outcome
        received = os.read(reader, 2**16) if reader >= 0 else b""
    after = _tree(target.parent) | _tree(own)
    changed = [p for p in before | after if before.get(p) != after.get(p)]
    is_written = (own / "file").read_bytes() != b"precious"
    content = expected.written.get(f"out/{target.name}")
    problem = ""
    if outcome.code != 0:
        lost = [p for p in changed if not of_report or p == str(target)]
        problem = f"refused, but changed {lost}" if lost else ""
    elif of_report:
        problem = "it wrote where a link leads" if is_written else ""
    elif case.damage == "pipe":
        replaced_it = received != content or changed
        problem = "the pipe was replaced" if replaced_it else ""
    elif case.damage in ("link", "dangling"):
        if not target.is_symlink():
            problem = "the link was replaced"
        elif not is_folder and target.read_bytes() != content:
            problem = "the file has other content"
    else:
        problem = "it was accepted"
    names = {target.name, target.parent.name, "--to", "--output", "new", "empty"}
    problem = problem or command.complaint(outcome, names)
    assert not problem, f"{problem}\n{case}"
    return outcome


def _below_a_file(case: RealCase, target: Path) -> Path:
    """Makes the folder of the output a file, or, of a report's, its output a link to
    itself."""
    if case.command == "report":
        target.symlink_to(target)
        return target
    shutil.rmtree(target.parent)
    target.parent.write_text("precious")
    return target


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
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path)] = ("link", os.readlink(path))
        elif path.is_file():
            found[str(path)] = path.read_bytes()
        else:
            found[str(path)] = "folder" if path.is_dir() else "pipe"
    return found
