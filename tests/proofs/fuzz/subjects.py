"""The runs, folders of Hugging Face's layout, sweeps, task files and modules that whole
commands read, each in a folder that can be damaged."""

import contextlib
import functools
import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from etils import epath

from launch.backends import scheduler
from launch.backends.attempt_log import ProcessRecord
from launch.commands import export
from tests.proofs.fuzz import command, wrong_inputs
from tests.proofs.fuzz.command_cases import finished_sweep
from tests.testing import small_data, tiny_runs

SUBJECTS = {
    "run": (
        *("augment", "embed", "evaluate", "export", "fill", "score", "shrink"),
        *("train", "init"),
    ),
    "causal": ("generate",),
    "hf": ("augment", "embed", "fill", "init", "shrink"),
    "causal_hf": ("generate",),
    "sweep": ("table", "report", "status", "logs", "stop", "resume", "run"),
    "plan": ("run",),
    "texts": ("embed", "fill"),
    "pairs": ("score",),
    "prompts": ("generate",),
    "corpus": ("evaluate",),
    "rows": ("evaluate",),
    "words": ("evaluate",),
    "questions": ("evaluate",),
    "seqio": ("evaluate", "train"),
    "outputs": ("augment", "embed", "fill", "export", "shrink"),
    "reports": ("table", "report"),
}
"""What is damaged -> commands that read it."""

BASES = {
    "texts": "run",
    "pairs": "run",
    "prompts": "causal",
    "corpus": "run",
    "outputs": "run",
    "reports": "sweep",
}
"""Subject -> another one, of which its folder is a copy with `INPUTS`."""

MODULE = "their_module"
INPUTS = {
    "texts": ("texts.txt",),
    "pairs": ("pairs.jsonl",),
    "prompts": ("prompts.txt",),
    "corpus": ("corpus.txt",),
    "rows": ("rows.jsonl", "rows.csv", "rows.tsv", "rows.parquet"),
    "words": ("words.conll", "words.conllu"),
    "questions": ("questions.json",),
    "seqio": (f"{MODULE}.py",),
}
"""Subject -> the files of its folder that are damaged; of others all are."""

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
DATA = {
    "data.vocabulary": "bytebpe",
    "data.vocabulary_size": 264,
    "data.sentinels": 2,
    "data.held_out": 0.01,
}
LOOP = {"train.steps": 4, "train.checkpoint_every": 2, "train.eval_every": 4}
TASK = {
    "data.task": f"{MODULE}:their_task",
    "data.corpus": "embedded",
    "data.vocabulary": None,
    "data.vocabulary_size": None,
}
BERT = {"model.norm_placement": "post", "model.token_types": 2}


@functools.cache
def subjects(folder: Path) -> Path:
    """A folder with every subject but those of `BASES`, which `copy_subject` makes."""
    made = tiny_runs.write_corpus(folder) / "subjects"
    made.mkdir()
    inputs = folder / "inputs"
    inputs.mkdir()
    for name, content in wrong_inputs.FILES.items():
        (inputs / name).write_bytes(content())
    tiny_runs.train(_config(folder, "mlm", **LOOP, **BERT), made / "run")
    gelu = {"model.activation": "gelu_tanh"}
    tiny_runs.save_untrained(made / "causal", _config(folder, "lm", **gelu))
    columns = {"data.fields": "text", "data.label": "label"}
    for name, file, keys in (
        ("rows", "rows.jsonl", columns),
        ("words", "words.conll", {"objective.name": "token_classification"}),
        ("questions", "questions.json", {"objective.name": "question_answering"}),
    ):
        files = {f"data.{split}": str(inputs / file) for split in ("train", "valid")}
        config = _config(folder, "finetune", **files, **keys)
        tiny_runs.save_untrained(made / name, config)
    for source, to in (("run", "hf"), ("causal", "causal_hf")):
        flags = [f"--workdir={made / source}", f"--to={made / to}"]
        outcome = command.run(export, flags)
        assert outcome.code == 0, outcome
    _write_sweep(made / "sweep")
    (made / "plan").mkdir()
    for name, text in {
        "tasks.toml": TASKS,
        "sweep.py": SWEEP,
        "one.tsv": "a\tx\n",
    }.items():
        (made / "plan" / name).write_text(text)
    return made


@functools.cache
def _task_run(folder: Path) -> Path:
    """A run on a seqio task, made when it is first read: TensorFlow takes seconds."""
    made = subjects(folder) / "seqio"
    made.mkdir()
    (made / f"{MODULE}.py").write_text(wrong_inputs.SEQIO_MODULE)
    with importable(made):
        tiny_runs.train(_config(folder, "lm", **TASK, **LOOP), made)
    return made


def _config(folder: Path, experiment: str, **keys: Any) -> Any:
    return tiny_runs.tiny_config(folder, experiment, **(DATA | keys))


def flags_of(folder: Path, subject: str) -> list[str]:
    """The flags with which launch.train makes the run of a subject."""
    if subject == "seqio":
        config, name = _config(folder, "lm", **TASK, **LOOP), "lm"
    else:
        config, name = _config(folder, "mlm", **LOOP, **BERT), "mlm"
    values = config.flat.items()
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values}
    own = (f"--config.{key}={value}" for key, value in texts.items())
    return [f"--config=experiments/{name}.py", *own]


def _write_sweep(workdir: Path) -> None:
    """A finished sweep, of which an earlier driver left its files."""
    first = finished_sweep(workdir)[0]
    record = ProcessRecord("1", 0, 1, "host", 1, 1.0, 2.0, 3.0, 0)
    record.write(epath.Path(first.folder))
    (Path(first.folder) / "log.txt").write_text("a line\n")
    scheduler.clear_handles(epath.Path(workdir))
    driver = {"pid": 1, "host": "nowhere", "since": 0.0}
    (workdir / "driver.json").write_text(json.dumps(driver))


def copy_subject(subject: str, folder: Path) -> Path:
    """A new copy of a subject, in which files may be damaged."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    made = subjects(folder)
    source = made / BASES.get(subject, subject)
    if subject == "seqio":
        source = _task_run(folder)
    shutil.copytree(source, copy)
    for name in INPUTS.get(subject, ()):
        if not (copy / name).exists():
            shutil.copy(folder / "inputs" / name, copy / name)
    return copy


def files_of(folder: Path) -> list[str]:
    """All files of a folder, and its folders, by their paths in it."""
    found = (path.relative_to(folder) for path in folder.rglob("*"))
    names = (str(p) for p in found if p.name not in (".lock", "events"))
    return sorted(name for name in names if "tensorboard" not in name)


def damageable(subject: str, folder: Path) -> list[str]:
    """The files of a subject that are damaged."""
    if subject in INPUTS:
        return list(INPUTS[subject])
    return files_of(subjects(folder) / BASES.get(subject, subject))


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Makes the module of a seqio task importable, as new, until the block ends."""
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        with small_data.restored_seqio_registry():
            yield
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(MODULE, None)
        sys.dont_write_bytecode = kept
