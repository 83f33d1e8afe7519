"""Images beside text: a format that gives region features, an objective that learns
them and one whose network reads them are one new file each."""

import json
import shutil

import numpy as np
import pytest

from research.contract.errors import UserError
from research.record.metric_writer import read_metrics
from tests.launch import test_new_format
from tests.testing import visual

FORMAT = '''
"""Lines of JSON: a caption, and the features and boxes of its image's regions."""

import json
from dataclasses import dataclass

import numpy as np

from research.data.documents import ArrayType, Document
from research.data.read.formats import FileFormat


@dataclass(frozen=True)
class Format(FileFormat):
    """data.fields and data.label have no meaning."""

    suffixes = (".captions",)
    arrays = {
        "regions": ArrayType("document", (np.float32, (4, 8))),
        "boxes": ArrayType("document", (np.float32, (4, 4))),
    }

    def parse(self, file, options):
        for number, line in enumerate(file, 1):
            image = json.loads(line)
            arrays = {name: image[name] for name in self.arrays}
            yield Document(image["caption"], id=f":{number}", arrays=arrays)
'''
OBJECTIVE = '''
"""A language model of captions that learns the features of their images' regions."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from research import objectives
from research.contract.batch import ArraySpec, input_specs, scored_specs
from research.data.rows import TextSpec
from research.networks import HeadSpec, Needs
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """The mean over an image's regions, weighted by their area, is predicted at each
    token (LXMERT, Tan and Bansal 2019, section 3.1.2, has a loss for each region)."""

    family = "LM"
    pattern = "causal"
    min_length = 1

    def text_spec(self, length):
        return TextSpec("document", length, arrays=("regions", "boxes"))

    def batch_spec(self, length):
        specs = input_specs(length) | scored_specs(length, gathered=False)
        return specs | {"image_feature": ArraySpec((8,), np.float32)}

    def corrupt(self, example, key, vocab, length):
        boxes, regions = example.arrays["boxes"], example.arrays["regions"]
        assert not regions[example.length == 0].any()
        area = (boxes[..., 2:] - boxes[..., :2]).prod(axis=-1, keepdims=True)
        total = np.maximum(area.sum(axis=1), 1e-6)
        feature = (regions * area).sum(axis=1) / total
        batch = lm.Objective().corrupt(example, key, vocab, length)
        return batch | {"image_feature": feature}

    def needs(self, vocab):
        return Needs(pattern="causal", heads={"image": HeadSpec(8, "none")})

    def loss(self, net, batch, key):
        """Terms: captions, accuracy (a metric) and image."""
        states, weight = net.states(batch), batch["weight"]
        error = net.head("image", states) - batch["image_feature"][:, None]
        image = jnp.mean(error**2, axis=-1) * weight
        terms = masked_cross_entropy("captions", net.readout(states), batch)
        return terms | {"image": Term(image.sum(), weight.sum())}, ()
'''
WORDS = ("red", "green", "blue", "old", "small", "round")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The two new files, and captions that name the features of their images."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for name, text in (("formats", FORMAT), ("objectives", OBJECTIVE)):
        (folder / name).mkdir()
        (folder / name / "captions.py").write_text(text)
    lines = []
    for _ in range(400):
        word = rng.integers(len(WORDS))
        corner = rng.random((4, 2))
        image = {
            "caption": " ".join([WORDS[word]] * rng.integers(4, 9)),
            "regions": (3 * np.eye(8)[[word] * 4] + rng.normal(0, 0.1, (4, 8))),
            "boxes": np.concatenate([corner, corner + rng.random((4, 2))], axis=1),
        }
        lines.append(json.dumps(image, default=np.ndarray.tolist))
    (folder / "texts.captions").write_text("\n".join(lines))
    for number, line in enumerate(lines):
        image = json.loads(line)
        caption = image["caption"].split()[0]
        lines[number] = json.dumps(image | {"caption": caption})
    (folder / "words.captions").write_text("\n".join(lines))
    shutil.copy(visual.__file__, folder / "objectives" / "seen.py")
    return folder


def test_a_run_learns_the_images_of_its_captions(folder, tmp_path):
    corpus = str(folder / "texts.captions")
    own = {"data.corpus": corpus, "objective.name": "captions"}
    own |= {"train.steps": 60, "optimizer.learning_rate": 0.01}
    test_new_format.run(folder, tmp_path / "run", **own)
    lines = read_metrics(tmp_path / "run")
    errors = [line["train/image"] for line in lines if "train/image" in line]
    # The variance of what is predicted, if nothing is known of the image, is 0.94.
    assert errors[0] > 0.5 and errors[-1] < 0.3, errors
    (evaluated,) = [line["valid/image"] for line in lines if "valid/image" in line]
    assert evaluated < 0.3


def test_a_network_reads_the_images_of_its_captions(folder, tmp_path):
    """A caption is one of five words or more, of three tokens or fewer: without its
    image a token costs at least (ln 5) / 3, or 0.54 nats.

    The evaluation has words that training lacks, since texts are held out by content.
    """
    corpus = str(folder / "words.captions")
    own = {"data.corpus": corpus, "objective.name": "seen", "train.steps": 60}
    own |= {"optimizer.learning_rate": 0.01, "data.vocabulary_size": 370}
    test_new_format.run(folder, tmp_path / "run", **own)
    lines = read_metrics(tmp_path / "run")
    losses = [line["train/captions"] for line in lines if "train/captions" in line]
    assert losses[0] > 2 and losses[-1] < 0.1, losses


def test_an_array_of_another_type_is_refused(folder, tmp_path):
    own = {"data.corpus": str(folder / "words.captions"), "objective.name": "seen"}
    own |= {"data.vocabulary_size": 370}
    other = FORMAT.replace("(4, 8)", "(2, 16)")
    (folder / "formats" / "captions.py").write_text(other)
    words = r"'regions' of type .*4, 8.* split it is of type .*2, 16"
    with pytest.raises(UserError, match=words):
        test_new_format.run(folder, tmp_path / "run", **own)
