"""The contract of every type of vocabulary; modules are found by listing the folder.

The tests of `tests/data/tokenize` hold those of pieces of words to more.
"""

import dataclasses
import json

import numpy as np
import pytest

from research.contract.errors import UserError
from research.data.read.corpus import Corpus, Document
from research.data.tokenize import export_tokenizer, train_tokenizer, vocabulary
from research.data.tokenize.tokenizer_types import (
    FOLDER,
    Options,
    SizeError,
    TokenizerType,
    named,
    special_pieces,
)

SENTINELS = 3
TEXT = (
    "the old river runs by the old mill, and the mill is by the river. \u00e9t\u00e9 1"
)

each_type = pytest.mark.parametrize("name", FOLDER.names())
each_trained = pytest.mark.parametrize("name", train_tokenizer.TRAINED_TYPES)


def corpus(text=TEXT):
    return Corpus("law", lambda split: iter([Document(text)]), lambda: repr(text))


def train(name, normalizer="none"):
    """A vocabulary of as many pieces as the text gives."""
    size = 5 + SENTINELS + 256 + 2**10
    options = Options(name, size, SENTINELS, normalizer=normalizer)
    try:
        model = train_tokenizer.train(corpus(), options)
    except SizeError as error:
        options = options._replace(size=error.fits)
        model = train_tokenizer.train(corpus(), options)
    assert len(model.pieces) == options.size
    info = vocabulary.find_special_tokens(model, SENTINELS)
    return vocabulary.Vocabulary(model, info)


@each_type
def test_it_says_what_it_is(name):
    tokenizer_type = named(name)
    assert isinstance(tokenizer_type, TokenizerType)
    assert not dataclasses.fields(tokenizer_type)
    assert tokenizer_type.marks in ("", "starts", "ends")
    if name in train_tokenizer.TRAINED_TYPES:
        assert all(value > 0 for value in tokenizer_type.cost)


@each_trained
def test_a_trained_vocabulary_is_of_its_type_and_found_again(name, tmp_path):
    made = train(name)
    assert made.tokenizer_type == name
    assert made.model.pieces[: 5 + SENTINELS] == special_pieces(SENTINELS)
    loaded = vocabulary.load_vocabulary(made.save(tmp_path), SENTINELS)
    assert loaded.sha256 == made.sha256 and loaded.tokenizer_type == name
    if made.model.data.startswith(b"{"):
        state = json.loads(made.model.data)
        found = [other for other in FOLDER.names() if named(other).recognises(state)]
        assert found == [name]
    lower = {train(name, "lower").sha256 for _ in range(2)}
    assert len(lower) == 1, "a model is a function of its text"


@each_trained
def test_its_text_is_rebuilt_and_its_words_begin_where_they_do(name):
    made = train(name)
    token, starts = made.encode(TEXT)
    decoded = made.decode(token)
    if made.vocab.unk_id not in token:  # a small WordPiece lacks rare letters
        assert "".join(decoded.split()) == "".join(TEXT.split())
    assert not made.vocab.is_special[token].any() and starts[0]
    assert starts.sum() >= len(TEXT.split())
    if named(name).spells_space:
        assert made.begins_word[token].sum() == len(TEXT.split())
    else:
        with pytest.raises(UserError, match="words are counted by pieces"):
            made.begins_word  # noqa: B018
    located = made.locate_units(made.split(TEXT))
    np.testing.assert_array_equal(located.token, token)


@each_trained
def test_its_export_gives_the_same_ids(name):
    made = train(name)
    exported = export_tokenizer.make_tokenizer(made)
    token, _ = made.encode(TEXT)
    found = exported.encode(TEXT, add_special_tokens=False).ids
    np.testing.assert_array_equal(found, token)


@each_trained
def test_a_size_that_does_not_fit_is_refused_with_one_that_does(name):
    for size in (1, 2**15):
        with pytest.raises(SizeError, match=f"data.vocabulary_size is {size}, which"):
            train_tokenizer.train(corpus(), Options(name, size, SENTINELS))
