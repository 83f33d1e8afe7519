"""The runs, folders of Hugging Face's layout, sweeps, task files and texts that whole
commands read, each in a folder that can be damaged."""

import functools
import json
import shutil
from pathlib import Path
from typing import Any

from launch.commands import export
from tests.proofs.fuzz import command
from tests.proofs.fuzz.command_cases import finished_sweep
from tests.testing import tiny_runs

SUBJECTS = {
    "run": (
        *("augment", "embed", "evaluate", "export", "fill", "score"),
        *("train", "init"),
    ),
    "hf": ("augment", "embed", "fill", "init"),
    "causal_hf": ("generate",),
    "sweep": ("table", "report", "status", "logs", "stop", "resume", "run"),
    "plan": ("run",),
    "texts": ("embed", "fill"),
    "rows": ("evaluate",),
    "words": ("evaluate",),
    "questions": ("evaluate",),
    "output": ("embed", "export", "table", "report"),
}
"""What is damaged -> commands that read it; "output": what they write."""

INPUTS = {
    "texts": ("texts.txt",),
    "rows": ("rows.jsonl", "rows.csv", "rows.tsv"),
    "words": ("words.conll", "words.conllu"),
    "questions": ("questions.json",),
}
"""Subject -> the files of its folder that are damaged; of others all are."""

ROWS = [("the old stone", "x"), ("a small river", "y"), ("by and by", "x")] * 4
TAGS = (("the", "D"), ("old", "A"), ("stone", "N"))
QUESTION = {
    "id": "1",
    "question": "Where?",
    "is_impossible": False,
    "answers": [{"text": "river", "answer_start": 24}],
}
PARAGRAPH = {"context": "The old stone lies by a river.", "qas": [QUESTION]}
FILES = {
    "rows.jsonl": "".join(
        json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS
    ),
    "rows.csv": "text,label\n" + "".join(f"{t},{label}\n" for t, label in ROWS),
    "rows.tsv": "text\tlabel\n" + "".join(f"{t}\t{label}\n" for t, label in ROWS),
    "words.conll": "".join(f"{word} {tag}\n" for word, tag in TAGS) + "\nby P\n",
    "words.conllu": "".join(
        f"{n}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n"
        for n, (word, tag) in enumerate(TAGS, 1)
    ),
    "questions.json": json.dumps({"data": [{"title": "t", "paragraphs": [PARAGRAPH]}]}),
    "texts.txt": "the old [MASK]\na [MASK] and by\n",
    "vectors.txt": "the 1 0\nold .5 1\nstones 1 1\nreads 0 -1\n",
    "prompts.txt": "the old\na small river\n",
    "pairs.jsonl": '{"sentence_good": "a stone", "sentence_bad": "stone a"}\n',
}

PLAN = {
    "one.tsv": "a\tx\n",
    "tasks.toml": """
[one]
stand_in = "other"
data.train = "one.tsv"
data.valid = "one.tsv"
data.fields = "0"
data.label = "1"
train.steps = 3
""",
    "sweep.py": """
def sweep(scale, tasks):
    for task in tasks.values():
        yield "experiments/finetune.py", dict(task.keys)
""",
}
KEYS = {
    "data.vocabulary": "bytebpe",
    "data.vocabulary_size": 264,
    "data.sentinels": 2,
    "data.held_out": 0.01,
}
RUN = {
    "train.steps": 4,
    "train.checkpoint_every": 2,
    "train.eval_every": 4,
    "model.norm_placement": "post",
    "model.token_types": 2,
}


@functools.cache
def subjects(folder: Path) -> Path:
    """A folder with every subject but those that are copies of a run with inputs."""
    made = tiny_runs.write_corpus(folder) / "subjects"
    inputs = folder / "inputs"
    for path in (made, inputs, made / "plan"):
        path.mkdir()
    for name, text in FILES.items():
        (inputs / name).write_text(text)
    for name, text in PLAN.items():
        (made / "plan" / name).write_text(text)
    tiny_runs.train(_config(folder, "mlm", **RUN), made / "run")
    finished_sweep(made / "sweep")
    return made


@functools.cache
def _subject(name: str, folder: Path) -> Path:
    """The folder of a subject, which is made when it is first read."""
    made = subjects(folder)
    columns = {"data.fields": "text", "data.label": "label"}
    untrained = {
        "causal": ("lm", "", {"model.activation": "gelu_tanh"}),
        "rows": ("finetune", "rows.jsonl", columns),
        "words": (
            "finetune",
            "words.conll",
            {"objective.name": "token_classification"},
        ),
        "questions": (
            "finetune",
            "questions.json",
            {"objective.name": "question_answering"},
        ),
    }
    if name in untrained:
        experiment, file, keys = untrained[name]
        if file:
            keys = keys | {
                f"data.{split}": str(folder / "inputs" / file)
                for split in ("train", "valid")
            }
        tiny_runs.save_untrained(made / name, _config(folder, experiment, **keys))
    elif name.endswith("hf"):
        source = _subject("causal" if name == "causal_hf" else "run", folder)
        outcome = command.run(export, [f"--workdir={source}", f"--to={made / name}"])
        assert outcome.code == 0, outcome
    return made / ("run" if name == "texts" else name)


def _config(folder: Path, experiment: str, **keys: Any) -> Any:
    return tiny_runs.tiny_config(folder, experiment, **(KEYS | keys))


def flags_of(folder: Path) -> list[str]:
    """The flags with which `palimpsest train` makes the subject "run"."""
    values = _config(folder, "mlm", **RUN).flat.items()
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values}
    flags = (f"--config.{key}={value}" for key, value in texts.items())
    return ["--config=experiments/mlm.py", *flags]


def copy_subject(subject: str, folder: Path) -> Path:
    """A new copy of a subject, in which files may be damaged."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(_subject(subject, folder), copy)
    for name in INPUTS.get(subject, ()):
        shutil.copy(folder / "inputs" / name, copy / name)
    return copy


def files_of(folder: Path) -> list[str]:
    """All files of a folder, and its folders, by their paths in it."""
    found = (path.relative_to(folder) for path in folder.rglob("*"))
    names = (str(p) for p in found if p.name not in (".lock", "events"))
    return sorted(name for name in names if "tensorboard" not in name)


def damageable(subject: str, folder: Path) -> list[str]:
    """The files of a subject that are damaged."""
    return list(INPUTS.get(subject, ())) or files_of(_subject(subject, folder))
