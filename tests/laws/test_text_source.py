"""The contract of every source of texts, found by listing the folder."""

import pytest

from experiments import lm
from research.config.config import Config
from research.contract.errors import UserError
from research.data.read.files import load_file_corpus
from research.data.read.text_sources import FOLDER, Source, classes, source_of
from research.data.source.build import split_corpora
from research.use.model_card import public_name

each_source = pytest.mark.parametrize("name", FOLDER.names())


def source(name):
    return FOLDER.part_class(name, "source")


@each_source
def test_a_name_is_of_one_source_and_is_public(name):
    cls = source(name)
    assert [each for each in classes() if each.is_source(cls.called)] == [cls]
    assert type(source_of(cls.called, built_in=True)) is cls
    assert (source_of(cls.called) is None) == cls.is_built_in
    assert public_name(cls.called) == cls.called


@each_source
def test_it_has_files_or_a_corpus_and_files_alone_have_an_encoding(name):
    cls = source(name)
    assert (cls.fetch is Source.fetch) != cls.is_files
    assert (cls.load is Source.load) == cls.is_files
    if cls.is_files:
        return
    config = lm.get_config()
    config.data.update(corpus=cls.called, encoding="latin-1")
    made = Config.of(config)
    with pytest.raises(UserError, match="is for files, not for"):
        split_corpora(made.data, made.objective, "train")


@each_source
def test_the_error_of_missing_files_names_it(name, tmp_path):
    with pytest.raises(UserError) as error:
        load_file_corpus(f"{tmp_path}/*.txt", 0.1)
    assert source(name).called in str(error.value)


@pytest.mark.parametrize("name", ["embedded", "texts/*.txt", "gs://bucket/a", "hf", ""])
def test_files_and_embedded_corpora_are_of_none(name):
    assert source_of(name) is None
