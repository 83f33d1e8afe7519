"""Fixtures: a vocabulary of each tokenizer type, and small corpora."""

from types import SimpleNamespace

import pytest

from research.data.tokenize import train_tokenizer, vocabulary
from tests.testing import small_data
from tests.testing.fake_corpus import SENTINELS, SIZE, corpus_of, make_lines


@pytest.fixture(scope="session")
def vocabularies(tmp_path_factory) -> dict[str, vocabulary.Vocabulary]:
    """A trained vocabulary of each tokenizer type."""
    corpus, cache = corpus_of(make_lines(0)), tmp_path_factory.mktemp("vocabularies")
    config = {"vocabulary_size": SIZE, "sentinels": SENTINELS, "alpha": 0.0}
    config |= {"normalizer": "none"}
    config |= {"vocabulary_sample": 10**9, "whitespace": "collapse"}
    return {
        tokenizer_type: vocabulary.load_or_train(
            SimpleNamespace(vocabulary=tokenizer_type, **config), corpus, cache
        )
        for tokenizer_type in train_tokenizer.TOKENIZER_TYPES
    }


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder for small corpora and their cache."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def lexicon(folder) -> str:
    return small_data.write_lexicon(folder)


@pytest.fixture(scope="session")
def corpora(folder) -> dict:
    """The path of one corpus ("one"), and the rates of two ("mixture")."""
    one = small_data.write_corpus(folder, "one", seed=1)
    two = small_data.write_corpus(folder, "two", seed=2, documents=90)
    return {"one": one, "mixture": {one: 0.3, two: 0.7}}
