"""Vocabularies of all kinds, trained once on a few made-up lines."""

from types import SimpleNamespace

import pytest
from made_up import SENTINELS, SIZE, corpus_of, make_lines

from research.data import training, vocabulary


@pytest.fixture(scope="session")
def vocabularies(tmp_path_factory) -> dict[str, vocabulary.Vocabulary]:
    """A trained vocabulary of each kind."""
    corpus, cache = corpus_of(make_lines(0)), tmp_path_factory.mktemp("vocabularies")
    config = {"vocabulary_size": SIZE, "sentinels": SENTINELS}
    return {
        kind: vocabulary.load_or_train(
            SimpleNamespace(vocabulary=kind, **config), corpus, cache
        )
        for kind in training.KINDS
    }
