"""tagging: capitalised tokens, and tokens that recur in the rest of a document."""

from pydoc_data.topics import topics

import numpy as np
import pytest

from research import objectives
from research.contract.batch import SENTENCE
from research.contract.errors import UserError
from research.data.documents import Document
from research.data.read.corpus import Corpus
from research.data.rows import TextSpec
from research.data.tokenize import train_tokenizer, vocabulary
from research.objectives.sentence import tagging
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab(size=96)


def corrupt(example, length, of=VOCAB, **fields):
    objective = objectives.make_objective("tagging", **fields)
    return objective.corrupt(example, keys(len(example.length)), of, length)


def test_document_labels_the_tokens_that_recur_in_the_rest():
    example = texts(60, [60, 33, 2, 1, 0] * 20, VOCAB, separators=0.05)
    flags = example.flags.copy()
    flags[:50, ::7] |= SENTENCE
    example = example._replace(flags=flags)
    batch = corrupt(example, 32)
    for row, count in enumerate(example.length):
        size = int(max(batch["segment"][row].sum() - 2, 0))
        assert size <= max((count + 1) // 2, 0)
        text, rest = np.split(example.token[row, :count], [size])
        if size and row < 50 and count > 14:
            assert size % 7 == 0 and size + 7 > min(30, (count + 1) // 2)
        weight = ~VOCAB.is_special[text] & (len(rest) > 0)
        here = slice(1, 1 + size)
        np.testing.assert_array_equal(batch["token"][row, here], text)
        np.testing.assert_array_equal(batch["weight"][row, here], weight)
        expected = weight & np.isin(text, rest)
        np.testing.assert_array_equal(batch["target"][row, here], expected)
        assert batch["weight"][row].sum() == weight.sum()
    rate = (batch["target"] * batch["weight"]).sum() / batch["weight"].sum()
    assert 0.2 < rate < 0.8


@pytest.fixture(scope="module", params=train_tokenizer.TOKENIZER_TYPES)
def encoder(request):
    lines = [line for name in sorted(topics)[:12] for line in topics[name].split("\n")]
    read = lambda: [line for line in lines if line.strip()]  # noqa: E731
    corpus = Corpus("topics", lambda split: map(Document, read()), read)
    model = train_tokenizer.train(
        corpus, train_tokenizer.Options(request.param, 700, 7)
    )
    return vocabulary.Vocabulary(model, vocabulary.find_special_tokens(model, 7))


def test_a_lowercase_id_is_the_same_piece_in_lower_case(encoder):
    lower, pieces = encoder.vocab.lowercase_ids, encoder.model.piece_bytes
    changed = np.flatnonzero(lower != np.arange(len(lower)))
    assert len(changed) > 20
    for piece in changed:
        assert pieces[lower[piece]].decode() == pieces[piece].decode().lower()
        assert pieces[piece].decode() != pieces[piece].decode().lower()
    assert (lower[lower] == lower).all()
    assert not encoder.vocab.is_special[changed].any()


def test_the_input_does_not_reveal_case(encoder):
    # Each scored token has two cases with the same input.
    token, _ = encoder.encode(topics["assignment"][:3000])
    of = encoder.vocab
    rows = token[: len(token) // 62 * 62].reshape(-1, 62).astype(np.int32)
    example = texts(62, [62] * len(rows), VOCAB)._replace(token=rows)
    batch = corrupt(example, 64, of, task="capital")
    shown, scored = batch["token"][:, 1:-1], batch["weight"][:, 1:-1] > 0
    capital = batch["target"][:, 1:-1] > 0
    np.testing.assert_array_equal(shown, of.lowercase_ids[rows])
    expected = rows != of.lowercase_ids[rows]
    np.testing.assert_array_equal(capital[scored], expected[scored])
    forms = np.bincount(of.lowercase_ids, minlength=of.size)
    assert (forms[shown[scored]] > 1).all() and (forms[shown[~scored]] == 1).all()
    assert capital.any() and (scored & ~capital).any()
    assert not (capital & ~scored).any()
    assert not batch["weight"][:, [0, -1]].any()


@pytest.mark.parametrize("lower", [None, np.arange(96, dtype=np.int32)])
def test_a_vocabulary_without_case_is_refused(lower):
    with pytest.raises(UserError, match=r"both upper and lower case"):
        corrupt(
            texts(30, [30], VOCAB),
            32,
            VOCAB._replace(lowercase_ids=lower),
            task="capital",
        )


def test_the_text_that_each_task_takes():
    specs = [
        objectives.make_objective("tagging", **fields).text_spec(32)
        for fields in (
            {},
            {"task": "capital"},
            {"task": "capital", "format": "doc_sentences"},
        )
    ]
    units = ("passage", 60), ("stream", 30), ("passage", 30)
    assert specs == [TextSpec(*each) for each in units]


def test_the_size_of_the_table_changes_nothing(monkeypatch):
    example = texts(60, [60, 33, 2, 1, 0, 60] * 5, VOCAB, separators=0.05)
    whole = corrupt(example, 32)
    assert whole["target"].any()
    monkeypatch.setattr(tagging, "TABLE_SIZE", 4 * VOCAB.size)
    for name, array in corrupt(example, 32).items():
        np.testing.assert_array_equal(array, whole[name])
