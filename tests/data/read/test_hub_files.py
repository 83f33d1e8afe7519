"""Corpora of the Hub are its Parquet files, by split, or the files of a pattern."""

import io

import pyarrow
import pytest
from pyarrow import parquet

from research.contract.errors import UserError
from research.data.read.files import load_file_corpus
from tests.testing.hub import running_hub


def table(*texts):
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": texts}), buffer)
    return buffer.getvalue()


MAIN = {
    "README.md": b"---\n---\n",
    "data/train-00000-of-00002.parquet": table("One."),
    "data/train-00001-of-00002.parquet": table("Two."),
    "data/validation-00000-of-00001.parquet": table("Three."),
    "de/extra.txt": b"Vier.",
}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        hub.repositories["org/texts"] = {"main": MAIN}
        converted = {"default/train/0000.parquet": table("Five.")}
        only_json = {"all.json": b"[]"}
        hub.repositories["org/json"] = {
            "main": only_json,
            "refs/convert/parquet": converted,
        }
        yield hub


@pytest.mark.parametrize(
    ("name", "key", "texts"),
    [
        ("hf:org/texts", "data.corpus", ["One.", "Two."]),
        ("hf:org/texts", "data.valid", ["Three."]),
        ("hf:org/texts@main/de/*.txt", "data.corpus", ["Vier."]),
        ("hf:org/json", "data.train", ["Five."]),
    ],
)
def test_a_name_stands_for_the_files_of_its_split(hub, name, key, texts):
    corpus = load_file_corpus(name, None, key=key)
    assert [document.text for document in corpus.documents("train")] == texts


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf:org/texts/fr/*.txt", r"data\.test is .*no such files; name them by a pat"),
        ("hf:org/texts", r"data\.test is 'hf:org/texts': .*no such files"),
        ("hf:org/none", r"data\.test is 'hf:org/none': it could not be fetched"),
        ("hf:texts", r"a data set of the Hub must be hf:ORG/NAME, not 'hf:texts'"),
    ],
)
def test_what_is_not_there_is_one_line(hub, name, said):
    with pytest.raises(UserError, match=said) as caught:
        load_file_corpus(name, None, key="data.test")
    assert "\n" not in str(caught.value)
