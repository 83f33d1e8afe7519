"""A corpus format is one new file: launch.train reads it, with its keys and arrays."""

import json
import os
import random
import subprocess
import sys

import pytest

from tests.distributed.test_multiprocess import FAST_COMPILE

FORMAT = '''
"""Lines of parts between bars, with an array of each kind."""

from dataclasses import dataclass

import numpy as np

from research.data.documents import ArrayType, join_parts
from research.data.formats import FileFormat
from research.data.formats.parsing.lines import decode
from research.fields import number


@dataclass(frozen=True)
class Format(FileFormat):
    """data.fields and data.label have no meaning."""

    first_image: int = number(0, least=0)  # number of the image of the first line

    suffixes = (".toy",)
    arrays = {
        "score": ArrayType("token", np.float32),
        "entity": ArrayType("part", np.int32),
        "image": ArrayType("document", np.int32),
    }

    def parse(self, file, options):
        for number, line in enumerate(file, 1):
            document = join_parts(decode(line, number).strip().split("|"), " ")
            image, num_parts = number + self.first_image, len(document.starts) + 1
            arrays = {
                "score": np.full(len(document.text), image / 2),
                "entity": 10 * image + np.arange(num_parts),
                "image": image,
            }
            yield document._replace(arrays=arrays, id=f":{number}")
'''
OBJECTIVE = '''
"""Masked tokens, weighted by what stands beside the text."""

from dataclasses import dataclass

import numpy as np

from research.objectives import mlm


@dataclass(frozen=True)
class Objective(mlm.Objective):
    def text_spec(self, length):
        return super().text_spec(length).replace(arrays=("score", "entity", "image"))

    def corrupt(self, example, key, vocab, length):
        inside = np.arange(example.token.shape[1]) < example.length[:, None]
        text = inside & (example.token != vocab.eos_id)
        image, entity, score = (
            example.arrays[name] for name in ("image", "entity", "score")
        )
        assert (image[inside] > FIRST).all() and (image[~inside] == -1).all()
        assert (entity[inside] // 10 == image[inside]).all()
        assert (score[text] == image[text] / 2).all()
        return super().corrupt(example, key, vocab, length)
'''
RUN = """
import runpy
import sys
from research import objectives
from research.data import formats

formats.__path__.append(sys.argv[1])
objectives.__path__.append(sys.argv[2])
sys.argv[1:] = sys.argv[3:]
runpy.run_module("launch.train", run_name="__main__", alter_sys=True)
"""


def run(folder, workdir, **keys):
    """Runs launch.train with the two new files; returns its code and what it says."""
    keys = {
        "data.corpus": folder / "texts.toy",
        "data.cache_dir": folder / "cache",
        "data.vocabulary": "bytebpe",
        "data.vocabulary_size": 384,
        "data.held_out": 0.1,
        "train.steps": 3,
        "optimizer.warmup_steps": 1,
        "train.eval_every": 0,
        "objective.name": "beside",
    } | keys
    flags = [f"--config.{key}={value}" for key, value in keys.items()]
    done = subprocess.run(
        [
            *(sys.executable, "-c", RUN, folder / "formats", folder / "objectives"),
            *("--config=experiments/base.py:tiny", f"--workdir={workdir}", *flags),
        ],
        env=os.environ | {"XLA_FLAGS": FAST_COMPILE, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("new"), random.Random(0)
    for name in ("formats", "objectives"):
        (folder / name).mkdir()
    (folder / "formats" / "toy.py").write_text(FORMAT)
    first = "FIRST = 100\n" + OBJECTIVE
    (folder / "objectives" / "beside.py").write_text(first)
    words = ["".join(draw.choices("abcdefgh", k=4)) for _ in range(60)]
    lines = [
        "|".join(
            " ".join(draw.choices(words, k=draw.randint(1, 9)))
            for _ in range(draw.randint(1, 4))
        )
        for _ in range(300)
    ]
    (folder / "texts.toy").write_text("\n".join(lines))
    (folder / "texts.txt").write_text("\n\n".join(lines).replace("|", " "))
    return folder


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"data.packing": "best_fit"},
        pytest.param({"data.reader": "seqio"}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_a_run_reads_a_new_format_with_its_key_and_arrays(folder, tmp_path, way):
    own = {"data.format": "toy", "data.first_image": 100}
    code, said = run(folder, tmp_path / "run", **own, **way)
    assert code == 0, said
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"]["first_image"] == 100


def test_an_array_that_the_text_lacks_is_refused(folder, tmp_path):
    corpus = {"data.corpus": folder / "texts.txt"}
    code, said = run(folder, tmp_path / "run", **corpus)
    assert code != 0
    assert "reads an array 'score' beside the text" in said.splitlines()[-1]
