"""Whole commands on damaged runs, hf: folders and task files: nothing stands for the
loop, the data or the model.

The law: a command says what is wrong in one line, or says so on stderr and goes on, or
does what it does without the damage. Where other content is legal (a value of an hf:
config, a text), the case says which damages have to be told.
"""

import contextlib
import functools
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import jax
from hypothesis import strategies as st

from launch import embed, evaluate, export, fill, generate, report, score, sweep, table
from tests.proofs.fuzz import command
from tests.proofs.fuzz.command_cases import finished_sweep
from tests.proofs.fuzz.damage import DAMAGES, ODD_VALUES, damage
from tests.testing import fake_sweep, tiny_runs

MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (embed, evaluate, export, fill, generate, report, score, sweep, table)
}
WORDS = {
    "embed": ("--texts=@/texts.txt", "--to=@/out/v.npy"),
    "evaluate": (),
    "export": ("--to=@/out/to",),
    "fill": ("--texts=@/texts.txt",),
    "generate": ("--prompt=the old", "--max_tokens=4"),
    "score": ("--task=pairs", "--data=@/pairs.jsonl"),
    "table": (f"--table={fake_sweep.__file__}",),
    "report": (f"--table={fake_sweep.__file__}",),
    "run": ("--sweep=@/copy/sweep.py", "--tasks=@/copy/tasks.toml", "--dry_run"),
    "status": (),
    "logs": (),
}
"""Command -> its flags; `@/` begins a path in the folder of the cases."""

SUBJECTS = {
    "run": ("embed", "evaluate", "export", "fill", "score"),
    "causal": ("generate",),
    "tuned": ("evaluate",),
    "hf": ("embed", "fill"),
    "causal_hf": ("generate",),
    "sweep": ("table", "report", "status", "logs"),
    "tasks": ("run",),
}
"""What is damaged -> commands that read it."""

CARD = "README.md"
"""A file of an export that has lines of logs."""
TASKS = """
[one]
stand_in = "other"
data.train = "one.tsv"
data.valid = "one.tsv"
data.fields = "0"
data.label = "1"
train.steps = 3
"""
SWEEP = """
def sweep(scale, tasks):
    for task in tasks.values():
        yield "experiments/finetune.py", dict(task.keys)
"""
ROWS = [("the old stone", "x"), ("a small river", "y"), ("by and by", "x")] * 4
WRONG_LINES = (
    b'{"text": "the"}',
    b'{"label": "x"}',
    b'{"text": null, "label": "x"}',
    b'{"text": ["the"], "label": "x"}',
    b'{"text": 3, "label": "x"}',
    b'{"text": "the", "label": ["x", "y"]}',
    b'{"text": "the", "label": "x"',
    b'{"text": "the", "label": "none of them"}',
    b'{"text": "a", "text": "b", "label": "x"}',
    b'{"text": "\xff", "label": "x"}',
    b"[1]",
    b"[" * 9999,
)
"""Lines of a task's file that are told."""

WRONG_VALUES = {
    "num_hidden_layers": (10**9, True, -1, 0, "2", None, 1.5),
    "hidden_size": (0, -8, True, 33, 10**9, [32]),
    "num_attention_heads": (0, 3, -1, "2"),
    "type_vocab_size": (-1, True, "x"),
    "layer_norm_eps": (-1e-12, 1e999, "x", True),
    "hidden_dropout_prob": (2, -1, "x", True),
    "hidden_act": ("nope", 3, None, []),
    "vocab_size": (0, -1, 10**9, "x", True),
    "max_position_embeddings": (0, -1, "x", True),
    "intermediate_size": (0, -1, "x", True, 63),
    "model_type": ("nope", 3, None, []),
}
"""Key of a config of BERT -> values that are told."""


class RealCase(NamedTuple):
    """A command, and the damage of a file that it may read."""

    command: str
    subject: str  # one of SUBJECTS
    file: int  # which of the subject's files, from the first again past the last
    damage: str  # see `damage.damage`; or: a wrong "line", a wrong "key"
    position: int
    value: Any


