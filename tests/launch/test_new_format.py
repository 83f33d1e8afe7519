"""A corpus format is one new file: a run reads it, with its keys and arrays."""

import contextlib
import json
import random
import sys

import pytest

from launch.config import load_config
from research import objectives
from research.contract.errors import UserError
from research.data.read import formats
from tests.testing import tiny_runs

FORMAT = '''
"""Lines of parts between bars, with an array of each kind."""

from dataclasses import dataclass

import numpy as np

from research.data.documents import ArrayType, join_parts
from research.data.read.formats import FileFormat
from research.data.read.formats.parsing.lines import decode
from research.contract.fields import number


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

from research.objectives.mlm import mlm


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


@contextlib.contextmanager
def found_in(folder):
    """The new files are found as if they were in the folders of formats and objectives.

    They are imported anew each time.
    """
    before = set(sys.modules)
    for package in (formats, objectives):
        package.__path__.append(str(folder / package.__name__.rpartition(".")[2]))
    try:
        yield
    finally:
        for package in (formats, objectives):
            package.__path__.pop()
        new = ("beside", "captions", "seen", "toy")
        for name in set(sys.modules) - before:
            if name.rpartition(".")[2] in new:
                del sys.modules[name]


def run(folder, workdir, **keys):
    """Trains with the two new files."""
    keys = {
        "data.corpus": str(folder / "texts.toy"),
        "data.cache_dir": str(folder / "cache"),
        "data.vocabulary": "bytebpe",
        "data.vocabulary_size": 384,
        "data.held_out": 0.1,
        "train.steps": 3,
        "optimizer.warmup_steps": 1,
        "train.eval_every": 0,
        "objective.name": "beside",
    } | keys
    with found_in(folder):
        tiny_runs.train(load_config("research/config/base.py:tiny", keys), workdir)


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
    run(folder, tmp_path / "run", **own, **way)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"]["first_image"] == 100


def test_an_array_that_the_text_lacks_is_refused(folder, tmp_path):
    corpus = {"data.corpus": str(folder / "texts.txt")}
    with pytest.raises(
        UserError, match="reads an array 'score', which in the train split"
    ):
        run(folder, tmp_path / "run", **corpus)
