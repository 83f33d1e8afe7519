"""What a user's seqio task raises is one line with its file and line, in seconds."""

import importlib
import re
import sys

import pytest

from research.config.config import Config
from research.contract.errors import UserError
from tests.testing import small_data

SEQIO_MODULE = """
import seqio
import tensorflow as tf

def source(split, shuffle_files, seed=None):
    texts = tf.data.Dataset.from_tensor_slices({"targets": ["the stone"] * 9})
    return texts  # SOURCE

def fail(*_):
    raise KeyError("mine")  # HERE

def change(row):
    return row  # MAP

# MODULE
seqio.TaskRegistry.add(
    "their_task",
    source=seqio.FunctionDataSource(source, splits=["train", "validation"]),
    preprocessors=[
        lambda dataset: dataset.map(change),
        seqio.preprocessors.tokenize,
    ],
    output_features={
        "targets": seqio.Feature(seqio.ByteVocabulary(extra_ids=6), add_eos=False)
    },
)
"""
"""A module that registers a sound task."""

RAISES_AS_IT_RUNS = (
    'return {"targets": '
    'tf.reshape(tf.py_function(fail, [row["targets"]], tf.string), ())}'
)
WRONG_MODULES = {
    "a module that raises": ("# MODULE", "fail()", "KeyError: 'mine'"),
    "a module that exits": ("# MODULE", "raise SystemExit(3)  # HERE", "SystemExit: 3"),
    "a module without syntax": ("# MODULE", "def f(:  # HERE", "SyntaxError"),
    "a call of a library": (
        "# MODULE",
        "import json; json.loads('')  # HERE",
        "JSONDecodeError",
    ),
    "a source that raises": ("return texts  # SOURCE", "fail()", "KeyError: 'mine'"),
    "a map that raises": ("return row  # MAP", "fail()", "KeyError: 'mine'"),
    "a map that raises as it runs": ("return row", RAISES_AS_IT_RUNS, "KeyError: "),
}
"""What is wrong -> old text, new text, and a part of the error, which has the line."""

NEVER = "texts.filter(lambda row: False)"


@pytest.fixture
def open_task(tmp_path, monkeypatch):
    """open_task(old, new) opens the task of a module with a change of its text."""
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)
    config = small_data.config(corpus, tmp_path / "cache", "lm")
    config.data.task = "their_module:their_task"
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "their_module.py"

    def open_task(old, new):
        assert old in SEQIO_MODULE
        file.write_text(SEQIO_MODULE.replace(old, new, 1))
        importlib.invalidate_caches()
        return small_data.open_with(config, Config.of(config).objective)

    with small_data.restored_seqio_registry():
        yield open_task
    sys.modules.pop("their_module", None)


@pytest.mark.parametrize(
    ("old", "new", "reason"), WRONG_MODULES.values(), ids=WRONG_MODULES
)
def test_what_a_task_raises_has_its_line(open_task, tmp_path, old, new, reason):
    with pytest.raises(UserError, match=re.escape(reason)) as refused:
        open_task(old, new)
    lines = (tmp_path / "their_module.py").read_text().splitlines()
    numbers = [n for n, line in enumerate(lines, 1) if "# HERE" in line]
    message = str(refused.value)
    assert message.startswith("data.task") and "\n" not in message
    assert re.search(
        rf"\({tmp_path}/their_module.py:({numbers[-1]}|{numbers[0]})\)", message
    )


def test_a_task_without_examples_is_refused_at_once(open_task):
    with pytest.raises(UserError, match=r"their_task: \w+ has no examples"):
        open_task("return texts", f"return {NEVER}")


def test_a_sound_task_is_opened(open_task):
    assert open_task("return texts", "return texts").fingerprint