@st.composite
def cases(draw: st.DrawFn) -> RealCase:
    subject = draw(st.sampled_from(list(SUBJECTS)))
    own = {"tuned": ("wrong line",), "hf": ("wrong key", "wrong weights")}
    how = draw(st.sampled_from(DAMAGES + own.get(subject, ()) * 5))
    return RealCase(
        draw(st.sampled_from(SUBJECTS[subject])),
        subject,
        draw(st.integers(0, 2**10)),
        how,
        draw(st.integers(0, 2**16)),
        draw(st.sampled_from(ODD_VALUES)),
    )


@functools.cache
def subjects(folder: Path) -> Path:
    """A folder with every subject, and the files that the commands name."""
    made = tiny_runs.write_corpus(folder) / "subjects"
    made.mkdir()
    tiny = {"data.vocabulary": "bytebpe", "data.vocabulary_size": 264}
    tiny |= {"data.sentinels": 2, "data.held_out": 0.01}
    bert = {"model.norm_placement": "post", "model.token_types": 2, "train.steps": 4}
    config = tiny_runs.tiny_config(folder, **tiny, **bert)
    tiny_runs.train(config, made / "run")
    gpt = tiny | {"model.activation": "gelu_tanh"}
    config = tiny_runs.tiny_config(folder, "lm", **gpt)
    tiny_runs.save_untrained(made / "causal", config)
    task = folder / "task.jsonl"
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    task.write_text("\n".join(lines) + "\n")
    keys = {f"data.{split}": str(task) for split in ("train", "valid")}
    keys |= {"data.fields": "text", "data.label": "label"}
    config = tiny_runs.tiny_config(folder, "finetune", **tiny, **keys)
    tiny_runs.save_untrained(made / "tuned", config)
    (made / "tuned" / "other.jsonl").write_bytes(task.read_bytes())
    for source, to in (("run", "hf"), ("causal", "causal_hf")):
        flags = [f"--workdir={made / source}", f"--to={made / to}"]
        outcome = command.run(export, flags, patches())
        assert outcome.code == 0, outcome
    finished_sweep(made / "sweep")
    (made / "tasks").mkdir()
    for name, text in {
        "tasks.toml": TASKS,
        "sweep.py": SWEEP,
        "one.tsv": "a\tx\n",
    }.items():
        (made / "tasks" / name).write_text(text)
    (folder / "texts.txt").write_text("the old [MASK]\na [MASK] and by\n")
    pair = {"sentence_good": "the old stone", "sentence_bad": "stone old the"}
    (folder / "pairs.jsonl").write_text(json.dumps(pair) + "\n")
    return made


def patches() -> list[Any]:
    """Of what a command changes in its process; and standard input."""
    stdin = io.TextIOWrapper(io.BytesIO(b"a prompt\n"))
    return [mock.patch.object(jax.config, "update"), mock.patch("sys.stdin", stdin)]


def files_of(subject: Path) -> list[str]:
    """All files of a subject, and its folders, by their paths in it."""
    found = (path.relative_to(subject) for path in subject.rglob("*"))
    names = (str(p) for p in found if p.name not in (".lock", "events"))
    return sorted(name for name in names if "tensorboard" not in name)


class Done(NamedTuple):
    """What a command has printed and written."""

    outcome: command.Outcome
    written: dict[str, bytes]


def perform(name: str, subject: str, folder: Path) -> Done:
    """Runs a command on the copy of a subject."""
    copy, out = folder / "copy", folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    prefix = "hf:" if subject.endswith("hf") else ""
    words = [word.replace("@", str(folder)) for word in WORDS[name]]
    words += [f"--workdir={prefix}{copy}"]
    if subject == "tuned":
        words += [f"--config.data.valid={copy}/other.jsonl"]
    module: ModuleType = MODULES.get(name, sweep)
    action = [name] if module is sweep else []
    before = set(files_of(copy)) if copy.is_dir() else set()
    outcome = command.run(module, [*action, *words], patches())
    files = {f"out/{file}": out / file for file in files_of(out)}
    new = [file for file in files_of(copy) if file not in before]
    files |= {file: copy / file for file in new if file.startswith("evaluations")}
    compared = {n: p for n, p in files.items() if p.is_file() and p.name != CARD}
    return Done(outcome, {name: path.read_bytes() for name, path in compared.items()})


@functools.cache
def undamaged(name: str, subject: str, folder: Path) -> Done:
    """What the command does with the subject as it is."""
    shutil.rmtree(folder / "copy", ignore_errors=True)
    shutil.copytree(subjects(folder) / subject, folder / "copy")
    done = perform(name, subject, folder)
    assert done.outcome.code == 0, (name, subject, done.outcome)
    return done


def check(case: RealCase, folder: Path) -> command.Outcome:
    """Runs the command on a copy with the damage."""
    source, copy = subjects(folder) / case.subject, folder / "copy"
    expected = undamaged(case.command, case.subject, folder)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    files = files_of(source)
    file = files[case.file % len(files)]
    if case.damage.startswith("wrong"):
        file = _damage_wrongly(case, copy)
    else:
        damage(copy / file, case.damage, case.position, case.value)
    done = perform(case.command, case.subject, folder)
    outcome = done.outcome
    if outcome.code == 1 and case.subject == "sweep" and not outcome.error:
        outcome = outcome._replace(code=0)  # a table with an empty cell
        return outcome
    problem = command.complaint(outcome, {*Path(file).parts, *_names(copy, file)})
    said = {*outcome.error.splitlines()} - {*expected.outcome.error.splitlines()}
    is_told = outcome.code != 0 or bool(said)
    if not problem and case.damage.startswith("wrong") and not is_told:
        problem = "it was accepted"
    if not problem and not is_told and not _is_free(case, file):
        if outcome.output != expected.outcome.output:
            problem = f"it prints {outcome.output!r}, not {expected.outcome.output!r}"
        for name in done.written.keys() | expected.written.keys():
            if done.written.get(name) != expected.written.get(name):
                problem = f"{name} has other content"
    assert not problem, f"{problem}\n{file}, {case}"
    return outcome


def _damage_wrongly(case: RealCase, copy: Path) -> str:
    """Damages a file so that it has to be told; returns its name."""
    at = case.position
    if case.damage == "wrong line":
        path = copy / "other.jsonl"
        lines = path.read_bytes().split(b"\n")
        lines.insert(at % (len(lines) - 1), WRONG_LINES[case.file % len(WRONG_LINES)])
        path.write_bytes(b"\n".join(lines))
    elif case.damage == "wrong key":
        path = copy / "config.json"
        content = json.loads(path.read_bytes())
        pairs = [(k, v) for k, values in WRONG_VALUES.items() for v in values]
        key, value = pairs[at % len(pairs)]
        path.write_text(json.dumps(content | {key: value}))
    else:
        from safetensors.numpy import load_file, save_file

        path = copy / "model.safetensors"
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


def _is_free(case: RealCase, file: str) -> bool:
    """Whether other content of the file may be legal, and then shows in what is made.

    Folders in Hugging Face's layout have no checksums, a log is any text, and what is
    missing of a sweep leaves a cell of a table empty, and a file of tasks may say
    something else.
    """
    is_text = file.endswith(("other.jsonl", "log.txt", ".py", ".toml"))
    free = case.subject.endswith("hf") or case.subject in ("sweep", "tasks")
    return free or is_text


def _names(copy: Path, file: str) -> Iterator[str]:
    """What an error may name instead of the file: its folder, or a key in it."""
    yield from (copy.name, "copy", "--workdir")
    with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
        yield from json.loads((copy / file).read_bytes()).keys()
